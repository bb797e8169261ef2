"""A table in another order of its rows gives the same model, up to rounding and chance."""

from typing import Any

import numpy as np
import pytest
from contract_cases import (
    CLASSIFIERS,
    MINIBATCH_REGRESSORS,
    ONE_PER_CLASS,
    REPRESENTATIVES,
    Case,
)
from sklearn.base import clone

from skgp import FITCRegressor, IWDGPRegressor, SVGPClassifier, SVGPRegressor
from skgp.scoring import nll

pytestmark = pytest.mark.usefixtures("short_start")

CASES = tuple(case for case in MINIBATCH_REGRESSORS if case in ONE_PER_CLASS) + CLASSIFIERS
QUICK = REPRESENTATIVES + CLASSIFIERS[:1]
N = 6000


def table() -> tuple[np.ndarray, np.ndarray]:
    """Inputs and a target whose first half in the order of the input 0 says nothing of the rest.

    The last input is the time at which a row was seen.
    """
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 10, N + 2000), rng.normal(size=N + 2000)])
    X = np.column_stack([X, np.linspace(0.0, 1.0, N + 2000)])
    active = X[:, 0] > 5.0
    f = np.where(active, 3.0 * np.sin(2.0 * X[:, 0]) + X[:, 1], 0.0)
    return X, f + np.where(active, 0.4, 0.05) * rng.normal(size=N + 2000)


def orders(X: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "by-time": np.arange(N),
        "by-input": np.argsort(X[:N, 0]),
        "by-target": np.argsort(y[:N], kind="stable"),
        "shuffled": np.random.default_rng(1).permutation(N),
    }


def test_scores_do_not_depend_on_the_order(case: Case) -> None:
    X, y = table()
    is_classifier = case in CLASSIFIERS
    if is_classifier:
        y = np.digitize(y, [-0.5, 0.5])
    params = case.known(
        {
            "max_iter": 2,
            "batch_size": 1000,
            "n_inducing": 20,
            "n_burn_in": 5,
            "thinning": 2,
            "learning_rate_init": 0.02,
        }
    )
    scores = []
    for order in orders(X, y).values():
        model = case.make(**params).fit(X[order], y[order])
        if is_classifier:
            p = model.predict_proba(X[N:])
            scores.append(-np.log(p[np.arange(2000), y[N:]]).mean())
        else:
            scores.append(nll(y[N:], model.predict_dist(X[N:])))
    assert np.ptp(scores) < 0.02


def test_held_out_rows_do_not_depend_on_the_order(case: Case) -> None:
    """Neither they nor those of training, so that the model is the same but for rounding."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=300)
    if case in CLASSIFIERS:
        y = np.digitize(y, [-0.5, 0.5])
    params = {"batch_size": 64, "max_iter": 4, "early_stopping": True, "n_inducing": 12}
    model, order = case.make(**case.known(params)), rng.permutation(300)
    fits = [clone(model).fit(X[rows], y[rows]) for rows in (np.arange(300), order)]
    losses = [fitted.loss_curve_ for fitted in fits]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    predictions = [fitted.predict_dist(X) for fitted in fits]
    if case not in CLASSIFIERS:
        predictions = [dist.mean() for dist in predictions]
    np.testing.assert_allclose(*map(np.asarray, predictions), atol=1e-3)


@pytest.mark.parametrize("batch_size", [60, 400])
def test_equal_rows_of_different_weights_in_any_order(case: Case, batch_size: int) -> None:
    rng = np.random.default_rng(0)
    X = np.tile(rng.normal(size=(100, 2)), (2, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * np.tile(rng.normal(size=100), 2)
    weight = rng.choice([0.2, 1.0, 5.0], 200)
    if case in CLASSIFIERS:
        y = np.digitize(y, [-0.5, 0.5])
    params = {"batch_size": batch_size, "max_iter": 4, "n_inducing": 12, "dtype": "float64"}
    model, order = case.make(**case.known(params)), rng.permutation(200)
    fits = [clone(model).fit(X[i], y[i], sample_weight=weight[i]) for i in (np.arange(200), order)]
    losses = [fitted.loss_curve_ for fitted in fits]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("full_start")
def test_a_sorted_table_gives_what_a_shuffled_one_gives_by_defaults() -> None:
    """9,000 rows, whose first 3,000 in sorted order hold neither signal nor noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (9000, 1))
    active = X[:, 0] >= 4.0
    y = np.where(active, 3 * np.sin(6 * X[:, 0]), 0) + np.where(active, 0.5, 0.01) * rng.normal(
        size=9000
    )
    order = np.argsort(X[:, 0])
    test = rng.choice(9000, 2000, replace=False)
    scores = [
        nll(y[test], SVGPRegressor(n_inducing=50, max_iter=5, random_state=0)
            .fit(X[rows], y[rows]).predict_dist(X[test]))
        for rows in (np.arange(9000), order)
    ]  # fmt: skip
    assert abs(scores[0] - scores[1]) < 0.01


def test_a_marginal_likelihood_starts_from_the_same_rows() -> None:
    X, y = table()
    kernels = []
    for order in orders(X, y).values():
        model = FITCRegressor(n_inducing=15, max_iter=1, random_state=0).fit(X[order], y[order])
        kernels.append([*model.lengthscales_, model.noise_variance_])
    np.testing.assert_allclose(kernels[1:], [kernels[0]] * 3, rtol=1e-3)


@pytest.mark.parametrize("observed", [600, 5])
def test_rows_without_a_target_in_front(observed: int) -> None:
    """The rows of the start hold targets of each output, however rare they are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1]]) + 0.1 * rng.normal(size=(4000, 2))
    Y[:3000] = np.nan
    Y[3000 : 4000 - observed, 1] = np.nan
    model = SVGPRegressor(n_inducing=30, max_iter=3, random_state=0).fit(X, Y)
    mean, std = model.predict(X[3500:], return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    truth = np.sin(X[3500:, 0])
    assert np.sqrt(np.mean((mean[:, 0] - truth) ** 2)) < 0.2


def test_more_rows_than_the_start_takes(monkeypatch: Any) -> None:
    """Neither the first rows nor those of other classes: with a start from 200 rows of 2,000."""
    monkeypatch.setattr("skgp.fitting.fit._SETUP_ROWS", 200)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = np.select([X[:, 0] > 2.2, X[:, 0] > 0.0], ["rare", "high"], "low")
    order = np.argsort(X[:, 0])
    assert 10 < (y == "rare").sum() < 40
    models = [
        SVGPClassifier(n_inducing=30, max_iter=5, random_state=0).fit(X[rows], y[rows])
        for rows in (np.arange(2000), order)
    ]
    p = [model.predict_proba(X) for model in models]
    assert np.abs(p[0] - p[1]).mean() < 0.01
    # The rare class is known from the start: its rows get more than its share of 1 %.
    assert p[0][y == "rare", list(models[0].classes_).index("rare")].mean() > 0.1


def test_the_rows_of_the_start_count_by_their_weights() -> None:
    """4,000 rows of next to no weight beside 300 that count."""
    rng = np.random.default_rng(0)
    near = rng.uniform(-2, 2, (300, 2))
    X = np.vstack([rng.normal(size=(4000, 2)) * 3 + 20, near])
    y = np.append(np.zeros(4000), np.sin(3 * near[:, 0]) + 0.05 * rng.normal(size=300))
    weight = np.repeat([1e-6, 1.0], [4000, 300])
    model = SVGPRegressor(n_inducing=40, max_iter=30, random_state=0)
    alone = model.fit(near, y[4000:]).score(near, y[4000:])
    model.fit(X, y, weight)
    assert (np.abs(model.inducing_points_) < 4.0).all(axis=1).sum() >= 38
    assert model.score(near, y[4000:]) > alone - 0.01


def test_latent_covariates_of_each_row_do_not_depend_on_the_order() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 2))
    y, order = np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=60), rng.permutation(60)
    model = IWDGPRegressor(
        architecture="LV-GP", n_inducing=8, max_iter=5, amortized=False, random_state=0
    )
    losses = [clone(model).fit(X[i], y[i]).loss_curve_ for i in (np.arange(60), order)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
