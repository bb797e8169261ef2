"""The GP regression network with latent inputs."""

from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.estimators._embedding import Embedding
from skgp.estimators._entries import Deviation
from skgp.estimators._parameters import family, store_parameters
from skgp.fitting.recipe import Recipe
from skgp.recipes.readout_recipes import embedding_recipe
from skgp.recipes.readouts import NOISY, gp_mixing


@family(
    texts={"least_steps": "1,000"},
    n_samples=Deviation(default="8"),
)
class GPRNEmbedding(Embedding):
    r"""Embedding by a GP regression network with latent inputs (GPRN).

    The P columns mix L latent GPs of C inputs that nobody observed, and the entries of the mixing
    matrix are GPs of these inputs too, which share one kernel.

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
    SBGPRNEmbedding : M(x) is a network, which is faster.
    MOGPEmbedding : M does not depend on the latent inputs.
    GPRNRegressor : The same model with inputs that are known.

    Notes
    -----
    The model of a row is :math:`y = M(x) f(x) + \varepsilon` ([1]_, Eqn 2), with a P x L matrix
    M(x).

    The latent inputs have the prior :math:`x \sim \mathcal{N}(0, I)` ([1]_, Eqn 8). The fit
    maximises

    .. math::

        \sum_{i=1}^{n} \left( \mathrm{E}_q \left[ \log p(y_i \mid x_i) \right]
        - \mathrm{KL}(q(x_i) \| p(x_i)) \right)
        - \beta_{\mathrm{reg}} \sum \mathrm{KL} ,

    where the last sum has the divergences of q(u) and of the entries of the matrix.

    $neural_likelihoods
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
        return embedding_recipe(self, gp_mixing, NOISY)
