"""The shell that every trained estimator shares: validate, scale, seed, train, predict."""

import copy
import sys
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar, Final, Self, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skgp.core.gradients import recorded_gradients
from skgp.core.inducing import kmeans_inducing_points
from skgp.core.processes import guard_against_fork
from skgp.core.subsample import BoolArray, subsample
from skgp.core.training import Candidate, History, Plan, train
from skgp.estimators._affordable import check_affordable, named_allocations
from skgp.estimators._cache import Cached
from skgp.estimators._chunks import Chunks
from skgp.estimators._model import Model
from skgp.estimators._setup import Centres, Setup
from skgp.estimators._table import (
    Array,
    Scale,
    Table,
    check_scale,
    make_scale,
    scale_inputs,
)
from skgp.estimators._validation import Rows, check_no_booleans, reading, unmasked
from skgp.exceptions import InterruptedFitWarning, NonFiniteLossError

Part = TypeVar("Part")

_CHUNK = 2048  # rows per prediction step: the M x chunk blocks stay small and near the cache
_CHUNK_CELLS = 2**14  # rows times components: a cell of a deep model takes up to some 5 kB
_SETUP_ROWS = 20_000  # rows that initial values are computed from
_REMEDIES: Final = {  # against a loss that is not finite: parameters, of those that there are
    "keep {} on": ("normalize_X", "normalize_y"),
    "lower {}": ("step_size", "learning_rate_init"),
    "raise {}": ("jitter", "noise_floor"),
}


class TrainedEstimator(CallbackSupportMixin, BaseEstimator, metaclass=ABCMeta):
    """Abstract base of what torch trains: everything but targets, model, loss and plan."""

    # Parameters that every family stores in its constructor.
    max_iter: int | str
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    tol: float
    n_restarts: int
    normalize_X: bool
    warm_start: bool
    memory: Any
    dtype: str
    device: str
    verbose: int
    random_state: Any

    _output_shape: tuple[int, ...]  # of what is predicted for a row; empty for one number
    _optimizer_state: dict[str, Any] | None  # what partial_fit goes on from
    _built_with: Mapping[str, Any]  # parameters that the fitted model cannot change
    _is_clone: bool = False

    # The argument that holds the targets, and the parameter that says whether they are scaled.
    _names_of_targets: ClassVar[tuple[str, str]] = "y", "normalize_y"

    # Parameters that a model which goes on reads anew.
    _changeable: ClassVar[frozenset[str]] = frozenset(
        {
            "batch_size",
            "beta_reg",
            "device",
            "dtype",
            "early_stopping",
            "gamma",
            "learning_rate_init",
            "max_iter",
            "memory",
            "n_iter_no_change",
            "objective",
            "random_state",
            "tol",
            "validation_fraction",
            "verbose",
            "warm_start",
            "weight_decay",
        }
    )

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_iter": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "normalize_X": ["boolean"],
        "warm_start": ["boolean"],
        "memory": [None, str, HasMethods(["cache"])],
        "dtype": [StrOptions({"auto", "float32", "float64"})],
        "device": [str],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    @abstractmethod
    def _build(self, setup: Setup) -> Model:
        """A model with its initial parameters, in float64."""

    @abstractmethod
    def _candidate(self, model: Any, n_data: float) -> Candidate[Any]:
        """The model with its loss and optimiser."""

    @abstractmethod
    def _plan(self, n: int) -> Plan:
        """How to train on n rows."""

    @abstractmethod
    def _auto_dtype(self, n: int) -> str:
        """What dtype="auto" means for n rows."""

    # ------------------------------------------------------------------ fit

    @abstractmethod
    def _training_rows(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Rows:
        """Validated rows; if not `reset`, those that the fitted model can go on with."""

    def _scales_inputs(self) -> bool:
        """Whether inputs are standardised."""
        return self.normalize_X

    @abstractmethod
    def _scales_targets(self) -> bool:
        """Whether targets are standardised."""

    @abstractmethod
    def _target_attributes(self, y: Array) -> dict[str, Any]:
        """What a fit remembers of its validated targets."""

    def _groups(self, Y: Array) -> BoolArray:
        """For targets (n, P) the groups (n, G) that a choice of rows must not miss."""
        return ~np.isnan(Y)

    def _become(self, fit: Callable[[Self], list[Warning]]) -> Self:
        """Fit a copy, which takes the place of the estimator in one step at the end.

        So a fit that fails leaves everything as it was, and no thread that predicts in the
        meantime sees half of two fits. `fit` returns warnings, which are given when the model
        is safe, for a filter may turn them into errors.
        """
        guard_against_fork()
        working = copy.copy(self)
        with recorded_gradients(), named_allocations(self.get_params(deep=False)):
            report = fit(working)
        self.__dict__ = working.__dict__
        for warning in report:
            warnings.warn(warning, stacklevel=3)
        if self._is_clone and any(isinstance(w, InterruptedFitWarning) for w in report):
            # Who made the copy, such as a search over parameters, would take it for complete.
            raise KeyboardInterrupt
        return self

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        clone._is_clone = True
        return clone

    def _train(
        self, X: Any, y: Any, rows: Rows, held_out: Rows | None, rng: np.random.RandomState
    ) -> list[Warning]:
        """Train on validated rows; X and y, as they came, are for callbacks."""
        going_on = self._continues()
        if going_on:
            self._check_unchanged("warm_start=True")
        table = self._table(rows, self._scales() if going_on else None)
        report: list[Warning] = []
        models = self._models(table, rng)
        plan = self._plan(len(table))
        root = self._init_callback_context(max_subtasks=plan.max_iter)
        root.call_on_fit_task_begin(estimator=self, X=X, y=y)
        scales = table.x_scale, table.y_scale
        validation_table = None
        if held_out is not None:
            validation_table = self._table(held_out, scales, table.like)

        def validate(model: Model) -> float:
            assert validation_table is not None
            model.eval()  # batch norms by their running statistics
            size = _chunk_rows(model.log_weights)
            score = model.conditioned(table).mean_log_density(validation_table, size)
            model.train()
            return score

        def on_epoch(model: Model, history: History) -> bool:
            self._report(history, plan.max_iter)
            epoch = root.subcontext(task_name="epoch")
            epoch.call_on_fit_task_begin(estimator=self, X=X, y=y)
            return bool(
                epoch.call_on_fit_task_end(
                    estimator=self,
                    X=X,
                    y=y,
                    reconstruction_attributes=lambda: self._fitted_attributes(
                        model, history, rows.y, table
                    ),
                )
            )

        with self._remedies():
            model, history = train(
                [self._candidate(m, table.n_data) for m in models],
                table,
                plan,
                torch.Generator().manual_seed(draw_seed(rng)),
                validate=None if validation_table is None else validate,
                on_epoch=on_epoch,
            )
        if history.interrupted:
            report.append(
                InterruptedFitWarning(
                    f"the fit was interrupted after {len(history.loss_curve)} of {plan.max_iter} "
                    "epochs; the estimator holds the state of the last completed one"
                )
            )
        self._set(self._fitted_attributes(model, history, rows.y, table))
        self.n_samples_seen_ = table.n_data
        root.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes=dict)
        return report

    # ------------------------------------------------------------- helpers

    def _validate_params(self) -> None:
        super()._validate_params()
        parameters = self.get_params(deep=False)
        check_no_booleans(type(self).__name__, parameters, self._parameter_constraints)
        check_affordable(parameters, self._like(1).device)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @contextmanager
    def _remedies(self) -> Iterator[None]:
        """Tell a user whose fit diverges which of this estimator's parameters may help."""
        try:
            yield
        except NonFiniteLossError as error:
            known = self.get_params(deep=False)
            present = {do: [n for n in names if n in known] for do, names in _REMEDIES.items()}
            advice = [do.format(" and ".join(names)) for do, names in present.items() if names]
            raise NonFiniteLossError(f"{error}; {', '.join(advice)}") from error

    def _continues(self) -> bool:
        return self.warm_start and hasattr(self, "model_")

    def _fixed_parameters(self) -> dict[str, Any]:
        """Parameters that a model which goes on cannot change."""
        params = self.get_params(deep=False)
        return {name: params[name] for name in params if name not in self._changeable}

    def _check_unchanged(self, what: str) -> None:
        """Refuse to go on with a model that was built with other parameters."""
        now = self._fixed_parameters()
        changed = [name for name, value in self._built_with.items() if not _same(value, now[name])]
        if changed:
            raise ValueError(
                f"{what} goes on with the fitted model, which cannot change {', '.join(changed)}: "
                "set back what it was fitted with, or fit a new estimator"
            )

    def _fitted_model(self) -> Model:
        check_is_fitted(self)
        model: Model = self.model_
        return model

    def _like(self, n: int) -> torch.Tensor:
        """A scalar of the dtype and on the device that training on n rows uses."""
        dtype = self._auto_dtype(n) if self.dtype == "auto" else self.dtype
        try:
            like = torch.zeros((), dtype=getattr(torch, dtype), device=self.device)
            like.item()  # there are devices without numbers
            return like
        except (RuntimeError, AssertionError, ImportError, TypeError) as error:
            raise ValueError(f"device={self.device!r} is not available here: {error}") from error

    def _scales(self) -> tuple[Scale, Scale]:
        model = self._fitted_model()
        return model.x_scale, model.y_scale

    def _table(
        self, rows: Rows, scales: tuple[Scale, Scale] | None, like: torch.Tensor | None = None
    ) -> Table:
        X, y, weight, _ = rows
        Y = y.reshape(len(y), -1)
        if scales is None:
            scale = Cached(make_scale, self.memory, Scale)
            enabled = self._scales_inputs(), self._scales_targets()
            scales = scale(X, weight, enabled[0]), scale(Y, weight, enabled[1])
            check_scale(Y, scales[1], *self._names_of_targets)
        return Table(X, Y, weight, *scales, self._like(len(X)) if like is None else like)

    def _models(self, table: Table, rng: np.random.RandomState) -> list[Model]:
        """One initial model per restart, or the last fit's if it goes on."""
        if self._continues():
            return [self._copy_of_model(table.like)]
        seeds = [draw_seed(rng) for _ in range(self.n_restarts)]
        weight = np.ones(len(table)) if table.sample_weight is None else table.sample_weight
        groups, keys = self._groups(table.Y), table.keys
        rows, weight = subsample(weight, groups, keys, _SETUP_ROWS, seeds[0])
        x = torch.from_numpy(scale_inputs(table.X[rows], table.x_scale))
        Y = torch.from_numpy(table.y_scale.apply(table.Y[rows]))
        weights = torch.from_numpy(weight)
        parts = x, Y, weights, groups[rows], keys[rows], table.n_data, len(table)
        # Scales have told, if the cache cannot be used.
        kmeans = Cached(kmeans_inducing_points, self.memory, np.ndarray, quiet=True)
        centres = Centres(kmeans, seeds[0])
        models = [
            self._build(Setup(*parts, centres, restart, seed)) for restart, seed in enumerate(seeds)
        ]
        for model in models:
            model.x_scale, model.y_scale = table.x_scale, table.y_scale
        return [model.to(table.like) for model in models]

    def _copy_of_model(self, like: torch.Tensor) -> Model:
        return copy.deepcopy(self._fitted_model()).to(like).train()

    def _report(self, history: History, max_iter: int) -> None:
        if not self.verbose:
            return
        line = f"epoch {len(history.loss_curve)}/{max_iter}  loss {history.loss_curve[-1]:.4f}"
        if history.validation_scores:
            line += f"  validation log density {history.validation_scores[-1]:.4f}"
        sys.stdout.write(line + "\n")

    def _fitted_attributes(
        self, model: Model, history: History, y: Array, table: Table
    ) -> dict[str, Any]:
        """Everything that prediction needs, apart from the model in training; float64."""
        fitted = copy.deepcopy(model).double().eval().conditioned(table)
        scores = history.validation_scores
        return {
            "model_": fitted,
            "n_iter_": len(history.loss_curve),
            "loss_curve_": list(history.loss_curve),
            "validation_scores_": list(scores) if scores else None,
            "best_validation_score_": max(scores) if scores else None,
            "_optimizer_state": None,
            "_opening": None,
            "_built_with": self._fixed_parameters(),
            **self._target_attributes(y),
        }

    def _set(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    # ------------------------------------------------------------- predict

    def _snapshot(self) -> Self:
        """The estimator as it is now: what a prediction reads from its first line to its last.

        A fit that ends meanwhile, in another thread, gives new attributes to the estimator and
        leaves this shallow copy of it alone.
        """
        guard_against_fork()
        fitted = copy.copy(self)
        check_is_fitted(fitted)
        return fitted

    def _prediction_inputs(self, X: Any) -> Array:
        """Validated inputs of a prediction."""
        X = unmasked(X, "X")
        with reading("X"):
            return np.asarray(validate_data(self, X, reset=False, dtype=[np.float64, np.float32]))

    def _in_chunks(self, X: Any, function: Callable[[torch.Tensor], Part]) -> Chunks[Part]:
        """What a function of scaled inputs in float64 returns for one chunk after another."""
        model = self._fitted_model()
        X = self._prediction_inputs(X)
        like = model.log_weights
        size = _chunk_rows(like)

        @torch.no_grad()
        def parts() -> Iterator[Part]:
            for start in range(0, len(X), size):
                x = scale_inputs(X[start : start + size], model.x_scale)
                yield function(torch.from_numpy(x).to(like))

        return Chunks(len(X), parts())


def _chunk_rows(log_weights: torch.Tensor) -> int:
    """Rows per prediction step, for the log-weights (Q,) of the components."""
    return max(1, min(_CHUNK, _CHUNK_CELLS // len(log_weights)))


def draw_seed(rng: np.random.RandomState) -> int:
    """A seed for a generator of another kind."""
    return int(rng.randint(np.iinfo(np.int32).max))


def _same(a: Any, b: Any) -> bool:
    """Whether two values of a parameter are equal; modules and functions only if identical."""
    sequences = list, tuple, np.ndarray
    if isinstance(a, sequences) and isinstance(b, sequences):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or bool(a == b)
