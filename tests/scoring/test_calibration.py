"""Calibration measures against known answers."""

import numpy as np
import pytest
from scipy import stats

from skgp.distributions import CountMixture, MonotoneTransformed, NormalMixture
from skgp.scoring import (
    calibration_error,
    coverage,
    coverage_error,
    noise_fraction,
    pit,
    zscores,
)


def spread_mixture(n: int, rng: np.random.Generator) -> NormalMixture:
    """Two-component mixtures that differ from row to row."""
    mean = np.column_stack([rng.normal(-2, 1, n), rng.normal(2, 1, n)])
    return NormalMixture(np.log([0.4, 0.6]), mean, rng.uniform(0.3, 1.5, (n, 2)))


def test_pit_of_a_draw_is_uniform_and_is_the_level_of_a_quantile(rng: np.random.Generator) -> None:
    dist = spread_mixture(2000, rng)
    y = dist.rvs(1, random_state=0)[:, 0]
    assert stats.kstest(pit(y, dist), "uniform").pvalue > 0.01
    np.testing.assert_allclose(pit(dist.ppf(0.3), dist), 0.3, rtol=1e-9)


def test_diagnostics_keep_missing_targets() -> None:
    dist = NormalMixture.normal([[0.0, 1.0], [0.0, 1.0]], [[1.0, 2.0], [1.0, 4.0]])
    y = [[np.nan, 5.0], [1.0, 5.0]]
    np.testing.assert_array_equal(zscores(y, dist), [[np.nan, 2.0], [1.0, 1.0]])
    np.testing.assert_allclose(
        pit(y, dist), [[np.nan, stats.norm.cdf(2)], [stats.norm.cdf(1)] * 2], rtol=1e-12
    )


@pytest.mark.parametrize("diagnostic", [pit, zscores])
def test_diagnostics_never_broadcast(diagnostic: object) -> None:
    dist = NormalMixture.normal([0.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"\(2, 1\) but the distribution has shape \(2,\)"):
        diagnostic([[0.0], [0.0]], dist)  # type: ignore[operator]


@pytest.mark.parametrize("nominal", [0.1, 0.5, 0.9])
def test_coverage_counts_the_targets_inside_the_interval(
    nominal: float, rng: np.random.Generator
) -> None:
    dist = spread_mixture(500, rng)
    y = 1.5 * dist.rvs(1, random_state=0)[:, 0]
    w = rng.uniform(size=500)
    lower, upper = dist.interval(nominal)
    share = w @ ((lower <= y) & (y <= upper)) / w.sum()
    np.testing.assert_allclose(coverage(y, dist, sample_weight=w, coverage=nominal), share)
    np.testing.assert_allclose(
        coverage_error(y, dist, sample_weight=w, coverage=nominal), abs(share - nominal)
    )


@pytest.mark.parametrize("rate", [0.03, 1.0, 5.0])
def test_coverage_of_counts_is_that_of_their_intervals(
    rate: float, rng: np.random.Generator
) -> None:
    y = rng.poisson(rate, 100).astype(float)
    dist = CountMixture(NormalMixture.normal(np.full(100, np.log(rate)), 1e-3))
    lower, upper = dist.interval(0.9)
    share = np.mean((lower <= y) & (y <= upper))
    np.testing.assert_allclose(coverage(y, dist), share)
    np.testing.assert_allclose(coverage_error(y, dist), abs(share - 0.9))


def test_a_target_at_the_end_of_the_interval_is_inside() -> None:
    dist = NormalMixture.normal([0.0, 0.0], [1.0, 1.0])
    nominal = 2.0 * float(dist.cdf([1.0, 0.0])[0] - 0.5)
    assert coverage([1.0, 2.0], dist, coverage=nominal) == 0.5
    # One of two targets is below the median, or at it.
    assert calibration_error([0.0, 1.0], dist, n_levels=1) == 0.0


def test_coverage_error_does_not_cancel_between_outputs() -> None:
    y = np.array([[0.0, 9.0], [0.0, 9.0]])  # always inside, never inside
    dist = NormalMixture.normal(np.zeros((2, 2)), np.ones((2, 2)))
    assert coverage(y, dist, coverage=0.5) == 0.5
    assert coverage_error(y, dist, coverage=0.5) == 0.5


def test_calibration_error_by_hand() -> None:
    dist = NormalMixture.normal(np.zeros(4), np.ones(4))
    y = stats.norm.ppf([0.1, 0.2, 0.3, 0.9])
    # Levels 1/4, 1/2, 3/4: shares 2/4, 3/4, 3/4.
    np.testing.assert_allclose(calibration_error(y, dist, n_levels=3), (0.25 + 0.25) / 3)
    # Weight 6 on the last: shares 2/9, 3/9, 3/9.
    np.testing.assert_allclose(
        calibration_error(y, dist, n_levels=3, sample_weight=[1, 1, 1, 6]),
        (1 / 4 - 2 / 9 + 1 / 2 - 3 / 9 + 3 / 4 - 3 / 9) / 3,
    )


def test_calibration_error_separates_right_from_wrong_spread(rng: np.random.Generator) -> None:
    y = rng.normal(size=4000)

    def error(std: float) -> float:
        return calibration_error(y, NormalMixture.normal(np.zeros(4000), np.full(4000, std)))

    # The mean over p of sqrt(p (1 - p)) sqrt(2 / pi) is 0.31.
    assert error(1.0) < 3 * 0.31 / np.sqrt(4000)
    # Integral of |Phi(s Phi^-1(p)) - p| over p = |arctan(s) / pi - 1/4| for normals of sd s, 1.
    np.testing.assert_allclose(error(2.0), np.arctan(2.0) / np.pi - 0.25, atol=0.01)


def test_noise_fraction_per_entry() -> None:
    dist = NormalMixture(np.log([0.5, 0.5]), [[[0.0, 0.0], [2.0, 0.0]]], [[[1.0, 2.0], [1.0, 2.0]]])
    # Total variances 1 + 1 and 4.
    np.testing.assert_allclose(noise_fraction(dist, [0.5, 1.0]), [[0.25, 0.25]])
    np.testing.assert_allclose(noise_fraction(dist, 0.5), [[0.25, 0.125]])
    one = NormalMixture.normal([0.0, 0.0, 0.0], [1.0, 2.0, 4.0])
    np.testing.assert_allclose(noise_fraction(one, [1.0, 1.0, 4.0]), [1.0, 0.25, 0.25])
    np.testing.assert_allclose(noise_fraction(one, [0.5]), [0.5, 0.125, 0.03125])


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (2.0, "units of y"),
        (-1.0, "units of y"),
        (np.nan, "units of y"),
        ([0.1, 0.1], "noise_variance has shape"),
    ],
)
def test_impossible_noise_is_refused(noise: object, message: str) -> None:
    dist = NormalMixture.normal(np.zeros(3), np.ones(3))
    with pytest.raises(ValueError, match=message):
        noise_fraction(dist, noise)  # type: ignore[arg-type]


def test_noise_never_broadcasts() -> None:
    dist = NormalMixture.normal(np.zeros((3, 2)), np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"shape \(3, 1\), expected \(\), \(2,\) or \(3, 2\)"):
        noise_fraction(dist, np.full((3, 1), 0.1))


@pytest.mark.parametrize("rate", [0.05, 1.0, 30.0])
def test_calibration_error_of_the_true_distribution_of_counts(rate: float) -> None:
    """All counts, with weights that are their probabilities: the shares are the levels."""
    counts = np.arange(200.0)
    dist = CountMixture(NormalMixture.normal(np.full(200, np.log(rate)), 1e-6))
    weight = stats.poisson.pmf(counts, rate)
    assert calibration_error(counts, dist, sample_weight=weight) < 1e-6


def test_calibration_error_of_counts_is_that_of_randomized_pit_values() -> None:
    rng = np.random.default_rng(0)
    y, rate = rng.poisson(1.0, 50).astype(float), 1.7
    dist = CountMixture(NormalMixture.normal(np.full(50, np.log(rate)), 1e-6))
    low, high = stats.poisson.cdf(y - 1.0, rate), stats.poisson.cdf(y, rate)
    values = low + (high - low) * (np.arange(20_000)[:, np.newaxis] + 0.5) / 20_000
    levels = np.arange(1, 100) / 100
    expected = np.mean([abs(np.mean(values <= level) - level) for level in levels])
    assert calibration_error(y, dist) == pytest.approx(expected, abs=1e-4)
    np.testing.assert_allclose(pit(y, dist), 0.5 * (low + high), rtol=1e-6)
    missing = np.where(np.arange(50) < 5, np.nan, y)
    assert calibration_error(missing, dist) == pytest.approx(calibration_error(y[5:], dist[5:]))


def test_clipped_targets_of_the_true_model_are_calibrated() -> None:
    """The atom of a clipped target counts as the jump of a count does."""
    rng = np.random.default_rng(0)
    mean = rng.uniform(-0.6, 0.6, 4000)
    y = np.maximum(mean + rng.standard_normal(4000), 0.0)
    base = NormalMixture.normal(mean, 1.0)
    dist = MonotoneTransformed(base, lambda z: np.maximum(z, 0.0), lambda y: y + 0.0)
    assert calibration_error(y, dist) < 0.02
    np.testing.assert_allclose(pit(y, dist).mean(), 0.5, atol=0.02)
    np.testing.assert_allclose(pit(y, dist)[y == 0.0], 0.5 * base.cdf(0.0)[y == 0.0], rtol=1e-9)
    lower, upper = dist.interval(0.3)
    assert coverage(y, dist, coverage=0.3) == np.mean((lower <= y) & (y <= upper))
