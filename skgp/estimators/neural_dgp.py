"""Deep GPs with a neural likelihood."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from skgp.core.kernels.kernel import LayerKernels
from skgp.core.networks.activations import ACTIVATIONS
from skgp.core.networks.features import FeatureExtractor
from skgp.estimators._entries import Deviation, at_least
from skgp.estimators._layer_choices import LAYER_INDUCING
from skgp.estimators._model_groups import LAYER_KERNELS
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import GPRegressor
from skgp.fitting.recipe import Recipe
from skgp.recipes.readout_recipes import deep_readout_recipe
from skgp.recipes.readouts import Hidden, LatentUnits, normal_mixing


@family(
    texts={"most_steps": "2,000", "hidden_rule": "2 P"},
    kernel=LAYER_KERNELS,
    n_inducing=LAYER_INDUCING,
    width=Deviation(annotation="int | None", default="None", constraint=[at_least(1), None]),
    n_latents=Deviation(
        text="Number L' of top functions, at most P; three quarters of P, rounded up, if None."
    ),
    activation=replace(
        Deviation.choice(*ACTIVATIONS, "identity", default="erf"),
        text="""
        Activation g: max(0, a), max(0.35 a, a), erf(a), 1 + erf(a) or a erf(a). "identity" has no
        units and no biases: it is the paper's plain DGP.
        """,
    ),
    inference=Deviation(default='"sampling"'),
    n_samples=Deviation(default="10"),
)
class NeuralDGPRegressor(GPRegressor):
    r"""Deep GP regression with a neural likelihood (N-DGP).

    A layer of H hidden units makes P outputs of the top functions of a deep GP, as
    NeuralMOGPRegressor makes them of GPs. Hidden functions are sampled row by row, as in
    DGPRegressor. With activation="identity" it is the paper's plain DGP, whose mixing matrix has a
    prior and a normal posterior; in ``DGPRegressor(n_latents=L)`` the matrix is a point without a
    prior.

    Parameters
    ----------
    n_layers : int, default=2
        Number of GP layers, including the output layer. One layer is NeuralMOGPRegressor.
    width : int, optional
        Number L of functions of each hidden layer. None takes half of P, rounded up.
    n_inducing : int or list of int, default=300
        Number M of inducing inputs of each GP, initialised by k-means; the cost per row and sample
        grows with M^2. A list has a number for each layer of GPs, from the inputs upwards.
    $max_iter
    $random_state

    Model
    $kernel
    $n_latents_half
    $hidden_units
    $readout
    $readout_nodes
    covariance : {"full", "diagonal"}, default="full"
        Covariance of q(u), in all layers.
    beta_reg : float, default=1.0
        Weight of all divergences. One gives the evidence lower bound.
    $kl_annealing
    $hidden
    $share_kernel
    $features

    Training
    $minibatch
    $early_stopping
    $regressor

    $fitted_regressor

    See Also
    --------
    NeuralMOGPRegressor : One layer.
    DGPRegressor : Without activations.

    Notes
    -----
    The model is ([1]_, Eqn 7)

    .. math::

        y = M g\left(W f(x) + b\right) + \varepsilon , \qquad
        M_{ph}, b_h \sim \mathcal{N}(0, 1) ,

    with a deep GP f, a matrix W of H rows, a P x H matrix M and an activation g. With
    activation="identity" it is :math:`y = M f(x) + \varepsilon`.

    $neural_likelihoods

    Examples
    --------
    Three outputs that jump together:

    >>> import numpy as np
    >>> from skgp import NeuralDGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200, 1))
    >>> Y = np.sign(X) * [1.0, -1.0, 2.0] + 0.1 * rng.standard_normal((200, 3))
    >>> model = NeuralDGPRegressor(n_inducing=20, max_iter=400, random_state=0).fit(X, Y)
    >>> print(model.predict([[0.5]]).round())
    [[ 1. -1.  2.]]
    """

    # Parameters that the constructor stores.
    n_hidden: int | None
    activation: str

    def __init__(
        self,
        *,
        n_layers: int = 2,
        width: int | None = None,
        n_inducing: int | Sequence[int] = 300,
        max_iter: int | Literal["auto"] = "auto",
        random_state: Any = None,
        kernel: LayerKernels = "matern52",
        n_latents: int | None = None,
        n_hidden: int | None = None,
        activation: Literal["relu", "leaky_relu", "erf", "shifted_erf", "xerf", "identity"] = "erf",
        inference: Literal["sampling", "analytic"] = "sampling",
        n_samples: int = 10,
        n_prediction_samples: int = 128,
        covariance: Literal["full", "diagonal"] = "full",
        beta_reg: float = 1.0,
        kl_annealing: int = 0,
        hidden_mean: Literal["linear", "identity", "concatenate"] = "linear",
        topology: Literal["feedforward", "skip-mean", "skip-mean-both", "skip-all"] = "feedforward",
        hidden_noise: bool = False,
        share_kernel: bool | Literal["auto"] = False,
        feature_extractor: FeatureExtractor | None = None,
        weight_decay: float = 1e-4,
        batch_size: int = 1000,
        learning_rate_init: float = 0.03,
        early_stopping: bool = False,
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
        units: LatentUnits | Hidden = Hidden(self.n_hidden, self.activation, 2)
        if self.activation == "identity":
            if self.n_hidden is not None:
                raise ValueError(
                    f"n_hidden={self.n_hidden} is for units, of which activation='identity' has "
                    "none: leave one of them out"
                )
            units = LatentUnits()
        return deep_readout_recipe(self, normal_mixing, units)
