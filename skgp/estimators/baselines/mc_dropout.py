"""Monte Carlo dropout: passes of a network under several masks."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from skgp.estimators._entries import Deviation
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import Regressor
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.dropout import Dropout, build_dropout, masked_loss
from skgp.recipes.networks import Network, network_recipe


@family(n_samples=Deviation(default="50"), learning_rate_init=Deviation(default="0.01"))
class MCDropoutRegressor(Regressor):
    r"""Monte Carlo dropout: a network whose passes under several masks are one mixture.

    A dense ReLU network with dropout after each hidden layer is trained by minibatches, with an L2
    penalty on its parameters and one learned noise variance per output. Training with dropout fits
    an approximate posterior of the weights, and passes with dropout are samples from it (Gal and
    Ghahramani 2016).

    The masks of the passes are drawn once, when the model is built, and all rows share them. So a
    pass is one function, and a prediction does not depend on the other rows of the call. In
    training each row of a batch gets new masks; a repeated row therefore equals a row of weight two
    only on average.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=(100, 100)
        Widths of the hidden layers.
    dropout : float in [0, 1), default=0.1
        Probability with which a hidden unit is dropped in a pass.
    n_samples : int, default=50
        Number S of passes. The cost of a prediction is proportional to it.
    $max_iter
    $random_state

    Model
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
        Network, masks, likelihood and scales.

    Raises
    ------
    $raises

    See Also
    --------
    skgp.PPGPRRegressor : Calibrated where the noise varies with the inputs.
    skgp.SVGPRegressor : A posterior of functions that knows where there are no data.

    Notes
    -----
    The fit maximises :math:`\sum_i \log \mathcal{N}(y_i \mid f(x_i), \sigma^2)` under dropout, less
    the penalty. With the passes :math:`f_s` the predictive density is [1]_

    .. math::

        p(y \mid x) = \frac{1}{S} \sum_{s=1}^{S} \mathcal{N}\left(y \mid f_s(x), \sigma^2\right) .

    References
    ----------
    .. [1] Y. Gal and Z. Ghahramani, Dropout as a Bayesian Approximation: Representing Model
        Uncertainty in Deep Learning, ICML 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp.estimators.baselines import MCDropoutRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
    >>> model = MCDropoutRegressor(max_iter=2000, random_state=0).fit(X, y)
    >>> model.predict_dist([[0.5]])
    NormalMixture(n_rows=1, n_outputs=1, n_components=50)
    >>> lower, upper = model.predict_interval([[0.5]], coverage=0.9)
    >>> print(lower[0] < np.sin(0.5) < upper[0])
    True
    """

    # Parameters that the constructor stores.
    weight_decay: float

    def __init__(
        self,
        *,
        hidden_layer_sizes: int | Sequence[int] = (100, 100),
        dropout: float = 0.1,
        n_samples: int = 50,
        max_iter: int | Literal["auto"] = "auto",
        random_state: Any = None,
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
        return network_recipe(
            self,
            build=partial(build_dropout, pick(Network, self), pick(Dropout, self)),
            loss=partial(masked_loss, self.weight_decay),
        )
