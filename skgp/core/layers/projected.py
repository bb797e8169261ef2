"""Hidden sparse GPs that move their inputs along fixed directions."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from skgp.core.layers.sparse import Factors, SparseGP, draw_inducing
from skgp.core.numerics.linalg import correlated

_FUNCTIONS = 64  # draws of a layer for the rows of a batch


class ProjectedGP(nn.Module):
    """h -> h + f(h) P with W independent GPs f of one kernel: a linear model of coregionalisation.

    The kernel and the inducing inputs are common (importance-weighted paper, section 2.6).

    Parameters
    ----------
    layer : SparseGP
        The W GPs f over F inputs, which share a kernel.
    projection : Tensor of shape (W, F)
        P; fixed.
    """

    projection: Tensor

    def __init__(self, layer: SparseGP, projection: Tensor) -> None:
        super().__init__()
        assert layer.is_shared
        self.layer = layer
        self.register_buffer("projection", projection)

    def propagate(self, h: Tensor, xi: Tensor, factors: Factors) -> Tensor:
        """Values (Q, B, F) at h (Q or 1, B, F) and nodes xi (Q, 1, W)."""
        return h + self.layer.moments(h, factors).draw(xi) @ self.projection

    def draw(self, h: Tensor, factors: Factors, generator: torch.Generator) -> Tensor:
        """Values at h (S, K, B, F), joint over the K inputs that a row has in each of S draws.

        f_k = A_k^T v + e_k with one v ~ q(v) for each row and draw, and e ~ N(0, Kff - A^T A) over
        the K inputs: the moments of the conditional GP, at the cost of a K x K Cholesky factor.
        In a large batch a few rows share a v. The terms of the rows are summed, so no expectation
        changes, and the choice of the batch adds far more noise.
        """
        n_samples, n_inputs, n_rows, _ = h.shape
        n_sharing = math.ceil(n_rows / _FUNCTIONS)
        groups = pad(h.transpose(1, 2), (0, 0, 0, 0, 0, -n_rows % n_sharing)).flatten(0, 1)
        v = draw_inducing(len(groups) // n_sharing, factors, generator).movedim(0, -1)
        # A kernel is symmetric, and in this order the inputs of a row lie together.
        flat = groups.flatten(0, 1).unsqueeze(0)
        kernel, mean = self.layer.kernel, self.layer.mean
        Kfu = kernel.Kuf(flat, self.layer.Z.squeeze(0)).squeeze(0)
        Kff = kernel.Kff(groups).squeeze(0)
        drawn, unexplained = _Conditional.apply(Kfu, factors.L_inv.squeeze(0), v, Kff)
        zeta = _normal((len(groups), n_inputs, len(mean)), generator, h)
        rest = correlated(unexplained, zeta)
        f = mean + kernel.variance.sqrt() * (drawn + rest)
        f = f.unflatten(0, (n_samples, -1))[:, :n_rows].transpose(1, 2)
        return h + f @ self.projection


class _Conditional(torch.autograd.Function):
    """A^T v (G, K, W) and Kff - A^T A (G, K, K) at the K inputs of each of G rows.

    A^T = Kfu L_inv^T with Kfu (G K, M) and L_inv (M, M). Each of the draws v (n, M, W) serves G / n
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
        # Rounding can make variances negative. The gradient ignores the floor.
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


def _normal(shape: tuple[int, ...], generator: torch.Generator, like: Tensor) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=like.dtype).to(like.device)
