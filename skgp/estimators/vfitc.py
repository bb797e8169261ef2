"""Variational FITC regression."""

from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.core.objectives.objective import VFITC
from skgp.estimators._layer_choices import OWN_KERNELS
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.assemble import stack_recipe
from skgp.recipes.losses import DivergenceWeight
from skgp.recipes.optimizers import natural_or_adam
from skgp.recipes.outputs import Coregionalised


@family(share_kernel=OWN_KERNELS)
class VFITCRegressor(GPRegressor):
    """Variational FITC regression.

    Maximises a lower bound of FITC's marginal likelihood by minibatches (parametric GP paper,
    Eqn 15): with r_i the variance that the inducing inputs leave unexplained at x_i, sum_i
    [log N(y_i | f_mean, r_i + noise) - v_q / (2 (r_i + noise))] - beta_reg KL(q(u) || p(u)), where
    v_q is the variance that comes from q(u). Several outputs, which a matrix mixes, are joint: r_i
    has a covariance over them. The predictive distribution of a row is one normal, N(f_mean, f_var
    + noise) (Eqn 11).

    Parameters
    ----------
    $kernel
    n_inducing : int, default=300
        Number M of inducing inputs, started by k-means; cost grows with M^2 per row.
    $share_kernel
    covariance : {"full", "diagonal"}, default="full"
        Covariance of q(u).
    beta_reg : float, default=1.0
        Weight of the divergence KL(q(u) || p(u)). One gives the lower bound.
    $n_latents
    $features
    $minibatch
    $optimizer
    $regressor

    $fitted_regressor

    See Also
    --------
    FITCRegressor : The exact marginal likelihood of the same model, for tables that fit in memory.
    PPGPRRegressor : The predictive density itself as the objective.

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
        share_kernel: bool | Literal["auto"] = False,
        covariance: Literal["full", "diagonal"] = "full",
        beta_reg: float = 1.0,
        n_latents: int | None = None,
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        optimizer: Literal["adam", "natgrad"] = "adam",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-4,
        jitter: float = 1e-4,
        compile: bool = False,
        warm_start: bool = False,
        checkpoint: Any = None,
        memory: Any = None,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        device: str = "cpu",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        store_parameters(self, locals())

    def _recipe(self) -> Recipe:
        beta_reg = DivergenceWeight(self.beta_reg)
        covariance, optimizer = natural_or_adam(self, VFITC, beta_reg)
        return stack_recipe(
            self,
            objective=VFITC,
            outputs=pick(Coregionalised, self),
            covariance=covariance,
            shares_kernel=self.share_kernel,
            optimizer=optimizer,
        )
