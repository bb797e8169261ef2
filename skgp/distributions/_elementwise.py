"""Functions of users that transform each value by itself."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from skgp._typing import BoolArray, FloatArray, IntArray
from skgp.distributions._normal_mixture import NormalMixture

Elementwise: TypeAlias = Callable[[FloatArray], npt.ArrayLike]

_HALVINGS = 50


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


def apply_at_points(func: Elementwise, values: FloatArray, name: str, ndim: int) -> FloatArray:
    """A user's function, which sees several points of each row as rows (n * k, P) or (n * k,).

    The values have `ndim` axes, and maybe a last one of k points.
    """
    if values.ndim == ndim:
        return apply(func, values, name)
    columns = np.moveaxis(values, -1, 1)
    result = apply(func, columns.reshape(-1, *columns.shape[2:]), name)
    return np.moveaxis(result.reshape(columns.shape), 1, -1)


def changed_density(log_density: FloatArray, log_slope: FloatArray) -> FloatArray:
    """Change of variables, log f_Z(func(y)) + log |func'(y)|; -inf at the edge of the support."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(log_density), -np.inf, log_density + log_slope)


def bisected(
    holds: Callable[[FloatArray], BoolArray], inside: FloatArray, outside: FloatArray
) -> FloatArray:
    """Where a condition that holds inside, and not outside, ends, up to rounding."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (inside + outside)
        is_in = holds(middle)
        inside, outside = np.where(is_in, middle, inside), np.where(is_in, outside, middle)
    return inside


def domain_end(func: Elementwise, inside: FloatArray, side: float) -> FloatArray:
    """Ends (1, P) or (1,), below or above, of the values around `inside` with a number by `func`.

    Infinite where every value on that side has one. `side` is -1 or 1.
    """
    near, far = _ranks(inside), _ranks(np.full(inside.shape, side * np.inf))
    for _ in range(64):  # bits of a number
        middle = near // 2 + far // 2 + (near & far & 1)
        is_in = ~np.isnan(apply(func, _ranked(middle), "func"))
        near, far = np.where(is_in, middle, near), np.where(is_in, far, middle)
    # Between two neighbours: 0 for those of log(y) and of sqrt(y), which has a value there.
    return 0.5 * _ranked(near) + 0.5 * _ranked(far)


def _ranks(values: FloatArray) -> IntArray:
    """Ranks of numbers in the order of all numbers of float64, 0 for zero."""
    return np.sign(values).astype(np.int64) * np.abs(values).view(np.int64)


def _ranked(ranks: IntArray) -> FloatArray:
    return np.sign(ranks) * np.abs(ranks).view(np.float64)
