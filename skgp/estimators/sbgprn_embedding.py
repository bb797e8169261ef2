"""Latent-input versions of the GP regression network whose mixing matrix is a network."""

from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.estimators._embedding import Embedding
from skgp.estimators._entries import Deviation
from skgp.estimators._layer_choices import OWN_KERNELS
from skgp.estimators._parameters import family, store_parameters
from skgp.fitting.recipe import Recipe
from skgp.recipes.readout_recipes import embedding_recipe
from skgp.recipes.readouts import Hidden, network_mixing


@family(
    texts={"least_steps": "1,000", "hidden_rule": "P"},
    share_kernel=OWN_KERNELS,
    inference=Deviation(default='"sampling"'),
    n_samples=Deviation(default="8"),
)
class NeuralSBGPRNEmbedding(Embedding):
    """Embedding of a table by a neural GP regression network with latent inputs (N-SBGPRN).

    Each row of a table of P columns is y = M(x) g(W f(x) + b) + e, where L latent GPs f have C
    inputs x that nobody observed, g is an activation of H hidden units and M(x) a network with two
    tanh layers of 50 units (neural likelihoods paper, Eqns 6 and 8). The biases b have unit normal
    priors and mean-field posteriors; W and the network's weights are points under such priors.

    $latent

    Parameters
    ----------
    $embedding
    $hidden_units
    $readout
    $density
    $sparse
    $share_kernel
    $kl_annealing
    $minibatch
    $transformer

    $fitted_embedding

    See Also
    --------
    NeuralMOGPEmbedding : M does not depend on the latent inputs.
    NeuralSBGPRNRegressor : The same model with inputs that are known.

    $neural_likelihoods
    """

    # Parameters that the constructor stores.
    n_hidden: int | None
    activation: str

    def __init__(
        self,
        n_components: int = 2,
        *,
        kernel: KernelLike = "rbf",
        n_latents: int | None = None,
        n_hidden: int | None = None,
        activation: Literal["relu", "leaky_relu", "erf", "shifted_erf"] = "leaky_relu",
        inference: Literal["sampling", "analytic"] = "sampling",
        n_samples: int = 8,
        n_prediction_samples: int = 128,
        n_importance: int = 50,
        n_inducing: int = 100,
        covariance: Literal["full", "diagonal"] = "full",
        beta_reg: float = 1.0,
        share_kernel: bool | Literal["auto"] = False,
        kl_annealing: int = 0,
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        n_restarts: int = 1,
        normalize_X: bool = True,
        noise_floor: float = 1e-4,
        jitter: float = 1e-4,
        compile: bool = False,
        checkpoint: Any = None,
        memory: Any = None,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        device: str = "cpu",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        store_parameters(self, locals())

    def _recipe(self) -> Recipe:
        return embedding_recipe(self, network_mixing, Hidden(self.n_hidden, self.activation, 1))
