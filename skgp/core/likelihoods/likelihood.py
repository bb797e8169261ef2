"""The interface of likelihoods: terms of objectives, and predictive distributions."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from torch import Tensor, nn

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent

Term = Callable[[Any, Latent, Targets], Tensor]  # (Q, B), of the likelihoods that have it


class Predictive(NamedTuple):
    """Normal components of the predictive distribution, one for each node.

    Attributes
    ----------
    mean, var : Tensor of shape (Q, B, P)
        Moments of each output, noise included.
    cov : Tensor of shape (Q, B, P, P) or None
        Covariance over outputs; None where the outputs are independent given the node.
    """

    mean: Tensor
    var: Tensor
    cov: Tensor | None


class Likelihood(nn.Module, ABC):
    """Abstract base: expectations of p(y | f) over normal latent functions."""

    def at(self, step: int) -> Self:
        """The likelihood in a training step, with the draws of that step if it needs any."""
        return self

    @abstractmethod
    def expected_log_prob(self, latent: Latent, targets: Targets) -> Tensor:
        """E_q(f) log p(y | f), shape (Q, B): the data term of the ELBO (PPGPR paper, Eqn 6)."""

    @abstractmethod
    def log_marginal(self, latent: Latent, targets: Targets) -> Tensor:
        """log E_q(f) p(y | f), shape (Q, B): data term of PPGPR (Eqn 16), joint over outputs."""


def expected_log_prob(likelihood: Likelihood, latent: Latent, targets: Targets) -> Tensor:
    """E_q(f) log p(y | f), whatever the likelihood is."""
    return likelihood.expected_log_prob(latent, targets)


def log_marginal(likelihood: Likelihood, latent: Latent, targets: Targets) -> Tensor:
    """log E_q(f) p(y | f), whatever the likelihood is."""
    return likelihood.log_marginal(latent, targets)
