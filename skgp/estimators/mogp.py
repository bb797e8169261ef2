"""Multi-output GPs whose mixing matrix does not depend on the inputs, plain and neural."""

from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.estimators._entries import Deviation
from skgp.estimators._layer_choices import OWN_KERNELS
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe
from skgp.recipes.readout_recipes import readout_recipe
from skgp.recipes.readouts import Hidden, Identity, normal_mixing


@family(share_kernel=OWN_KERNELS)
class MOGPRegressor(GPRegressor):
    """Multi-output GP regression by a linear model of coregionalisation (MOGP).

    Each of P outputs mixes the same L latent GPs, y = M f(x) + e (neural likelihoods paper, Eqn 1).
    The entries of M have unit normal priors and a mean-field posterior, which is always integrated
    out. The fit maximises the evidence lower bound, the sum over rows of E[log p(y | M f)] minus
    the divergences of q(u) and q(M); missing outputs are left out of it. A prediction is a mixture
    of normals at `n_prediction_samples` fixed nodes of the latent functions, which its outputs
    share.

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
    NeuralMOGPRegressor : Activations between latent functions and outputs.
    SVGPRegressor : A mixing matrix that is a point, and normal predictions.

    $neural_likelihoods

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import MOGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200, 1))
    >>> f = np.sin(3 * X)
    >>> Y = np.hstack([f, f**2, f + f**2]) + 0.1 * rng.standard_normal((200, 3))
    >>> model = MOGPRegressor(n_inducing=20, max_iter=200, random_state=0).fit(X, Y)
    >>> print(model.predict([[0.5]]).round(1))
    [[1. 1. 2.]]
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
        return readout_recipe(self, normal_mixing, Identity())


@family(
    texts={"hidden_rule": "2 P"},
    share_kernel=OWN_KERNELS,
    activation=Deviation(default='"shifted_erf"'),
    inference=Deviation(default='"sampling"'),
)
class NeuralMOGPRegressor(GPRegressor):
    """Multi-output GP regression with a neural likelihood (N-MOGP).

    P outputs are made of L latent GPs by a layer of H hidden units, y = M g(W f(x) + b) + e (neural
    likelihoods paper, Eqn 5). The entries of M and b have unit normal priors and mean-field
    posteriors, W is a point under such a prior; M is always integrated out. The fit maximises the
    evidence lower bound; missing outputs are left out of it. A prediction is a mixture of normals
    at `n_prediction_samples` fixed nodes of the latent functions and biases, which its outputs
    share.

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
    MOGPRegressor : Without activations.
    NeuralSBGPRNRegressor : M depends on the inputs.
    NeuralDGPRegressor : With a deep GP in the place of the latent GPs.

    $neural_likelihoods

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import NeuralMOGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200, 1))
    >>> f = np.sin(3 * X)
    >>> Y = np.hstack([f, f**2, f**3]) + 0.1 * rng.standard_normal((200, 3))
    >>> model = NeuralMOGPRegressor(n_inducing=20, max_iter=200, random_state=0).fit(X, Y)
    >>> print(model.predict([[0.5]]).round(1))
    [[1. 1. 1.]]
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
        activation: Literal["relu", "leaky_relu", "erf", "shifted_erf"] = "shifted_erf",
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
        return readout_recipe(self, normal_mixing, Hidden(self.n_hidden, self.activation, 2))
