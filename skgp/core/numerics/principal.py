"""Principal directions and components, with signs that do not depend on rounding."""

from typing import Final

import torch
from torch import Tensor

_LARGE: Final = 0.5  # share of the largest entry from which an entry is large


def principal_directions(x: Tensor, weight: Tensor) -> Tensor:
    """Principal directions of x (n, D), rows weighted by (n,): columns, the leading first."""
    centred = x - weight @ x / weight.sum()
    scatter = centred.mT @ (weight.unsqueeze(-1) * centred)
    return principal_axes(scatter)[1]


def principal_axes(scatter: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (D,) and eigenvectors (D, D) of a symmetric matrix, columns, the leading first.

    The first large entry of each is positive. The signs of LAPACK depend on rounding, and so on the
    order of the rows, where entries have nearly the same size, as for two standardised columns.
    """
    values, axes = torch.linalg.eigh(scatter)
    size = axes.abs()
    first = (size >= _LARGE * size.amax(0)).to(torch.int8).argmax(0, keepdim=True)
    return values.flip(0), (axes * axes.gather(0, first).sign()).flip(1)


def principal_scores(x: Tensor, n_scores: int) -> Tensor:
    """The leading principal components (n, C) of x (n, D), each with unit variance.

    Columns beyond the number of directions in which x varies are zero.
    """
    weight = torch.ones(len(x), dtype=x.dtype)
    scores = (x - x.mean(0)) @ principal_directions(x, weight)[:, :n_scores]
    deviations = scores.square().mean(0).sqrt()
    least = torch.finfo(x.dtype).eps ** 0.5 * x.abs().max()
    scores = torch.where(deviations > least, scores / deviations, 0.0)
    return torch.nn.functional.pad(scores, (0, n_scores - scores.shape[1]))
