"""Whatever the table: a fit ends in a proper answer or in an error that says what is wrong."""

import invariants
import pytest
from profiles import search
from strategies import Problem, fuzzed_cases, is_embedding, problems

pytestmark = pytest.mark.usefixtures("short_start")


@pytest.mark.parametrize("name", fuzzed_cases())
def test_a_fit_answers_or_refuses_clearly(name: str) -> None:
    quick = 2 if is_embedding(name) else 6  # to find inputs takes longer than to fit
    search(check_that_it_answers_or_refuses, problems(name), quick=quick, name=name)


def check_that_it_answers_or_refuses(problem: Problem) -> None:
    model = problem.make()
    with invariants.global_state_kept(), invariants.clear_warnings_only(model):
        try:
            model = problem.fit()
        except Exception as error:
            invariants.assert_refuses_clearly(error, model)
            return
        invariants.assert_answers(model, problem)
