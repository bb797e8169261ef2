"""Exact GP regression."""

from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.core.numerics.gradients import recorded_gradients
from skgp.estimators._entries import Deviation
from skgp.estimators._fit_groups import ITERATIONS
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.fit import scaled_table
from skgp.fitting.recipe import Recipe
from skgp.recipes.collapsed import collapsed_recipe
from skgp.recipes.exact import build_exact, conditioned_on, release


@family(
    texts={"auto_dtype": "float64"},
    max_iter=ITERATIONS,
    noise_floor=Deviation(default="1e-5"),
    jitter=Deviation(default="1e-13"),
)
class ExactGPRegressor(GPRegressor):
    r"""Exact GP regression.

    The fit maximises the marginal likelihood over the kernel and the noise by L-BFGS. Up to
    `max_cholesky_size` rows it uses Cholesky factors, at a cost of n^3. Beyond, it uses
    preconditioned conjugate gradients and a stochastic estimate of the log determinant (Gardner et
    al. 2018; Wang et al. 2019). Predictions always use a Cholesky factor of all rows, which the
    first prediction computes in that case. Both need n x n matrices in memory. Several outputs are
    independent GPs.

    Parameters
    ----------
    $kernel
    max_cholesky_size : int, default=5000
        Largest number of rows for which each iteration factorises the kernel matrix, and for which
        the fitted model holds the inverse of its factor.
    $max_iter
    $early_stopping
    $random_state

    Model
    $input_warping
    $features

    Training
    $stopping
    $restarts

    Scaling and numerics
    normalize_X, normalize_y : bool, default=True
        Standardise inputs and targets inside the estimator. Results come back in the units
        of y.
    noise_floor : float, default=1e-5
        Lower bound of the noise variance, in units of the variance of y if `normalize_y`.
    jitter : float, default=1e-13
        Diagonal regularisation relative to the mean diagonal of kernel matrix and noise. Usually
        the noise regularises enough. Where it is small, a larger jitter acts as noise that does not
        shrink with the weight of a row.
    $dtype
    $running

    Attributes
    ----------
    $attributes
    log_marginal_likelihood_value_ : float
        Log marginal likelihood of the rows that the model knows, in nats, of standardised targets
        if `normalize_y`, as in scikit-learn; the sum over several outputs.

    Raises
    ------
    $raises
    MemoryError
        In `fit`, if the kernel matrix of the rows does not fit, before anything is allocated.

    See Also
    --------
    SVGPRegressor : For data sets of any size.

    Notes
    -----
    With the kernel matrix :math:`K` of the rows, a constant mean :math:`c` and noise
    :math:`\sigma^2`, the fit maximises ([1]_, Eqn 2)

    .. math::

        \log \mathcal{N}\left(y \mid c, K + \sigma^2 I\right) .

    Known noise of the rows (`noise_variance` of `fit`) is added to the diagonal.

    References
    ----------
    .. [1] $parametric

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

    # Parameters that the constructor stores.
    max_cholesky_size: int
    jitter: float

    def __init__(
        self,
        *,
        kernel: KernelLike = "matern52",
        max_cholesky_size: int = 5000,
        max_iter: int = 100,
        early_stopping: bool = False,
        random_state: Any = None,
        input_warping: bool | Literal["auto"] = "auto",
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        warm_start: bool = False,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-5,
        jitter: float = 1e-13,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        device: str = "cpu",
        checkpoint: Any = None,
        memory: Any = None,
        verbose: int = 0,
    ) -> None:
        store_parameters(self, locals())

    def _recipe(self) -> Recipe:
        build = partial(build_exact, self.max_cholesky_size, self.jitter)
        return replace(collapsed_recipe(self, build), prepare_to_go_on=release)

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        noise_variance: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        noise_variance_val: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n, D)
            Inputs; finite numbers.
        y : array-like of shape (n,) or (n, P)
            Targets, in any units. NaN in an (n, P) array marks a missing entry, which is skipped.
        sample_weight : array-like of shape (n,), optional
            Multiplies a row's term in the objective; weight 0 equals dropping the row. Zero or
            between 1e-15 and 1e15.
        noise_variance : array-like of the shape of y, optional
            Known noise variance of each target, in squared units of y, whatever `normalize_y` is.
            The learned noise is added. Predictions include only the learned noise. The same as
            `alpha` of scikit-learn's GP, but split with the rows by cross-validation.
        X_val, y_val, sample_weight_val, noise_variance_val : array-like, optional
            Held-out rows: their mean log density is recorded after each epoch and, with
            `early_stopping`, decides when to stop. Without them `early_stopping` holds out
            `validation_fraction` of the rows. No row counts less than -1,000 nats per output in
            standardised units, so that wrong targets have a limited effect.

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
        if X_val is None and noise_variance_val is not None:
            raise ValueError("noise_variance_val is given without X_val and y_val")
        held_out = X_val, y_val, sample_weight_val
        with self._becoming() as (working, report):
            noise = {"noise": noise_variance, "noise_val": noise_variance_val}
            report += working._fit(X, y, sample_weight, held_out, **noise)
        return self

    def condition_on(
        self, X: Any, y: Any, sample_weight: Any = None, *, noise_variance: Any = None
    ) -> Self:
        """A copy of the fitted model that knows further rows.

        Kernel, noise, prior mean and scales stay as they are; `fit` finds new ones. Up to
        `max_cholesky_size` rows the Cholesky factor is extended, which takes time in proportion to
        the square of the number of rows; beyond, it is computed anew.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : array-like of shape (n,) or (n, P)
            NaN in an (n, P) array marks a missing entry.
        sample_weight : array-like of shape (n,), optional
        noise_variance : array-like of the shape of y, optional
            Known noise variance of each target, as in `fit`.

        Returns
        -------
        ExactGPRegressor

        Raises
        ------
        ValueError
            If an argument has a wrong shape, type or value.
        MemoryError
            If the kernel matrix of all rows does not fit.
        """
        known = self._snapshot()
        rows = known._rows(X, y, sample_weight, noise_variance, reset=False)
        model = known.model_
        with recorded_gradients():
            table = scaled_table(rows, model, model.log_weights)
            known.model_ = conditioned_on(model, table)
        return known

    @property
    def log_marginal_likelihood_value_(self) -> float:
        """Log marginal likelihood of the rows that the model knows."""
        return float(self._snapshot().model_.stack.top.log_marginal().sum())
