"""Gaussian process regression networks."""

from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.estimators._layer_choices import OWN_KERNELS
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe
from skgp.recipes.readout_recipes import readout_recipe
from skgp.recipes.readouts import Noisy, gp_mixing


@family(share_kernel=OWN_KERNELS)
class GPRNRegressor(GPRegressor):
    """Gaussian process regression network (GPRN; Wilson, Knowles and Ghahramani 2012).

    P outputs mix L latent GPs, y = M(x) f(x) + e, and all P L entries of M(x) are GPs (neural
    likelihoods paper, Eqn 2). The latent functions have a kernel and a noise variance each;
    the entries of M share one kernel and its inducing inputs, so one Cholesky factor serves them
    all. The fit maximises the evidence lower bound; missing outputs are left out of it. A
    prediction is a mixture of normals at `n_prediction_samples` fixed nodes of the latent
    functions, with M integrated out.

    Parameters
    ----------
    $kernel
    $n_latents_half
    $readout
    $readout_layer
    $share_kernel
    $features
    $minibatch
    $regressor

    $fitted_regressor

    See Also
    --------
    SBGPRNRegressor : M(x) is a network, which is faster.
    MOGPRegressor : M does not depend on the inputs.

    $neural_likelihoods
    """

    def __init__(
        self,
        *,
        kernel: KernelLike = "matern52",
        n_latents: int | None = None,
        inference: Literal["sampling", "analytic"] = "analytic",
        n_samples: int = 32,
        n_prediction_samples: int = 128,
        n_inducing: int = 300,
        covariance: Literal["full", "diagonal"] = "full",
        beta_reg: float = 1.0,
        kl_annealing: int = 0,
        share_kernel: bool | Literal["auto"] = False,
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
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
        return readout_recipe(self, gp_mixing, Noisy())
