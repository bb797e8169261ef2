"""The log score of bounds of censored targets."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skgp.distributions import NormalMixture
from skgp.scoring import crps, nll

INF = np.inf


def test_against_scipy_in_both_tails() -> None:
    bounds = [(0.5, 0.5), (-INF, 0.3), (12.0, INF), (-20.0, -19.0), (30.0, 31.0), (-INF, INF)]
    mean, std = np.array([0.0, 1.0, 2.0, 3.0, 2.0, 1.0]), np.array([1.0, 2.0, 1.0, 1.0, 1.0, 3.0])
    dist = NormalMixture.normal(mean, std)
    a, b = stats.norm.logcdf(-19.0, 3.0), stats.norm.logcdf(-20.0, 3.0)
    c, d = stats.norm.logsf(30.0, 2.0), stats.norm.logsf(31.0, 2.0)
    desired = [
        stats.norm.logpdf(0.5),
        stats.norm.logcdf(0.3, 1.0, 2.0),
        stats.norm.logsf(12.0, 2.0),
        a + np.log1p(-np.exp(b - a)),
        c + np.log1p(-np.exp(d - c)),
        0.0,
    ]
    for row, log_p in enumerate(desired):
        value = nll(bounds[row : row + 1], dist[row])
        assert value == pytest.approx(-log_p, rel=1e-10, abs=1e-15)
    assert nll(bounds, dist) == pytest.approx(-np.mean(desired))
    weight = np.arange(6.0)
    expected = -np.average(desired, weights=weight)
    assert nll(bounds, dist, sample_weight=weight) == pytest.approx(expected)
    frame = pd.DataFrame(bounds, columns=["lower", "upper"])
    assert nll(frame, dist, multioutput="raw_values") == pytest.approx([-np.mean(desired)])


def test_of_observed_targets_it_is_the_nll(rng: np.random.Generator) -> None:
    mean, std = rng.standard_normal((7, 3)), rng.uniform(0.5, 1.0, (7, 3))
    dist, y = NormalMixture(np.zeros(3), mean, std), rng.standard_normal(7)
    assert nll(np.column_stack([y, y]), dist) == nll(y, dist)


def test_two_columns_of_two_outputs_are_targets(rng: np.random.Generator) -> None:
    Y = rng.standard_normal((5, 2))
    dist = NormalMixture.normal(np.zeros((5, 2)), np.ones((5, 2)))
    assert nll(Y, dist) == pytest.approx(-stats.norm.logpdf(Y).mean())


def test_it_is_proper_where_censoring_is_independent() -> None:
    """Of N(1, 2) censored above and below at fixed times, by equally likely quantiles."""
    y = stats.norm.ppf((np.arange(4000) + 0.5) / 4000, 1.0, 2.0)
    bounds = np.column_stack([y, y])
    bounds[y > 2.0] = [2.0, INF]
    bounds[y < -1.0] = [-INF, -1.0]

    def expected(mean: float, std: float) -> float:
        return nll(bounds, NormalMixture.normal(np.full(4000, mean), np.full(4000, std)))

    best = expected(1.0, 2.0)
    for mean, std in [(0.5, 2.0), (1.5, 2.0), (1.0, 1.5), (1.0, 2.6)]:
        assert expected(mean, std) > best + 1e-3


def test_wrong_bounds_are_refused() -> None:
    dist = NormalMixture.normal([0.0, 0.0], [1.0, 1.0])
    for wrong in ([1.0, 0.0], [np.nan, 0.0]):
        with pytest.raises(ValueError, match="in row 1: the first column is the lower bound"):
            nll([[0.0, 1.0], wrong], dist)
    with pytest.raises(ValueError, match="only nll is a proper score"):
        crps([[0.0, INF], [0.0, 1.0]], dist)
    with pytest.raises(ValueError, match="negative"):
        nll([[0.0, 1.0], [0.0, 1.0]], dist, sample_weight=[-1.0, 1.0])
