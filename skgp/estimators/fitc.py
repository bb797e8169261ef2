"""FITC regression."""

from dataclasses import replace
from functools import partial
from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.core.numerics.elementwise import Passes
from skgp.estimators._fit_groups import ITERATIONS
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe
from skgp.recipes.collapsed import collapsed_recipe
from skgp.recipes.fitc import build_fitc


@family(texts={"auto_dtype": "float64"}, max_iter=ITERATIONS)
class FITCRegressor(GPRegressor):
    r"""Sparse GP regression by the fully independent training conditional (FITC).

    The fit maximises the marginal likelihood over kernel, noise and inducing inputs by L-BFGS. Each
    step sees all rows and costs n M^2 operations, in memory for a chunk of rows at a time. Several
    outputs are independent GPs with their own kernels and inducing inputs. The predictive
    distribution of a row is one normal.

    Parameters
    ----------
    $kernel
    $n_inducing
    $max_iter
    $early_stopping
    $random_state

    Model
    $input_warping
    $features

    Training
    $regressor

    $fitted_regressor

    See Also
    --------
    VFITCRegressor : A lower bound of the same objective by minibatches.
    ExactGPRegressor : Without inducing inputs, for a few thousand rows.

    Notes
    -----
    With :math:`Q = K_{fu} K_{uu}^{-1} K_{uf}`, a constant mean :math:`c` and noise
    :math:`\sigma^2`, the fit maximises ([1]_; [2]_, Eqns 12 and 13)

    .. math::

        \log \mathcal{N}\left(y \mid c, Q + \mathrm{diag}(K_{ff} - Q) + \sigma^2 I\right) .

    References
    ----------
    .. [1] $pseudo_inputs
    .. [2] $parametric

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import FITCRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
    >>> mean, std = FITCRegressor(n_inducing=20, random_state=0).fit(X, y).predict(
    ...     [[0.5]], return_std=True
    ... )
    >>> print(f"{mean[0]:.1f} +- {std[0]:.1f}")
    0.5 +- 0.1
    """

    # Parameters that the constructor stores.
    n_inducing: int
    jitter: float
    compile: bool

    def __init__(
        self,
        *,
        kernel: KernelLike = "matern52",
        n_inducing: int = 300,
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
        noise_floor: float = 1e-4,
        jitter: float = 1e-4,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        compile: bool = False,
        device: str = "cpu",
        checkpoint: Any = None,
        memory: Any = None,
        verbose: int = 0,
    ) -> None:
        store_parameters(self, locals())

    def _recipe(self) -> Recipe:
        recipe = collapsed_recipe(self, partial(build_fitc, self.n_inducing, self.jitter))
        return replace(recipe, passes=Passes(self.compile))
