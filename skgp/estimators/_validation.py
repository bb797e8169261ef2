"""Checks of what a user passes, beyond scikit-learn's own."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    validate_data,
)

Array = npt.NDArray[Any]


def check_rows(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, *, reset: bool
) -> tuple[Array, Array, Array | None]:
    """Validated inputs, targets as columns and positive weights.

    Rows of weight zero are dropped. Targets may hold NaN where an entry is missing, but only if
    they have two dimensions and no column misses every entry.

    Parameters
    ----------
    estimator : estimator
        Remembers the number and names of the inputs if `reset`.
    X : array-like of shape (n, D)
    y : array-like of shape (n,) or (n, P)
    sample_weight : array-like of shape (n,) or None
    reset : bool

    Returns
    -------
    X : array of shape (n, D), float32 or float64
    y : array of shape (n,) or (n, P), float64
    sample_weight : array of shape (n,), float64, or None

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its shape or the column at fault.
    """
    X, y = validate_data(
        estimator,
        X,
        y,
        reset=reset,
        validate_separately=(
            {"dtype": [np.float64, np.float32]},
            {"dtype": np.float64, "ensure_2d": False, "ensure_all_finite": "allow-nan"},
        ),
    )
    check_consistent_length(X, y)
    missing = np.isnan(y)
    if y.ndim == 1 and missing.any():
        raise ValueError(
            f"Input y contains NaN in {int(missing.sum())} of {len(y)} rows: drop these rows. Only "
            "a two-dimensional y may have missing entries."
        )
    empty = np.flatnonzero(missing.reshape(len(y), -1).all(axis=0))
    if empty.size:
        raise ValueError(f"Input y contains NaN in every row of column(s) {empty.tolist()}")
    if sample_weight is None:
        return X, y, None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    kept = weight > 0.0
    if kept.all():
        return X, y, weight
    return X[kept], y[kept], weight[kept]


def check_same_outputs(name: str, y: Array, output_shape: tuple[int, ...]) -> None:
    """Refuse targets whose outputs are not those that the model has.

    Parameters
    ----------
    name : str
        Of the argument.
    y : array of shape (n,) or (n, P)
    output_shape : tuple
        (P,), or () for one-dimensional targets.

    Raises
    ------
    ValueError
    """
    if y.shape[1:] != output_shape:
        expected = ", ".join(["n", *map(str, output_shape)])
        raise ValueError(
            f"{name} has shape {y.shape}, but the model's outputs need the shape ({expected})"
        )
