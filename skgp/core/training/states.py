"""States of a module and its optimiser: copies and averages."""

import copy
from typing import Any, Final

from torch import Tensor

WINDOW: Final = 6  # an average is over about the last one of so many parts of the epochs


def copied(value: Any) -> Any:
    """A deep copy. That of the standard library takes a visible share of a short fit."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        twin = copy.copy(value)  # with the versions of modules that torch hangs on its own
        twin.update((key, copied(item)) for key, item in value.items())
        return twin
    if isinstance(value, list):
        return [copied(item) for item in value]
    return copy.deepcopy(value)


def averaged(
    average: dict[str, Tensor] | None, latest: dict[str, Tensor], n_states: int
) -> dict[str, Tensor]:
    """Average of the states of a module at the ends of its epochs, with the latest one.

    Weights decay as a polynomial of the number of states (Shamir and Zhang 2013, section 4), so
    that the average is over about the last sixth of them.

    Parameters
    ----------
    average : dict of Tensor or None
        Average of all states but the latest; None if there are none.
    latest : dict of Tensor
    n_states : int
        Number of states, with the latest one.
    """
    if average is None:
        return latest
    share = WINDOW / (n_states + WINDOW - 1.0)
    return {
        name: value.lerp(latest[name], share) if value.is_floating_point() else latest[name]
        for name, value in average.items()
    }
