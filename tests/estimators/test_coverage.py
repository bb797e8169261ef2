"""Coverage of held-out rows that have weights."""

import warnings
from typing import Any

import numpy as np
import pytest

from skgp import SVGPRegressor
from skgp.exceptions import FitQualityWarning
from skgp.fitting.coverage import Coverage, coverage_of
from skgp.fitting.diagnosis import _calibration
from skgp.fitting.rows import Rows
from skgp.fitting.table import Table


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weight", [1e-9, 0.0, None])
def test_held_out_rows_of_little_weight_say_little(weight: float | None) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=300)
    y_val, weights = y[200:].copy(), np.ones(100)
    y_val[:40] += 5.0
    weights[:40] = 1.0 if weight is None else weight
    model = SVGPRegressor(n_inducing=10, max_iter=50, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FitQualityWarning)
        model.fit(X[:200], y[:200], X_val=X[200:], y_val=y_val, sample_weight_val=weights)
    assert any("too narrow" in str(w.message) for w in caught) == (weight is None)


def test_coverage_of_weighted_rows_is_that_of_repeated_ones() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=120)
    times = rng.integers(1, 5, 120)
    Y = np.column_stack([y, np.where(np.arange(120) % 3, y, np.nan)])
    model = SVGPRegressor(n_inducing=10, max_iter=20, random_state=0).fit(X, Y).model_

    def covered(rows: Any, weight: Any) -> Coverage:
        scales = model.x_scale, model.y_scale
        return coverage_of(model, Table(Rows(X[rows], Y[rows], weight), *scales, model.log_weights))

    weighted = covered(np.arange(120), times.astype(float))
    repeated = covered(np.arange(120).repeat(times), None)
    assert weighted[:2] == repeated[:2]
    assert weighted.n_targets == 200
    assert weighted.rows == repeated.rows == times.sum()
    assert weighted.squares == np.square(times).sum()


def test_chance_is_that_of_the_effective_number_of_rows() -> None:
    """(sum w)^2 / sum w^2, whatever the unit of the weights."""
    for unit in (1.0, 1e-9):
        for n, warns in ((100, False), (1000, True)):
            equal = unit * np.array([0.81 * n, n, n, n, unit * n])
            coverage = Coverage(*equal)._replace(n_targets=n)
            assert bool(_calibration(coverage, {"beta_reg": 1.0})) == warns
    # 1,000 rows of which 100 have all the weight
    assert not _calibration(Coverage(81.0, 100.0, 1000, 100.0, 100.0), {"beta_reg": 1.0})
