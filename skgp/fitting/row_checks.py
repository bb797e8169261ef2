"""Checks of what a user passes as rows."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,
    assert_all_finite,
    check_array,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from skgp._typing import Array
from skgp._validation import (
    check_no_label_missing,
    check_order,
    output_names,
    refuse_times,
    unmasked,
)
from skgp.fitting.arguments import LEAST_WEIGHT, inputs_to_check, reading
from skgp.fitting.rows import Rows

_LARGEST_COUNT = 2**24
_LARGEST = 1e150  # of a target: squares are within the range of float64


def check_rows(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    reset: bool,
    read: Callable[[Any, str], Array],
    suffix: str = "",
    noise_variance: Any = None,
) -> Rows:
    """Validate inputs, targets and weights; rows of weight zero or without targets are dropped.

    Parameters
    ----------
    estimator : estimator
        Remembers the number and names of the inputs if `reset`.
    X : array-like of shape (n, D)
    y : array-like of shape (n,) or (n, P)
    sample_weight : array-like of shape (n,) or None
    reset : bool
    read : callable (y, name of the argument) -> array
        Such as `read_targets`.
    suffix : str
        What follows X, y and sample_weight in the names of the arguments.
    noise_variance : array-like of the shape of y, or None

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its shape or the column at fault.
    """
    X = _check_inputs(estimator, X, y, reset, suffix)
    name = f"y{suffix}"
    check_order(f"noise_variance{suffix}", output_names(noise_variance), output_names(y))
    y = read(y, name)
    check_consistent_length(X, y)
    check_magnitude(y, name)
    noise = None if noise_variance is None else _read_noise(noise_variance, y, suffix)
    rows = _weighted(Rows(X, y, None, known_noise=noise), sample_weight, suffix)
    if np.isnan(rows.y).all():
        raise ValueError(f"Input {name} contains NaN in every entry: pass a row with a target")
    return _with_targets(rows)


def read_targets(y: Any, name: str) -> Array:
    """Targets (n,) or (n, P); NaN only if two-dimensional."""
    y = _read_array(y, name, ensure_all_finite="allow-nan")
    missing = np.isnan(y)
    if y.ndim == 1 and missing.any():
        raise ValueError(
            f"Input {name} contains NaN in {int(missing.sum())} of {len(y)} rows: drop these rows. "
            "Only a two-dimensional y may have missing entries."
        )
    return y


def read_bounds(y: Any, name: str) -> Array:
    """Lower and upper bounds (n, 2), NaN where infinite, of them or of observed targets (n,)."""
    y = _read_array(y, name, ensure_all_finite=False)
    if y.shape[1:] in ((), (1,)):
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name=name)
        return np.column_stack([y, y])
    if y.shape[1] != 2:
        raise ValueError(
            f"{name} has shape {y.shape}, and likelihood='censored' needs (n, 2), lower and upper "
            "bounds, or (n,) if every target is observed"
        )
    if np.isnan(y).any():
        raise ValueError(
            f"Input {name} contains NaN in row {np.isnan(y).any(1).argmax()}: a bound that nobody "
            "knows is -inf below and inf above"
        )
    wrong = (y[:, 0] > y[:, 1]) | (y[:, 0] == np.inf) | (y[:, 1] == -np.inf)
    if wrong.any():
        row = wrong.argmax()
        raise ValueError(
            f"{name} has the bounds {y[row].tolist()} in row {row}: the first column is the lower "
            "bound, finite or -inf, and the second the upper one, finite or inf"
        )
    return np.where(np.isinf(y), np.nan, y)


def _read_array(y: Any, name: str, *, ensure_all_finite: bool | str) -> Array:
    refuse_times(y, name)
    with reading(name, y):
        return np.asarray(
            check_array(
                unmasked(y, name, fill=True),
                dtype=np.float64,
                ensure_2d=False,
                ensure_all_finite=ensure_all_finite,
                input_name=name,
            )
        )


def check_labels(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    reset: bool,
    suffix: str = "",
) -> Rows:
    """As `check_rows`, for labels y (n,) of classes, of any type that sorts, instead of targets."""
    X, name = _check_inputs(estimator, X, y, reset, suffix), f"y{suffix}"
    with reading(name):
        y = column_or_1d(unmasked(y, name), warn=True)
    if y.dtype == object and all(isinstance(label, bool | np.bool_) for label in y):
        y = y.astype(bool)
    check_no_label_missing(y, name)
    check_consistent_length(X, y)
    return _weighted(Rows(X, y, None), sample_weight, suffix)


def _check_inputs(estimator: BaseEstimator, X: Any, y: Any, reset: bool, suffix: str) -> Array:
    name = f"X{suffix}"
    X = inputs_to_check(X, name)
    dtype = [np.float64, np.float32]
    with reading(name, X):
        checked: Array = check_array(X, dtype=dtype, input_name=name, estimator=estimator)
        validate_data(estimator, X, y, reset=reset, skip_check_array=True)
    return checked


def _read_noise(noise_variance: Any, y: Array, suffix: str) -> Array:
    """Variances of the shape of y; zero where y is missing, whatever stands there."""
    name = f"noise_variance{suffix}"
    shape = np.shape(noise_variance)
    if shape != y.shape:
        raise ValueError(
            f"{name} has shape {shape}, but a variance for each entry of y{suffix} needs the shape "
            f"{y.shape}"
        )
    noise = _read_array(noise_variance, name, ensure_all_finite="allow-nan")
    noise = np.where(np.isnan(y), 0.0, noise)
    wrong = ~(noise.reshape(len(y), -1) >= 0.0).all(axis=1)
    if wrong.any():
        row = wrong.argmax()
        raise ValueError(
            f"{name} holds {noise[row].tolist()} in row {row}: pass variances, in squared units of "
            f"y{suffix}, and zero where no noise is known beside that which the fit learns"
        )
    return noise


def _weighted(rows: Rows, sample_weight: Any, suffix: str) -> Rows:
    """Rows with validated weights, without those of weight zero."""
    if sample_weight is None:
        return rows
    sample_weight = unmasked(sample_weight, f"sample_weight{suffix}")
    try:
        with reading("sample_weight"):
            weight = _check_sample_weight(
                sample_weight, rows.X, dtype=np.float64, ensure_non_negative=True
            )
    except ValueError as error:
        message = str(error).replace("Sample weights", "sample_weight")
        message = message.replace("sample_weight", f"sample_weight{suffix}")
        raise ValueError(message) from error
    positive = weight[weight > 0.0]
    if positive.size and not LEAST_WEIGHT <= positive.min() <= positive.max() <= 1 / LEAST_WEIGHT:
        extreme = max(positive.min(), positive.max(), key=lambda w: abs(math.log(w)))
        raise ValueError(
            f"sample_weight{suffix} holds {extreme:g}: weights must be zero or between "
            f"{LEAST_WEIGHT:g} and {1 / LEAST_WEIGHT:g}; divide all of them by their mean"
        )
    rows = rows._replace(weight=weight)
    if weight.all():
        return rows
    numbers = np.flatnonzero(weight)
    return rows.take(numbers)._replace(numbers=numbers)


def _with_targets(rows: Rows) -> Rows:
    """The rows that have observed a target: the others say nothing."""
    seen = ~np.isnan(rows.columns[0]).all(axis=1)
    if seen.all():
        return rows
    kept = np.flatnonzero(seen)
    return rows.take(kept)._replace(numbers=kept if rows.numbers is None else rows.numbers[kept])


def check_magnitude(y: Array, name: str) -> None:
    """Refuse targets, NaN where missing, whose squares leave the range of float64."""
    largest = max(np.fmax.reduce(y, axis=None), -np.fmin.reduce(y, axis=None))
    if largest > _LARGEST:
        raise ValueError(
            f"{name} holds numbers as large as {largest:g}, and the largest allowed is "
            f"{_LARGEST:g}: use other units"
        )


def check_observed(
    y: Array, name: str = "y", missing: str = "NaN", remedy: str = "drop the column"
) -> None:
    """Refuse targets (n,) or (n, P) with a column that misses every entry, and name the column.

    `missing` says what a missing entry is in the user's array, `remedy` what to do.
    """
    empty = np.flatnonzero(np.isnan(y).reshape(len(y), -1).all(axis=0))
    if empty.size:
        columns = empty.tolist()
        raise ValueError(
            f"Input {name} contains {missing} in every row of column(s) {columns}: {remedy}"
        )


def any_targets(y: Array, name: str) -> None:
    """Refuse no targets beyond what reading them does."""


def outputs_of(y: Array) -> tuple[int, ...]:
    """The shape (P,) of what is predicted for a row, () for targets (n,)."""
    return y.shape[1:]


def check_counts(y: Array, name: str = "y") -> None:
    """Refuse targets, NaN where missing, that are no counts; float32 holds the others exactly."""
    seen = y[~np.isnan(y)]
    wrong = seen[(seen < 0.0) | (seen != np.floor(seen)) | (seen > _LARGEST_COUNT)]
    if wrong.size:
        raise ValueError(
            f"{name} holds {wrong[0]:g}, and a likelihood of counts needs whole numbers from 0 to "
            f"{_LARGEST_COUNT:,}: use likelihood='normal' or 'student_t' for other targets"
        )


def check_same_shape(
    name: str, y: Array, shape: tuple[int, ...], output_shape: tuple[int, ...]
) -> None:
    """Refuse targets y whose outputs, (P,) or () for one number, are not those of the model."""
    if shape != output_shape:
        expected = "(n,)" if not output_shape else f"(n, {', '.join(map(str, output_shape))})"
        raise ValueError(
            f"{name} has shape {y.shape}, but the model's outputs need the shape {expected}"
        )


def check_same_names(
    name: str, given: tuple[str, ...] | None, known: tuple[str, ...] | None
) -> None:
    """Refuse targets whose columns have other names than the model's outputs, or another order."""
    if given is not None and known is not None and given != known:
        raise ValueError(
            f"{name} has the columns {list(given)}, and the model was fitted on {list(known)}: "
            "pass the same in the same order"
        )
