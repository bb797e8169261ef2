"""The profile of the fuzz tests: `python -m pytest tests/fuzz --hypothesis-profile=long`."""

from collections.abc import Iterator

import profiles
import pytest
import torch._dynamo  # noqa: F401  (which a first fit imports, and which adds to the warnings' filters)
from hypothesis import settings

from skgp.core.marginal import starts as initialisation

pytest.register_assert_rewrite("invariants")

for _name, _profile in profiles.PROFILES.items():
    settings.register_profile(_name, _profile.settings)


def pytest_configure(config: pytest.Config) -> None:
    profiles.choose(config.getoption("--hypothesis-profile"))


@pytest.fixture(scope="module")
def short_start() -> Iterator[None]:
    """Hardly any search for the first hyper-parameters, which takes longer than a tiny fit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(initialisation, "_BOUND_STEPS", 2)
        yield
