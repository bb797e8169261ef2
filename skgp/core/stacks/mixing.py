"""Mixing matrices from hidden units to outputs: a posterior, a network of the inputs, or GPs."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from skgp.core.layers.divergences import kullback_leibler
from skgp.core.layers.layer import Latent
from skgp.core.layers.posteriors import DiagonalPosterior
from skgp.core.networks.features import half_squared_norm, tanh_network
from skgp.core.numerics.draws import make_generator

_START: Final = 0.01  # factor on the Glorot weights of a network's last layer


class MixingMoments(NamedTuple):
    """Moments of the independent entries of the mixing matrix M.

    Each has one of the shapes (P, H), (B, P, H) and (Q, B, P, H).

    Attributes
    ----------
    mean : Tensor
    var : Tensor or None
        None where the entries are certain.
    """

    mean: Tensor
    var: Tensor | None

    def draw(self, xi: Tensor) -> Tensor:
        """M = mean + sqrt(var) xi at standard normals (Q, B or 1, P H), or M if it is certain."""
        if self.var is None:
            return self.mean
        return self.mean + self.var.sqrt() * xi.unflatten(-1, self.mean.shape[-2:])


class Mixing(nn.Module, ABC):
    """The matrix M that makes P outputs of H hidden units.

    Attributes
    ----------
    n_latents : int
        Number of latent functions that are entries of M.
    """

    n_latents = 0

    @abstractmethod
    def forward(self, x: Tensor, latent: Latent) -> MixingMoments:
        """Moments of M at inputs x (B, D), given those of the functions that are its entries."""

    def divergence(self) -> Tensor | float:
        """Divergence of the posterior of M from its prior, in nats; that of GPs is the layer's.

        For weights that are points it is minus the log density of the prior, up to a constant.
        """
        return 0.0


class NormalMixing(Mixing):
    """The same M for all inputs, with a unit normal prior and a mean-field normal posterior.

    Parameters
    ----------
    mean : Tensor of shape (P, H)
        Initial mean.
    variance : float
        Initial variance.
    """

    def __init__(self, mean: Tensor, variance: float) -> None:
        super().__init__()
        self.posterior = DiagonalPosterior(mean, variance)

    def forward(self, x: Tensor, latent: Latent) -> MixingMoments:
        mean, scale = self.posterior.moments()
        return MixingMoments(mean, scale.square())

    def divergence(self) -> Tensor:
        return kullback_leibler(*self.posterior.moments())


class NetworkMixing(Mixing):
    """M(x) is a tanh network of the inputs (neural likelihoods, Eqns 4 and 6).

    All of its weights are points under a unit normal prior. In training each weight of the last
    layer may be dropped for each row (Wan et al. 2013), which leaves the entries of M independent:
    objectives that are quadratic in M need no more than their means and variances.

    Parameters
    ----------
    n_inputs : int
        Number D of inputs.
    sizes : sequence of int
        Widths of the hidden layers.
    start : Tensor of shape (P, H)
        Biases of the last layer, hence M(0) of a new network, from which M(x) differs little.
    seed : int
        Seeds the other weights.
    dropout : float in [0, 1)
        Probability with which a weight of the last layer is dropped; those that are kept are
        divided by one minus it.
    """

    dropout = 0.0  # of networks in files of earlier versions

    def __init__(
        self, n_inputs: int, sizes: Sequence[int], start: Tensor, seed: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.shape = start.shape
        self.dropout = dropout
        generator = make_generator(seed, "weights")
        self.network = tanh_network([n_inputs, *sizes, start.numel()], generator)
        *_, weight, bias = self.network.parameters()
        with torch.no_grad():
            weight.mul_(_START)
            bias.copy_(start.flatten())

    def forward(self, x: Tensor, latent: Latent) -> MixingMoments:
        last = self.network[-1]
        assert isinstance(last, nn.Linear)
        h = self.network[:-1](x)
        mean = last(h).unflatten(-1, self.shape)
        if not (self.training and self.dropout):
            return MixingMoments(mean, None)
        # W_jk z / (1 - p) with z ~ Bernoulli(1 - p) has the variance W_jk^2 p / (1 - p).
        var = self.dropout / (1.0 - self.dropout) * (h.square() @ last.weight.square().mT)
        return MixingMoments(mean, var.unflatten(-1, self.shape))

    def divergence(self) -> Tensor | float:
        return half_squared_norm(self.network)


class GPMixing(Mixing):
    """Each entry of M(x) is a GP (neural likelihoods, Eqn 2), row by row of M.

    Parameters
    ----------
    n_outputs, n_units : int
        Shape (P, H) of M.
    """

    def __init__(self, n_outputs: int, n_units: int) -> None:
        super().__init__()
        self.shape = n_outputs, n_units
        self.n_latents = n_outputs * n_units

    def forward(self, x: Tensor, latent: Latent) -> MixingMoments:
        return MixingMoments(*(m.unflatten(-1, self.shape) for m in (latent.f_mean, latent.f_var)))
