"""Functions of users that transform each value by itself."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from skgp.distributions._normal_mixture import NormalMixture
from skgp.distributions._typing import FloatArray

Elementwise: TypeAlias = Callable[[FloatArray], npt.ArrayLike]


@final
@dataclass(frozen=True)
class SomeOutputs:
    """A function of all outputs as one of some of them.

    Attributes
    ----------
    func : callable
    outputs : tuple of int
    rest : ndarray of shape (P,)
        A value of each output that `func` accepts.
    """

    func: Elementwise
    outputs: tuple[int, ...]
    rest: FloatArray = field(compare=False)

    def __call__(self, values: FloatArray) -> FloatArray:
        """Map an array of shape (m,) or (m, k)."""
        columns = values.reshape(len(values), len(self.outputs))
        mapped = np.empty(columns.shape)
        for number, output in enumerate(self.outputs):
            whole = np.tile(self.rest, (len(values), 1))
            whole[:, output] = columns[:, number]
            mapped[:, number] = np.asarray(self.func(whole), dtype=np.float64)[:, output]
        return mapped.reshape(values.shape)


def directions(base: NormalMixture, inverse_func: Elementwise, far: float) -> FloatArray:
    """Directions (P,) of a transformation: 1 for one that rises, -1 for one that falls.

    That between the quartiles of any row, as it may be constant for others. If it is constant for
    all, the one within `far` standard deviations, and around zero, about which transformed targets
    lie.

    Raises
    ------
    ValueError
        If rows differ, or the function is constant there, too.
    """
    n_rows, n_outputs = len(base), math.prod(base.shape[1:])
    if n_rows == 0:
        return np.ones(n_outputs)

    def between(low: FloatArray, high: FloatArray) -> FloatArray:
        start, end = (apply(inverse_func, z, "inverse_func") for z in (low, high))
        signs = np.sign(end - start).reshape(n_rows, n_outputs)
        common = np.sign(signs.sum(axis=0))
        return np.where(((signs == common) | (signs == 0.0)).all(axis=0), common, np.nan)

    sign = between(*np.moveaxis(base.ppf([0.25, 0.75]), -1, 0))
    if (sign == 0.0).any():
        reach = np.abs(base.mean()) + far * base.std()
        sign = np.where(sign == 0.0, between(-reach, reach), sign)
    if not (np.abs(sign) == 1.0).all():
        raise ValueError("inverse_func must be monotone, and not constant, on the range of base")
    return sign


def apply(func: Elementwise, values: FloatArray, name: str) -> FloatArray:
    """Values of a user's function; outside its domain they are NaN or infinite, silently."""
    with np.errstate(all="ignore"):
        result = np.asarray(func(values), dtype=np.float64)
    if result.shape != values.shape:
        raise ValueError(f"{name} must act elementwise: it turned shape {values.shape} into "
                         f"{result.shape}")  # fmt: skip
    return result
