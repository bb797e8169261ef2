"""Dates, times and durations, which are no numbers."""

from datetime import date, time, timedelta
from typing import Any, Final

import numpy as np

_TIMES: Final = (date, time, timedelta, np.datetime64, np.timedelta64)  # also those of pandas


def refuse_times(values: Any, name: str) -> None:
    """Refuse dates, times and durations: NumPy makes numbers of them, in a unit that is lost.

    Parameters
    ----------
    values : array-like of shape (n,) or (n, D)
        Also objects of pandas and polars.
    name : str
        Of the argument.

    Raises
    ------
    ValueError
        Naming the column, where it has a name.
    """
    if hasattr(values, "columns") and hasattr(values, "dtypes"):
        found = [
            f"{name} has the column {column!r} of {dtype}"
            for column, dtype in zip(values.columns, values.dtypes, strict=True)
            if _is_time(dtype) or _begins_with_time(dtype, values[column])
        ]
    else:
        dtype = getattr(values, "dtype", None)
        found = [f"{name} holds dates or times"] * (
            _is_time(dtype) or _begins_with_time(dtype, values)
        )
    if found:
        raise ValueError(
            f"{found[0]}: convert dates to numbers, such as days since a fixed one, "
            "(d - pd.Timestamp('2020-01-01')).dt.total_seconds() / 86400, and durations d by "
            "d.dt.total_seconds() / 86400 (periods are dates after p.dt.to_timestamp())"
        )


def _is_time(dtype: Any) -> bool:
    """Whether a type of NumPy, pandas or polars is one of dates, times or durations."""
    if hasattr(dtype, "is_temporal"):
        return bool(dtype.is_temporal())
    return getattr(dtype, "kind", None) in ("M", "m") or type(dtype).__name__ == "PeriodDtype"


def _begins_with_time(dtype: Any, values: Any) -> bool:
    """Whether a list, or an array or column of objects, has a date or time in its first row."""
    if not isinstance(values, list | tuple) and dtype != np.dtype(object):
        return False
    entries = [values.iloc[0] if hasattr(values, "iloc") else values[0]] if len(values) else []
    if entries and isinstance(entries[0], list | tuple | np.ndarray):
        if _is_time(getattr(entries[0], "dtype", None)):
            return True
        entries = list(entries[0])
    return any(isinstance(e, _TIMES) or type(e).__name__ == "Period" for e in entries)
