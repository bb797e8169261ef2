"""How long the search for counterexamples goes on: a moment in each run of the tests, or longer.

`--hypothesis-profile=long` tries many times as many examples, other ones in each run; `absurd` does
so with scales up to the ends of float64.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, reject, seed, settings
from hypothesis.strategies import SearchStrategy

_SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}


@dataclass(frozen=True)
class Profile:
    """One choice of effort and range."""

    factor: int  # times as many examples as the quick one
    max_power: int  # sizes reach from ten to the minus this power to its inverse
    settings: settings

    @property
    def is_quick(self) -> bool:
        return self.factor == 1


# The quick one reports the first failure as it is; to make it smaller takes many more fits.
PROFILES = {
    "quick": Profile(
        1, 30, settings(**_SETTINGS, derandomize=True, database=None, phases=[Phase.generate])
    ),
    "long": Profile(40, 30, settings(**_SETTINGS)),
    "absurd": Profile(20, 300, settings(**_SETTINGS)),
}
_chosen = [PROFILES["quick"]]


def choose(name: str | None) -> None:
    """Take the profile of this name, if there is one."""
    _chosen[0] = PROFILES.get(name or "quick", PROFILES["quick"])


def profile() -> Profile:
    return _chosen[0]


def search(
    check: Callable[[Any], None], examples: SearchStrategy[Any], *, quick: int, name: str
) -> None:
    """Look for an example that fails a check.

    Parameters
    ----------
    check : callable
    examples : strategy
    quick : int
        Number of examples of the quick profile.
    name : str
        Of the search; the quick one is the same in every run, and others are for other names.
    """
    chosen = profile()
    skipped: list[Any] = []

    def tried(example: Any) -> None:
        if chosen.is_quick and not skipped:  # the simplest, which other tests have fitted
            skipped.append(example)
            reject()
        check(example)

    limits = settings(chosen.settings, max_examples=quick * chosen.factor)
    test = limits(given(examples)(tried))
    if chosen.is_quick:
        test = seed(zlib.crc32(name.encode()))(test)
    test()
