"""What fails leaves a fitted estimator as it was, whatever comes after."""

import copy
from typing import Any

import numpy as np
import pytest
from invariants import (
    assert_same_attributes,
    global_state_kept,
    own_attributes,
    predictions,
)
from profiles import search
from spoilers import Spoiler, fit_spoilers_of, spoilers_of
from strategies import Problem, fuzzed_cases, is_embedding, problems

# Tables that fit without ado; what comes afterwards is bad.
GOOD = {
    "n_rows": 8,
    "inputs": "plain",
    "targets": "plain",
    "weights": None,
    "missing": False,
    "power": 0,
    "params": {},
}

pytestmark = pytest.mark.usefixtures("short_start")


@pytest.mark.parametrize("name", fuzzed_cases())
def test_a_failure_leaves_no_trace(name: str) -> None:
    search(check_that_failures_leave_no_trace, problems(name, **GOOD), quick=1, name=name)


def check_that_failures_leave_no_trace(problem: Problem) -> None:
    X = problem.table if is_embedding(problem.case) else problem.X
    before = problem.fit()
    predicted = predictions(before, X)
    model = copy.deepcopy(before)
    traces = {}
    for spoiler in spoilers_of(model):
        try:
            with global_state_kept():
                assert_fails(spoiler, model, problem)
            assert_same_attributes(model, before)
            np.testing.assert_array_equal(predictions(model, X), predicted)
        except (AssertionError, ValueError) as error:
            traces[spoiler.__name__] = str(error)
            model = copy.deepcopy(before)
    assert not traces
    assert_goes_on_alike(model, before, problem)


def assert_fails(spoiler: Spoiler, model: Any, problem: Problem) -> None:
    try:
        spoiler(model, problem)
    except (Exception, KeyboardInterrupt):
        return
    raise AssertionError("nothing was raised")


def assert_goes_on_alike(model: Any, before: Any, problem: Problem) -> None:
    """What is not to be seen in attributes, such as the optimiser's state, is as it was too."""
    if hasattr(model, "partial_fit"):
        model.partial_fit(problem.X, problem.y)
        before.partial_fit(problem.X, problem.y)
        np.testing.assert_array_equal(predictions(model, problem.X), predictions(before, problem.X))


@pytest.mark.parametrize("name", fuzzed_cases())
def test_a_first_fit_that_fails_leaves_no_trace(name: str) -> None:
    problem = Problem(name)
    traces = {}
    for spoiler in fit_spoilers_of(problem.make()):
        model = problem.make()
        names = own_attributes(model).keys()
        assert_fails(spoiler, model, problem)
        if own_attributes(model).keys() != names:
            traces[spoiler.__name__] = own_attributes(model).keys() - names
    assert not traces
