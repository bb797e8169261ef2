"""Principal axes whose signs do not depend on rounding."""

import torch
from torch import Tensor

_LARGE = 0.5  # of the largest entry: an entry that rounding cannot take for a small one


def principal_axes(scatter: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (D,) and eigenvectors (D, D) of a symmetric matrix, columns, the leading first.

    The first large entry of each is positive. LAPACK's signs are those of rounding where entries
    nearly tie, as all do for two standardised columns: rows in another order would have others.
    """
    values, axes = torch.linalg.eigh(scatter)
    size = axes.abs()
    first = (size >= _LARGE * size.amax(0)).to(torch.int8).argmax(0, keepdim=True)
    return values.flip(0), (axes * axes.gather(0, first).sign()).flip(1)
