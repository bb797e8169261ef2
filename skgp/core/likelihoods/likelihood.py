"""The interface of likelihoods: terms of objectives, and predictive distributions."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.distributions import NormalMixture

Term = Callable[[Any, Latent, Targets], Tensor]  # (Q, B), of the likelihoods that have it


class Predictive(NamedTuple):
    """Normal components of the predictive distribution: one for each node, or K of them.

    Attributes
    ----------
    mean, var : Tensor of shape (Q K, B, P)
        Moments of each output, noise included; those of a node follow each other.
    cov : Tensor of shape (Q, B, P, P) or None
        Covariance over outputs; None where the outputs are independent given the component.
    log_share : Tensor of shape (K,) or None
        Logs of the parts into which each node's weight is divided; None if K is one.
    """

    mean: Tensor
    var: Tensor
    cov: Tensor | None
    log_share: Tensor | None = None

    def marginals(self) -> "Predictive":
        """The same of each output by itself, without their covariance."""
        return self._replace(cov=None)

    def log_weights(self, log_omega: Tensor) -> Tensor:
        """Log-weights (Q K,) of the components, from those of the nodes (Q,)."""
        if self.log_share is None:
            return log_omega
        return (log_omega.unsqueeze(-1) + self.log_share).flatten()


class Likelihood(nn.Module, ABC):
    """Abstract base: expectations of p(y | f) over normal latent functions.

    Attributes
    ----------
    looks_at_numbers : bool
        Whether what it does depends on the values of the targets, which a CUDA graph cannot do.
    """

    looks_at_numbers = False

    def at(self, step: int) -> Self:
        """The likelihood in a training step, with the draws of that step if it needs any."""
        return self

    @abstractmethod
    def expected_log_prob(self, latent: Latent, targets: Targets) -> Tensor:
        """E_q(f) log p(y | f), shape (Q, B): the data term of the ELBO (PPGPR paper, Eqn 6)."""

    @abstractmethod
    def log_marginal(self, latent: Latent, targets: Targets) -> Tensor:
        """log E_q(f) p(y | f), shape (Q, B): data term of PPGPR (Eqn 17), joint over outputs."""


class Observation(Likelihood):
    """Abstract base: the likelihood of real targets, which are noisy values of functions."""

    @abstractmethod
    def predictive(self, latent: Latent) -> Predictive:
        """Distribution of y for each node, noise included, or of what `observed` makes y of."""

    def noiseless(self, latent: Latent) -> Predictive:
        """Distribution of the noiseless outputs for each node: of the first function."""
        floor = torch.finfo(latent.f_mean.dtype).eps  # keeps it proper where f is certain
        return Predictive(latent.f_mean[..., :1], latent.f_var[..., :1] + floor, None)

    def observed(self, dist: NormalMixture) -> Any:
        """Distribution of y in its units, of that of `predictive` in these units."""
        return dist

    def parameters_in(self, unit: float) -> dict[str, float]:
        """What was learned, by name, in a unit of the targets."""
        return {}


def expected_log_prob(likelihood: Likelihood, latent: Latent, targets: Targets) -> Tensor:
    """E_q(f) log p(y | f), whatever the likelihood is."""
    return likelihood.expected_log_prob(latent, targets)


def log_marginal(likelihood: Likelihood, latent: Latent, targets: Targets) -> Tensor:
    """log E_q(f) p(y | f), whatever the likelihood is."""
    return likelihood.log_marginal(latent, targets)
