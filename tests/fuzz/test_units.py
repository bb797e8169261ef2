"""Units that are no matter: the answer scales with them, or an error says how far they may go."""

import re
from typing import Any

import invariants
import numpy as np
import pytest
from hypothesis import strategies as st
from profiles import profile, search
from strategies import Problem, fuzzed_cases, is_classifier

pytestmark = pytest.mark.usefixtures("short_start")


@pytest.mark.parametrize("name", fuzzed_cases(embeddings=False))
def test_units_do_not_matter(name: str) -> None:
    powers = st.integers(-profile().max_power, profile().max_power)

    def check(units: tuple[int, int]) -> None:
        check_that_answers_scale(Problem(name, params={"dtype": "float64"}), *units)

    search(check, st.tuples(powers, powers), quick=1, name=name)


def check_that_answers_scale(problem: Problem, x_power: int, y_power: int) -> None:
    x_unit, y_unit = 10.0**x_power, 10.0**y_power
    y = problem.y if is_classifier(problem.case) else problem.y * y_unit
    actual, error = None, None
    try:
        model = problem.make().fit(problem.X * x_unit, y)
        actual = answers(model, problem.X_new * x_unit, y_unit)
    except Exception as caught:
        error = caught
    if error is not None:
        assert max(abs(x_power), abs(y_power)) > 30, error
        invariants.assert_refuses_clearly(error, problem.make())
        assert re.search(r"\d", str(error)), f"without a range: {error}"
        return
    desired = answers(problem.fit(), problem.X_new, 1.0)
    np.testing.assert_allclose(actual, desired, rtol=1e-5, atol=1e-6)


def answers(model: Any, X: Any, y_unit: float) -> Any:
    """Mean and deviation in a unit, or probabilities."""
    if hasattr(model, "classes_"):
        return model.predict_proba(X)
    return np.column_stack([part / y_unit for part in model.predict(X, return_std=True)])
