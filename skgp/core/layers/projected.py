"""Hidden sparse GPs that move their inputs along fixed directions."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from skgp.core.layers.sparse import Factors, SparseGP, draw_inducing
from skgp.core.numerics.draws import DrawSource, normals
from skgp.core.numerics.linalg import correlated, interpolated

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

    def draw(
        self,
        h: Tensor,
        factors: Factors,
        generator: DrawSource,
        *,
        along_functions: bool = False,
    ) -> Tensor:
        """Values at h (S, K, B, F), joint over the K inputs that a row has in each of S draws.

        f_k = A_k^T v + e_k with one v ~ q(v) for each row and draw, and e ~ N(0, Kff - A^T A) over
        the K inputs: the moments of the conditional GP, at the cost of a K x K Cholesky factor.
        In a large batch a few rows share a v. The terms of the rows are summed, so no expectation
        changes, and the choice of the batch adds far more noise.

        The gradient of a value in the K inputs is that of the joint draw, by way of the Cholesky
        factor. With `along_functions` it is the slope of a function at its own input instead: the
        mean of that slope, given v and the K values. Both are unbiased, for as long as the values
        have the same weights at all K inputs.
        """
        n_samples, n_inputs, n_rows, _ = h.shape
        n_sharing = math.ceil(n_rows / _FUNCTIONS)
        groups = pad(h.transpose(1, 2), (0, 0, 0, 0, 0, -n_rows % n_sharing)).flatten(0, 1)
        v = draw_inducing(len(groups) // n_sharing, factors, generator).movedim(0, -1)
        kernel, mean = self.layer.kernel, self.layer.mean
        L_inv = factors.L_inv.squeeze(0)
        still = groups.detach() if along_functions else groups
        Kfu, Kff = self._inducing_covariance(still), kernel.Kff(still).squeeze(0)
        drawn, unexplained = _Conditional.apply(Kfu, L_inv, v, Kff)
        zeta = normals((len(groups), n_inputs, len(mean)), generator, h)
        rest = correlated(unexplained, zeta)
        if along_functions:
            # f(x) = A(x)^T v + C(x, X) C(X, X)^-1 e at inputs x that move away from X, where
            # C(x, X) = k(x, X) - A(x)^T A(X). The gradients of the kernel in the change cancel.
            A, A_still = (
                (K @ L_inv.tril().mT).view(*Kff.shape[:2], -1)
                for K in (self._inducing_covariance(groups), Kfu)
            )
            drawn = (A.view(len(v), -1, A.shape[-1]) @ v).view_as(drawn)
            both = kernel.Kff(torch.cat([groups, still], 1)).squeeze(0)
            change = both[:, :n_inputs, n_inputs:] - Kff - (A - A_still) @ A_still.detach().mT
            rest = rest + interpolated(change - change.detach(), unexplained, zeta)
        f = mean + kernel.variance.sqrt() * (drawn + rest)
        f = f.unflatten(0, (n_samples, -1))[:, :n_rows].transpose(1, 2)
        return h + f @ self.projection

    def _inducing_covariance(self, groups: Tensor) -> Tensor:
        """Kfu (G K, M) at the inputs (G, K, F) of all rows, those of a row together."""
        # A kernel is symmetric, and in this order the inputs of a row lie together.
        flat = groups.flatten(0, 1).unsqueeze(0)
        return self.layer.kernel.Kuf(flat, self.layer.Z.squeeze(0)).squeeze(0)


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
