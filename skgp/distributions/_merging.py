"""Mixtures of fewer components: neighbours become one normal of their mean and variance."""

import numpy as np

from skgp._typing import FloatArray
from skgp.distributions._magnitude import common_unit


def merge_neighbours(
    log_w: FloatArray, mean: FloatArray, std: FloatArray, n_components: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log weights, means and standard deviations (B, n_components) of cells (B, S), S not fewer.

    Step by step those two components, next to each other by their means, are merged whose merging
    has the lowest bound on the divergence from what was there before: Runnalls (2007), "Kullback-
    Leibler approach to Gaussian mixture reduction", Eqn 21.
    """
    n_cells, size = mean.shape
    unit = common_unit(mean, std)
    mean, std = np.ldexp(mean, -unit), np.ldexp(std, -unit)
    order = np.argsort(mean, axis=1, kind="stable")
    # Rows of components as linked lists. Their ends are one more column, which is never merged.
    parts = np.ones((3, n_cells, size + 1))
    for part, values in zip(parts, (np.exp(log_w), mean, std * std), strict=True):
        part[:, :-1] = np.take_along_axis(values, order, axis=1)
    cost = np.full((n_cells, size + 1), np.inf)  # of merging a component with the next one
    cost[:, : size - 1] = _cost(parts[..., :-2], parts[..., 1:-1])
    after = np.tile(np.arange(1, size + 2), (n_cells, 1))
    before = np.tile(np.arange(-1, size), (n_cells, 1))
    before[:, 0] = size
    alive = np.ones((n_cells, size + 1), dtype=bool)
    alive[:, size] = False
    rows = np.arange(n_cells)
    for _ in range(size - n_components):
        one = cost.argmin(axis=1)
        other = after[rows, one]
        parts[:, rows, one] = _merged(parts[:, rows, one], parts[:, rows, other])
        cost[rows, other], alive[rows, other] = np.inf, False
        following, previous = after[rows, other], before[rows, one]
        after[rows, one], before[rows, following] = following, one
        for first, second, end in ((one, following, following), (previous, one, previous)):
            changed = _cost(parts[:, rows, first], parts[:, rows, second])
            cost[rows, first] = np.where(end < size, changed, np.inf)
    weight, mean, var = parts[:, alive].reshape(3, n_cells, n_components)
    with np.errstate(divide="ignore"):
        return np.log(weight), np.ldexp(mean, unit), np.ldexp(np.sqrt(var), unit)


def _merged(a: FloatArray, b: FloatArray) -> FloatArray:
    """Weights, means and variances of a and b as one; a and b stack these along the first axis."""
    weight = a[0] + b[0]
    with np.errstate(invalid="ignore"):
        share = np.where(weight > 0.0, b[0] / weight, 0.5)
    gap = b[1] - a[1]
    var = (1.0 - share) * a[2] + share * b[2] + share * (1.0 - share) * gap * gap
    return np.stack([weight, a[1] + share * gap, var])


def _cost(a: FloatArray, b: FloatArray) -> FloatArray:
    """Twice the bound: w log v of the merged component, less those of the two."""
    merged = _merged(a, b)
    return np.asarray(merged[0] * np.log(merged[2]) - a[0] * np.log(a[2]) - b[0] * np.log(b[2]))
