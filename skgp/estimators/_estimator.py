"""The shell of every estimator that torch trains: parameters, training, fitted attributes."""

import copy
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_is_fitted, validate_data

from skgp import _doc_links
from skgp._typing import Array
from skgp.core.numerics.gradients import recorded_gradients
from skgp.core.numerics.processes import check_default_device, guard_against_fork, limited_threads
from skgp.core.training.history import History
from skgp.core.training.plan import Plan
from skgp.core.training.progress import KEEPS_NOTHING, Progress
from skgp.core.training.ranks import Ranks
from skgp.estimators._fit_groups import CHANGEABLE
from skgp.exceptions import InterruptedFitWarning
from skgp.fitting.affordable import check_affordable, named_allocations
from skgp.fitting.arguments import (
    check_no_booleans,
    check_unchanged,
    inputs_to_check,
    kept,
    processes,
    reading,
)
from skgp.fitting.checkpoint import open_recording
from skgp.fitting.chunk import Stream, fit_chunk, without_outliers
from skgp.fitting.cross_validation import found_plan
from skgp.fitting.diagnosis import diagnose, hidden_values, remedies
from skgp.fitting.fit import (
    TargetSpec,
    check_device,
    first_models,
    fit_table,
    make_table,
    next_model,
    scalar_like,
    scaled_table,
)
from skgp.fitting.folds import Fold, FoldedRows
from skgp.fitting.model import Model
from skgp.fitting.outliers import find_outliers
from skgp.fitting.plans import UNKNOWN_LENGTH, continued_plan
from skgp.fitting.progress_report import ProgressReport
from skgp.fitting.recipe import Recipe, Running, pick
from skgp.fitting.rows import Rows
from skgp.fitting.search import NO_SEARCH, Search
from skgp.fitting.splits import Split
from skgp.fitting.stream import FOR_SCALES, Opening, enough_rows
from skgp.fitting.table import Table
from skgp.fitting.untrained_gp import UntrainedGP


class Estimator(CallbackSupportMixin, BaseEstimator, ABC):
    """Abstract base: a family says what it is by a recipe."""

    # Parameters that every family stores in its constructor.
    checkpoint: Any
    device: str
    memory: Any
    random_state: Any
    verbose: int

    model_: Model
    n_samples_seen_: float
    _n_rows_seen: float  # whatever their weights
    _n_rows_fitted: float  # those among them of the last fit
    _output_shape: tuple[int, ...]  # of what is predicted for a row; empty for one number
    _optimizer_state: dict[str, Any] | None  # what partial_fit goes on from
    _opening: Opening | None  # of a stream that has not settled
    _built_with: Mapping[str, Any]  # parameters that the fitted model cannot change
    _is_clone: bool = False

    _doc_link_module = "skgp"
    _doc_link_template = property(_doc_links.template)
    _doc_link_url_param_generator = _doc_links.page

    _changeable: ClassVar[frozenset[str]] = CHANGEABLE

    _parameter_constraints: ClassVar[dict[str, list[Any]]]

    @abstractmethod
    def _recipe(self) -> Recipe:
        """What this family is, from its parameters.

        Raises
        ------
        ValueError
            For a combination of parameters that it cannot be.
        """

    # ------------------------------------------------------------------ fit

    @contextmanager
    def _becoming(self) -> Iterator[tuple[Self, list[Warning]]]:
        """A copy to fit, which takes the place of the estimator in one step at the end.

        So a fit that fails leaves everything as it was, and no thread that predicts in the
        meantime sees half of two fits. The warnings in the list are given when the model is safe,
        for a filter may turn them into errors.
        """
        check_default_device()
        guard_against_fork()
        working = copy.copy(self)
        report: list[Warning] = []
        with recorded_gradients(), named_allocations(self.get_params(deep=False)):
            yield working, report
        self.__dict__ = working.__dict__
        for warning in report:
            warnings.warn(warning, stacklevel=4)
        if self._is_clone and any(isinstance(w, InterruptedFitWarning) for w in report):
            # Whatever made the copy, such as a search over parameters, would take it for complete.
            raise KeyboardInterrupt

    def _split_off(
        self,
        rows: Rows,
        held_out: tuple[Any, Any, Any],
        rng: np.random.RandomState,
        *,
        read: Callable[..., Rows],
        split: Callable[[Rows, float, np.random.RandomState], tuple[Rows, Rows]],
    ) -> Split:
        """Rows to train on and held-out rows.

        `held_out` are the arguments X_val, y_val and sample_weight_val, which `read` validates.
        """
        X_val, y_val, weight_val = held_out
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val must be given together")
        if X_val is None and weight_val is not None:
            raise ValueError("sample_weight_val is given without X_val and y_val")
        if X_val is not None:
            return Split(rows, read(X_val, y_val, weight_val, rows))
        params = self.get_params(deep=False)
        ranks = processes(params, check_device(self.device))
        if self._recipe().plan(ranks.count(len(rows.X))).n_iter_no_change is None:
            return Split(rows)
        if ranks.n > 1:  # the common source of chance has to stay in the same state everywhere
            rng = np.random.RandomState(ranks.number)
        training, validation = split(rows, params["validation_fraction"], rng)
        return Split(training, validation, rows)

    @with_callbacks
    def _train(
        self,
        X: Any,
        y: Any,
        split: Split,
        rng: np.random.RandomState,
        targets: TargetSpec,
        attributes: dict[str, Any],
    ) -> list[Warning]:
        """Train on validated rows. Returns warnings.

        X and y, as they came, are for callbacks; a fit remembers `attributes`.
        """
        ranks = processes(self.get_params(deep=False), check_device(self.device))
        rows, held_out = self._condensed(split.rows), split.held_out
        progress = KEEPS_NOTHING
        if self.checkpoint is not None:
            fitted = self.model_ if self._continues() else None
            progress = open_recording(self, rows, held_out, fitted, ranks)
        recipe, rows = (self._recipe(), rows) if ranks.n > 1 else self._recipe().for_rows(rows)
        # The split has counted rows that it has taken apart.
        plan = recipe.plan(ranks.count(len(rows.X if split.whole is None else split.whole.X)))
        guarded = partial(remedies, self.get_params(deep=False))

        def reported(part: str, n_epochs: int, n_batches: int) -> Progress:
            """The progress, which writes what `verbose` asks for."""
            if not self.verbose or ranks.number:
                return progress
            title = type(self).__name__ + part
            return ProgressReport(progress, title, self.verbose, n_epochs, n_batches)

        with guarded(), limited_threads(len(rows.X)):
            table, recipe, models, plan, search = self._prepared(
                recipe, rows, plan, targets, rng, ranks, reported
            )
        root = self._init_callback_context(max_subtasks=plan.n_epochs)
        root.call_on_fit_task_begin(estimator=self, X=X, y=y)
        if search.scores and held_out is None:
            attributes |= {"validation_scores_": search.scores}
        # Also if the fit is interrupted. A stream does not keep the scales of few rows.
        opening = Opening.of(rows).started() if len(rows.X) < FOR_SCALES else None
        attributes |= {"_length": plan.n_epochs, "_opening": opening}
        learned = partial(self._fitted_attributes, recipe, table, attributes)
        of_epochs = reported("", plan.n_epochs, plan.n_batches(table.n_rows))

        def on_epoch(model: Model, history: History) -> bool:
            of_epochs.epoch(history)
            epoch = root.subcontext(task_name="epoch")
            epoch.call_on_fit_task_begin(estimator=self, X=X, y=y)
            so_far = partial(learned, model, history)
            is_over = epoch.call_on_fit_task_end(
                estimator=self, X=X, y=y, reconstruction_attributes=so_far
            )
            return bool(is_over) or (untrained is not None and untrained.is_beyond(history, plan))

        fold = None
        if held_out is not None:
            fold = Fold(table, scaled_table(held_out, table, table.like, ranks))
        untrained, instead, coverage = None, None, search.coverage
        with guarded(), limited_threads(len(rows.X)), of_epochs:
            # A plan of averages finds all by held-out rows.
            if fold is not None and plan.averaged and ranks.n == 1 and not self._continues():
                of_all = split.whole or rows, targets, pick(Running, self), rng
                untrained = UntrainedGP.of(recipe, models[0], plan, fold, *of_all)
            model, history = fit_table(
                recipe,
                models,
                table,
                plan,
                rng,
                held_out=None if fold is None else fold.held_out,
                on_epoch=on_epoch,
                progress=of_epochs,
            )
            if fold is not None and untrained is not None:
                recipe, instead = untrained.chosen(recipe, model, history, fold)
        n_seen = len(split.rows.X)
        if instead is not None:  # it is nothing to go on from
            model, history, table, coverage = instead
            attributes["_length"], n_seen = 0, len(table.X)
        self.__dict__.update(self._fitted_attributes(recipe, table, attributes, model, history))
        self.n_samples_seen_ = table.n_data
        self._n_rows_seen = self._n_rows_fitted = ranks.count(n_seen)
        root.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes=dict)
        if fold is not None and instead is None:  # a GP of all rows knows those held out
            coverage = fold.coverage(self.model_ if untrained is None else model)
        return diagnose(self.model_, history, plan, table, coverage, search, self.get_params(False))

    def _prepared(
        self,
        recipe: Recipe,
        rows: Rows,
        plan: Plan,
        targets: TargetSpec,
        rng: np.random.RandomState,
        ranks: Ranks,
        reported: Callable[[str, int, int], Progress],
    ) -> tuple[Table, Recipe, list[Model], Plan, Search]:
        """Scaled rows, recipe and models to train, for how long, and the search for these."""
        running = pick(Running, self)
        like = scalar_like(recipe, running, ranks.count(len(rows.X)))
        if self._continues():
            check_unchanged("warm_start=True", self._built_with, self._fixed_parameters())
            table = scaled_table(rows, self.model_, like, ranks)
            plan = continued_plan(plan, getattr(self, "_length", UNKNOWN_LENGTH))
            return table, recipe, [next_model(recipe, self.model_, table)], plan, NO_SEARCH
        table = make_table(rows, targets, running, like, ranks)
        models = first_models(recipe, table, targets, running, rng)
        if not plan.n_folds:
            return table, recipe, models, plan, NO_SEARCH
        folded = FoldedRows.cut(table, targets, running, plan.n_folds)
        n_batches = plan.n_folds * plan.n_batches(len(table))
        with reported(", cross-validation", plan.max_iter, n_batches) as progress:
            return table, *found_plan(recipe, models, folded, plan, rng, progress)

    def _check_chunk(self, n_total: float | None) -> None:
        """Refuse parameters with which there is no training on chunks of a stream."""
        self._validate_params()
        reason = self._recipe().why_no_stream
        if reason is not None:
            raise ValueError(reason)
        if n_total is not None:
            check_scalar(n_total, "n_total", Real, min_val=0, include_boundaries="neither")
            if not math.isfinite(n_total):
                raise ValueError(f"n_total must be finite, got {n_total}")
        if self.__sklearn_is_fitted__():
            check_unchanged("partial_fit", self._built_with, self._fixed_parameters())

    def _train_chunk(
        self, rows: Rows, n_total: float | None, targets: TargetSpec, attributes: dict[str, Any]
    ) -> list[Warning]:
        """Train one epoch on validated rows."""
        recipe, running, stream = self._recipe(), pick(Running, self), None
        if self.__sklearn_is_fitted__():
            # Files of earlier versions do not say it, nor a stream that has begun by itself.
            n_rows = getattr(self, "_n_rows_seen", self.n_samples_seen_)
            seen = self.n_samples_seen_, n_rows, getattr(self, "_n_rows_fitted", 0.0)
            stream = Stream(self.model_, *seen, self._optimizer_state, self._opening)
        rows, report = without_outliers(rows, stream)
        with remedies(self.get_params(deep=False)), limited_threads(len(rows.X)):
            chunk = fit_chunk(
                recipe,
                self._condensed(rows),
                targets,
                running,
                check_random_state(self.random_state),
                stream=stream,
                n_rows=len(rows.X),
                n_total=n_total,
                enough=enough_rows(self.get_params(deep=False)),
            )
        model, curve = chunk.stream.model, [*getattr(self, "loss_curve_", []), chunk.loss]
        if recipe.divergence is not None:
            attributes["_beta_reg"] = recipe.divergence(model, chunk.n_data)
        learned = self._fitted_attributes(recipe, chunk.table, attributes, model, History(curve))
        self.__dict__.update(learned)
        _, *counts, self._optimizer_state, self._opening = chunk.stream
        self.n_samples_seen_, self._n_rows_seen, self._n_rows_fitted = counts
        return report + ([] if chunk.scaled_by is None else hidden_values(model, chunk.scaled_by))

    # ------------------------------------------------------------- helpers

    def _validate_params(self) -> None:
        super()._validate_params()
        parameters = self.get_params(deep=False)
        check_no_booleans(type(self).__name__, parameters, self._parameter_constraints)
        check_affordable(parameters, check_device(self.device))
        self._recipe()  # for its errors

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        clone._is_clone = True
        return clone

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _condensed(self, rows: Rows) -> Rows:
        """Rows that count the same; a family may merge equal ones."""
        return rows

    def _continues(self) -> bool:
        if not (getattr(self, "warm_start", False) and self.__sklearn_is_fitted__()):
            return False
        if getattr(self, "_length", None) == 0:  # a GP of all rows that has not been trained
            return False
        # The scales of a stream that has just begun are not those of a fit.
        has_scales = self._opening is None or self._opening.has_scales
        return has_scales or getattr(self, "_n_rows_fitted", 0) > 0

    def _outliers_to_check(self, rows: Rows) -> list[Warning]:
        """At most one warning of rows far outside of those that a warm start has seen."""
        if not self._continues():
            return []
        return find_outliers(rows, self.model_.x_scale, self.model_.y_scale).warning("check them")

    def _fixed_parameters(self) -> dict[str, Any]:
        """Parameters that a model which goes on cannot change, as they are now."""
        params = self.get_params(deep=False)
        return {name: kept(params[name]) for name in params if name not in self._changeable}

    def _fitted_attributes(
        self, recipe: Recipe, table: Table, known: dict[str, Any], model: Model, history: History
    ) -> dict[str, Any]:
        """All that prediction needs, apart from the model in training: float64.

        `known` are further attributes, which a fit remembers of its targets.
        """
        scores = list(history.validation_scores) or known.get("validation_scores_")
        fitted = recipe.conditioned(copy.deepcopy(model).double().eval(), table)
        return {
            "model_": fitted,
            "n_iter_": len(history.loss_curve),
            "loss_curve_": list(history.loss_curve),
            "_optimizer_state": None,
            "_built_with": self._fixed_parameters(),
            "_beta_reg": recipe.divergence and recipe.divergence(model, table.n_data),
            "_trained_share": recipe.trained_share,
            **known,
            "validation_scores_": scores,
            "best_validation_score_": max(scores or [], default=None),
        }

    # ------------------------------------------------------------- predict

    def _snapshot(self) -> Self:
        """The estimator as it is now: what a prediction reads from its first line to its last.

        A fit that ends meanwhile, in another thread, gives new attributes to the estimator and
        leaves this shallow copy of it alone.
        """
        check_default_device()
        guard_against_fork()
        fitted = copy.copy(self)
        check_is_fitted(fitted)
        return fitted

    def _inputs(self, X: Any) -> Array:
        """Validated inputs of a prediction."""
        X = inputs_to_check(X, "X")
        with reading("X", X):
            return np.asarray(validate_data(self, X, reset=False, dtype=[np.float64, np.float32]))
