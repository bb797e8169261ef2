"""Training by minibatches: its parameters, its plan, and streams of chunks."""

import copy
import dataclasses
import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import torch
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils._param_validation import Interval

from skgp.core.training import History, Plan, Trainer, constant, one_cycle
from skgp.estimators._fitting import fits
from skgp.estimators._trained_estimator import TrainedEstimator, draw_seed
from skgp.estimators._validation import Rows

_MIN_AUTO_EPOCHS = 3


class MinibatchEstimator(TrainedEstimator):
    """Abstract base of the estimators whose loss is a mean over the rows of a batch."""

    # Parameters that every family stores in its constructor.
    batch_size: int
    learning_rate_init: float

    # max_iter="auto": fewer epochs for a long table, more for a short one
    _auto_epochs: ClassVar[int] = 100
    _min_auto_steps: ClassVar[int] = 500
    _max_auto_steps: ClassVar[int] = 10_000

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TrainedEstimator._parameter_constraints,
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
    }

    @fits
    def _fit_chunk(self, read: Callable[..., Rows], n_total: float | None) -> Self:
        """Validate the arguments of `partial_fit` and train one epoch.

        `read` is `_training_rows` with all arguments but `reset`.
        """
        self._validate_params()
        self._check_stream()
        if n_total is not None:
            check_scalar(n_total, "n_total", Real, min_val=0, include_boundaries="neither")
            if not math.isfinite(n_total):
                raise ValueError(f"n_total must be finite, got {n_total}")
        going_on = hasattr(self, "model_")
        rows = self._condensed(read(reset=not going_on))
        rng = check_random_state(self.random_state)
        table = self._table(rows, self._scales() if going_on else None)
        model = self._copy_of_model(table.like) if going_on else self._models(table, rng)[0]
        seen = getattr(self, "n_samples_seen_", 0.0) + table.n_data
        trainer = Trainer(
            self._candidate(model, seen if n_total is None else n_total),
            table,
            dataclasses.replace(self._plan(len(table)), schedule=constant),
            torch.Generator().manual_seed(draw_seed(rng)),
        )
        if going_on and self._optimizer_state is not None:
            trainer.optimizer.load_state_dict(copy.deepcopy(self._optimizer_state))
        with self._remedies():
            loss = trainer.epoch()
        history = History([*getattr(self, "loss_curve_", []), loss])
        self._set(self._fitted_attributes(model, history, rows.y, table))
        self.n_samples_seen_ = seen
        self._optimizer_state = trainer.optimizer.state_dict()
        return self

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
            n_batches = max(1, round(n / self.batch_size))
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
