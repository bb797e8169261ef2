"""Hidden units of a readout: the latent functions, or activations of their combinations."""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from skgp.core.layers.divergences import kullback_leibler
from skgp.core.layers.layer import Latent
from skgp.core.layers.posteriors import DiagonalPosterior
from skgp.core.networks.activations import Activation


class UnitMoments(NamedTuple):
    """Moments of H hidden units at each node and row.

    Attributes
    ----------
    mean : Tensor of shape (Q, B, H)
    cov : Tensor of shape (Q, B, H, H) or None
        None where the units are certain.
    """

    mean: Tensor
    cov: Tensor | None


class Units(nn.Module, ABC):
    """H hidden units that depend on L latent functions.

    Attributes
    ----------
    n_latents : int
        Number L of latent functions.
    n_noise : int
        Number of standard normals that a draw of the units needs for each node and row.
    is_linear : bool
        Whether units of normal latent functions are normal.
    """

    n_latents: int
    n_noise: int
    is_linear = True

    @abstractmethod
    def moments(self, latent: Latent) -> UnitMoments:
        """Moments of the units for the latent moments (Q, B, L), in closed form."""

    @abstractmethod
    def mean(self, latent: Latent) -> Tensor:
        """Means (Q, B, H) alone of `moments`."""

    @abstractmethod
    def sample(self, latent: Latent, xi: Tensor) -> UnitMoments:
        """Values of the units, which are certain, at standard normals xi (Q, B or 1, n_noise)."""

    def divergence(self) -> Tensor | float:
        """Divergence of the units' own posterior from its prior, in nats.

        For weights that are points it is minus the log density of the prior, up to a constant.
        """
        return 0.0  # most units have none


class IdentityUnits(Units):
    """The latent functions themselves.

    Parameters
    ----------
    n_latents : int
    """

    def __init__(self, n_latents: int) -> None:
        super().__init__()
        self.n_latents = self.n_noise = n_latents

    def moments(self, latent: Latent) -> UnitMoments:
        return UnitMoments(latent.f_mean, torch.diag_embed(latent.f_var))

    def mean(self, latent: Latent) -> Tensor:
        return latent.f_mean

    def sample(self, latent: Latent, xi: Tensor) -> UnitMoments:
        return UnitMoments(latent.draw(xi), None)


class NoisyUnits(Units):
    """The latent functions, each with a noise of its own (neural likelihoods, Eqn 2: GPRN).

    Parameters
    ----------
    n_latents : int
    noise_var : float
        Initial variance of each.
    """

    def __init__(self, n_latents: int, noise_var: float) -> None:
        super().__init__()
        self.n_latents = self.n_noise = n_latents
        start = torch.full((n_latents,), math.log(noise_var), dtype=torch.float32)
        self.log_noise = nn.Parameter(start)

    def moments(self, latent: Latent) -> UnitMoments:
        return UnitMoments(latent.f_mean, torch.diag_embed(self._noisy(latent).f_var))

    def mean(self, latent: Latent) -> Tensor:
        return latent.f_mean

    def sample(self, latent: Latent, xi: Tensor) -> UnitMoments:
        return UnitMoments(self._noisy(latent).draw(xi), None)

    def _noisy(self, latent: Latent) -> Latent:
        return latent._replace(v_prior=latent.v_prior + self.log_noise.exp())


class NeuralUnits(Units):
    """g(W f + b) of the neural likelihoods paper (Eqns 5 to 7), with biases of its appendix.

    The weights W are points under a unit normal prior; b has that prior and a mean-field posterior.

    Parameters
    ----------
    activation : Activation
    weight : Tensor of shape (H, L)
        Initial weights W.
    bias : Tensor of shape (H,)
        Initial means of the biases.
    variance : float
        Initial variance of the biases.
    """

    is_linear = False

    def __init__(
        self, activation: Activation, weight: Tensor, bias: Tensor, variance: float
    ) -> None:
        super().__init__()
        n_units, self.n_latents = weight.shape
        self.n_noise = self.n_latents + n_units
        self.activation = activation
        self.weight = nn.Parameter(weight)
        self.bias = DiagonalPosterior(bias.unsqueeze(0), variance)

    def moments(self, latent: Latent) -> UnitMoments:
        # a = W f + b is normal with mean W m + m_b and covariance W diag(v) W^T + diag(v_b).
        bias, bias_scale = self.bias.moments()
        mean = latent.f_mean @ self.weight.mT + bias
        cov = (self.weight * latent.f_var.unsqueeze(-2)) @ self.weight.mT
        cov = cov + torch.diag_embed(bias_scale.square())
        return UnitMoments(
            self.activation.mean(mean, cov.diagonal(dim1=-2, dim2=-1)),
            self.activation.covariance(mean, cov),
        )

    def mean(self, latent: Latent) -> Tensor:
        bias, bias_scale = self.bias.moments()
        mean = latent.f_mean @ self.weight.mT + bias
        var = latent.f_var @ self.weight.square().mT + bias_scale.square()
        return self.activation.mean(mean, var)

    def sample(self, latent: Latent, xi: Tensor) -> UnitMoments:
        xi_f, xi_b = xi[..., : self.n_latents], xi[..., self.n_latents :]
        bias, bias_scale = self.bias.moments()
        a = latent.draw(xi_f) @ self.weight.mT + bias + bias_scale * xi_b
        return UnitMoments(self.activation(a), None)

    def divergence(self) -> Tensor:
        return kullback_leibler(*self.bias.moments()) + 0.5 * self.weight.square().sum()
