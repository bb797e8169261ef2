"""Products and inverses of triangular matrices by blocks, against dense ones."""

import numpy as np
import pytest
import torch
from torch import Tensor

from skgp.core.numerics.triangular import (
    lower_between,
    lower_gram,
    lower_outer,
    lower_product,
    lower_right,
    mirrored,
    triangular_inverse,
    upper_product,
)


def normal(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.from_numpy(rng.standard_normal(shape))


# One block, several, and blocks of unequal size
@pytest.mark.parametrize("size", [1, 64, 95, 96, 128, 333])
def test_they_are_those_of_dense_matrices(size: int) -> None:
    rng = np.random.default_rng(size)
    L, K, A = normal(rng, 2, size, size).tril(), normal(rng, 2, size, 5), normal(rng, 2, size, 5)
    torch.testing.assert_close(lower_product(L, K), torch.einsum("wij,wjn->win", L, K))
    torch.testing.assert_close(upper_product(L, K), torch.einsum("wji,wjn->win", L, K))
    lower = torch.ones(size, size, dtype=L.dtype).tril()
    outer = torch.einsum("win,wjn->wij", A, K)
    torch.testing.assert_close(lower_outer(A, K), outer * lower)
    dense = normal(rng, 2, size, size)
    torch.testing.assert_close(
        lower_right(dense, L), torch.einsum("wij,wjk->wik", dense, L) * lower
    )
    gram = torch.einsum("wij,wkj->wik", dense * lower, L) * lower
    torch.testing.assert_close(lower_gram(dense, L), gram)
    symmetric = outer + outer.mT
    torch.testing.assert_close(mirrored(symmetric.tril()), symmetric)
    between = torch.einsum("wji,wjk,wkl->wil", L, symmetric, L) * lower
    torch.testing.assert_close(lower_between(symmetric, L), between)


@pytest.mark.parametrize("size", [1, 2, 80, 81, 163, 333])
def test_inverse(size: int) -> None:
    """With one leaf, with two, and with halves of unequal size."""
    rng = np.random.default_rng(size)
    x = normal(rng, 2, size, 2)
    K = torch.exp(-0.5 * torch.cdist(x, x).square()) + 1e-6 * torch.eye(size)
    L = torch.linalg.cholesky(K)
    inverse = triangular_inverse(L)
    assert torch.equal(inverse, inverse.tril())
    direct = torch.linalg.solve_triangular(L, torch.eye(size, dtype=L.dtype), upper=False)
    # As exact as substitution: the residual is what counts, for L is ill conditioned.
    residual, desired = (
        (L @ X - torch.eye(size)).abs().amax() / X.abs().amax() for X in (inverse, direct)
    )
    assert residual <= 4.0 * desired + 1e-15
