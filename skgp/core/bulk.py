"""The bulk of some values, and others that are far from it."""

from typing import Final, NamedTuple

import numpy as np

from skgp._typing import Array

_QUARTILES: Final = [0.25, 0.5, 0.75]
_OF_NORMAL: Final = 1.349  # interquartile range of N(0, 1)
_REACH: Final = 10.0  # standard deviations of a normal distribution with the same quartiles


def within_reach(values: Array, weight: Array | None) -> Array:
    """Values (n, P), those far outside of the bulk moved to its ends.

    The ends are ten standard deviations from the median, those of a normal distribution with the
    same interquartile range. Where that is zero, the column stays. Rows have weights (n,), all one
    if None; NaN stays.
    """
    near = np.array(values, dtype=float)
    for column in near.T:
        seen = ~np.isnan(column)
        if not seen.any():
            continue
        weights = None if weight is None else weight[seen]
        low, middle, high = np.quantile(
            column[seen], _QUARTILES, weights=weights, method="inverted_cdf"
        )
        reach = _REACH * (high - low) / _OF_NORMAL
        if reach > 0.0:
            np.clip(column, middle - reach, middle + reach, out=column)
    return near


def are_narrow(values: Array, least: float) -> Array:
    """Columns (d,) of values (n, d) with an interquartile range below this, but not of zero."""
    columns = [column[~np.isnan(column)] for column in values.T]
    ranges = [np.diff(np.quantile(c, [0.25, 0.75])).item() if len(c) else 0.0 for c in columns]
    return (np.array(ranges) > 0.0) & (np.array(ranges) < least)


def gap(column: Array) -> float:
    """The largest ratio of one distance from the median to the next smaller one, for values (n,).

    None is below the interquartile range, which has to be above zero.
    """
    low, middle, high = np.quantile(np.asarray(column, dtype=float), _QUARTILES)
    distance = np.sort(np.fmax(np.abs(column - middle), high - low))
    with np.errstate(over="ignore"):
        return float(np.max(distance[1:] / distance[:-1], initial=0.0))


class Spread(NamedTuple):
    """How some values (n,) are spread.

    Attributes
    ----------
    width : float
        Their interquartile range.
    farthest : float
        The value that is farthest from the median.
    """

    width: float
    farthest: float


def spread(column: Array) -> Spread:
    """Interquartile range and farthest value of a column (n,); NaN is ignored."""
    column = np.asarray(column, dtype=float)
    column = column[~np.isnan(column)]
    low, middle, high = np.quantile(column, _QUARTILES)
    return Spread(high - low, float(column[np.argmax(np.abs(column - middle))]))
