"""Multi-output GPs whose mixing matrix does not depend on the inputs, plain and neural."""

from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.estimators._entries import Deviation
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe
from skgp.recipes.readout_recipes import readout_recipe
from skgp.recipes.readouts import Hidden, LatentUnits, normal_mixing


@family(n_prediction_samples=Deviation(default="32"))
class MOGPRegressor(GPRegressor):
    r"""Multi-output GP regression by a linear model of coregionalisation (MOGP).

    Each of P outputs mixes the same L latent GPs. The entries of the mixing matrix have unit normal
    priors and a mean-field posterior, which is always integrated out. The fit maximises the
    evidence lower bound; missing outputs are left out of it. The predictive distribution of a row
    is a mixture of normals, joint over its outputs, at `n_prediction_samples` fixed values of the
    mixing matrix; the latent functions are integrated out. Means and variances are exact.

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
    NeuralMOGPRegressor : Activations between latent functions and outputs.
    SVGPRegressor : A mixing matrix that is a point, and normal predictions.

    Notes
    -----
    The model is ([1]_, Eqn 1)

    .. math::

        y = M f(x) + \varepsilon , \qquad M_{pl} \sim \mathcal{N}(0, 1) ,

    with a P x L matrix M, and the fit maximises

    .. math::

        \sum_{i=1}^{n} \mathrm{E}_{q(f_i) q(M)} \left[ \log p(y_i \mid M f_i) \right]
        - \beta_{\mathrm{reg}} \left( \mathrm{KL}(q(u) \| p(u))
        + \mathrm{KL}(q(M) \| p(M)) \right) .

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
        n_latents: int | None = None,
        n_inducing: int = 300,
        max_iter: int | Literal["auto"] = "auto",
        early_stopping: bool = False,
        random_state: Any = None,
        kernel: KernelLike = "matern52",
        inference: Literal["sampling", "analytic"] = "analytic",
        n_samples: int = 32,
        n_prediction_samples: int = 32,
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
        return readout_recipe(self, normal_mixing, LatentUnits())


@family(
    texts={"hidden_rule": "2 P"},
    activation=Deviation(default='"shifted_erf"'),
    inference=Deviation(default='"sampling"'),
)
class NeuralMOGPRegressor(GPRegressor):
    r"""Multi-output GP regression with a neural likelihood (N-MOGP).

    A layer of H hidden units makes P outputs of L latent GPs, so that outputs need not be linear
    combinations of them. The output weights M and the biases b have unit normal priors and
    mean-field posteriors, and M is always integrated out; W is a point under such a prior. The fit
    maximises the evidence lower bound; missing outputs are left out of it. The predictive
    distribution of a row is a mixture of normals at `n_prediction_samples` fixed nodes of the
    latent functions and biases, which its outputs share.

    Parameters
    ----------
    $n_latents_half
    $n_inducing
    $max_iter
    $early_stopping
    $random_state

    Model
    $kernel
    $hidden_units
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
    MOGPRegressor : Without activations.
    NeuralSBGPRNRegressor : M depends on the inputs.
    NeuralDGPRegressor : With a deep GP in the place of the latent GPs.

    Notes
    -----
    The model is ([1]_, Eqn 5)

    .. math::

        y = M g\left(W f(x) + b\right) + \varepsilon , \qquad
        M_{ph}, b_h \sim \mathcal{N}(0, 1) ,

    with an H x L matrix W, a P x H matrix M and an activation g. The fit maximises

    .. math::

        \sum_{i=1}^{n} \mathrm{E}_q \left[ \log p(y_i \mid M g(W f_i + b)) \right]
        - \beta_{\mathrm{reg}} \sum \mathrm{KL}

    with the divergences of q(u), q(M) and q(b), and -log p(W) for the point W. With
    inference="analytic" the expectation has a closed form (Eqns 10 to 20), else it is sampled.

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
        n_latents: int | None = None,
        n_inducing: int = 300,
        max_iter: int | Literal["auto"] = "auto",
        early_stopping: bool = False,
        random_state: Any = None,
        kernel: KernelLike = "matern52",
        n_hidden: int | None = None,
        activation: Literal["relu", "leaky_relu", "erf", "shifted_erf", "xerf"] = "shifted_erf",
        inference: Literal["sampling", "analytic"] = "sampling",
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
        return readout_recipe(self, normal_mixing, Hidden(self.n_hidden, self.activation, 2))
