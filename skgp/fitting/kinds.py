"""Kinds of targets of regressors: real ones, counts, and bounds of what may not be observed."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from skgp._typing import Array
from skgp.core.bounds import imputed
from skgp.core.bulk import within_reach
from skgp.fitting.fit import unchanged
from skgp.fitting.row_checks import any_targets, check_counts, outputs_of, read_bounds, read_targets


def one_output(y: Array) -> tuple[int, ...]:
    """The shape of one number for each row."""
    return ()


@dataclass(frozen=True)
class Kind:
    """What targets of a kind are as arrays.

    Attributes
    ----------
    read : callable (y, name of the argument) -> array (n,) or (n, P)
        NaN where an entry is missing.
    check : callable (array, name of the argument) -> None
        Refuses those that are not of this kind, among rows whose weight is not zero.
    shape : callable (array) -> tuple
        Of what is predicted for a row.
    values : callable (array (n, P), weights or None) -> array (n, P')
        What they are scaled by.
    are_bounds : bool
        Whether an entry is an interval: two columns are one output then.
    can_scale : bool
        Whether `normalize_y` applies: they have no scale of their own.
    missing : str
        What a missing entry is in the user's array.
    remedy : str
        What to do where a column misses every entry.
    """

    read: Callable[[Any, str], Array] = read_targets
    check: Callable[[Array, str], None] = any_targets
    shape: Callable[[Array], tuple[int, ...]] = outputs_of
    values: Callable[[Array, Array | None], Array] = unchanged
    are_bounds: bool = False
    can_scale: bool = True
    missing: str = "NaN"
    remedy: str = "drop the column"


REALS: Final = Kind()
_COUNTS: Final = Kind(check=check_counts, can_scale=False)
_BOUNDS: Final = Kind(
    read=read_bounds,
    shape=one_output,
    values=imputed,
    are_bounds=True,
    missing="an infinite bound",
    remedy="add rows whose bound is finite there, such as observed ones with two equal bounds",
)
_WITH_OUTLIERS: Final = Kind(values=within_reach)
# By the likelihood.
KINDS: Final = MappingProxyType(
    {
        "poisson": _COUNTS,
        "negative_binomial": _COUNTS,
        "censored": _BOUNDS,
        "student_t": _WITH_OUTLIERS,
    }
)
