"""Whitened variational posteriors q(v), v = Luu^-1 u, with prior N(0, I)."""

import math
from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from torch import Tensor, nn

from skgp.core.numerics.linalg import cholesky, half_tril
from skgp.core.numerics.triangular import triangular_inverse

Covariance = Literal["full", "diagonal", "delta", "natural"]

Moments = tuple[Tensor, Tensor | None]

_PRECISION_JITTER = 1e-12  # identity plus a Gram matrix: only rounding needs a remedy


class Posterior(nn.Module, ABC):
    """q(v) of W GPs with M inducing variables each."""

    @abstractmethod
    def moments(self) -> Moments:
        """Mean (W, M) and lower triangular square root of the covariance.

        The root is (W, M, M) with a positive diagonal, (W, M) if diagonal, None for a point.
        """

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
        L = cholesky(precision, _PRECISION_JITTER)
        self.mu.copy_(_solve(L, information))
        # Not torch.linalg.inv: several threads break LU factors of a batch (pytorch #142815).
        sqrt = cholesky(torch.cholesky_inverse(L), _PRECISION_JITTER).to(self.mu)
        self.lower.copy_(sqrt.tril(-1))
        self.log_diagonal.copy_(sqrt.diagonal(dim1=-2, dim2=-1).log())

    def moments(self) -> tuple[Tensor, Tensor]:
        return self.mu, self.lower.tril(-1) + torch.diag_embed(self.log_diagonal.exp())


class DiagonalPosterior(Posterior):
    """N(mu, diag(s^2))."""

    def __init__(self, mu: Tensor, variance: float) -> None:
        super().__init__()
        self.mu = nn.Parameter(mu)
        self.log_scale = nn.Parameter(torch.full_like(mu, 0.5 * math.log(variance)))

    @torch.no_grad()
    def start(self, information: Tensor, precision: Tensor) -> None:
        # KL(q || N(m, H^-1)) is least for the diagonal normal with the precisions of H.
        self.mu.copy_(_solve(cholesky(precision, _PRECISION_JITTER), information))
        self.log_scale.copy_(precision.diagonal(dim1=-2, dim2=-1).log().mul(-0.5))

    def moments(self) -> tuple[Tensor, Tensor]:
        return self.mu, self.log_scale.exp()


class CentredPosterior(Posterior):
    """N(0, diag(s^2)): inducing variables that serve the variance alone.

    Parameters
    ----------
    shape : (W, M)
    variance : float
        Initial s^2.
    """

    def __init__(self, shape: tuple[int, int], variance: float) -> None:
        super().__init__()
        start = torch.full(shape, 0.5 * math.log(variance), dtype=torch.float32)
        self.log_scale = nn.Parameter(start)

    def start(self, information: Tensor, precision: Tensor) -> None:
        """Keep the initial scale: the optimum is that of inducing variables with a mean."""

    def moments(self) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(self.log_scale), self.log_scale.exp()


class DeltaPosterior(Posterior):
    """A point: its divergence stands for -log p(v = mu), the regulariser of MAP and PPGPR-delta.

    The density is that of the whitened variable; in u it would differ by log|Kuu| / 2.
    """

    def __init__(self, mu: Tensor) -> None:
        super().__init__()
        self.mu = nn.Parameter(mu)

    @torch.no_grad()
    def start(self, information: Tensor, precision: Tensor) -> None:
        self.mu.copy_(_solve(cholesky(precision, _PRECISION_JITTER), information))

    def moments(self) -> tuple[Tensor, None]:
        return self.mu, None


class NaturalPosterior(Posterior):
    """N(P^-1 theta, P^-1) by its natural parameters theta and P.

    The gradients that reach `theta` and `precision` are those with respect to the expectation
    parameters eta = (m, S + m m^T). So a plain gradient step of length rho on the objective is a
    natural-gradient step: theta_1 += rho dL/d eta_1 and -P/2 += rho dL/d eta_2. For an objective
    that is quadratic in u the precision stays positive definite for every rho <= 1.
    """

    def __init__(self, mu: Tensor, variance: float) -> None:
        super().__init__()
        self.theta = nn.Parameter(mu / variance)
        eye = torch.eye(mu.shape[-1], dtype=mu.dtype, device=mu.device)
        self.precision = nn.Parameter((eye / variance).repeat(mu.shape[0], 1, 1))

    @torch.no_grad()
    def start(self, information: Tensor, precision: Tensor) -> None:
        self.theta.copy_(information)
        self.precision.copy_(precision)

    def moments(self) -> tuple[Tensor, Tensor]:
        mu, sqrt = _FromNatural.apply(self.theta, self.precision)
        return mu, sqrt

    @torch.no_grad()
    def step(self, length: float) -> None:
        """Step against the gradients by this length, unless q(v) would lose its covariance."""
        assert self.theta.grad is not None
        assert self.precision.grad is not None
        precision = self.precision - length * self.precision.grad
        _, info = torch.linalg.cholesky_ex(precision)
        if not bool(info.any()):
            self.precision.copy_(precision)
            self.theta.sub_(self.theta.grad, alpha=length)


class _FromNatural(torch.autograd.Function):
    """Mean and lower root R of the covariance, R R^T = P^-1, from theta and P.

    R = U^-T with P = U U^T, U upper triangular: the Cholesky factor with rows and columns reversed.
    """

    @staticmethod
    def forward(ctx: Any, theta: Tensor, precision: Tensor) -> tuple[Tensor, Tensor]:
        L = cholesky(precision.flip(-2, -1), _PRECISION_JITTER)
        U = L.flip(-2, -1)
        R = triangular_inverse(L).flip(-2, -1).mT.contiguous()
        mu = (R @ (R.mT @ theta.double().unsqueeze(-1))).squeeze(-1)
        U, R, mu = U.to(theta.dtype), R.to(theta.dtype), mu.to(theta.dtype)
        ctx.save_for_backward(U, R, mu)
        return mu, R

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor]:
        U, R, mu = ctx.saved_tensors
        d_mu, dR = grads
        # dS = R^-T Phi(R^T dR) R^-1 made symmetric, R^-1 = U^T (Murray 2016, Eqn 10)
        dS = U @ half_tril(R.mT @ dR) @ U.mT
        dS = 0.5 * (dS + dS.mT)
        # d eta_1 = dm - 2 dS m and d eta_2 = dS; P = -2 theta_2
        d_theta = d_mu - 2.0 * (dS @ mu.unsqueeze(-1)).squeeze(-1)
        return d_theta, -2.0 * dS


def _solve(L: Tensor, information: Tensor) -> Tensor:
    """H^-1 b of each GP by the Cholesky factors L (W, M, M) of H."""
    return torch.cholesky_solve(information.unsqueeze(-1), L.to(information)).squeeze(-1)


def make_posterior(covariance: Covariance, mu: Tensor, variance: float) -> Posterior:
    """Posterior with mean `mu` (W, M) and, unless it is a point, this initial variance."""
    if covariance == "full":
        return FullPosterior(mu, variance)
    if covariance == "diagonal":
        return DiagonalPosterior(mu, variance)
    if covariance == "natural":
        return NaturalPosterior(mu, variance)
    return DeltaPosterior(mu)
