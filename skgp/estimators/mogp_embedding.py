"""Latent-input versions of the multi-output GPs, plain and neural."""

from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.estimators._embedding import Embedding
from skgp.estimators._entries import Deviation
from skgp.estimators._layer_choices import OWN_KERNELS
from skgp.estimators._parameters import family, store_parameters
from skgp.fitting.recipe import Recipe
from skgp.recipes.readout_recipes import embedding_recipe
from skgp.recipes.readouts import Hidden, Identity, normal_mixing


@family(
    texts={"least_steps": "1,000"},
    share_kernel=OWN_KERNELS,
    n_samples=Deviation(default="8"),
)
class MOGPEmbedding(Embedding):
    """Embedding of a table by a multi-output GP with latent inputs (MOGP).

    Each row of a table of P columns is y = M f(x) + e, where L latent GPs f have C inputs x that
    nobody observed (neural likelihoods paper, Eqns 1 and 8): a Bayesian GP latent variable model
    whose columns share functions. The entries of M have unit normal priors and a mean-field
    posterior.

    $latent

    Parameters
    ----------
    $embedding
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
    NeuralMOGPEmbedding : Activations between latent functions and columns.
    MOGPRegressor : The same model with inputs that are known.

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
        kernel: KernelLike = "rbf",
        n_latents: int | None = None,
        inference: Literal["sampling", "analytic"] = "analytic",
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
        return embedding_recipe(self, normal_mixing, Identity())


@family(
    texts={"least_steps": "1,000", "hidden_rule": "2 P"},
    share_kernel=OWN_KERNELS,
    inference=Deviation(default='"sampling"'),
    n_samples=Deviation(default="8"),
)
class NeuralMOGPEmbedding(Embedding):
    """Embedding of a table by a neural multi-output GP with latent inputs (N-MOGP).

    Each row of a table of P columns is y = M g(W f(x) + b) + e, where L latent GPs f have C inputs
    x that nobody observed and g is an activation of H hidden units (neural likelihoods paper, Eqns
    5 and 8). The entries of M and b have unit normal priors and mean-field posteriors, W is a point
    under such a prior.

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
    MOGPEmbedding : Without activations.
    NeuralSBGPRNEmbedding : M depends on the latent inputs.
    NeuralMOGPRegressor : The same model with inputs that are known.

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
        return embedding_recipe(self, normal_mixing, Hidden(self.n_hidden, self.activation, 2))
