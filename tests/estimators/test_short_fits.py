"""Fits of few epochs, which may not lose what their start knows."""

import numpy as np
import pytest

from skgp import (
    DGPRegressor,
    MOGPEmbedding,
    PPGPRRegressor,
    SVGPClassifier,
    SVGPRegressor,
)
from skgp.core.training.schedules import one_cycle

pytestmark = pytest.mark.usefixtures("short_start")


@pytest.fixture
def waves(rng):
    """Rows (260, 3) with targets, and 500 new ones."""
    X = rng.standard_normal((760, 3))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(760)
    return X[:260], y[:260], X[260:], y[260:]


@pytest.mark.parametrize("cls", [SVGPRegressor, PPGPRRegressor, DGPRegressor])
@pytest.mark.parametrize("max_iter", [2, 3, 6])
def test_a_few_epochs_of_one_batch_stay_near_the_start(cls, max_iter, waves):
    """At the full rate the second step loses 0.3 nats per row and more."""
    X, y, X_new, y_new = waves
    params = {"early_stopping": False, "random_state": 0}
    of_start = cls(max_iter=1, **params).fit(X, y).predict_dist(X_new).logpdf(y_new).mean()
    model = cls(max_iter=max_iter, **params).fit(X, y)
    assert model.predict_dist(X_new).logpdf(y_new).mean() > of_start - 0.15


@pytest.mark.parametrize(
    ("model", "n_rising"), [(SVGPRegressor(), 20), (DGPRegressor(), 20), (SVGPClassifier(), 3)]
)
def test_the_rate_of_one_batch_rises_no_faster_than_in_a_usual_fit(model, n_rising):
    """Of 500 steps for regressors and 30 for classes; several batches have one cycle."""
    for max_iter, n_rows in [("auto", 300), (10, 300), (100, 300), (200, 300), (10, 3000)]:
        plan = model.set_params(max_iter=max_iter)._recipe().plan(n_rows)
        n_steps = plan.max_iter * plan.n_batches(n_rows)
        shares = np.arange(n_steps) / n_steps
        rates = np.array([plan.schedule(share) for share in shares])
        cycle = np.array([one_cycle(share) for share in shares])
        limited = np.minimum(cycle, (1 + np.arange(n_steps)) / n_rising)
        np.testing.assert_allclose(rates, limited if n_rows == 300 else cycle, rtol=1e-12)
        if max_iter in ("auto", 200):
            assert np.array_equal(rates, cycle)


def test_models_that_start_from_nothing_have_the_cycle_alone():
    plan = MOGPEmbedding(max_iter=10)._recipe().plan(60)
    assert [plan.schedule(share) for share in (0.1, 0.2, 0.5)] == [
        one_cycle(share) for share in (0.1, 0.2, 0.5)
    ]
