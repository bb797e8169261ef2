"""Every test that asks for `case` or `make` runs over all registered regressors."""

from collections.abc import Callable
from typing import Any

import pytest
from contract_cases import REGRESSORS, Case, Data, make_data


@pytest.fixture(scope="session", params=REGRESSORS, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


# Not of the session's scope: one kept from a file with a `case` of its own would be another case's.
@pytest.fixture(scope="module")
def make(case: Case) -> Callable[..., Any]:
    """Maker of new, unfitted instances; keyword arguments replace parameters."""
    return case.make


@pytest.fixture(scope="session")
def data() -> Data:
    data = make_data()
    for array in data:
        array.flags.writeable = False
    return data
