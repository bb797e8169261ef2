"""Whitened variational posteriors q(v), v = Luu^-1 u, with prior N(0, I)."""

import math
from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from skgp.core.linalg import LOG_2PI, cholesky

Covariance = Literal["full", "diagonal", "delta"]

_PRECISION_JITTER = 1e-12  # identity plus a Gram matrix: rounding is all that needs a remedy


class Posterior(nn.Module, ABC):
    """q(v) of W GPs with M inducing variables each; `mu` is its mean (W, M)."""

    mu: nn.Parameter

    @abstractmethod
    def sqrt(self) -> Tensor | None:
        """Square root of the covariance: (W, M, M) lower, (W, M) if diagonal, None for a point."""

    @abstractmethod
    def kl(self) -> Tensor:
        """Divergence from the prior, summed over the W GPs, in nats."""

    @abstractmethod
    def start(self, information: Tensor, precision: Tensor) -> None:
        """Take the closest member of the family to N(H^-1 b, H^-1).

        b is the information vector (W, M), H the precision (W, M, M).
        """


class FullPosterior(Posterior):
    """N(mu, L L^T) with L lower triangular and a positive diagonal."""

    def __init__(self, mu: Tensor, variance: float) -> None:
        super().__init__()
        n_gps, n_inducing = mu.shape
        self.mu = nn.Parameter(mu)
        self.lower = nn.Parameter(mu.new_zeros(n_gps, n_inducing, n_inducing))
        self.log_diagonal = nn.Parameter(torch.full_like(mu, 0.5 * math.log(variance)))

    @torch.no_grad()
    def start(self, information: Tensor, precision: Tensor) -> None:
        self.mu.copy_(_solve(precision, information))
        sqrt = cholesky(torch.linalg.inv(precision), _PRECISION_JITTER).to(self.mu)
        self.lower.copy_(sqrt.tril(-1))
        self.log_diagonal.copy_(sqrt.diagonal(dim1=-2, dim2=-1).log())

    def sqrt(self) -> Tensor:
        return self.lower.tril(-1) + torch.diag_embed(self.log_diagonal.exp())

    def kl(self) -> Tensor:
        # KL(N(m, S) || N(0, I)) = 1/2 (tr S + m^T m - M - log|S|)
        trace = self.lower.tril(-1).square().sum() + self.log_diagonal.mul(2.0).exp().sum()
        log_det = 2.0 * self.log_diagonal.sum()
        return 0.5 * (trace + self.mu.square().sum() - self.mu.numel() - log_det)


class DiagonalPosterior(Posterior):
    """N(mu, diag(s^2))."""

    def __init__(self, mu: Tensor, variance: float) -> None:
        super().__init__()
        self.mu = nn.Parameter(mu)
        self.log_scale = nn.Parameter(torch.full_like(mu, 0.5 * math.log(variance)))

    @torch.no_grad()
    def start(self, information: Tensor, precision: Tensor) -> None:
        # KL(q || N(m, H^-1)) is least for the diagonal normal with the precisions of H.
        self.mu.copy_(_solve(precision, information))
        self.log_scale.copy_(precision.diagonal(dim1=-2, dim2=-1).log().mul(-0.5))

    def sqrt(self) -> Tensor:
        return self.log_scale.exp()

    def kl(self) -> Tensor:
        trace = self.log_scale.mul(2.0).exp().sum()
        log_det = 2.0 * self.log_scale.sum()
        return 0.5 * (trace + self.mu.square().sum() - self.mu.numel() - log_det)


class DeltaPosterior(Posterior):
    """A point: its divergence stands for -log p(v = mu), the regulariser of MAP and PPGPR-delta.

    The density is that of the whitened variable; in u it would differ by log|Kuu| / 2.
    """

    def __init__(self, mu: Tensor) -> None:
        super().__init__()
        self.mu = nn.Parameter(mu)

    @torch.no_grad()
    def start(self, information: Tensor, precision: Tensor) -> None:
        self.mu.copy_(_solve(precision, information))

    def sqrt(self) -> None:
        return None

    def kl(self) -> Tensor:
        return 0.5 * (self.mu.square().sum() + self.mu.numel() * LOG_2PI)


def _solve(precision: Tensor, information: Tensor) -> Tensor:
    L = cholesky(precision, _PRECISION_JITTER).to(information)
    return torch.cholesky_solve(information.unsqueeze(-1), L).squeeze(-1)


def make_posterior(covariance: Covariance, mu: Tensor, variance: float) -> Posterior:
    """Posterior with mean `mu` (W, M) and, unless it is a point, the initial variance given."""
    if covariance == "full":
        return FullPosterior(mu, variance)
    if covariance == "diagonal":
        return DiagonalPosterior(mu, variance)
    return DeltaPosterior(mu)
