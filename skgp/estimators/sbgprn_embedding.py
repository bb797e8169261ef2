"""Latent-input versions of the GP regression networks whose mixing matrix is a network."""

from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.estimators._embedding import Embedding
from skgp.estimators._entries import Deviation
from skgp.estimators._layer_choices import MIXING_DROPOUT
from skgp.estimators._parameters import family, store_parameters
from skgp.fitting.recipe import Recipe
from skgp.recipes.readout_recipes import embedding_recipe
from skgp.recipes.readouts import Hidden, LatentUnits, MixingNetwork


@family(
    texts={"least_steps": "1,000"},
    dropout=MIXING_DROPOUT,
    n_samples=Deviation(default="8"),
)
class SBGPRNEmbedding(Embedding):
    r"""Embedding by a GP regression network with latent inputs (SBGPRN).

    The P columns mix L latent GPs of C inputs that nobody observed, and a network of these inputs
    with two tanh layers of 50 units gives the mixing matrix. Its weights are points under unit
    normal priors.

    $latent

    Parameters
    ----------
    $embedding
    $max_iter
    $random_state

    Model
    $latent_kernel
    $readout
    $dropout
    $density
    $sparse
    $share_kernel
    $kl_annealing

    Training
    $minibatch
    $transformer

    $fitted_embedding

    See Also
    --------
    NeuralSBGPRNEmbedding : Activations between latent functions and columns.
    GPRNEmbedding : M(x) consists of GPs.
    SBGPRNRegressor : The same model with inputs that are known.

    Notes
    -----
    The model of a row is :math:`y = M(x) f(x) + \varepsilon` ([1]_, Eqn 4), with a P x L matrix
    M(x).

    The latent inputs have the prior :math:`x \sim \mathcal{N}(0, I)` ([1]_, Eqn 8). The fit
    maximises

    .. math::

        \sum_{i=1}^{n} \left( \mathrm{E}_q \left[ \log p(y_i \mid x_i) \right]
        - \mathrm{KL}(q(x_i) \| p(x_i)) \right)
        - \beta_{\mathrm{reg}} \sum \mathrm{KL} ,

    where the last sum has the divergences of q(u) and of the network's weights.

    $neural_likelihoods
    """

    # Parameters that the constructor stores.
    dropout: float

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_latents: int | None = None,
        n_inducing: int = 100,
        max_iter: int | Literal["auto"] = "auto",
        random_state: Any = None,
        kernel: KernelLike = "rbf",
        inference: Literal["sampling", "analytic"] = "analytic",
        n_samples: int = 8,
        dropout: float = 0.0,
        n_importance: int = 50,
        covariance: Literal["full", "diagonal"] = "full",
        beta_reg: float = 1.0,
        share_kernel: bool | Literal["auto"] = False,
        kl_annealing: int = 0,
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        n_restarts: int = 1,
        normalize_X: bool = True,
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
        return embedding_recipe(self, MixingNetwork(self.dropout), LatentUnits())


@family(
    texts={"least_steps": "1,000", "hidden_rule": "P"},
    dropout=MIXING_DROPOUT,
    inference=Deviation(default='"sampling"'),
    n_samples=Deviation(default="8"),
)
class NeuralSBGPRNEmbedding(Embedding):
    r"""Embedding by a neural GP regression network with latent inputs (N-SBGPRN).

    A layer of H hidden units makes the P columns of L latent GPs of C inputs that nobody observed,
    and a network of these inputs with two tanh layers of 50 units gives its output weights. The
    biases have unit normal priors and mean-field posteriors; all other weights are points under
    such priors.

    $latent

    Parameters
    ----------
    $embedding
    $max_iter
    $random_state

    Model
    $latent_kernel
    $hidden_units
    $readout
    $dropout
    $readout_nodes
    $density
    $sparse
    $share_kernel
    $kl_annealing

    Training
    $minibatch
    $transformer

    $fitted_embedding

    See Also
    --------
    NeuralMOGPEmbedding : M does not depend on the latent inputs.
    NeuralSBGPRNRegressor : The same model with inputs that are known.

    Notes
    -----
    The model of a row is :math:`y = M(x) g(W f(x) + b) + \varepsilon` ([1]_, Eqn 6), with an H x L
    matrix W, a P x H matrix M(x) and an activation g.

    The latent inputs have the prior :math:`x \sim \mathcal{N}(0, I)` ([1]_, Eqn 8). The fit
    maximises

    .. math::

        \sum_{i=1}^{n} \left( \mathrm{E}_q \left[ \log p(y_i \mid x_i) \right]
        - \mathrm{KL}(q(x_i) \| p(x_i)) \right)
        - \beta_{\mathrm{reg}} \sum \mathrm{KL} ,

    where the last sum has the divergences of q(u) and of the readout's posteriors.

    $neural_likelihoods
    """

    # Parameters that the constructor stores.
    n_hidden: int | None
    dropout: float
    activation: str

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_latents: int | None = None,
        n_inducing: int = 100,
        max_iter: int | Literal["auto"] = "auto",
        random_state: Any = None,
        kernel: KernelLike = "rbf",
        n_hidden: int | None = None,
        activation: Literal["relu", "leaky_relu", "erf", "shifted_erf", "xerf"] = "leaky_relu",
        inference: Literal["sampling", "analytic"] = "sampling",
        n_samples: int = 8,
        dropout: float = 0.0,
        n_prediction_samples: int = 128,
        n_importance: int = 50,
        covariance: Literal["full", "diagonal"] = "full",
        beta_reg: float = 1.0,
        share_kernel: bool | Literal["auto"] = False,
        kl_annealing: int = 0,
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        n_restarts: int = 1,
        normalize_X: bool = True,
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
        return embedding_recipe(
            self, MixingNetwork(self.dropout), Hidden(self.n_hidden, self.activation, 1)
        )
