"""GP regression networks whose mixing matrix is a network of the inputs, plain and neural."""

from typing import Any, Literal

from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.features import FeatureExtractor
from skgp.estimators._entries import Deviation
from skgp.estimators._layer_choices import MIXING_DROPOUT
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe
from skgp.recipes.readout_recipes import readout_recipe
from skgp.recipes.readouts import Hidden, LatentUnits, MixingNetwork


@family(dropout=MIXING_DROPOUT)
class SBGPRNRegressor(GPRegressor):
    r"""GP regression network whose mixing matrix a neural network computes (SBGPRN).

    P outputs mix L latent GPs. The mixing matrix is a network of the inputs with two tanh layers of
    50 units, whose weights are points under unit normal priors. The fit maximises the evidence
    lower bound; missing outputs are left out of it. The predictive distribution of a row is normal,
    joint over its outputs.

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
    $dropout
    $readout_layer
    $share_kernel
    $features

    Training
    $minibatch
    $regressor

    $fitted_regressor

    See Also
    --------
    NeuralSBGPRNRegressor : Activations between latent functions and outputs.
    GPRNRegressor : M(x) consists of GPs.
    MOGPRegressor : M does not depend on the inputs.

    Notes
    -----
    The model is :math:`y = M(x) f(x) + \varepsilon` ([1]_, Eqn 4), with a P x L matrix M(x).

    $neural_likelihoods

    Examples
    --------
    Two outputs that mix one function with weights that depend on the input:

    >>> import numpy as np
    >>> from skgp import SBGPRNRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200, 1))
    >>> f = np.sin(3 * X)
    >>> Y = np.hstack([X * f, (1 - X) * f]) + 0.1 * rng.standard_normal((200, 2))
    >>> model = SBGPRNRegressor(n_inducing=20, max_iter=200, random_state=0).fit(X, Y)
    >>> print(model.predict([[0.5]]).round(1))
    [[0.5 0.5]]
    """

    # Parameters that the constructor stores.
    dropout: float

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
        dropout: float = 0.0,
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
        return readout_recipe(self, MixingNetwork(self.dropout), LatentUnits())


@family(
    texts={"hidden_rule": "P"},
    dropout=MIXING_DROPOUT,
    inference=Deviation(default='"sampling"'),
)
class NeuralSBGPRNRegressor(GPRegressor):
    r"""GP regression network with a neural likelihood (N-SBGPRN).

    A layer of H hidden units makes P outputs of L latent GPs, and a network of the inputs with two
    tanh layers of 50 units gives its output weights. The biases have unit normal priors and
    mean-field posteriors; W and the weights of the network are points under such priors. The fit
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
    $dropout
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
    SBGPRNRegressor : Without activations.
    NeuralMOGPRegressor : M does not depend on the inputs.

    Notes
    -----
    The model is ([1]_, Eqn 6)

    .. math::

        y = M(x) g\left(W f(x) + b\right) + \varepsilon ,

    with an H x L matrix W, a P x H matrix M(x) and an activation g.

    $neural_likelihoods

    Examples
    --------
    Two outputs that mix one function with weights that depend on the input:

    >>> import numpy as np
    >>> from skgp import NeuralSBGPRNRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200, 1))
    >>> f = np.sin(3 * X)
    >>> Y = np.hstack([X * f, (1 - X) * f]) + 0.1 * rng.standard_normal((200, 2))
    >>> model = NeuralSBGPRNRegressor(n_inducing=20, max_iter=300, random_state=0).fit(X, Y)
    >>> print(model.predict([[0.5]]).round(1))
    [[0.5 0.5]]
    """

    # Parameters that the constructor stores.
    n_hidden: int | None
    dropout: float
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
        activation: Literal["relu", "leaky_relu", "erf", "shifted_erf", "xerf"] = "leaky_relu",
        inference: Literal["sampling", "analytic"] = "sampling",
        n_samples: int = 32,
        dropout: float = 0.0,
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
        return readout_recipe(
            self, MixingNetwork(self.dropout), Hidden(self.n_hidden, self.activation, 1)
        )
