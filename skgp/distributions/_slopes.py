"""Slopes of transformations, of which only values are known."""

from collections.abc import Callable
from typing import Final

import numpy as np

from skgp._typing import FloatArray

# Step of the five-point derivative, in standard deviations of the base: truncation and rounding
# errors are then both about 1e-12.
_STEP: Final = 1e-3
_SHORTER: Final = 12  # times that it becomes an eighth at most


def slope_of_inverse(
    inverse: Callable[[FloatArray], FloatArray], z: FloatArray, std: FloatArray, rounding: float
) -> FloatArray:
    """dy/dz of y = inverse(z), which may have an end, or be flat to one side.

    Zero where y is flat to one side, so that it has a probability of its own there.

    Parameters
    ----------
    inverse : callable
        NaN beyond the end of its domain.
    z, std : array of the same shape
        Points, and standard deviations of the base, which are its units there.
    rounding : float
        Relative error of values.
    """
    h = _STEP * std
    slope = _five_points(inverse, z, h, rounding)
    for _ in range(_SHORTER):
        beyond = np.isnan(slope) & ~np.isnan(z)
        if not beyond.any():
            break
        h = np.where(beyond, 0.125 * h, h)
        slope = np.where(beyond, _five_points(inverse, z, h, rounding), slope)
    return slope


def _five_points(
    inverse: Callable[[FloatArray], FloatArray], z: FloatArray, h: FloatArray, rounding: float
) -> FloatArray:
    first, second, third, fourth = (inverse(z + k * h) for k in (-2.0, -1.0, 1.0, 2.0))
    left, right = np.abs(second - first), np.abs(fourth - third)
    size = np.maximum(np.abs(first), np.abs(fourth))
    is_flat = (np.minimum(left, right) == 0.0) & (np.maximum(left, right) > rounding * size)
    slope = (first - 8.0 * second + 8.0 * third - fourth) / (12.0 * h)
    return np.asarray(np.where(is_flat, 0.0, slope))
