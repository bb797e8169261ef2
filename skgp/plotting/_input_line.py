"""Rows along one input, for predictions as a function of it."""

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from skgp.distributions import ContinuousDistribution
from skgp.plotting._observed import FloatArray, check_output, select_output
from skgp.scoring._reduce import without_mask


@final
@dataclass(frozen=True)
class InputLine:
    """Rows that differ in one column.

    Attributes
    ----------
    values : ndarray of shape (m,)
        Of the column, increasing.
    rows : ndarray or pandas DataFrame of shape (m, D)
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
    def through(cls, X: Any, column: int | str | None, at: int, grid: int | ArrayLike) -> Self:
        """The line through row `at` of X along `column`."""
        is_frame = hasattr(X, "iloc")
        table: Any = X if is_frame else np.asarray(X, dtype=np.float64)
        if table.ndim != 2:
            raise ValueError(f"X must have shape (n, D), got {table.shape}.")
        n_rows, n_columns = table.shape
        names = list(table.columns) if is_frame else [f"column {j}" for j in range(n_columns)]
        if column is None and n_columns > 1:
            raise ValueError(
                f"X has {n_columns} columns: choose the one to vary by column=, and by at= the row "
                "that the others are held at."
            )
        if isinstance(column, str):
            if column not in names:
                raise ValueError(f"column={column!r} is none of the columns {names}.")
            column = names.index(column)
        varied = column or 0
        if not 0 <= varied < n_columns:
            raise ValueError(f"column={column} is out of range: X has {n_columns} columns.")
        if not 0 <= at < n_rows:
            raise ValueError(f"at={at} is out of range: X has {n_rows} rows.")
        observed = np.asarray(table.iloc[:, varied] if is_frame else table[:, varied], dtype=float)
        values = _grid_values(grid, observed)
        rows = table.iloc[[at] * len(values)].copy() if is_frame else table[[at] * len(values)]
        if is_frame:
            rows[names[varied]] = values
        else:
            rows[:, varied] = values
        name = "x" if n_columns == 1 and not is_frame else str(names[varied])
        return cls(values, rows, observed, name)

    def outcomes(
        self, y: ArrayLike | None, dist: ContinuousDistribution, output: int | str | None
    ) -> tuple[FloatArray, FloatArray] | None:
        """Inputs and outcomes (n,) of the rows that the line was made from, to be drawn as dots."""
        if y is None:
            return None
        targets = np.asarray(without_mask(y), dtype=np.float64)
        expected = (len(self.observed), *dist.shape[1:])
        if targets.shape != expected:
            raise ValueError(
                f"y has shape {targets.shape}, expected {expected}: a row for each of X, and "
                "the outputs of the estimator."
            )
        return self.observed, select_output(targets, check_output(output, dist))


def _grid_values(grid: int | ArrayLike, observed: FloatArray) -> FloatArray:
    values = np.asarray(grid, dtype=np.float64)
    if values.ndim == 0 and values >= 2:
        return np.linspace(np.nanmin(observed), np.nanmax(observed), int(values))
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(
            f"grid must be a number of at least 2 or an array of shape (m,), got {grid!r}."
        )
    return np.sort(values)
