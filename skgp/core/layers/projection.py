"""Whitened kernel blocks A = L_inv Kuf, reduced column by column to what moments are made of.

Backward passes are written by hand. They keep almost nothing of size M x N.
"""

from typing import Any

import torch
from torch import Tensor

from skgp.core.numerics.elementwise import (
    EAGER,
    Passes,
    diagonal_moments,
    diagonal_slopes,
    full_moments,
    full_slopes,
)
from skgp.core.numerics.gradients import no_double_backward
from skgp.core.numerics.triangular import lower_outer, lower_product, upper_product


def project(
    Kuf: Tensor,
    L_inv: Tensor,
    E: Tensor,
    q_sqrt: Tensor | None,
    weights: Tensor,
    passes: Passes = EAGER,
) -> tuple[Tensor, Tensor, Tensor]:
    """For each GP, with R the root of the covariance of q: weights^T A, |A|^2 and |R^T A|^2.

    Parameters
    ----------
    Kuf : Tensor of shape (W, M, N)
    L_inv, E : Tensor of shape (W, M, M)
        Of `whitening`; gradients come by E.
    q_sqrt : Tensor of shape (W, M, M) or (W, M), or None
        R, lower triangular; its diagonal if that is all; None for zero.
    weights : Tensor of shape (W, M)
    passes : Passes
        How element-wise functions run.

    Returns
    -------
    mean, explained, q : Tensor of shape (W, N)
    """
    if q_sqrt is not None and q_sqrt.dim() == 3:
        mean, explained, q = _FullProjection.apply(Kuf, L_inv, E, q_sqrt, weights, passes)
    else:
        s = torch.zeros_like(weights) if q_sqrt is None else q_sqrt.square()
        mean, explained, q = _DiagonalProjection.apply(Kuf, L_inv, E, s, weights, passes)
    return mean, explained, q


def project_shared(
    Kuf: Tensor, L_inv: Tensor, q_cov: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same for W GPs that share a kernel and inducing inputs: one block A serves all of them.

    Parameters
    ----------
    Kuf : Tensor of shape (1, M, N)
    L_inv : Tensor of shape (1, M, M)
    q_cov : Tensor of shape (W, M, M) or (W, M)
    weights : Tensor of shape (W, M)

    Returns
    -------
    mean : Tensor of shape (W, N)
    explained : Tensor of shape (1, N)
    q : Tensor of shape (W, N)
    """
    A = (L_inv @ Kuf).squeeze(0)
    q: Tensor = _SharedForm.apply(A, q_cov) if q_cov.dim() == 3 else q_cov @ A.square()
    return weights @ A, A.square().sum(-2, keepdim=True), q


class _DiagonalProjection(torch.autograd.Function):
    """Moments for S = diag(s); the backward keeps A, nothing else of size M x N."""

    @staticmethod
    def forward(
        ctx: Any, Kuf: Tensor, L_inv: Tensor, E: Tensor, s: Tensor, q_mu: Tensor, passes: Passes
    ) -> Any:
        A = lower_product(L_inv, Kuf)
        ctx.save_for_backward(L_inv, s, q_mu, A)
        ctx.passes = passes
        return passes(diagonal_moments, A, q_mu, s)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        no_double_backward()
        L_inv, s, q_mu, A = ctx.saved_tensors
        dA, d_mu, ds = ctx.passes(diagonal_slopes, A, q_mu, s, *grads)
        return upper_product(L_inv, dA), None, lower_outer(dA, A), ds, d_mu, None


class _FullProjection(torch.autograd.Function):
    """Moments for a full covariance R R^T, R lower triangular; the backward keeps A and R^T A."""

    @staticmethod
    def forward(
        ctx: Any, Kuf: Tensor, L_inv: Tensor, E: Tensor, R: Tensor, q_mu: Tensor, passes: Passes
    ) -> Any:
        A = lower_product(L_inv, Kuf)
        V = upper_product(R, A)
        ctx.save_for_backward(L_inv, R, q_mu, A, V)
        ctx.passes = passes
        return passes(full_moments, A, V, q_mu)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        no_double_backward()
        L_inv, R, q_mu, A, V = ctx.saved_tensors
        d_mean, d_explained, d_q = grads
        # With V = R^T A and |v|^2: dV = 2 V diag(d_q), dR = tril(A dV^T), and R dV is a part of dA.
        dV = V * (2.0 * d_q).unsqueeze(-2)
        by_q, dR = lower_product(R, dV), lower_outer(A, dV)
        dA, d_mu = ctx.passes(full_slopes, A, q_mu, d_mean, d_explained, by_q)
        return upper_product(L_inv, dA), None, lower_outer(dA, A), dR, d_mu, None


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
        no_double_backward()
        A, SA = ctx.saved_tensors
        d_q = grads[0].unsqueeze(-2)
        # dA = 2 sum_w S_w A d_q_w;  dS_w = A diag(d_q_w) A^T
        dA = (SA * d_q).sum(0).mul_(2.0)
        dS = ((A * d_q).flatten(0, 1) @ A.mT).unflatten(0, SA.shape[:2])
        return dA, dS
