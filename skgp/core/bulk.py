"""The bulk of some values, whatever a few others are."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

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
