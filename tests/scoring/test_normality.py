"""The Shapiro-Wilk statistic of predictive distributions."""

import numpy as np
import pytest
from scipy import stats

import skgp.scoring._normality
from skgp.distributions import MonotoneTransformed, NormalMixture
from skgp.scoring import shapiro_wilk


def mixtures(n: int, half_gap: float) -> NormalMixture:
    """Two equal standard normals each."""
    return NormalMixture([0.0, 0.0], np.tile([-half_gap, half_gap], (n, 1)), 1.0)


def test_normals_are_near_one() -> None:
    # Oracle: numpy's normals. The mean of W is 0.99825, its deviation 0.0007 per entry.
    W = shapiro_wilk(NormalMixture.normal(np.arange(500.0), np.linspace(0.1, 9.0, 500)))
    draws = np.random.default_rng(5).normal(size=(500, 1000))
    expected = [stats.shapiro(row).statistic for row in draws]
    assert abs(W.mean() - np.mean(expected)) < 4 * np.hypot(W.std(), np.std(expected)) / 500**0.5
    assert 0.998 < W.mean() < 0.9985
    assert np.quantile(W, 0.02) > 0.995


def test_two_peaks_are_far_from_one() -> None:
    W = [shapiro_wilk(mixtures(50, half_gap)).mean() for half_gap in (0.0, 1.0, 2.0, 3.0, 1e4)]
    assert (np.diff(W) < 0.0).all()
    # W is the squared correlation of ordered draws with expected normals: (E|z|)^2 for two points.
    assert abs(W[-1] - 2 / np.pi) < 0.002
    assert abs(W[3] - 0.884) < 0.005


@pytest.mark.parametrize("n_samples", [3, 100, 1000])
def test_equals_scipy_on_the_draws(n_samples: int) -> None:
    mean = np.random.default_rng(1).normal(size=(7, 2, 3))
    dist = NormalMixture(np.log([0.4, 0.6]), mean, np.abs(mean))
    draws = dist.rvs(n_samples, random_state=np.random.default_rng(3))
    W = shapiro_wilk(dist, n_samples=n_samples, random_state=3)
    assert W.shape == (7, 3)
    for entry in np.ndindex(7, 3):
        assert W[entry] == stats.shapiro(draws[entry]).statistic


def test_units_do_not_matter() -> None:
    dist = mixtures(20, 2.0)
    np.testing.assert_allclose(shapiro_wilk(dist.affine(7.0, 1e6)), shapiro_wilk(dist), rtol=1e-9)
    np.testing.assert_allclose(shapiro_wilk(dist.affine(0.0, 1e-9)), shapiro_wilk(dist), rtol=1e-9)


def test_skewed_distributions_are_not_normal() -> None:
    base = NormalMixture.normal(np.zeros(20), 1.0)
    assert shapiro_wilk(MonotoneTransformed(base, np.exp, np.log)).max() < 0.8


def test_chunks_cover_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    dist = mixtures(7, 3.0)
    monkeypatch.setattr(skgp.scoring._normality, "_CHUNK", 3 * 100)
    W = shapiro_wilk(dist, n_samples=100, random_state=0)
    rng = np.random.default_rng(0)
    draws = np.concatenate([dist[rows].rvs(100, rng) for rows in (slice(3), slice(3, 6), [6])])
    assert W.tolist() == [stats.shapiro(row).statistic for row in draws]


@pytest.mark.parametrize("n_samples", [2, 5001])
def test_number_of_draws_is_checked(n_samples: int) -> None:
    with pytest.raises(ValueError, match=f"n_samples must lie between 3 and 5000, got {n_samples}"):
        shapiro_wilk(mixtures(1, 0.0), n_samples=n_samples)
