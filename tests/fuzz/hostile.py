"""Hostile inputs, targets and weights by name, made from plain ones.

Each function takes a random generator, a plain array and a size, a power of ten from the range of
the profile, and returns another array with as many rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Kind = Callable[[np.random.Generator, Array, float], Array]


def plain(rng: np.random.Generator, values: Array, size: float) -> Array:
    return values


def scaled(rng: np.random.Generator, values: Array, size: float) -> Array:
    return values * size


def offset(rng: np.random.Generator, values: Array, size: float) -> Array:
    """Far from zero, by at most a hundred million deviations."""
    return values + min(size, 1e8)


def constant(rng: np.random.Generator, values: Array, size: float) -> Array:
    return np.full_like(values, size)


def nearly_constant(rng: np.random.Generator, values: Array, size: float) -> Array:
    return size * (1.0 + 1e-9 * values)


def outlier(rng: np.random.Generator, values: Array, size: float) -> Array:
    values = values.copy()
    values.flat[rng.integers(values.size)] = max(size, 1e6)
    return values


def heavy_tailed(rng: np.random.Generator, values: Array, size: float) -> Array:
    return rng.standard_cauchy(values.shape) ** 3


def integers(rng: np.random.Generator, values: Array, size: float) -> Array:
    return (100.0 * values).astype(rng.choice(["int8", "int16", "int64"]))


def booleans(rng: np.random.Generator, values: Array, size: float) -> Array:
    return values > 0.0


def half_precision(rng: np.random.Generator, values: Array, size: float) -> Array:
    return values.astype(np.float16)


def single_precision(rng: np.random.Generator, values: Array, size: float) -> Array:
    return (values * np.clip(size, 1e-30, 1e30)).astype(np.float32)


def big_endian(rng: np.random.Generator, values: Array, size: float) -> Array:
    return values.astype(">f8")


def read_only(rng: np.random.Generator, values: Array, size: float) -> Array:
    values = values.copy()
    values.flags.writeable = False
    return values


def sorted_rows(rng: np.random.Generator, values: Array, size: float) -> Array:
    return np.sort(values, axis=0)


def column_scaled(rng: np.random.Generator, X: Array, size: float) -> Array:
    """Columns of different scales."""
    return X * size ** rng.uniform(-1.0, 1.0, X.shape[1])


def one_constant_column(rng: np.random.Generator, X: Array, size: float) -> Array:
    X = X.copy()
    X[:, rng.integers(X.shape[1])] = size
    return X


def duplicated_rows(rng: np.random.Generator, values: Array, size: float) -> Array:
    return values[rng.integers(max(1, len(values) // 5), size=len(values))]


def duplicated_columns(rng: np.random.Generator, X: Array, size: float) -> Array:
    return np.repeat(X, 3, axis=1)


def collinear(rng: np.random.Generator, X: Array, size: float) -> Array:
    return np.column_stack([X, X.sum(axis=1), X @ rng.normal(size=X.shape[1])])


def outlying_row(rng: np.random.Generator, X: Array, size: float) -> Array:
    X = X.copy()
    X[rng.integers(len(X))] = max(size, 1e6)
    return X


def wide(rng: np.random.Generator, X: Array, size: float) -> Array:
    return rng.normal(size=(len(X), 60))


def fortran_order(rng: np.random.Generator, X: Array, size: float) -> Array:
    return np.asfortranarray(X)


def strided(rng: np.random.Generator, X: Array, size: float) -> Array:
    """A view of every other row, backwards."""
    return np.repeat(X, 2, axis=0)[::-2]


def one_differs(rng: np.random.Generator, y: Array, size: float) -> Array:
    y = np.zeros_like(y)
    y.flat[rng.integers(y.size)] = size
    return y


def ones(rng: np.random.Generator, weight: Array, size: float) -> Array:
    return np.ones_like(weight)


def zeros_among(rng: np.random.Generator, weight: Array, size: float) -> Array:
    return np.where(np.arange(len(weight)) % 2 == 0, weight, 0.0)


def one_alone(rng: np.random.Generator, weight: Array, size: float) -> Array:
    return np.where(np.arange(len(weight)) == rng.integers(len(weight)), weight, 0.0)


def ratios(rng: np.random.Generator, weight: Array, size: float) -> Array:
    """Ratios of up to a million millions."""
    return 10.0 ** rng.uniform(-6.0, 6.0, len(weight))


def tiny(rng: np.random.Generator, weight: Array, size: float) -> Array:
    return weight * 1e-9


def huge(rng: np.random.Generator, weight: Array, size: float) -> Array:
    return weight * 1e12


def counts(rng: np.random.Generator, weight: Array, size: float) -> Array:
    return rng.integers(1, 5, len(weight))


def by_name(*kinds: Kind) -> dict[str, Kind]:
    return {kind.__name__: kind for kind in kinds}


# The plain one comes first: to it a failing example shrinks.
INPUTS = by_name(
    plain,
    scaled,
    offset,
    constant,
    nearly_constant,
    outlier,
    heavy_tailed,
    integers,
    booleans,
    half_precision,
    single_precision,
    big_endian,
    read_only,
    sorted_rows,
    column_scaled,
    one_constant_column,
    duplicated_rows,
    duplicated_columns,
    collinear,
    outlying_row,
    wide,
    fortran_order,
    strided,
)
TARGETS = by_name(
    plain,
    scaled,
    offset,
    constant,
    nearly_constant,
    outlier,
    heavy_tailed,
    integers,
    booleans,
    half_precision,
    single_precision,
    big_endian,
    read_only,
    sorted_rows,
    duplicated_rows,
    one_differs,
)
WEIGHTS = by_name(plain, ones, zeros_among, one_alone, ratios, tiny, huge, counts)
