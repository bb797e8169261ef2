"""Every test that asks for `case` or `make` runs over the regressors that its module names `CASES`.

Over all of them, if it names none; over some of these, if it has a decorator `for_...`. Cases that
are not among those that the module names `QUICK` are slow tests.
"""

from collections.abc import Callable
from typing import Any

import pytest
from contract_cases import REGRESSORS, Case, Data, make_data

from skgp.core.training.run import Run


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    cases = getattr(metafunc.module, "CASES", REGRESSORS)
    for mark in metafunc.definition.iter_markers("only"):
        cases = [case for case in cases if case in mark.args[0]]
    quick = getattr(metafunc.module, "QUICK", cases)
    values = [
        case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases
    ]
    names = [case.name for case in cases]
    metafunc.parametrize("case", values, ids=names, indirect=True, scope="session")


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


@pytest.fixture
def held_out() -> Data:
    """Rows for validation."""
    return make_data(n=60, n_new=60, seed=3)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Counts evaluations of losses."""
    counts = {"done": 0}
    gradients = Run.gradients

    def counted(self: Any, *args: Any) -> Any:
        counts["done"] += 1
        return gradients(self, *args)

    monkeypatch.setattr(Run, "gradients", counted)
    return counts
