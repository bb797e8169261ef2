"""Variational FITC regression."""

from dataclasses import replace
from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import VFITC
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.assemble import stack_recipe
from skgp.recipes.losses import DivergenceWeight
from skgp.recipes.optimizers import natural_or_adam
from skgp.recipes.outputs import Coregionalised
from skgp.recipes.spec import InitialValues, StackSpec


@family()
class VFITCRegressor(GPRegressor):
    r"""Variational FITC regression.

    The fit maximises a lower bound on FITC's marginal likelihood by minibatches. Each row has a
    variance of its own for what the inducing inputs leave unexplained. The predictive distribution
    of a row is one normal.

    Parameters
    ----------
    $kernel
    $n_inducing
    $max_iter
    $early_stopping
    $random_state

    Model
    covariance : {"full", "diagonal"}, default="full"
        Covariance of q(u).
    beta_reg : float, default=1.0
        Weight of the divergence KL(q(u) || p(u)). One gives the lower bound.
    $n_latents
    $share_kernel
    $features
    $beginning

    Training
    $minibatch
    $optimizer
    $regressor

    $fitted_regressor

    See Also
    --------
    FITCRegressor : The exact marginal likelihood of the same model, for data in memory.
    PPGPRRegressor : The predictive density itself as the objective.

    Notes
    -----
    Let :math:`r_i` be the prior variance at :math:`x_i` that the inducing inputs leave unexplained,
    and :math:`v_i` the variance that comes from :math:`q(u)`, so that the latent function has the
    variance :math:`\sigma_f^2(x_i) = r_i + v_i`. With noise :math:`\sigma^2` the fit maximises
    ([1]_, Eqn 15)

    .. math::

        \sum_{i=1}^{n} \left[ \log \mathcal{N}\left(y_i \mid \mu_f(x_i), r_i + \sigma^2\right)
        - \frac{v_i}{2 (r_i + \sigma^2)} \right]
        - \beta_{\mathrm{reg}} \, \mathrm{KL}\left(q(u) \| p(u)\right) .

    The predictive density is :math:`\mathcal{N}(y \mid \mu_f(x), \sigma_f^2(x) + \sigma^2)` ([1]_,
    Eqn 11). Several outputs that a matrix mixes are treated jointly: :math:`r_i` is then a
    covariance over them.

    References
    ----------
    .. [1] $parametric

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import VFITCRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
    >>> model = VFITCRegressor(n_inducing=20, max_iter=200, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[0.5]], return_std=True)
    >>> print(f"{mean[0]:.1f} +- {std[0]:.1f}")
    0.5 +- 0.1
    """

    # Parameters that the constructor stores.
    beta_reg: float
    share_kernel: bool | Literal["auto"]

    def __init__(
        self,
        *,
        kernel: KernelLike = "matern52",
        n_inducing: int = 300,
        max_iter: int | Literal["auto"] = "auto",
        early_stopping: bool = False,
        random_state: Any = None,
        covariance: Literal["full", "diagonal"] = "full",
        beta_reg: float = 1.0,
        n_latents: int | None = None,
        share_kernel: bool | Literal["auto"] = False,
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        prior_mean: Literal["constant", "zero"] = "constant",
        initial_noise: float | None = None,
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        optimizer: Literal["adam", "natgrad"] = "adam",
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
        beta_reg = DivergenceWeight(self.beta_reg)
        covariance, optimizer = natural_or_adam(self, VFITC, beta_reg)
        spec = replace(
            StackSpec.of(self, pick(Coregionalised, self), covariance),
            shares_kernel=self.share_kernel,
            initial_values=pick(InitialValues, self),
        )
        return stack_recipe(self, spec, objective=VFITC, optimizer=optimizer)
