"""The outputs of a distribution: their names, and the choice of some of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from skgp._typing import IntArray, Names
from skgp._validation import check_order


def check_names(names: Sequence[str] | None, n_outputs: int) -> Names:
    """Names of all outputs, as a tuple.

    Raises
    ------
    ValueError
        If there are more or fewer of them than outputs, or one twice.
    """
    if names is None:
        return None
    given = (names,) if isinstance(names, str) else tuple(map(str, names))
    if len(given) != n_outputs or len(set(given)) != n_outputs:
        raise ValueError(f"names must be {n_outputs} different strings, got {names!r}")
    return given


def common_names(names: Sequence[Names]) -> Names:
    """The names that several distributions agree on, or None.

    Raises
    ------
    ValueError
        If they have the same names in another order.
    """
    for number, others in enumerate(names[1:], 1):
        check_order(f"distribution {number}", others, names[0])
    return names[0] if len(set(names)) == 1 else None


def selection(key: Any, names: Names) -> tuple[slice | IntArray, bool]:
    """Outputs as an index of an axis, and whether it is one alone, which loses the axis.

    `key` is an integer, a name, a slice, or a sequence of integers, booleans or names.
    """
    if isinstance(key, slice):
        return key, False
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return np.array([int(key)]), True
    if isinstance(key, str):
        return np.array([_number(key, names)]), True
    chosen = np.asarray([_number(k, names) if isinstance(k, str) else k for k in key])
    if chosen.size == 0:
        chosen = chosen.astype(np.intp)
    if chosen.dtype != np.bool_ and len(np.unique(chosen)) < len(chosen):
        raise IndexError(f"{key!r} chooses an output twice")
    return chosen, False


def _number(name: str, names: Names) -> int:
    if names is None or name not in names:
        raise IndexError(f"{name!r} is no output: {list(names) if names else 'they have no names'}")
    return names.index(name)
