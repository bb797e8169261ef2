"""Cholesky factors with a jitter ladder, and the ways layers and marginal likelihoods use them.

Factors are computed in float64 whatever the working dtype: the M x M part is small and ill
conditioned, everything of size M x N is not. Backward passes are written by hand because autograd
through Cholesky, inverse and product takes most of the time of a one-layer step.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from skgp.core.numerics.captures import is_capturing, nan_where
from skgp.core.numerics.triangular import (
    lower_between,
    lower_gram,
    lower_right,
    mirrored,
    triangular_inverse,
)
from skgp.exceptions import NotPositiveDefiniteError

LOG_2PI = math.log(2.0 * math.pi)
_JITTER_STEPS = 5  # ladder: jitter, 10 jitter, ..., 10^4 jitter
_SHRINKAGE = 1e-3  # of correlations, relative; its ladder ends where none are left
_SHRINKAGE_STEPS = 4


def cholesky(K: Tensor, jitter: float, *, absolute: bool = False) -> Tensor:
    """Lower Cholesky factors of K + jitter * mean(diag K) * I, in float64.

    Where the factorisation fails, the jitter of that matrix grows tenfold, at most four times.

    Parameters
    ----------
    K : Tensor of shape (..., M, M)
        Symmetric kernel matrices.
    jitter : float
        Diagonal regularisation relative to the mean of the diagonal.
    absolute : bool
        Whether it is added as it is.

    Returns
    -------
    Tensor of shape (..., M, M), float64

    Raises
    ------
    NotPositiveDefiniteError
        If K holds a non-finite number, or the last rung fails.
    """
    factors = _climb(K, jitter, _JITTER_STEPS, _shifted if absolute else _raised)
    if factors is None:
        kind = "" if absolute else "relative "
        raise NotPositiveDefiniteError(
            f"a {K.shape[-1]} x {K.shape[-1]} kernel matrix is not positive definite even with a "
            f"{kind}jitter of {jitter * 10.0 ** (_JITTER_STEPS - 1):g}; raise jitter, remove "
            "duplicated rows or, if the model has inducing inputs, take fewer of them"
        )
    return factors[0]


def covariance_factor(K: Tensor) -> Tensor:
    """Lower Cholesky factors of covariances, which rounding may have left indefinite.

    Where the factorisation fails, correlations shrink as in `correlated`: the variances stay.

    Parameters
    ----------
    K : Tensor of shape (..., P, P)

    Returns
    -------
    Tensor of shape (..., P, P), float64

    Raises
    ------
    NotPositiveDefiniteError
        If K holds a non-finite number or a variance that is not positive.
    """
    L, info = torch.linalg.cholesky_ex(K.double())
    failed = info > 0
    if not bool(failed.any()):
        return L
    factors = _climb(K[failed], _SHRINKAGE, _SHRINKAGE_STEPS, _shrunk)
    if factors is None:
        raise NotPositiveDefiniteError("a covariance has a variance that is not positive")
    L[failed] = factors[0]
    return L


def _climb(
    K: Tensor, first: float, n_rungs: int, regularised: Callable[[Tensor, Tensor], Tensor]
) -> tuple[Tensor, Tensor] | None:
    """Factors (..., M, M) and the rung (...) of each; None if one fails on all rungs.

    `regularised` takes the matrices and their rungs. Each rung is ten times the one before.
    """
    K = K.double()
    rung = K.new_full(K.shape[:-2], first)
    if is_capturing(K):
        L, info = torch.linalg.cholesky_ex(regularised(K, rung))
        return nan_where((info > 0)[..., None, None], L), rung
    if not bool(torch.isfinite(K.sum())):
        raise NotPositiveDefiniteError(
            "a kernel matrix has non-finite entries; scale the inputs and check them for outliers"
        )
    for _ in range(n_rungs):
        L, info = torch.linalg.cholesky_ex(regularised(K, rung))
        if not bool(info.any()):
            return L, rung
        rung = torch.where(info > 0, 10.0 * rung, rung)
    return None


def _raised(K: Tensor, rung: Tensor) -> Tensor:
    """K + rung * mean(diag K) * I."""
    raised = K.clone()
    diagonal = raised.diagonal(dim1=-2, dim2=-1)
    diagonal.add_((rung * diagonal.mean(-1)).unsqueeze(-1))
    return raised


def _shifted(K: Tensor, rung: Tensor) -> Tensor:
    """K + rung * I."""
    return K + torch.diag_embed(rung.unsqueeze(-1).expand(K.shape[:-1]))


def _shrunk(K: Tensor, rung: Tensor) -> Tensor:
    """(1 - rung) K + rung * diag(K): the variances stay, the correlations shrink."""
    rung = rung[..., None, None]
    shrunk = K * (1.0 - rung)
    shrunk.diagonal(dim1=-2, dim2=-1).copy_(K.diagonal(dim1=-2, dim2=-1))
    return shrunk


def _shrunk_factors(K: Tensor) -> tuple[Tensor, Tensor]:
    """Factors of covariances (..., M, M) whose correlations are shrunk, and by how much each is."""
    factors = _climb(K, _SHRINKAGE, _SHRINKAGE_STEPS, _shrunk)
    if factors is None:
        raise NotPositiveDefiniteError("a covariance has a variance that is not positive")
    return factors


def inverse_cholesky(K: Tensor, jitter: float) -> Tensor:
    """Inverse Cholesky factor Luu^-1, which whitens every column of Kuf: A = Luu^-1 Kuf.

    A product with the inverse factor has twice the operations of a solve, and is faster.

    Parameters
    ----------
    K : Tensor of shape (W, M, M)
    jitter : float
        As in `cholesky`.

    Returns
    -------
    Tensor of shape (W, M, M), dtype of K, lower triangular
    """
    L_inv: Tensor = _Whitening.apply(K, cholesky(K.detach(), jitter), jitter)[0]
    return L_inv


def whitening(K: Tensor, jitter: float) -> tuple[Tensor, Tensor]:
    """Inverse Cholesky factor, and a relative change E of it: zero, but not its gradient.

    With (I + E) Luu^-1 in the place of Luu^-1 whitened columns A become A + E A, so the gradient in
    E is the lower triangle of dA A^T, and dKuu follows from it in fewer steps than from that in
    Luu^-1. Gradients may come by either of the two.

    Parameters
    ----------
    K : Tensor of shape (W, M, M)
    jitter : float
        As in `cholesky`.

    Returns
    -------
    L_inv : Tensor of shape (W, M, M), dtype of K, lower triangular
    E : Tensor of shape (W, M, M)
    """
    L_inv, E = _Whitening.apply(K, cholesky(K.detach(), jitter), jitter)
    return L_inv, E


def basis_weights(K: Tensor, v: Tensor, jitter: float, *, absolute: bool = False) -> Tensor:
    """Weights a = Luu^-T v of the basis functions k(Z, x), so that the mean is a^T k(Z, x).

    A basis that serves a mean alone needs one triangular solve, not the inverse factor.

    Parameters
    ----------
    K : Tensor of shape (W, M, M)
    v : Tensor of shape (W, M)
        Weights of the whitened columns Luu^-1 k(Z, x).
    jitter : float
        As in `cholesky`.
    absolute : bool
        As in `cholesky`: for what may vanish beside its rounding errors.

    Returns
    -------
    Tensor of shape (W, M), dtype of K
    """
    result: Tensor = _BasisWeights.apply(K, v, jitter, absolute)
    return result


def gram(R: Tensor) -> Tensor:
    """R R^T for lower triangular matrices R (W, M, M)."""
    result: Tensor = _Gram.apply(R)
    return result


def log_det_and_quadratic(K: Tensor, r: Tensor, jitter: float) -> tuple[Tensor, Tensor]:
    """Both terms of a normal density, log|K| and r^T K^-1 r, from one Cholesky factor.

    Parameters
    ----------
    K : Tensor of shape (W, M, M)
    r : Tensor of shape (W, M)
    jitter : float
        As in `cholesky`.

    Returns
    -------
    log_det, quadratic : Tensor of shape (W,), dtype of K
    """
    log_det, quadratic = _LogDetAndQuadratic.apply(K, r, jitter)
    return log_det, quadratic


def correlated(K: Tensor, z: Tensor) -> Tensor:
    """L z with the Cholesky factor L of K: numbers of covariance K from independent ones.

    K may be a difference that rounding has left indefinite. Its correlations shrink by a
    thousandth, and by ten times as much whenever the factorisation fails, until none are left. The
    variances are always those of K, so no K with positive variances fails.

    Parameters
    ----------
    K : Tensor of shape (G, M, M)
    z : Tensor of shape (G, M, N)

    Returns
    -------
    Tensor of shape (G, M, N), dtype of z

    Raises
    ------
    NotPositiveDefiniteError
        If K holds a non-finite number or a variance that is not positive.
    """
    result: Tensor = _Correlated.apply(K, z)
    return result


def interpolated(change: Tensor, K: Tensor, z: Tensor) -> Tensor:
    """How a function moves that is L z at M inputs, if its covariance with itself there changes.

    The function is cross K^-1 L z, for the covariances `cross` of its values with those L z at the
    inputs; in the shrunk K and cross of `correlated`.

    Parameters
    ----------
    change : Tensor of shape (G, M, M)
        Of `cross`, which is K itself at the inputs.
    K : Tensor of shape (G, M, M)
    z : Tensor of shape (G, M, N)

    Returns
    -------
    Tensor of shape (G, M, N), dtype of z
        Without gradients in K and z.
    """
    L, rung = _shrunk_factors(K.detach())
    weights = torch.linalg.solve_triangular(L.mT, z.detach().to(L), upper=True)
    return _shrunk(change, rung.to(change)) @ weights.to(z)


def half_tril(P: Tensor) -> Tensor:
    """Phi of Murray (2016): the lower triangle with its diagonal halved."""
    P = P.tril()
    P.diagonal(dim1=-2, dim2=-1).mul_(0.5)
    return P


def cholesky_gradient(L: Tensor, P: Tensor) -> Tensor:
    """Gradient in K of a function of its factor L, by P = L^T dL: Murray (2016), Eqn 10."""
    G = torch.linalg.solve_triangular(L.mT, half_tril(P), upper=True)
    G = torch.linalg.solve_triangular(L, G, upper=False, left=False)
    return (G + G.mT).mul_(0.5)


def through_jitter(dK: Tensor, jitter: float) -> Tensor:
    """Gradient in K from that in K + jitter * mean(diag K) * I."""
    diagonal = dK.diagonal(dim1=-2, dim2=-1)
    diagonal.add_(jitter * diagonal.mean(-1, keepdim=True))
    return dK


class _Whitening(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, K: Tensor, L: Tensor, jitter: float) -> tuple[Tensor, Tensor]:
        L_inv = triangular_inverse(L).to(K.dtype)
        ctx.save_for_backward(L_inv)
        ctx.set_materialize_grads(False)
        ctx.jitter = jitter
        return L_inv, L_inv.new_zeros(()).expand_as(L_inv)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, None, None]:
        # A change dL of the factor is -L^-1 dL relative to L^-1. So with the gradient P in E that
        # in L is -L^-T P, and Murray (2016), Eqn 10, dK = sym(L^-T Phi(L^T dL) L^-1), becomes
        # dK = -L^-T (P + P^T) L^-1 / 2, P + P^T with the diagonal of P, a lower triangle. The
        # gradient D in L^-1 itself adds D L^-T to P.
        (L_inv,) = ctx.saved_tensors
        of_L_inv, P = grads
        if of_L_inv is not None:
            rest = lower_gram(of_L_inv, L_inv)
            P = rest if P is None else P + rest
        if P is None:
            return None, None, None
        # K is symmetric, so a lower triangle with its elements doubled stands for both.
        dK = half_tril(lower_between(mirrored(P.tril()), L_inv)).neg_()
        return through_jitter(dK, ctx.jitter), None, None


class _Gram(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, R: Tensor) -> Tensor:
        ctx.save_for_backward(R)
        return mirrored(lower_gram(R, R))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Tensor:
        # dR = tril((dS + dS^T) R): one product, of which autograd would make two.
        (R,) = ctx.saved_tensors
        return lower_right(grads[0] + grads[0].mT, R)


class _Correlated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, K: Tensor, z: Tensor) -> Tensor:
        L, rung = (factor.to(z.dtype) for factor in _shrunk_factors(K))
        ctx.save_for_backward(L, rung, z)
        return L @ z

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor | None]:
        L, rung, z = ctx.saved_tensors
        back = L.mT @ grads[0]
        dz = back if ctx.needs_input_grad[1] else None
        return _shrunk(cholesky_gradient(L, back @ z.mT), rung), dz  # dL = de z^T


class _BasisWeights(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, K: Tensor, v: Tensor, jitter: float, absolute: bool) -> Tensor:
        L = cholesky(K, jitter, absolute=absolute)
        a = torch.linalg.solve_triangular(L.mT, v.double().unsqueeze(-1), upper=True).squeeze(-1)
        ctx.save_for_backward(L.to(K.dtype), v)
        ctx.jitter = 0.0 if absolute else jitter  # which depends on K
        return a.to(K.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, None, None]:
        # With w = L^-1 da: dv = w and dL = -tril(a w^T), so L^T dL becomes -v w^T.
        L, v = ctx.saved_tensors
        w = torch.linalg.solve_triangular(L, grads[0].unsqueeze(-1), upper=False)
        dK = cholesky_gradient(L, -v.unsqueeze(-1) * w.mT)
        return through_jitter(dK, ctx.jitter), w.squeeze(-1), None, None


class _LogDetAndQuadratic(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, K: Tensor, r: Tensor, jitter: float) -> tuple[Tensor, Tensor]:
        L = cholesky(K, jitter)
        a = torch.cholesky_solve(r.to(L).unsqueeze(-1), L).squeeze(-1)
        ctx.save_for_backward(L, a)
        ctx.jitter, ctx.dtype = jitter, K.dtype
        log_det = 2.0 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return log_det.to(K.dtype), (r * a).sum(-1).to(K.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, None]:
        # With a = K^-1 r: dK = d_log_det K^-1 - d_quadratic a a^T and dr = 2 d_quadratic a.
        L, a = ctx.saved_tensors
        d_log_det, d_quadratic = (grad.to(L).unsqueeze(-1) for grad in grads)
        dK = torch.cholesky_inverse(L).mul_(d_log_det.unsqueeze(-1))
        dK.sub_((d_quadratic * a).unsqueeze(-1) * a.unsqueeze(-2))
        dr = (2.0 * d_quadratic * a).to(ctx.dtype)
        return through_jitter(dK, ctx.jitter).to(ctx.dtype), dr, None


def log_mean_exp(values: Tensor, dim: int) -> Tensor:
    """Logarithm of the mean of exp(values) along one dimension, without overflow."""
    return torch.logsumexp(values, dim) - math.log(values.shape[dim])
