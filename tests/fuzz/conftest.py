"""The profile of the fuzz tests: `python -m pytest tests/fuzz --hypothesis-profile=long`."""

import profiles
import pytest
import torch._dynamo  # noqa: F401  (which a first fit of FITC imports, and which adds to the warnings' filters)
from hypothesis import settings

pytest.register_assert_rewrite("invariants")

for _name, _profile in profiles.PROFILES.items():
    settings.register_profile(_name, _profile.settings)


def pytest_configure(config: pytest.Config) -> None:
    profiles.choose(config.getoption("--hypothesis-profile"))
