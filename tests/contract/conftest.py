"""Every test that asks for `case` or `make` runs over the regressors that its module names `CASES`.

Over all of them, if it names none; over some of these, if it has a decorator `for_...`.
"""

from collections.abc import Callable
from typing import Any

import pytest
from contract_cases import REGRESSORS, Case, Data, make_data


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    cases = getattr(metafunc.module, "CASES", REGRESSORS)
    for mark in metafunc.definition.iter_markers("only"):
        cases = [case for case in cases if case in mark.args[0]]
    names = [case.name for case in cases]
    metafunc.parametrize("case", cases, ids=names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture(scope="session")
def make(case: Case) -> Callable[..., Any]:
    """Maker of new, unfitted instances; keyword arguments replace parameters."""
    return case.make


@pytest.fixture(scope="session")
def data() -> Data:
    data = make_data()
    for array in data:
        array.flags.writeable = False
    return data
