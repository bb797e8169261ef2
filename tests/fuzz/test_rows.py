"""What rows have to do with each other: their order and number of times."""

import numpy as np
import pytest
from contract.contract_cases import rows_have_draws
from invariants import predictions
from profiles import search
from strategies import CASES, Array, Problem, fuzzed_cases, problems

pytestmark = pytest.mark.usefixtures("short_start")


def assert_equal_up_to_rounding(actual: Array, desired: Array, tolerance: float) -> None:
    """Relative to the size of each column."""
    error = np.abs(actual - desired).max(axis=0)
    size = np.abs(desired).max(axis=0)
    assert (error <= tolerance * size).all(), error / size


@pytest.mark.parametrize("name", fuzzed_cases(embeddings=False))
def test_predictions_do_not_depend_on_other_rows(name: str) -> None:
    examples = problems(name, power=0, weights=None, params={})
    search(check_that_rows_stand_alone, examples, quick=1, name=name)


def check_that_rows_stand_alone(problem: Problem) -> None:
    model = problem.fit()
    X = problem.X_new
    together = predictions(model, X)
    order = np.random.default_rng(problem.seed).permutation(len(X))
    assert_equal_up_to_rounding(predictions(model, X[order]), together[order], 1e-9)
    alone = np.concatenate([predictions(model, X[[i]]) for i in order[:3]])
    assert_equal_up_to_rounding(alone, together[order[:3]], 1e-9)


def repeats_count_as_weights(name: str) -> bool:
    """Whether a row that is repeated is to a fit what one of weight two is."""
    model = CASES[name].make()
    return not rows_have_draws(model) and not model.get_params().get("dropout")


@pytest.mark.parametrize(
    "name", [n for n in fuzzed_cases(embeddings=False) if repeats_count_as_weights(n)]
)
def test_integer_weights_are_repeated_rows(name: str) -> None:
    examples = problems(name, **ONE_BATCH).filter(is_well_conditioned)
    search(check_that_weights_are_repeats, examples, quick=2, name=name)


# More distinct rows than inducing inputs, in one batch.
ONE_BATCH = {"n_rows": 20, "weights": "counts", "power": 0, "params": {"dtype": "float64"}}


def is_well_conditioned(problem: Problem) -> bool:
    """Whether rounding stays rounding: Adam makes whole steps of gradients that should be zero."""
    degenerate = {"constant", "nearly_constant", "duplicated_rows", "one_differs", "booleans"}
    return problem.inputs != "nearly_constant" and problem.targets not in degenerate


def check_that_weights_are_repeats(problem: Problem) -> None:
    X, y, weight = problem.data
    number = np.repeat(np.arange(len(X)), weight)
    weighted = problem.make().fit(X, y, sample_weight=weight)
    repeated = problem.make().fit(X[number], y[number])
    assert_equal_up_to_rounding(
        predictions(repeated, problem.X_new), predictions(weighted, problem.X_new), 1e-5
    )
