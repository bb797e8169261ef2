"""Targets of which bounds are known: arrays (n, 2), lower and upper, NaN where one is infinite.

So a bound that is infinite is a missing entry, and whatever skips those skips these.
"""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def stand_ins(bounds: Array) -> Array:
    """Of bounds (n, 2) values (n, 1) between them, which scales and first fits are made of.

    The target itself where the bounds are equal, the middle of two, the one of a single bound;
    NaN where there is none.
    """
    lower, upper = bounds[:, :1], bounds[:, 1:]
    middle = 0.5 * lower + 0.5 * upper
    alone = np.where(np.isnan(lower), upper, lower)
    return np.where(np.isnan(middle), alone, middle)


def densities(Y: Array, n_outputs: int) -> BoolArray:
    """Whether the likelihood of each output (n, P) is a density, and not a probability or nothing.

    Y (n, P) holds targets, or of one output the bounds (n, 2).
    """
    if Y.shape[1] == n_outputs:
        return ~np.isnan(Y)
    return np.asarray(Y[:, :1] == Y[:, 1:])
