"""The collapsed bound: the evidence lower bound of all rows with q(u) integrated out."""

from typing import Any

import torch
from torch import Tensor

from skgp.core.kernels.kernel import Kernel
from skgp.core.numerics.linalg import LOG_2PI, cholesky, cholesky_gradient, through_jitter
from skgp.exceptions import NotPositiveDefiniteError


def collapsed_bound(
    kernel: Kernel,
    Z: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    noise_var: Tensor,
    jitter: float,
) -> Tensor:
    """Evidence lower bound of W sparse GPs with q(u) integrated out (Titsias 2009, Eqn 9).

    log N(y; 0, Qff + noise) - tr(Kff - Qff) / (2 noise); a row of weight k counts k times.

    Parameters
    ----------
    kernel : Kernel
    Z : Tensor of shape (W, M, D)
    x : Tensor of shape (n, D)
    y : Tensor of shape (W, n)
        Targets of each GP, without its mean.
    weight : Tensor of shape (n,) or (W, n)
        Of the rows, or of the targets of each GP.
    noise_var : Tensor of shape (W,)
    jitter : float

    Returns
    -------
    Tensor of shape (W,)
        In nats.

    Raises
    ------
    NotPositiveDefiniteError
        If Kuu has no Cholesky factor, or the bound is not finite.
    """
    n = weight.sum(-1)
    ratio = kernel.variance / noise_var
    # |Qff + noise| and its inverse by the M x M matrix H = I + ratio A A^T
    log_det, explained, trace = _Projection.apply(
        kernel.Kuu(Z), kernel.Kuf(Z, x), y, ratio, weight, jitter
    )
    quadratic = ((weight * y.square()).sum(-1) - ratio * explained) / noise_var
    unexplained = ratio * ((weight * kernel.kff(x)).sum(-1).expand_as(trace) - trace)
    return -0.5 * (n * (LOG_2PI + noise_var.log()) + log_det + quadratic + unexplained)


class _Projection(torch.autograd.Function):
    """log|H|, b^T H^-1 b and tr(A diag(weight) A^T), for A = Luu^-1 Kuf.

    H = I + ratio A diag(weight) A^T and b = A diag(weight) y. Autograd would keep and multiply
    twice as many blocks of M x n numbers.
    """

    @staticmethod
    def forward(
        ctx: Any, Kuu: Tensor, Kuf: Tensor, y: Tensor, ratio: Tensor, weight: Tensor, jitter: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        L = cholesky(Kuu, jitter).to(Kuf)
        A = torch.linalg.solve_triangular(L, Kuf, upper=False)
        wy = weight * y
        gram = (A * weight.unsqueeze(-2)) @ A.mT
        H = ratio[:, None, None] * gram
        H.diagonal(dim1=-2, dim2=-1).add_(1.0)
        b = A @ wy.unsqueeze(-1)
        L_H, info = torch.linalg.cholesky_ex(H)
        if bool(info.any()):
            raise NotPositiveDefiniteError("the collapsed bound is not finite; raise jitter")
        c = torch.cholesky_solve(b, L_H)
        ctx.save_for_backward(L, A, gram, b, L_H, c, wy, ratio, weight)
        ctx.jitter = jitter
        log_det = 2.0 * L_H.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return log_det, (b * c).sum((-2, -1)), gram.diagonal(dim1=-2, dim2=-1).sum(-1)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        L, A, gram, b, L_H, c, wy, ratio, weight = ctx.saved_tensors
        d_log_det, d_explained, d_trace = (grad[:, None, None] for grad in grads)
        ratio = ratio[:, None, None]
        eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device)
        H_inv = torch.cholesky_inverse(L_H)
        rest, gram_c = eye - H_inv, gram @ c  # H^-1 gram = (I - H^-1) / ratio
        d_ratio = (d_log_det * rest / ratio).diagonal(dim1=-2, dim2=-1).sum(-1)
        d_ratio = d_ratio - (d_explained * c * gram_c).sum((-2, -1))
        # GPs that share a kernel share A and its gradient, which is a sum over them.
        d_gram = ratio * (d_log_det * H_inv - d_explained * c @ c.mT)
        d_gram = d_gram.sum_to_size(gram.shape) + d_trace * eye
        d_gram_gram = d_log_det * rest - ratio * d_explained * c @ gram_c.mT
        d_gram_gram = (d_gram_gram.sum_to_size(gram.shape) + d_trace * gram).sum_to_size(L.shape)
        db = 2.0 * d_explained * c
        d_wy = (db.mT @ A).squeeze(-2)
        parts = db, b, wy.unsqueeze(-1), d_gram
        db, b, wy, d_gram = (_side_by_side(part, len(A)) for part in parts)
        # dA = 2 d_gram A diag(weight) + db (weight y)^T, and dKuf = L^-T dA.
        Aw = (A * weight.unsqueeze(-2)).reshape(len(A), -1, A.shape[-1])
        d_A = torch.baddbmm(db @ wy.mT, 2.0 * d_gram, Aw)
        d_Kuf = torch.linalg.solve_triangular(L.mT, d_A, upper=True)
        # dL = -L^-T dA A^T
        d_Kuu = cholesky_gradient(L, (2.0 * d_gram_gram + db @ b.mT).neg_())
        d_Kuu = through_jitter(d_Kuu, ctx.jitter)
        return d_Kuu, d_Kuf, d_wy * weight, d_ratio, None, None


def _side_by_side(blocks: Tensor, n_kernels: int) -> Tensor:
    """Blocks (W, M, k) of GPs with one kernel as (1, M, W k); of GPs with their own as they are."""
    return blocks if len(blocks) == n_kernels else blocks.permute(1, 0, 2).flatten(1).unsqueeze(0)
