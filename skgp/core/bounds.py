"""Targets of which bounds are known: arrays (n, 2), lower and upper, NaN where one is infinite.

So a bound that is infinite is a missing entry, and whatever skips those skips these.
"""

import math
from typing import Any, Final

import numpy as np
from scipy.special import ndtr

from skgp._typing import BoolArray, FloatArray

_STEPS: Final = 10  # of expectation and maximisation, from bounds as values: a start needs no more


def densities(Y: FloatArray, n_outputs: int) -> BoolArray:
    """Whether the likelihood of each output (n, P) is a density, and not a probability or nothing.

    Y (n, P) holds targets, or of one output the bounds (n, 2).
    """
    if Y.shape[1] == n_outputs:
        return ~np.isnan(Y)
    return np.asarray(Y[:, :1] == Y[:, 1:])


def imputed(bounds: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Of bounds (n, 2) values (n, 1) between them, which scales and first fits are made of.

    Rows have weights (n,), all one if None.

    Where bounds are equal they are the value. Elsewhere it is about the mean of the normal
    distribution that all bounds are most likely under, given that it lies between these (by the EM
    algorithm; Dempster, Laird and Rubin 1977, section 4.1). NaN where both are infinite.
    """
    lower, upper = bounds.T
    values = 0.5 * lower + 0.5 * upper
    values = np.where(np.isnan(values), np.where(np.isnan(lower), upper, lower), values)
    rows = np.flatnonzero((lower != upper) & ~np.isnan(values))
    if len(rows):
        low = np.nan_to_num(lower[rows], nan=-np.inf)
        high = np.nan_to_num(upper[rows], nan=np.inf)
        share = np.where(np.isnan(values), 0.0, 1.0 if weight is None else weight)
        share /= share.sum()
        var: Any = 0.0
        for _ in range(_STEPS):
            mean = np.nansum(share * values)
            std = math.sqrt(np.nansum(share * np.square(values - mean)) + var)
            if std == 0.0:
                break
            e, v = _truncated((low - mean) / std, (high - mean) / std)
            values[rows] = np.clip(mean + std * e, low, high)
            var = std**2 * (share[rows] @ v)
    return values[:, None]


def _truncated(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of a standard normal variable between a and b; rough far out."""
    above = a + b > 0.0  # reflected: the distribution function resolves its lower tail
    a, b = np.where(above, -b, a), np.where(above, -a, b)
    mass = np.fmax(ndtr(b) - ndtr(a), np.finfo(float).tiny)
    at_a, at_b = (np.exp(-0.5 * np.square(z)) / math.sqrt(2.0 * math.pi) for z in (a, b))
    mean = (at_a - at_b) / mass
    slope = np.where(np.isinf(a), 0.0, a) * at_a - np.where(np.isinf(b), 0.0, b) * at_b
    variance = np.clip(1.0 + slope / mass - np.square(mean), 0.0, 1.0)
    return np.where(above, -mean, mean), variance
