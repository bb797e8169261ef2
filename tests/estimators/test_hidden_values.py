"""Values so far out that the others look equal, and Student-t noise that bears them."""

import warnings
from typing import Any

import numpy as np
import pytest

from skgp import ExactGPRegressor, PPGPRRegressor, SVGPClassifier, SVGPRegressor
from skgp.compose import CrossFittedRegressor
from skgp.core.bulk import within_reach
from skgp.estimators.baselines import MCDropoutRegressor
from skgp.exceptions import FitQualityWarning
from skgp.scoring import coverage, crps

pytestmark = pytest.mark.usefixtures("short_start")

Problem = tuple[np.ndarray, np.ndarray]


@pytest.fixture
def problem(rng: np.random.Generator) -> Problem:
    X = rng.uniform(0.0, 5.0, size=(200, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=200)


def warned(model: Any, *rows: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*rows)
    assert not any(issubclass(w.category, RuntimeWarning) for w in caught)  # of NumPy
    return [str(w.message) for w in caught if w.category is FitQualityWarning]


@pytest.mark.parametrize("model", [SVGPRegressor(), ExactGPRegressor(), SVGPClassifier(max_iter=3)])
def test_a_code_for_a_missing_input_is_named(model: Any, problem: Problem) -> None:
    X, y = problem
    X[7, 1] = -1e8
    y = y > 0.0 if isinstance(model, SVGPClassifier) else y
    (text, *_) = warned(model, X, y)
    assert text.startswith("half of column 1 of X lies within 2.")
    assert "such as -1e+08" in text


def test_marks_of_rare_events_and_skewed_columns_are_ordinary(problem: Problem) -> None:
    X, y = problem
    X[:, 1] = np.exp(4.0 * X[:, 1])
    assert np.subtract(*np.quantile(X[:, 1], [0.75, 0.25])) < 0.1 * X[:, 1].std()
    X = np.column_stack([X, np.arange(200) == 7, 1e6 * (np.arange(200) < 3)])
    model = SVGPRegressor(input_warping=False, random_state=0)
    assert warned(model, X, y) == []


def test_one_of_many_rows_is_found(rng: np.random.Generator) -> None:
    """Beyond 10,000 rows some say how narrow a column is, and all whether there is a gap."""
    X = rng.normal(size=(20_002, 1))
    X[10_001] = 1e6
    params = {"max_iter": 1, "n_inducing": 5, "early_stopping": False, "random_state": 0}
    model = PPGPRRegressor(input_warping=False, **params)
    (text, *_) = warned(model, X, np.sin(X[:, 0]))
    assert "such as 1e+06" in text


def test_inputs_behind_a_network_are_its_own_affair(problem: Problem) -> None:
    X, y = problem
    X[7, 1] = -1e8
    for model in (
        SVGPRegressor(feature_extractor="deep-kernel", max_iter=3, n_inducing=10),
        MCDropoutRegressor(max_iter=3),
    ):
        assert not any("half of" in text for text in warned(model, X, y))


def test_a_wrong_target_hides_the_others_from_normal_noise(problem: Problem) -> None:
    X, y = problem
    y[5] = 1e4
    (text, *_) = warned(SVGPRegressor(random_state=0), X, y)
    assert text.startswith("half of y lies within 1.")
    assert "such as 10000" in text
    assert "likelihood='student_t'" in text
    y[5] = 20.0
    assert not any("half of" in text for text in warned(SVGPRegressor(random_state=0), X, y))


@pytest.mark.parametrize("wrong", [pytest.param(1e2, marks=pytest.mark.slow), 1e8])
def test_student_t_noise_bears_wrong_targets_of_any_size(wrong: float, problem: Problem) -> None:
    X, y = problem
    fitted = y[:150].copy()
    fitted[::15] = wrong
    model = SVGPRegressor(likelihood="student_t", random_state=0)
    assert warned(model, X[:150], fitted) == []
    dist = model.predict_dist(X[150:])
    assert crps(y[150:], dist) < 0.08  # that of the noise itself is 0.056
    assert coverage(y[150:], dist, coverage=0.9) > 0.8
    assert model.likelihood_parameters_["scale"] < 0.2


def test_student_t_without_outliers_is_scaled_as_ever(problem: Problem) -> None:
    model = SVGPRegressor(likelihood="student_t", max_iter=2).fit(*problem)
    np.testing.assert_array_equal(model.model_.y_scale.unit, problem[1].std())


def test_reach_is_that_of_a_normal_distribution(rng: np.random.Generator) -> None:
    """Ten standard deviations from the median; weights are copies; columns by themselves."""
    values = 3.0 + 2.0 * rng.normal(size=(100_001, 2))
    values[:2, 0], values[2, 1] = (1e9, -1e3), np.nan
    near = within_reach(values, None)
    np.testing.assert_allclose(near[:2, 0], [23.0, -17.0], rtol=0.02)
    np.testing.assert_array_equal(near[2:], values[2:])
    np.testing.assert_array_equal(near[:, 1], values[:, 1])
    few, copies = values[:9, :1], np.array([1, 2, 1, 3, 1, 1, 2, 1, 1])
    repeated = within_reach(few.repeat(copies, axis=0), None)
    np.testing.assert_array_equal(within_reach(few, copies).repeat(copies, axis=0), repeated)
    equal = np.array([[0.0], [0.0], [0.0], [0.0], [1e6]])
    np.testing.assert_array_equal(within_reach(equal, None), equal)


def test_members_of_a_cross_fit_warn_as_well(problem: Problem) -> None:
    X, y = problem
    X[[7, 90], 1] = -1e8
    with pytest.warns(FitQualityWarning, match="half of column 1 of X"):
        CrossFittedRegressor(SVGPRegressor(), cv=2).fit(X, y)
