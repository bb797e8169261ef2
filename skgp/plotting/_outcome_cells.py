"""Cells of outcomes, and the densities in them."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from skgp._typing import FloatArray
from skgp.distributions import ContinuousDistribution, CountMixture
from skgp.plotting._observed import select_output

_TAIL = 0.001  # probability that is left out at each end


def outcome_grid(
    grid: int | ArrayLike,
    dist: ContinuousDistribution,
    output: int,
    observed: FloatArray | None,
) -> FloatArray:
    """Outcomes (k,), increasing: as given, or so many over all observed and predicted ones.

    Those of counts are whole ones, or the middles of cells of equally many.
    """
    values = np.asarray(grid, dtype=np.float64)
    is_count = isinstance(dist, CountMixture)
    if values.ndim == 0 and values >= 2:
        tails = dist.ppf([_TAIL, 1.0 - _TAIL]).reshape(len(dist), -1, 2)[:, output]
        shown = np.append(tails, [] if observed is None else np.asarray(observed, dtype=float))
        low, high = np.nanmin(shown), np.nanmax(shown)
        cells = _cells_of_counts if is_count else np.linspace
        return cells(low, high, int(values))
    values = np.round(values) if is_count else values
    if values.ndim != 1 or len(np.unique(values)) < 2:
        raise ValueError(
            "y_grid must be a number of at least 2 or an array of at least two different values, "
            f"got {grid!r}."
        )
    return np.unique(values)


def cell_densities(y: FloatArray, dist: ContinuousDistribution, output: int) -> FloatArray:
    """Densities (k, n) of n rows, averaged over cells about the outcomes y (k,).

    Those of counts are averages over the counts in a cell.
    """
    # The mean of p(y | x) over a cell is (F(upper end) - F(lower end)) / height.
    ends = cell_ends(y)
    below = np.array([select_output(dist.cdf(end), output) for end in ends])
    lengths = np.diff(np.floor(ends) if isinstance(dist, CountMixture) else ends)
    density: FloatArray = np.diff(below, axis=0) / lengths[:, np.newaxis]
    return density


def quantity(dist: ContinuousDistribution) -> Literal["density", "probability"]:
    """What `cell_densities` are of these distributions."""
    return "probability" if isinstance(dist, CountMixture) else "density"


def cell_ends(centres: FloatArray) -> FloatArray:
    """Ends (k + 1,) of cells about increasing centres (k,): the middles between neighbours."""
    middles = 0.5 * (centres[1:] + centres[:-1])
    first, last = 2.0 * centres[0] - middles[0], 2.0 * centres[-1] - middles[-1]
    return np.concatenate([[first], middles, [last]])


def _cells_of_counts(low: float, high: float, most: int) -> FloatArray:
    """Middles of at most so many cells, each of the same number of whole counts."""
    low, high = np.floor(low), max(np.ceil(high), np.floor(low) + 1.0)
    size = np.ceil((high - low + 1.0) / most)
    return np.asarray(np.arange(low, high + 1.0, size) + 0.5 * (size - 1.0))
