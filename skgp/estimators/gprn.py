"""Gaussian process regression networks."""

from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe
from skgp.recipes.readout_recipes import readout_recipe
from skgp.recipes.readouts import NOISY, gp_mixing


@family()
class GPRNRegressor(GPRegressor):
    r"""Gaussian process regression network (GPRN; Wilson, Knowles and Ghahramani 2012).

    P outputs mix L latent GPs, and all P L entries of the mixing matrix are GPs too. The latent
    functions have a kernel and a noise variance each. The entries of the matrix share one kernel
    and its inducing inputs, so one Cholesky factor serves them all. The fit maximises the evidence
    lower bound; missing outputs are left out of it. The predictive distribution of a row is a
    mixture of normals at `n_prediction_samples` fixed nodes of the latent functions, with the
    matrix integrated out. Means and variances are exact.

    Parameters
    ----------
    $n_latents_half
    $n_inducing
    $max_iter
    $early_stopping
    $random_state

    Model
    $kernel
    $readout
    $readout_nodes
    $readout_layer
    $share_kernel
    $features

    Training
    $minibatch
    $regressor

    $fitted_regressor

    See Also
    --------
    SBGPRNRegressor : M(x) is a network, which is faster.
    MOGPRegressor : M does not depend on the inputs.

    Notes
    -----
    The model is ([1]_, Eqn 2)

    .. math::

        y = M(x) f(x) + \varepsilon ,

    with noise in f as well, and a GP for each entry of the P x L matrix M(x).

    $neural_likelihoods

    Examples
    --------
    Two outputs that mix one function with weights that depend on the input:

    >>> import numpy as np
    >>> from skgp import GPRNRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200, 1))
    >>> f = np.sin(3 * X)
    >>> Y = np.hstack([X * f, (1 - X) * f]) + 0.1 * rng.standard_normal((200, 2))
    >>> model = GPRNRegressor(n_inducing=20, max_iter=300, random_state=0).fit(X, Y)
    >>> print(model.predict([[0.5]]).round(1))
    [[0.5 0.5]]
    """

    def __init__(
        self,
        *,
        n_latents: int | None = None,
        n_inducing: int = 300,
        max_iter: int | Literal["auto"] = "auto",
        early_stopping: bool = False,
        random_state: Any = None,
        kernel: KernelLike = "matern52",
        inference: Literal["sampling", "analytic"] = "analytic",
        n_samples: int = 32,
        n_prediction_samples: int = 128,
        covariance: Literal["full", "diagonal"] = "full",
        beta_reg: float = 1.0,
        kl_annealing: int = 0,
        share_kernel: bool | Literal["auto"] = False,
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
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
        return readout_recipe(self, gp_mixing, NOISY)
