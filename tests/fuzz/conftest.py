"""The profile of the fuzz tests: `python -m pytest tests/fuzz --hypothesis-profile=long`."""

import profiles
import pytest
from hypothesis import settings

for _name, _profile in profiles.PROFILES.items():
    settings.register_profile(_name, _profile.settings)


def pytest_configure(config: pytest.Config) -> None:
    profiles.choose(config.getoption("--hypothesis-profile"))
