"""The shell that every regressor shares: validate, scale, seed, train, predict."""

import copy
import math
import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skgp.core.layers import Latent
from skgp.core.likelihoods import Predictive
from skgp.core.objectives import Objective
from skgp.core.training import Candidate, History, Plan, Trainer, constant, train
from skgp.distributions import NormalMixture
from skgp.estimators._distribution_regressor import DistributionRegressor
from skgp.estimators._model import Model, Setup
from skgp.estimators._table import Array, Scale, Table, scale_inputs
from skgp.estimators._validation import Rows, check_rows, check_same_outputs, split_rows
from skgp.exceptions import InterruptedFitWarning

_CHUNK = 2048  # rows per prediction step: the M x chunk blocks stay small and near the cache
_SETUP_ROWS = 20_000  # rows that initial values are computed from
_AUTO_EPOCHS = 100  # max_iter="auto": fewer for a long table, more for a short one
_MIN_AUTO_EPOCHS = 3
_MAX_AUTO_STEPS = 10_000
_MIN_AUTO_STEPS = 500


class GPRegressor(CallbackSupportMixin, DistributionRegressor):
    """Abstract base of the regressors: everything but the choice of model and objective.

    A family adds `_build` and `_objective`, its constructor, constraints and documentation.
    """

    # Parameters that every family stores in its constructor.
    kernel: Any
    beta_reg: float
    max_iter: int | str
    batch_size: int
    learning_rate_init: float
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    tol: float
    n_restarts: int
    normalize_X: bool
    normalize_y: bool
    noise_floor: float
    jitter: float
    warm_start: bool
    dtype: str
    device: str
    verbose: int
    random_state: Any

    _output_shape: tuple[int, ...]  # (P,), empty for a one-dimensional y
    _optimizer_state: dict[str, Any] | None  # what partial_fit goes on from

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "beta_reg": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "normalize_X": ["boolean"],
        "normalize_y": ["boolean"],
        "noise_floor": [Interval(Real, 0, None, closed="neither")],
        "jitter": [Interval(Real, 0, None, closed="neither")],
        "warm_start": ["boolean"],
        "dtype": [StrOptions({"auto", "float32", "float64"})],
        "device": [str],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    @abstractmethod
    def _build(self, setup: Setup) -> Model:
        """A model with its initial parameters."""

    @abstractmethod
    def _objective(self) -> Objective:
        """What the model is trained for."""

    # ------------------------------------------------------------------ fit

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n, D)
            Inputs; finite numbers.
        y : array-like of shape (n,) or (n, P)
            Targets, in any units. NaN in an (n, P) array marks a missing entry, which is skipped.
        sample_weight : array-like of shape (n,), optional
            Multiplies a row's term in the objective; weight 0 equals dropping the row.
        X_val, y_val, sample_weight_val : array-like, optional
            Held-out rows: their mean log density is recorded after each epoch and, with
            `early_stopping`, decides when to stop. Without them `early_stopping` holds out
            `validation_fraction` of the rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument has a wrong shape, type or value; the message names it.
        NonFiniteLossError
            If training diverges and does not recover.
        """
        self._validate_params()
        rows = check_rows(self, X, y, sample_weight, reset=not self._continues())
        if self._continues():
            check_same_outputs("y", rows.y, self._output_shape)
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val must be given together")
        if X_val is None and sample_weight_val is not None:
            raise ValueError("sample_weight_val is given without X_val and y_val")
        rng = check_random_state(self.random_state)
        held_out = None
        if X_val is not None:
            held_out = check_rows(self, X_val, y_val, sample_weight_val, reset=False, suffix="_val")
            check_same_outputs("y_val", held_out.y, rows.y.shape[1:])
        elif self.early_stopping:
            rows, held_out = split_rows(rows, self.validation_fraction, rng)

        table = self._table(rows, self._scales() if self._continues() else None)
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
            return model.mean_log_density(validation_table, _CHUNK)

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
                        model, history, rows.y
                    ),
                )
            )

        model, history = train(
            [Candidate(m, self._loss_of(m, table.n_data)) for m in models],
            table,
            plan,
            torch.Generator().manual_seed(_draw_seed(rng)),
            validate=None if validation_table is None else validate,
            on_epoch=on_epoch,
        )
        if history.interrupted:
            warnings.warn(
                f"the fit was interrupted after {len(history.loss_curve)} of {plan.max_iter} "
                "epochs; the estimator holds the state of the last completed one",
                InterruptedFitWarning,
                stacklevel=2,
            )
        self._set(self._fitted_attributes(model, history, rows.y))
        self.n_samples_seen_ = table.n_data
        root.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes=dict)
        return self

    @with_callbacks
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, n_total: float | None = None
    ) -> Self:
        """Train one epoch on a chunk of rows, going on from the calls before.

        The first call fixes the scales and the initial inducing inputs from its chunk. The learning
        rate stays at `learning_rate_init`.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : array-like of shape (n,) or (n, P)
        sample_weight : array-like of shape (n,), optional
        n_total : float, optional
            Rows (or sum of weights) of the whole stream, by which the divergence is divided;
            the rows seen so far if None.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `early_stopping` is set, or as in `fit`.
        """
        self._validate_params()
        if self.early_stopping:
            raise ValueError("partial_fit does not support early_stopping=True")
        if n_total is not None:
            check_scalar(n_total, "n_total", Real, min_val=0, include_boundaries="neither")
            if not math.isfinite(n_total):
                raise ValueError(f"n_total must be finite, got {n_total}")
        going_on = hasattr(self, "model_")
        rows = check_rows(self, X, y, sample_weight, reset=not going_on)
        if going_on:
            check_same_outputs("y", rows.y, self._output_shape)
        rng = check_random_state(self.random_state)
        table = self._table(rows, self._scales() if going_on else None)
        model = self._copy_of_model(table.like) if going_on else self._models(table, rng)[0]
        seen = getattr(self, "n_samples_seen_", 0.0) + table.n_data
        plan = self._plan(len(table))
        trainer = Trainer(
            Candidate(model, self._loss_of(model, seen if n_total is None else n_total)),
            table,
            plan,
            constant,
            torch.Generator().manual_seed(_draw_seed(rng)),
        )
        if going_on and self._optimizer_state is not None:
            trainer.optimizer.load_state_dict(copy.deepcopy(self._optimizer_state))
        loss = trainer.epoch()
        history = History([*getattr(self, "loss_curve_", []), loss])
        self._set(self._fitted_attributes(model, history, rows.y))
        self.n_samples_seen_ = seen
        self._optimizer_state = trainer.optimizer.state_dict()
        return self

    # -------------------------------------------------------------- predict

    def predict_dist(self, X: Any) -> NormalMixture:
        """Predictive distribution of y, in its units, noise included.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        NormalMixture with n rows
            Parametric GP paper, Eqn 11.
        """
        return self._distribution(X, lambda model: model.likelihood.predictive)

    def predict_latent(self, X: Any) -> NormalMixture:
        """Distribution of the noiseless function f, in the units of y.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        NormalMixture with n rows
        """
        return self._distribution(X, lambda model: model.likelihood.noiseless)

    # --------------------------------------------------- fitted attributes

    @property
    def stack_(self) -> torch.nn.Module:
        """The layers, a torch module in float64."""
        return self._fitted_model().stack

    @property
    def noise_variance_(self) -> float | Array:
        """Variance of the observation noise in squared units of y: a float or an array (P,)."""
        model = self._fitted_model()
        variance = model.likelihood.noise_var.detach().cpu().numpy() * model.y_scale.unit**2
        return float(variance[0]) if not self._output_shape else variance

    @property
    def lengthscales_(self) -> Array:
        """Lengthscales in the units of X: (D,), or (W, D) for W latent functions."""
        model = self._fitted_model()
        scaled = model.stack.top.kernel.lengthscale.detach().cpu().numpy()
        return self._squeeze(scaled * model.x_scale.unit)

    @property
    def inducing_points_(self) -> Array:
        """Inducing inputs in the units of X: (M, D), or (W, M, D) for W latent functions."""
        model = self._fitted_model()
        Z = model.stack.bottom.Z.detach().cpu().numpy()
        return self._squeeze(Z * model.x_scale.unit + model.x_scale.offset)

    # ------------------------------------------------------------- helpers

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _continues(self) -> bool:
        return self.warm_start and hasattr(self, "model_")

    def _fitted_model(self) -> Model:
        check_is_fitted(self)
        model: Model = self.model_
        return model

    def _squeeze(self, values: Array) -> Array:
        return values if self._output_shape else values[0]

    def _like(self, n: int) -> torch.Tensor:
        """An empty tensor of the dtype and on the device that training on n rows uses."""
        dtype = self.dtype
        if dtype == "auto":
            # A table that is trained as a whole costs little, and its fit is then as good as
            # deterministic: rows repeated or weighted, in any order, give the same model.
            dtype = "float64" if n <= self.batch_size else "float32"
        try:
            return torch.empty((), dtype=getattr(torch, dtype), device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"device={self.device!r} is not available here: {error}") from error

    def _scales(self) -> tuple[Scale, Scale]:
        model = self._fitted_model()
        return model.x_scale, model.y_scale

    def _table(
        self, rows: Rows, scales: tuple[Scale, Scale] | None, like: torch.Tensor | None = None
    ) -> Table:
        X, y, weight = rows
        Y = y.reshape(len(y), -1)
        if scales is None:
            scales = Scale(X, weight, self.normalize_X), Scale(Y, weight, self.normalize_y)
        return Table(X, Y, weight, *scales, self._like(len(X)) if like is None else like)

    def _models(self, table: Table, rng: np.random.RandomState) -> list[Model]:
        """One initial model per restart, or the last fit's if it goes on."""
        if self._continues():
            return [self._copy_of_model(table.like)]
        rows = np.arange(len(table))
        if len(table) > _SETUP_ROWS:
            rows = rng.choice(len(table), _SETUP_ROWS, replace=False)
        weight = table.sample_weight
        setup = Setup(
            torch.from_numpy(scale_inputs(table.X[rows], table.x_scale)),
            torch.from_numpy(table.y_scale.apply(table.Y[rows])),
            torch.from_numpy(np.ones(len(rows)) if weight is None else weight[rows]),
            table.n_data,
            0,
        )
        models = [self._build(setup._replace(seed=_draw_seed(rng))) for _ in range(self.n_restarts)]
        for model in models:
            model.x_scale, model.y_scale = table.x_scale, table.y_scale
        return [model.to(table.like) for model in models]

    def _copy_of_model(self, like: torch.Tensor) -> Model:
        return copy.deepcopy(self._fitted_model()).to(like)

    def _loss_of(self, model: Model, n_data: float) -> Callable[..., torch.Tensor]:
        objective = self._objective()
        return lambda batch: model.loss(batch, objective, self.beta_reg, n_data)

    def _plan(self, n: int) -> Plan:
        max_iter = self.max_iter
        if max_iter == "auto":
            n_batches = max(1, round(n / self.batch_size))
            epochs = min(max(_MAX_AUTO_STEPS // n_batches, _MIN_AUTO_EPOCHS), _AUTO_EPOCHS)
            max_iter = max(epochs, math.ceil(_MIN_AUTO_STEPS / n_batches))
        return Plan(
            max_iter=int(max_iter),
            batch_size=self.batch_size,
            learning_rate=self.learning_rate_init,
            n_trial_epochs=max(1, math.ceil(0.05 * int(max_iter))),
            n_iter_no_change=self.n_iter_no_change if self.early_stopping else None,
            tol=self.tol,
        )

    def _report(self, history: History, max_iter: int) -> None:
        if not self.verbose:
            return
        line = f"epoch {len(history.loss_curve)}/{max_iter}  loss {history.loss_curve[-1]:.4f}"
        if history.validation_scores:
            line += f"  validation log density {history.validation_scores[-1]:.4f}"
        sys.stdout.write(line + "\n")

    def _fitted_attributes(self, model: Model, history: History, y: Array) -> dict[str, Any]:
        """Everything that prediction needs, apart from the model in training; float64."""
        scores = history.validation_scores
        return {
            "model_": copy.deepcopy(model).double(),
            "n_outputs_": 1 if y.ndim == 1 else y.shape[1],
            "n_iter_": len(history.loss_curve),
            "loss_curve_": list(history.loss_curve),
            "validation_scores_": list(scores) if scores else None,
            "best_validation_score_": max(scores) if scores else None,
            "_output_shape": y.shape[1:],
            "_optimizer_state": None,
        }

    def _set(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    @torch.no_grad()
    def _distribution(
        self, X: Any, method: Callable[[Model], Callable[[Latent], Predictive]]
    ) -> NormalMixture:
        """Chunks of rows through the stack and one method of the likelihood, in float64."""
        model = self._fitted_model()
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        factors, nodes, of_latent = model.stack.factors(), model.nodes(), method(model)
        parts = []
        for start in range(0, len(X), _CHUNK):
            scaled = scale_inputs(X[start : start + _CHUNK], model.x_scale)
            x = torch.from_numpy(scaled).to(nodes.log_omega)
            parts.append(_to_arrays(of_latent(model.stack(x, nodes, factors))))
        mean, std = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        factors_of_cov = [part[2] for part in parts if part[2] is not None]
        scale_tril = np.concatenate(factors_of_cov) if factors_of_cov else None
        if not self._output_shape:
            mean, std = mean[..., 0], std[..., 0]
            offset, unit = model.y_scale.offset[0], model.y_scale.unit[0]
        else:
            offset, unit = model.y_scale.offset, model.y_scale.unit
        log_weights = nodes.log_omega.cpu().numpy()
        return NormalMixture(log_weights, mean, std, scale_tril).affine(offset, unit)


def _to_arrays(predictive: Predictive) -> tuple[Array, Array, Array | None]:
    """Components of a chunk with rows first: mean and std (B, Q, P), scale_tril (B, Q, P, P)."""
    scale_tril = None
    if predictive.cov is not None:
        scale_tril = torch.linalg.cholesky(predictive.cov).movedim(0, 1).cpu().numpy()
    mean, std = predictive.mean.movedim(0, 1), predictive.var.sqrt().movedim(0, 1)
    return mean.cpu().numpy(), std.cpu().numpy(), scale_tril


def _draw_seed(rng: np.random.RandomState) -> int:
    return int(rng.randint(np.iinfo(np.int32).max))
