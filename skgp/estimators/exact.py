"""Exact GP regression."""

from numbers import Integral
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import Interval
from torch import Tensor

from skgp.core.conjugate_gradients import ConjugateGradients
from skgp.core.exact import ExactGP, exact_log_marginal
from skgp.core.features import FeatureExtractor
from skgp.core.kernels import KernelLike
from skgp.core.memory import check_memory
from skgp.core.rows import ObservedRows
from skgp.core.stack import GPStack
from skgp.core.training import Candidate
from skgp.estimators._collapsed_regressor import CollapsedModel, CollapsedRegressor
from skgp.estimators._documentation import documented
from skgp.estimators._parameters import store_parameters
from skgp.estimators._setup import Setup

_START_INDUCING = 300  # inducing inputs of the bound from which hyper-parameters start
_START_JITTER = 1e-8  # of their kernel matrix, which no noise regularises


class _ExactModel(CollapsedModel):
    """One exact layer."""

    stack: GPStack
    _n_affordable = 0  # rows for which there was enough memory before this fit took any

    def log_marginal(self, rows: ObservedRows) -> Tensor:
        gp, x, y = self._gp, rows.x, rows.y
        if len(x) > self._n_affordable:
            check_memory(len(x), len(y), x.element_size(), gp.solver.takes(len(x)), x.device)
            self._n_affordable = len(x)
        return exact_log_marginal(gp, rows, self.likelihood.noise_var)

    def condition(self, rows: ObservedRows) -> None:
        self._with_rows(rows.x).condition(rows, self.likelihood.noise_var)

    def release(self) -> None:
        """Drop the training rows and their factors: training copies its state often."""
        self._n_affordable = 0
        self._with_rows(self._gp.x[:0])

    @property
    def _gp(self) -> ExactGP:
        layer = self.stack.top
        assert isinstance(layer, ExactGP)
        return layer

    def _with_rows(self, x: Tensor) -> ExactGP:
        """Put a layer over other rows in the place of the present one; it has the parameters."""
        old = self._gp
        new = ExactGP(old.kernel, x, old.jitter, old.solver)
        new.mean = old.mean
        self.stack.gp_layers[-1] = new
        return new


@documented(auto_dtype="float64")
class ExactGPRegressor(CollapsedRegressor):
    """Exact GP regression.

    Maximises the marginal likelihood log N(y; c, K + noise) with a constant c over kernel and noise
    by L-BFGS (parametric GP paper, Eqn 2). Up to `max_cholesky_size` rows by Cholesky factors,
    O(n^3); for larger tables by preconditioned conjugate gradients with a stochastic estimate of
    the log-determinant (Gardner et al. 2018; Wang et al. 2019), whose variances are slow to
    predict. Both hold matrices of n x n numbers. Several outputs are independent GPs.

    Parameters
    ----------
    $kernel
    max_cholesky_size : int, default=5000
        Rows up to which the kernel matrix is factorised.
    $features
    $collapsed
    $stopping
    $restarts
    normalize_X, normalize_y : bool, default=True
        Standardise inputs and targets inside the estimator. Results come back in the units
        of y.
    noise_floor : float, default=1e-4
        Lower bound of the noise variance, in units of the variance of y if `normalize_y`.
    jitter : float, default=1e-13
        Diagonal regularisation relative to the mean diagonal of kernel matrix and noise. The noise
        regularises as a rule; beside a small one a larger jitter acts as noise of its own, which
        does not shrink with the weight of a row.
    $running

    Attributes
    ----------
    $attributes

    Raises
    ------
    $raises
    MemoryError
        In `fit`, if the kernel matrix of the rows does not fit, before anything is allocated.

    See Also
    --------
    SVGPRegressor : For tables of any length.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import ExactGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
    >>> mean, std = ExactGPRegressor(random_state=0).fit(X, y).predict([[0.5]], return_std=True)
    >>> print(f"{mean[0]:.1f} +- {std[0]:.1f}")
    0.5 +- 0.1
    """

    max_cholesky_size: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CollapsedRegressor._parameter_constraints,
        "max_cholesky_size": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        kernel: KernelLike = "matern52",
        max_cholesky_size: int = 5000,
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        max_iter: int = 100,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-4,
        jitter: float = 1e-13,
        warm_start: bool = False,
        memory: Any = None,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        device: str = "cpu",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        store_parameters(self, locals())

    def _build(self, setup: Setup) -> _ExactModel:
        features, layer, likelihood = self._start(setup, _START_INDUCING, _START_JITTER)
        solver = ConjugateGradients(setup.seed, min_rows=self.max_cholesky_size + 1)
        gp = ExactGP(layer.kernel, layer.Z.detach()[0, :0], self.jitter, solver)
        return _ExactModel(GPStack([gp], features), likelihood)

    def _candidate(self, model: CollapsedModel, n_data: float) -> Candidate[CollapsedModel]:
        assert isinstance(model, _ExactModel)
        model.release()  # after a warm start
        return super()._candidate(model, n_data)
