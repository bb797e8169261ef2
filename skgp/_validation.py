"""Checks of what users hand over: masks, dates, names and order of columns, labels, seeds."""

from datetime import date, time, timedelta
from typing import Any, Final

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_array

from skgp._typing import FloatArray, Names, RandomState

_TIMES: Final = (date, time, timedelta, np.datetime64, np.timedelta64)  # also those of pandas


def unmasked(values: Any, name: str, *, fill: bool = False) -> Any:
    """The values of a masked array without their mask, which NumPy drops silently; others as given.

    Parameters
    ----------
    values : object
    name : str
        Of the argument.
    fill : bool, default=False
        Whether entries of a matrix may be missing: masked ones become NaN. Otherwise a masked entry
        is a ValueError.
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.is_masked(values):
        return values.data
    if fill and values.ndim == 2:
        return np.ma.filled(values.astype(np.float64), np.nan)
    raise ValueError(
        f"{name} is a masked array with {np.ma.count_masked(values)} masked entries, which cannot "
        "be missing here: fill them or drop their rows"
    )


def mask_to_nan(y: Any) -> Any:
    """NaN in the place of masked entries, whose mask NumPy drops silently; others as given."""
    if not isinstance(y, np.ma.MaskedArray):
        return y
    filled: FloatArray = np.ma.filled(y.astype(np.float64), np.nan)
    return filled


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


def target_values(y: Any, name: str) -> FloatArray:
    """Targets (n,) or (n, P) as numbers, NaN where they are missing by a mask, NA or None.

    Raises
    ------
    ValueError
        For dates, times and durations, infinite numbers, and what is no number.
    """
    refuse_times(y, name)
    return np.asarray(
        check_array(
            mask_to_nan(y),
            dtype=np.float64,
            ensure_2d=False,
            ensure_all_finite="allow-nan",
            input_name=name,
        )
    )


def output_names(y: Any) -> Names:
    """Names of the columns of a data frame, or of a series, if all are strings."""
    names = list(getattr(y, "columns", []))
    if not names and hasattr(y, "to_frame"):  # a series of pandas or polars
        names = [y.name]
    has_names = names and all(isinstance(name, str) and name for name in names)
    return tuple(names) if has_names else None


def check_order(name: str, given: Names, known: Names) -> None:
    """Refuse columns that have the names of the outputs in another order, a sure mistake."""
    if given is None or known is None or given == known:
        return
    if sorted(given) == sorted(known):
        raise ValueError(
            f"{name} has the columns {list(given)}, and those of the outputs are {list(known)}: "
            "pass them in the same order"
        )


def ordered_categories(y: Any) -> Any:
    """The categories of labels that have an order of their own, as pandas and polars have, or None.

    They are an array in that order.
    """
    if getattr(y, "ndim", 1) == 2 and hasattr(y, "iloc"):
        y = y.iloc[:, 0]
    dtype: Any = getattr(y, "dtype", None)
    if getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum":  # of polars
        return np.asarray(dtype.categories)
    return None


def check_no_label_missing(labels: Any, name: str) -> None:
    """Refuse labels (n,) that are missing, not finite or without an order, and real targets."""
    if labels.dtype == object:  # the errors of scikit-learn do not name the argument
        missing = sum(map(_is_missing, labels))
        if missing:
            raise ValueError(
                f"{name} has no label, None or NaN, in {missing} of {len(labels)} rows: drop these "
                "rows"
            )
        if len({isinstance(label, str) for label in labels}) > 1:
            kinds = sorted({type(label).__name__ for label in labels})
            raise ValueError(
                f"{name} has labels of the types {', '.join(kinds)}, which do not sort: turn all "
                "into text, by astype(str) for instance"
            )
    assert_all_finite(labels, input_name=name)
    check_classification_targets(labels)


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or NA of pandas."""
    is_nan = isinstance(label, float) and label != label
    return label is None or is_nan or type(label).__name__ == "NAType"


def check_sorted(y: Any, name: str) -> None:
    """Refuse ordered categories whose order is not that of sorting."""
    categories = ordered_categories(y)
    if categories is not None and (categories != np.sort(categories)).any():
        order = " < ".join(map(str, categories[:5]))
        raise ValueError(
            f"{name} has ordered categories, {order}, and classes are sorted, as scikit-learn's "
            "scores expect: pass their numbers, the codes"
        )


def random_generator(random_state: RandomState) -> np.random.Generator | np.random.RandomState:
    """Turn `random_state` into a source of random numbers; an int or None makes a new one."""
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return random_state
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be an integer, None, or a generator of NumPy, got {random_state!r}"
        ) from error


def sample_size(size: int) -> int:
    """`size` checked to be a non-negative integer."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise ValueError(f"size must be a non-negative integer, got {size!r}")
    return int(size)
