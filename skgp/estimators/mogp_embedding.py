"""Latent-input versions of the multi-output GPs, plain and neural."""

from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.estimators._embedding import Embedding
from skgp.estimators._entries import Deviation
from skgp.estimators._parameters import family, store_parameters
from skgp.fitting.recipe import Recipe
from skgp.recipes.readout_recipes import embedding_recipe
from skgp.recipes.readouts import Hidden, LatentUnits, normal_mixing


@family(
    texts={"least_steps": "1,000"},
    n_samples=Deviation(default="8"),
    n_prediction_samples=Deviation(default="32"),
)
class MOGPEmbedding(Embedding):
    r"""Embedding by a multi-output GP with latent inputs (MOGP).

    A Bayesian GP latent variable model: the P columns mix L latent GPs of C inputs that nobody
    observed. The entries of the mixing matrix have unit normal priors and a mean-field posterior.

    $latent

    Parameters
    ----------
    $embedding
    $max_iter
    $random_state

    Model
    $latent_kernel
    $readout
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
    NeuralMOGPEmbedding : Activations between latent functions and columns.
    MOGPRegressor : The same model with inputs that are known.

    Notes
    -----
    The model of a row is :math:`y = M f(x) + \varepsilon` ([1]_, Eqn 1), with a P x L matrix M.

    The latent inputs have the prior :math:`x \sim \mathcal{N}(0, I)` ([1]_, Eqn 8). The fit
    maximises

    .. math::

        \sum_{i=1}^{n} \left( \mathrm{E}_q \left[ \log p(y_i \mid x_i) \right]
        - \mathrm{KL}(q(x_i) \| p(x_i)) \right)
        - \beta_{\mathrm{reg}} \sum \mathrm{KL} ,

    where the last sum has the divergences of q(u) and of the readout's posteriors.

    $neural_likelihoods

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import MOGPEmbedding
    >>> t = np.linspace(0, 5, 100)
    >>> X = np.column_stack([np.sin(t), np.cos(t), t])
    >>> X += 0.05 * np.random.default_rng(0).standard_normal(X.shape)
    >>> model = MOGPEmbedding(1, n_latents=3, max_iter=1000, random_state=0).fit(X)
    >>> bool(np.abs(model.inverse_transform(model.embedding_) - X).max() < 0.2)
    True
    """

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
        n_prediction_samples: int = 32,
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
        return embedding_recipe(self, normal_mixing, LatentUnits())


@family(
    texts={"least_steps": "1,000", "hidden_rule": "2 P"},
    inference=Deviation(default='"sampling"'),
    n_samples=Deviation(default="8"),
)
class NeuralMOGPEmbedding(Embedding):
    r"""Embedding by a neural multi-output GP with latent inputs (N-MOGP).

    A layer of H hidden units makes the P columns of L latent GPs of C inputs that nobody observed.
    The output weights and the biases have unit normal priors and mean-field posteriors; the
    weights between the GPs and the units are points under such a prior.

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
    MOGPEmbedding : Without activations.
    NeuralSBGPRNEmbedding : M depends on the latent inputs.
    NeuralMOGPRegressor : The same model with inputs that are known.

    Notes
    -----
    The model of a row is :math:`y = M g(W f(x) + b) + \varepsilon` ([1]_, Eqn 5), with an H x L
    matrix W, a P x H matrix M and an activation g.

    The latent inputs have the prior :math:`x \sim \mathcal{N}(0, I)` ([1]_, Eqn 8). The fit
    maximises

    .. math::

        \sum_{i=1}^{n} \left( \mathrm{E}_q \left[ \log p(y_i \mid x_i) \right]
        - \mathrm{KL}(q(x_i) \| p(x_i)) \right)
        - \beta_{\mathrm{reg}} \sum \mathrm{KL} ,

    where the last sum has the divergences of q(u) and of the readout's posteriors.

    $neural_likelihoods

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skgp import NeuralMOGPEmbedding
    >>> X, _ = load_iris(return_X_y=True)
    >>> model = NeuralMOGPEmbedding(n_inducing=20, max_iter=100, random_state=0)
    >>> model.fit_transform(X).shape  # posterior means of two latent inputs for each row
    (150, 2)
    """

    # Parameters that the constructor stores.
    n_hidden: int | None
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
        return embedding_recipe(self, normal_mixing, Hidden(self.n_hidden, self.activation, 2))
