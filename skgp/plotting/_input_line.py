"""Rows along one input, for predictions as a function of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgp._typing import FloatArray
from skgp._validation import check_order, output_names, refuse_times, target_values
from skgp.distributions import ContinuousDistribution
from skgp.plotting._observed import check_output, select_output


@final
@dataclass(frozen=True)
class InputLine:
    """Rows that differ in one column.

    Attributes
    ----------
    values : ndarray of shape (m,)
        Of the column, increasing.
    rows : ndarray, or data frame as X, of shape (m, D)
        What an estimator predicts for.
    observed : ndarray of shape (n,)
        Values of the column in the rows that the line was made from.
    name : str
        Of the column.
    """

    values: FloatArray
    rows: Any
    observed: FloatArray
    name: str

    @classmethod
    def through(cls, X: Any, column: int | str | None, at: Any, grid: int | ArrayLike) -> Self:
        """The line along `column` through a row: row number `at` of X, or `at` itself."""
        is_frame = hasattr(X, "columns")
        table: Any = X if is_frame else np.asarray(X, dtype=np.float64)
        if len(table.shape) != 2:
            raise ValueError(f"X must have shape (n, D), got {table.shape}.")
        n_rows, n_columns = table.shape
        names = list(table.columns) if is_frame else [f"column {j}" for j in range(n_columns)]
        if column is None and n_columns > 1:
            raise ValueError(
                f"X has {n_columns} columns: choose the one to vary by column=. The others are "
                "held at the values of a row: at= is its number in X, or a row of values."
            )
        if isinstance(column, str) and column not in names:
            raise ValueError(f"column={column!r} is none of the columns {names}.")
        varied = names.index(column) if isinstance(column, str) else column or 0
        if not 0 <= varied < n_columns:
            raise ValueError(f"column={column} is out of range: X has {n_columns} columns.")
        number, held = (int(at), {}) if isinstance(at, Integral) else (0, _held(at, names, varied))
        if not 0 <= number < n_rows:
            raise ValueError(f"at={at} is out of range: X has {n_rows} rows.")
        name = "x" if n_columns == 1 and not is_frame else str(names[varied])
        by_number = table.iloc if hasattr(table, "iloc") else table
        of_column = by_number[:, varied] if is_frame else np.asarray(X)[:, varied]
        observed = _numbers(of_column, name)
        values = _grid_values(grid, observed, name, np.asarray(of_column).dtype.kind in "iub")
        copies = [number] * len(values)
        rows = table.iloc[copies].copy() if hasattr(table, "iloc") else table[copies]
        along: Any = values
        if is_frame and np.isin(values, observed).all():  # codes stay codes, booleans booleans
            along = values.astype(np.asarray(of_column).dtype)
        for j, value in (held | {varied: along}).items():
            if hasattr(table, "iloc"):
                rows[names[j]] = value
            elif is_frame:  # of polars, whose columns are replaced
                series = type(table[names[j]])
                rows = rows.with_columns(series(names[j], np.broadcast_to(value, len(values))))
            else:
                rows[:, j] = value
        return cls(values, rows, observed, name)

    def outcomes(
        self, y: ArrayLike | None, dist: ContinuousDistribution, output: int | str | None
    ) -> tuple[FloatArray, FloatArray] | None:
        """Inputs and outcomes (n,) of the rows that the line was made from, to be drawn as dots."""
        chosen = check_output(output, dist)
        if y is None:
            return None
        check_order("y", output_names(y), dist.output_names)
        targets = target_values(y, "y")
        expected = (len(self.observed), *dist.shape[1:])
        if targets.shape != expected:
            raise ValueError(
                f"y has shape {targets.shape}, expected {expected}: a row for each of X, and "
                "the outputs of the estimator."
            )
        return self.observed, select_output(targets, chosen)


def increasing(x: ArrayLike, n_rows: int) -> tuple[FloatArray, NDArray[np.intp]]:
    """Values (n,) of the input from left to right, and the order that brings them there."""
    values = np.asarray(x, dtype=np.float64)
    if values.shape != (n_rows,):
        raise ValueError(f"x has shape {values.shape}, expected {(n_rows,)} as dist.")
    order = np.argsort(values, kind="stable")
    return values[order], order


def _held(at: Any, names: list[Any], varied: int) -> dict[int, Any]:
    """Values by number of the column, from a row of them or a mapping by names of columns."""
    if hasattr(at, "columns") and len(at) == 1:
        at = {name: np.asarray(at[name])[0] for name in at.columns}
    is_series = hasattr(at, "index") and hasattr(at, "iloc") and np.ndim(at) == 1
    if isinstance(at, Mapping) or (is_series and set(names) & set(at.index)):
        others = [j for j in range(len(names)) if j != varied]
        lacking = [names[j] for j in others if names[j] not in at]
        if lacking:
            raise ValueError(f"at lacks values of the columns {lacking}.")
        return {j: at[names[j]] for j in others}
    values = at if isinstance(at, list | tuple) else np.asarray(at)
    if np.shape(values) != (len(names),):
        raise ValueError(
            f"at must be the number of a row of X, or a row of {len(names)} values, one for each "
            f"column: got {type(at).__name__} of shape {np.shape(values)}."
        )
    return dict(enumerate(values))


def _numbers(column: Any, name: str) -> FloatArray:
    """A column as floats.

    Raises
    ------
    ValueError
        If it holds anything else than numbers and booleans.
    """
    refuse_times(column, f"the column {name!r}")
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the column {name!r} of {np.asarray(column).dtype} holds no numbers, and the axis of "
            "the input needs some: choose another column"
        ) from error


def _grid_values(
    grid: int | ArrayLike, observed: FloatArray, name: str, is_discrete: bool
) -> FloatArray:
    try:
        values = np.asarray(grid, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.zeros(0)
    if values.ndim == 0 and values >= 2:
        there = np.unique(observed[~np.isnan(observed)])
        if len(there) < 2:
            raise ValueError(
                f"{name!r} has the same value in all rows of X: pass rows that differ in it, or "
                "values by grid="
            )
        if is_discrete and len(there) <= values:
            return there
        return np.linspace(there[0], there[-1], int(values))
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(
            f"grid must be a number of at least 2 or an array of shape (m,), got {grid!r}."
        )
    return np.sort(values)
