"""Likelihoods of classes: what those for two classes and those for several have in common."""

from abc import abstractmethod

import torch
from torch import Tensor

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.likelihood import Likelihood


class ClassLikelihood(Likelihood):
    """Abstract base. Targets y (B, 1) are numbers of classes, 0 to C - 1.

    Parameters
    ----------
    n_classes : int
        Number C of classes, at least two.

    Attributes
    ----------
    start_scale : float
        Functions start as a least-squares fit to this value for rows of their class, and to minus
        this value for all others.
    """

    start_scale: float = 1.0

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.n_classes = n_classes

    @property
    @abstractmethod
    def n_latents(self) -> int:
        """Number W of latent functions."""

    @property
    def learned(self) -> dict[str, Tensor]:
        """What was learned, by name."""
        return {}

    def expected_log_prob(self, latent: Latent, targets: Targets) -> Tensor:
        return self.expected_log_class(latent, _codes(targets))

    def log_marginal(self, latent: Latent, targets: Targets) -> Tensor:
        return self.log_class(latent, _codes(targets))

    @abstractmethod
    def expected_log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        """E_q(f) log p(y = codes | f), shape (Q, B); codes (B,) are integers."""

    @abstractmethod
    def log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        """log E_q(f) p(y = codes | f), shape (Q, B); codes (B,) are integers."""

    def log_probabilities(self, latent: Latent) -> Tensor:
        """log E_q(f) p(y | f) of all classes, shape (Q, B, C); they sum to one for each row.

        The error of a quadrature is divided among the classes in proportion to their probabilities.
        """
        n_rows = latent.f_mean.shape[1]
        codes = torch.arange(self.n_classes, device=latent.f_mean.device)
        each = [self.log_class(latent, code.expand(n_rows)) for code in codes]
        return torch.stack(each, -1).log_softmax(-1)


def _codes(targets: Targets) -> Tensor:
    return targets.y[:, 0].long()
