"""Sparse GPs that share a kernel, and hidden ones that move their inputs along fixed directions."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from skgp.core.kernels import Kernel
from skgp.core.layers import Factors, SparseLayer, make_factors
from skgp.core.linalg import correlated, inverse_cholesky
from skgp.core.variational import Posterior

_FUNCTIONS = 64  # draws of a layer for the rows of a batch


class SharedGP(SparseLayer):
    """W independent GPs of one kernel, which have their inducing inputs in common.

    One Cholesky factor and one whitened block A serve all W.

    Parameters
    ----------
    kernel : Kernel
        Of one GP.
    Z : Tensor of shape (1, M, F)
        Initial inducing inputs.
    posterior : Posterior
        q(v) of the W GPs.
    mean : Tensor of shape (W,)
        Initial constants of the prior means.
    jitter : float
    """

    def __init__(
        self, kernel: Kernel, Z: Tensor, posterior: Posterior, mean: Tensor, jitter: float
    ) -> None:
        super().__init__(kernel, jitter)
        self.mean = nn.Parameter(mean)
        self.Z = nn.Parameter(Z)
        self.posterior = posterior

    @property
    def mean_inputs(self) -> Tensor:
        return self.Z

    def start(self, information: Tensor, precision: Tensor) -> None:
        self.posterior.start(information, precision)

    def factors(self) -> Factors:
        L_inv = inverse_cholesky(self.kernel.Kuu(self.Z), self.jitter)
        q_mu, q_sqrt = self.posterior.moments()
        return make_factors(L_inv, q_mu, q_sqrt, q_mu, None)

    def chunk_moments(self, x: Tensor, factors: Factors) -> tuple[Tensor, Tensor, Tensor]:
        A = (factors.L_inv @ self.kernel.Kuf(self.Z, x)).squeeze(0)
        if factors.q_cov.dim() == 3:
            q: Tensor = _SharedForm.apply(A, factors.q_cov)
        else:
            q = factors.q_cov @ A.square()
        return factors.column_weights @ A, A.square().sum(-2, keepdim=True), q

    def kl(self, factors: Factors) -> Tensor:
        return self.posterior.kl(factors.q_mu, factors.q_sqrt)


class ProjectedGP(SharedGP):
    """h -> h + f(h) P with W independent GPs f of one kernel: a linear model of coregionalisation.

    The kernel and the inducing inputs are common (importance-weighted paper, section 2.6).

    Parameters
    ----------
    kernel : Kernel
        Of one GP.
    Z : Tensor of shape (1, M, F)
        Initial inducing inputs.
    posterior : Posterior
        q(v) of the W GPs.
    projection : Tensor of shape (W, F)
        P; fixed.
    jitter : float
    """

    projection: Tensor

    def __init__(
        self, kernel: Kernel, Z: Tensor, posterior: Posterior, projection: Tensor, jitter: float
    ) -> None:
        mean = torch.zeros(len(projection), dtype=torch.float32)
        super().__init__(kernel, Z, posterior, mean, jitter)
        self.register_buffer("projection", projection)

    def propagate(self, h: Tensor, xi: Tensor, factors: Factors) -> Tensor:
        """Values (Q, B, F) at h (Q or 1, B, F) and nodes xi (Q, 1, W)."""
        return h + self.moments(h, factors).draw(xi) @ self.projection

    def draw(self, h: Tensor, factors: Factors, generator: torch.Generator) -> Tensor:
        """Values at h (S, K, B, F), joint over the K inputs that a row has in each of S draws.

        f_k = A_k^T v + e_k with one v ~ q(v) for each row and draw, and e ~ N(0, Kff - A^T A) over
        the K inputs: the moments of the conditional GP, at the cost of a K x K Cholesky factor.
        Rows of a large batch share their v with a few others: terms of rows are summed, so that
        this changes no expectation, and it adds little to the noise of rows that batches make.
        """
        n_samples, n_inputs, n_rows, _ = h.shape
        n_sharing = math.ceil(n_rows / _FUNCTIONS)
        groups = pad(h.transpose(1, 2), (0, 0, 0, 0, 0, -n_rows % n_sharing)).flatten(0, 1)
        v = self._draw_inducing(len(groups) // n_sharing, factors, generator)
        # A kernel is symmetric, and in this order the inputs of a row lie together.
        flat = groups.flatten(0, 1).unsqueeze(0)
        Kfu = self.kernel.Kuf(flat, self.Z.squeeze(0)).squeeze(0)
        Kff = self.kernel.Kff(groups).squeeze(0)
        drawn, unexplained = _Conditional.apply(Kfu, factors.L_inv.squeeze(0), v, Kff)
        zeta = _normal((len(groups), n_inputs, len(self.mean)), generator, h)
        rest = correlated(unexplained, zeta)
        f = self.mean + self.kernel.variance.sqrt() * (drawn + rest)
        f = f.unflatten(0, (n_samples, -1))[:, :n_rows].transpose(1, 2)
        return h + f @ self.projection

    def _draw_inducing(self, n: int, factors: Factors, generator: torch.Generator) -> Tensor:
        """Draws (n, M, W) from q(v)."""
        epsilon = _normal((len(self.mean), n, factors.q_mu.shape[-1]), generator, factors.q_mu)
        assert factors.q_sqrt is not None
        if factors.q_sqrt.dim() == 3:
            blurred = epsilon @ factors.q_sqrt.mT
        else:
            blurred = epsilon * factors.q_sqrt.unsqueeze(-2)
        return (factors.q_mu.unsqueeze(-2) + blurred).movedim(0, -1)


class _Conditional(torch.autograd.Function):
    """A^T v (G, K, W) and Kff - A^T A (G, K, K) at the K inputs of each of G rows.

    A^T = Kfu L_inv^T with Kfu (G K, M) and L_inv (M, M). Of the draws v (n, M, W) each serves G / n
    rows.
    """

    @staticmethod
    def forward(
        ctx: Any, Kfu: Tensor, L_inv: Tensor, v: Tensor, Kff: Tensor
    ) -> tuple[Tensor, Tensor]:
        A = Kfu @ L_inv.mT
        of_rows = A.view(*Kff.shape[:2], -1)
        f = A.view(len(v), -1, A.shape[-1]) @ v
        unexplained = torch.baddbmm(Kff, of_rows, of_rows.mT, alpha=-1.0)
        # Rounding can make variances negative. The gradient takes no notice.
        diagonal = unexplained.diagonal(dim1=-2, dim2=-1)
        diagonal.clamp_min_(8.0 * torch.finfo(A.dtype).eps)
        ctx.save_for_backward(Kfu, L_inv, v, A)
        return f.view(*Kff.shape[:2], -1), unexplained

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        Kfu, L_inv, v, A = ctx.saved_tensors
        d_f, d_rest = grads
        # dA^T = df v^T - (dC + dC^T) A^T, C = Kff - A^T A
        d_f = d_f.reshape(len(v), -1, v.shape[-1])
        dA = (d_f @ v.mT).view(*d_rest.shape[:2], -1)
        dA.baddbmm_(d_rest + d_rest.mT, A.view_as(dA), alpha=-1.0)
        dv = A.view(len(v), -1, A.shape[-1]).mT @ d_f
        dA = dA.flatten(0, 1)
        return dA @ L_inv, (dA.mT @ Kfu).tril_(), dv, d_rest


class _SharedForm(torch.autograd.Function):
    """a^T S a (W, N) for the columns a of A (M, N) and each symmetric S of (W, M, M).

    One product S A serves the value and the gradient, and each product is one of large matrices.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, S: Tensor) -> Tensor:
        SA = (S.flatten(0, 1) @ A).unflatten(0, S.shape[:2])
        ctx.save_for_backward(A, SA)
        return (SA * A).sum(-2).clamp_(min=0.0)  # rounding can make it negative

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor]:
        A, SA = ctx.saved_tensors
        d_q = grads[0].unsqueeze(-2)
        # dA = 2 sum_w S_w A d_q_w;  dS_w = A diag(d_q_w) A^T
        dA = (SA * d_q).sum(0).mul_(2.0)
        dS = ((A * d_q).flatten(0, 1) @ A.mT).unflatten(0, SA.shape[:2])
        return dA, dS


def _normal(shape: tuple[int, ...], generator: torch.Generator, like: Tensor) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=like.dtype).to(like.device)
