"""GP regression networks whose mixing matrix is a network of the inputs, plain and neural."""

from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.estimators._entries import Deviation
from skgp.estimators._layer_choices import OWN_KERNELS
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe
from skgp.recipes.readout_recipes import readout_recipe
from skgp.recipes.readouts import Hidden, Identity, network_mixing


@family(share_kernel=OWN_KERNELS)
class SBGPRNRegressor(GPRegressor):
    """GP regression network with a network of the inputs for its weights (SBGPRN).

    P outputs mix L latent GPs, y = M(x) f(x) + e, and M(x) is a network with two tanh layers of 50
    units (neural likelihoods paper, Eqn 4), whose weights are points under unit normal priors. The
    fit maximises the evidence lower bound; missing outputs are left out of it. A prediction is a
    mixture of normals at `n_prediction_samples` fixed nodes of the latent functions, which its
    outputs share.

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
    NeuralSBGPRNRegressor : Activations between latent functions and outputs.
    GPRNRegressor : M(x) consists of GPs.
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
        return readout_recipe(self, network_mixing, Identity())


@family(
    texts={"hidden_rule": "P"},
    share_kernel=OWN_KERNELS,
    inference=Deviation(default='"sampling"'),
)
class NeuralSBGPRNRegressor(GPRegressor):
    """GP regression network with a neural likelihood (N-SBGPRN).

    P outputs are made of L latent GPs by a layer of H hidden units, y = M(x) g(W f(x) + b) + e, and
    M(x) is a network with two tanh layers of 50 units (neural likelihoods paper, Eqn 6). The biases
    b have unit normal priors and mean-field posteriors; W and the network's weights are points
    under such priors. The fit maximises the evidence lower bound; missing outputs are left out of
    it. A prediction is a mixture of normals at `n_prediction_samples` fixed nodes of the latent
    functions and biases, which its outputs share.

    Parameters
    ----------
    $kernel
    $n_latents_half
    $hidden_units
    $readout
    $readout_layer
    $share_kernel
    $features
    $minibatch
    $regressor

    $fitted_regressor

    See Also
    --------
    SBGPRNRegressor : Without activations.
    NeuralMOGPRegressor : M does not depend on the inputs.

    $neural_likelihoods
    """

    # Parameters that the constructor stores.
    n_hidden: int | None
    activation: str

    def __init__(
        self,
        *,
        kernel: KernelLike = "matern52",
        n_latents: int | None = None,
        n_hidden: int | None = None,
        activation: Literal["relu", "leaky_relu", "erf", "shifted_erf"] = "leaky_relu",
        inference: Literal["sampling", "analytic"] = "sampling",
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
        return readout_recipe(self, network_mixing, Hidden(self.n_hidden, self.activation, 1))
