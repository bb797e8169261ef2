"""PPGPR with a Renyi divergence as regulariser, and with the gamma score of its densities."""

from typing import Any

import numpy as np
import pytest

from skgp import PPGPRRegressor
from skgp.core.objectives.objective import renyi_divergence

SHORT = {"n_inducing": 10, "n_inducing_mean": 15, "max_iter": 60, "random_state": 0}


def make_line(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (150, 1))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(150)


BRIEF = {"max_iter": 10}  # where fits are equal at every step


def fit(**params: Any) -> PPGPRRegressor:
    settings = {"covariance": "full", "early_stopping": False, "beta_reg": 1.0, **SHORT}
    return PPGPRRegressor(**(settings | params)).fit(*make_line())


@pytest.mark.parametrize("covariance", ["full", "diagonal", "decoupled"])
def test_renyi_divergence_of_order_one_is_the_default(covariance: str) -> None:
    X = np.linspace(-3, 3, 20)[:, None]
    plain = fit(covariance=covariance, **BRIEF)
    one = fit(covariance=covariance, renyi_order=1, **BRIEF)
    assert plain.loss_curve_ == one.loss_curve_
    np.testing.assert_array_equal(plain.predict(X), one.predict(X))


def test_each_fit_is_best_for_its_own_divergence() -> None:
    """D_a(q_a) + D_b(q_b) <= D_a(q_b) + D_b(q_a), for maxima q_a and q_b of F - beta D."""
    orders = 0.1, 1.3
    stacks = [fit(renyi_order=order, beta_reg=10.0, max_iter=100).stack_ for order in orders]
    table = [
        [renyi_divergence(stack, stack.factors(), order=order).item() for stack in stacks]
        for order in orders
    ]
    assert np.trace(table) < 0.95 * (np.sum(table) - np.trace(table))


def test_a_point_has_the_same_fit_at_every_order() -> None:
    plain, other = (fit(covariance="delta", renyi_order=o, **BRIEF) for o in (None, 3))
    assert plain.loss_curve_ == other.loss_curve_


def test_gamma_resists_outliers() -> None:
    """A tenth of the targets is far above the sine, in one part of the line."""
    X, y = make_line()
    outliers = np.flatnonzero(np.abs(X[:, 0]) < 1.0)[::3]
    y[outliers] += 4.0
    grid = np.linspace(-1, 1, 30)[:, None]
    errors = []
    for gamma in (None, 1.3):
        model = PPGPRRegressor(covariance="full", early_stopping=False, gamma=gamma, **SHORT)
        error = model.fit(X, y).predict(grid) - np.sin(grid[:, 0])
        errors.append(np.sqrt(np.mean(error**2)))
    assert errors[1] < 0.3 * errors[0]


def test_gamma_tends_to_the_log_score() -> None:
    X = np.linspace(-3, 3, 20)[:, None]
    plain, robust = fit(), fit(gamma=1.0 + 1e-7)
    for ours, theirs in zip(
        robust.predict(X, return_std=True), plain.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_gamma_of_several_outputs_in_single_precision() -> None:
    X, y = make_line()
    Y = np.column_stack([y, X[:, 0] - 2.0 * y])
    settings = {"gamma": 1.1, "early_stopping": False, **SHORT, "max_iter": 2}
    single, double = (
        PPGPRRegressor(dtype=dtype, **settings).fit(X, Y) for dtype in ("float32", "float64")
    )
    np.testing.assert_allclose(single.loss_curve_, double.loss_curve_, atol=1e-4)
    np.testing.assert_allclose(single.predict(X), double.predict(X), atol=1e-3)


def test_gamma_is_for_the_normal_likelihood() -> None:
    with pytest.raises(ValueError, match=r"gamma=1\.1 is for likelihood='normal'"):
        fit(gamma=1.1, likelihood="student_t")
