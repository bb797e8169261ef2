"""Ordered classes: the cumulative probit, with learned thresholds on one latent function."""

from typing import Final

import torch
from torch import Tensor, nn

from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.classes import ClassLikelihood
from skgp.core.numerics.normal import log_ndtr_difference, normal_rule

_LEAST_GAP: Final = 1e-3  # at the start
# The same of a class that no row has yet, but a later one may have: gaps are learned by their
# logarithms, and one that is next to nothing takes hundreds of steps to open.
_EMPTY_GAP: Final = 0.3
_FAR: Final = 1e9  # in the place of infinite thresholds


class Ordinal(ClassLikelihood):
    """p(y = c | f) = Phi(t_c - f) - Phi(t_(c-1) - f) for thresholds t_0 = 0 < t_1 < t_2 < ...

    With t_(-1) = -inf and t_(C-1) = inf (McCullagh 1980; Chu and Ghahramani 2005, Eqn 3). The prior
    mean of f is free, so the first threshold is zero; two classes are those of `Probit`.
    """

    def __init__(self, n_classes: int) -> None:
        super().__init__(n_classes)
        self.log_gaps = nn.Parameter(torch.zeros(n_classes - 2, dtype=torch.float32))

    @property
    def n_latents(self) -> int:
        return 1

    @property
    def thresholds(self) -> Tensor:
        """Thresholds (C - 1,), in ascending order from zero."""
        zero = self.log_gaps.new_zeros(1)
        return torch.cat([zero, self.log_gaps.exp().cumsum(0)])

    @property
    def learned(self) -> dict[str, Tensor]:
        return {"thresholds": self.thresholds}

    @torch.no_grad()
    def start(self, thresholds: Tensor) -> None:
        """Set the thresholds (C - 1,), up to a shift; equal ones are put apart."""
        gaps = thresholds.diff()
        gaps = torch.where(gaps > 0.0, gaps.clamp_min(_LEAST_GAP), _EMPTY_GAP)
        self.log_gaps.copy_(gaps.log())

    def expected_log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        z, log_w = (part[:, None, None] for part in normal_rule(latent.f_mean))
        f = latent.f_mean[..., 0] + latent.std[..., 0] * z
        lower, upper = self._ends(codes)
        return (log_w.exp() * log_ndtr_difference(lower - f, upper - f, upper - lower)).sum(0)

    def log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        # E Phi(t - f) = Phi((t - m) / sqrt(1 + v))
        mean, scale = latent.f_mean[..., 0], (1.0 + latent.f_var[..., 0]).sqrt()
        lower, upper = self._ends(codes)
        a, b, width = (x / scale for x in (lower - mean, upper - mean, upper - lower))
        return log_ndtr_difference(a, b, width)

    def _ends(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Thresholds below and above the classes (B,)."""
        thresholds = self.thresholds
        far = thresholds.new_full((1,), _FAR)
        ends = torch.cat([-far, thresholds, far])
        return ends[codes], ends[codes + 1]
