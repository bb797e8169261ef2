"""Training by minibatches: its parameters, its plan, and streams of chunks."""

import copy
import dataclasses
import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.callback import with_callbacks
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils._param_validation import Interval

from skgp.core.optimizers import Clipped
from skgp.core.training import History, Plan, Trainer, constant, count_batches, one_cycle
from skgp.estimators._outliers import find_outliers
from skgp.estimators._stream import ENOUGH, Opening
from skgp.estimators._trained_estimator import TrainedEstimator, draw_seed

_MIN_AUTO_EPOCHS = 3


class MinibatchEstimator(TrainedEstimator):
    """Abstract base of the estimators whose loss is a mean over the rows of a batch."""

    # Parameters that every family stores in its constructor.
    batch_size: int
    learning_rate_init: float

    _opening: Opening | None  # of a stream that has not settled

    # max_iter="auto": fewer epochs for a long table, more for a short one
    _auto_epochs: ClassVar[int] = 100
    _min_auto_steps: ClassVar[int] = 500
    _max_auto_steps: ClassVar[int] = 10_000

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TrainedEstimator._parameter_constraints,
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
    }

    @with_callbacks
    def _fit_chunk(self, arguments: Mapping[str, Any], n_total: float | None) -> list[Warning]:
        """Validate the arguments of `partial_fit`, those of `_training_rows` among them, and train.

        One epoch, with gradients that are clipped to what is usual in the stream.
        """
        self._validate_params()
        self._check_stream()
        if n_total is not None:
            check_scalar(n_total, "n_total", Real, min_val=0, include_boundaries="neither")
            if not math.isfinite(n_total):
                raise ValueError(f"n_total must be finite, got {n_total}")
        going_on = hasattr(self, "model_")
        if going_on:
            self._check_unchanged("partial_fit")
        rows = self._training_rows(**arguments, reset=not going_on)
        rng = check_random_state(self.random_state)
        opening = self._opening if going_on else None
        report: list[Warning] = []
        if going_on and (opening is None or opening.has_scales):
            outliers = find_outliers(rows, *self._scales())
            report += outliers.warning("the step leaves them out")
            if len(outliers.rows) and not outliers.are_most:
                rows = rows.take(np.setdiff1d(np.arange(len(rows.X)), outliers.rows))
        rows = self._condensed(rows)
        if not going_on:
            opening = Opening.of(rows)
        elif opening is not None:
            opening = opening.extended(rows)
        starts = opening is not None and opening.is_due
        if opening is not None and starts:
            start = self._table(opening.rows, None)
            table = self._table(rows, (start.x_scale, start.y_scale), start.like)
            model, state = self._models(start, rng)[0], None
            opening = opening.started()
        else:
            table = self._table(rows, self._scales())
            model, state = self._copy_of_model(table.like), copy.deepcopy(self._optimizer_state)
        seen = getattr(self, "n_samples_seen_", 0.0) + table.n_data
        candidate = self._candidate(model, seen if n_total is None else n_total)
        trained = [p for p in model.parameters() if p.requires_grad]
        trainer = Trainer(
            candidate._replace(optimizer=Clipped(trained, candidate.optimizer)),
            table,
            dataclasses.replace(
                self._plan(len(table)), max_iter=1, schedule=constant, ceiling=math.inf
            ),
            torch.Generator().manual_seed(draw_seed(rng)),
        )
        if state is not None:
            trainer.optimizer.load_state_dict(state)
        with self._remedies():
            loss = trainer.epoch()
        history = History([*getattr(self, "loss_curve_", []), loss])
        self._set(self._fitted_attributes(model, history, rows.y, table))
        self.n_samples_seen_ = seen
        self._optimizer_state = trainer.optimizer.state_dict()
        self._opening = self._continued(opening, rng)
        return report

    def _continued(self, opening: Opening | None, rng: np.random.RandomState) -> Opening | None:
        """What a stream has to remember of its first rows: nothing once its start is settled."""
        enough = max(ENOUGH, getattr(self, "n_inducing", 0))
        if opening is None or opening.is_settled(enough):
            return None
        return opening.shortened(enough, rng)

    def _check_stream(self) -> None:
        """Refuse parameters with which there is no training on chunks of a stream."""
        if self.early_stopping:
            raise ValueError("partial_fit does not support early_stopping=True")

    def _auto_dtype(self, n: int) -> str:
        # A table that is trained as a whole costs little, and its fit is then as good as
        # deterministic: rows repeated or weighted, in any order, give the same model.
        return "float64" if n <= self.batch_size else "float32"

    def _plan(self, n: int) -> Plan:
        max_iter = self.max_iter
        if max_iter == "auto":
            n_batches = count_batches(n, self.batch_size)
            most = max(self._max_auto_steps // n_batches, _MIN_AUTO_EPOCHS)
            least = math.ceil(self._min_auto_steps / n_batches)
            max_iter = max(min(self._auto_epochs, most), least)
        return Plan(
            max_iter=int(max_iter),
            batch_size=self.batch_size,
            schedule=one_cycle,
            n_trial_epochs=max(1, math.ceil(0.05 * int(max_iter))),
            n_iter_no_change=self.n_iter_no_change if self.early_stopping else None,
            tol=self.tol,
        )
