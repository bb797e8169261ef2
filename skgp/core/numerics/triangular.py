"""Lower triangular matrices (W, M, M): products and inverses by blocks, without most of the zeros.

Torch has no product with a triangular matrix. A product by blocks takes less time than the full
one, and much less than a triangular solve.
"""

from itertools import pairwise

import torch
from torch import Tensor

_BLOCK = 64  # rows of a matrix that are multiplied at a time


def lower_product(L: Tensor, K: Tensor) -> Tensor:
    """L K for K (W, M, N)."""
    out = torch.empty_like(K)
    for start, end in _blocks(L):
        torch.bmm(L[:, start:end, :end], K[:, :end], out=out[:, start:end])
    return out


def upper_product(L: Tensor, K: Tensor) -> Tensor:
    """L^T K for K (W, M, N)."""
    out = torch.empty_like(K)
    for start, end in _blocks(L):
        torch.bmm(L[:, start:, start:end].mT, K[:, start:], out=out[:, start:end])
    return out


def lower_outer(A: Tensor, K: Tensor) -> Tensor:
    """Lower triangle of A K^T for A, K (W, M, N): the gradient in L of `lower_product`."""
    out = A.new_zeros(len(A), A.shape[1], K.shape[1])
    for start, end in _blocks(out):
        torch.bmm(A[:, start:end], K[:, :end].mT, out=out[:, start:end, :end])
    return out.tril_()


def lower_right(D: Tensor, L: Tensor) -> Tensor:
    """Lower triangle of D L for D (W, M, M) that need not be triangular."""
    out = torch.zeros_like(L)
    for start, end in _blocks(L):
        torch.bmm(D[:, start:, start:], L[:, start:, start:end], out=out[:, start:, start:end])
    return out.tril_()


def lower_between(D: Tensor, L: Tensor) -> Tensor:
    """Lower triangle of L^T D L for symmetric D (W, M, M)."""
    right = lower_right(D, L)
    out = torch.zeros_like(L)
    for start, end in _blocks(L):
        torch.bmm(L[:, start:, start:end].mT, right[:, start:, :end], out=out[:, start:end, :end])
    return out.tril_()


def lower_gram(L: Tensor, K: Tensor) -> Tensor:
    """Lower triangle of L K^T for a lower triangular K, which what L has above has no part in."""
    out = torch.zeros_like(K)
    for start, end in _blocks(L):
        torch.bmm(L[:, start:end, :end], K[:, :end, :end].mT, out=out[:, start:end, :end])
    return out.tril_()


def mirrored(lower: Tensor) -> Tensor:
    """The symmetric matrices with this lower triangle."""
    return lower + lower.tril(-1).mT


def triangular_inverse(L: Tensor) -> Tensor:
    """X = L^-1, rows by rows: with L_ii X_ii = I the others are X_ij = -X_ii sum_k<i L_ik X_kj."""
    out = torch.zeros(L.shape, dtype=L.dtype, device=L.device)
    blocks = _blocks(L)
    largest = max(end - start for start, end in blocks)
    eye = torch.eye(largest, dtype=L.dtype, device=L.device).expand(len(L), -1, -1)
    for start, end in blocks:
        size = end - start
        inverse = torch.linalg.solve_triangular(
            L[:, start:end, start:end], eye[:, :size, :size], upper=False
        )
        out[:, start:end, start:end] = inverse
        if start > 0:
            left = L[:, start:end, :start] @ out[:, :start, :start]
            out[:, start:end, :start].baddbmm_(inverse, left, beta=0.0, alpha=-1.0)
    return out


def _blocks(L: Tensor) -> list[tuple[int, int]]:
    size = L.shape[-1]
    # A GPU multiplies the zeros in less time than it takes to start several products.
    n_blocks = 1 if L.is_cuda else max(1, round(size / _BLOCK))
    bounds = [size * i // n_blocks for i in range(n_blocks + 1)]
    return list(pairwise(bounds))
