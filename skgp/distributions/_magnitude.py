"""Powers of two that bring numbers near one, so that their squares stay in the range of float64.

Multiplication by a power of two rounds nothing, short of the ends of that range.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from skgp._typing import FloatArray

Exponents: TypeAlias = npt.NDArray[np.int32]

_MOST = 1000  # of locations: sums of some of them are then still in the range, which ends at 2^1024


def binary_exponent(*values: FloatArray) -> Exponents:
    """The e of each cell with 2^(e - 1) <= largest magnitude < 2^e, shape (B, 1).

    Parameters
    ----------
    values : arrays of shape (B, S)
        What is not finite does not count.
    """
    sizes = [np.where(np.isfinite(v), np.abs(v), 0.0).max(axis=1, keepdims=True) for v in values]
    return np.asarray(np.frexp(np.maximum.reduce(sizes))[1])


def common_unit(mean: FloatArray, std: FloatArray, y: FloatArray | None = None) -> Exponents:
    """The e of each cell by which components and points y (B,) should be divided, as 2^e, (B, 1).

    The largest standard deviation is then near one, unless means would leave the range of float64.
    """
    points = mean if y is None else np.column_stack([mean, y])
    return np.maximum(binary_exponent(std), binary_exponent(points) - _MOST)
