"""Conditional variational autoencoders: networks with a latent variable for each row."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal

from skgp.estimators._entries import Deviation
from skgp.estimators._parameters import family, store_parameters
from skgp.estimators._regressor import Regressor
from skgp.fitting.recipe import Recipe, pick
from skgp.recipes.networks import (
    LatentVariables,
    Network,
    autoencoder_loss,
    build_autoencoder,
    network_recipe,
)


@family(
    hidden_layer_sizes=Deviation(default="(50, 50)"),
    n_samples=Deviation(default="1"),
    n_prediction_samples=Deviation(default="100"),
    learning_rate_init=Deviation(default="0.01"),
)
class CVAERegressor(Regressor):
    """Conditional variational autoencoder: a network whose latent variable shapes the density.

    With z ~ N(0, I) for each row, y ~ N(f(x, z), noise): f is a dense tanh network, and there is
    one learned noise variance per output. A second network, the encoder, gives the approximate
    posterior q(z | x, y) = N(m, diag(s^2)), and training maximises the evidence lower bound
    sum_i E_q log N(y_i | f(x_i, z), noise) - beta_reg KL(q(z | x_i, y_i) || N(0, I)), with an L2
    penalty on the parameters of both networks (Sohn, Lee and Yan 2015).

    The predictive distribution of a row is 1 / S sum_s N(f(x, z_s), noise). Its nodes z_s are drawn
    from the prior once, when the model is built, and all rows share them. It may have several
    modes, but only through z: what the model does not know of f, far from the data, adds nothing.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=(50, 50)
        Widths of the hidden layers, in the encoder and in the decoder.
    latent_dim : int, default=1
        Number of latent variables of a row. One suffices for any density of one output; several
        outputs with noise of their own shapes need one each.
    n_samples : int, default=1
        Draws of z for each row of a training step.
    n_prediction_samples : int, default=100
        Number S of nodes of a prediction, a scrambled Sobol sequence.
    beta_reg : float, default=1.0
        Weight of the divergences KL(q(z) || p(z)). One gives the evidence lower bound.
    $weight_decay
    $minibatch
    $stopping
    $restarts
    $scales
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

    References
    ----------
    K. Sohn, H. Lee and X. Yan, Learning Structured Output Representation using Deep Conditional
    Generative Models, NIPS 2015.

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
        n_samples: int = 1,
        n_prediction_samples: int = 100,
        beta_reg: float = 1.0,
        weight_decay: float = 1e-4,
        max_iter: int | Literal["auto"] = "auto",
        batch_size: int = 1000,
        learning_rate_init: float = 0.01,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        n_restarts: int = 1,
        normalize_X: bool = True,
        normalize_y: bool = True,
        noise_floor: float = 1e-4,
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
        latent = pick(LatentVariables, self)
        return network_recipe(
            self,
            build=partial(build_autoencoder, pick(Network, self), latent),
            loss=partial(autoencoder_loss, self.weight_decay, latent.beta_reg),
        )
