"""Conditional variational autoencoders: networks with a latent variable for each row."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal

from skgp.estimators._entries import Deviation
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import Regressor
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.autoencoder import LatentVariables, autoencoder_loss, build_autoencoder
from skgp.recipes.networks import Network, network_recipe


@family(
    hidden_layer_sizes=Deviation(default="(50, 50)"),
    n_samples=Deviation(default="1"),
    n_prediction_samples=Deviation(default="100"),
    learning_rate_init=Deviation(default="0.01"),
)
class CVAERegressor(Regressor):
    r"""Conditional variational autoencoder: a network whose latent variable shapes the density.

    A dense tanh network maps the inputs and a latent variable of each row to the target, with one
    learned noise variance per output. A second network, the encoder, gives the approximate
    posterior of the latent variable, and training maximises the evidence lower bound with an L2
    penalty on the parameters of both networks.

    The predictive distribution of a row is a mixture of normals. Its nodes are drawn from the prior
    once, when the model is built, and all rows share them. It may have several modes, but only
    through the latent variable: far from the data, the uncertainty about the network adds nothing.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=(50, 50)
        Widths of the hidden layers, in the encoder and in the decoder.
    latent_dim : int, default=1
        Number of latent variables of a row. One suffices for any density of one output. Several
        outputs whose noise differs in shape need one each.
    beta_reg : float, default=1.0
        Weight of the divergences KL(q(z) || p(z)). One gives the evidence lower bound.
    $max_iter
    $random_state

    Model
    n_samples : int, default=1
        Number of samples of z for each row of a training step.
    n_prediction_samples : int, default=100
        Number S of nodes of a prediction, a scrambled Sobol sequence.
    $weight_decay

    Training
    $minibatch
    $early_stopping
    $stopping
    $restarts
    $scales
    $dtype
    $running

    Attributes
    ----------
    $record
    model_ : torch.nn.Module
        Networks, nodes, likelihood and scales.

    Raises
    ------
    $raises

    See Also
    --------
    MCDropoutRegressor : A network whose weights are uncertain, with one noise for all rows.
    skgp.DGPRegressor : A posterior of functions that knows where there are no data.

    Notes
    -----
    With :math:`z \sim \mathcal{N}(0, I)` and the encoder's :math:`q(z \mid x, y)`, a normal of
    diagonal covariance, the fit maximises [1]_

    .. math::

        \sum_{i=1}^{n} \mathrm{E}_q \left[ \log \mathcal{N}(y_i \mid f(x_i, z), \sigma^2) \right]
        - \beta_{\mathrm{reg}} \, \mathrm{KL}\left(q(z \mid x_i, y_i) \| \mathcal{N}(0, I)\right) .

    The predictive density is :math:`\frac{1}{S} \sum_s \mathcal{N}(y \mid f(x, z_s), \sigma^2)`.

    References
    ----------
    .. [1] K. Sohn, H. Lee and X. Yan, Learning Structured Output Representation using Deep
        Conditional Generative Models, NIPS 2015.

    Examples
    --------
    Targets of two branches, y = x and y = -x:

    >>> import numpy as np
    >>> from skgp.estimators.baselines import CVAERegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(1, 2, (300, 1))
    >>> y = X[:, 0] * rng.choice([-1, 1], 300) + 0.1 * rng.standard_normal(300)
    >>> model = CVAERegressor(random_state=0).fit(X, y)
    >>> dist = model.predict_dist([[1.5]])
    >>> dist
    NormalMixture(n_rows=1, n_outputs=1, n_components=100)
    >>> print(dist.pdf([-1.5]) > dist.pdf([0.0]), dist.pdf([1.5]) > dist.pdf([0.0]))
    [ True] [ True]
    """

    # Parameters that the constructor stores.
    weight_decay: float

    _changeable: ClassVar[frozenset[str]] = Regressor._changeable - {"beta_reg"}

    def __init__(
        self,
        *,
        hidden_layer_sizes: int | Sequence[int] = (50, 50),
        latent_dim: int = 1,
        beta_reg: float = 1.0,
        max_iter: int | Literal["auto"] = "auto",
        random_state: Any = None,
        n_samples: int = 1,
        n_prediction_samples: int = 100,
        weight_decay: float = 1e-4,
        batch_size: int = 1000,
        learning_rate_init: float = 0.01,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        warm_start: bool = False,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-4,
        dtype: Literal["auto", "float32", "float64"] = "auto",
        device: str = "cpu",
        checkpoint: Any = None,
        memory: Any = None,
        verbose: int = 0,
    ) -> None:
        store_parameters(self, locals())

    def _recipe(self) -> Recipe:
        latent = pick(LatentVariables, self)
        return network_recipe(
            self,
            build=partial(build_autoencoder, pick(Network, self), latent),
            loss=partial(autoencoder_loss, self.weight_decay, latent.beta_reg),
        )
