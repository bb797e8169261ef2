"""Mixtures of counts against sums on a fine grid of the log rate, and samples."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import betaincc, gammainc

from skgp.distributions import CountMixture, NormalMixture, concat, mix
from skgp.scoring import crps, interval_score, nll, rmse

MEAN, STD = np.array([[0.5, 1.5], [-1.0, 4.0]]), np.array([[0.4, 0.2], [1.0, 0.6]])
WEIGHTS = np.array([0.3, 0.7])
COUNTS = np.arange(0, 4000)
every = pytest.mark.parametrize("dispersion", [0.0, 0.4])


def make(dispersion: Any) -> CountMixture:
    return CountMixture(NormalMixture(np.log(WEIGHTS), MEAN, STD), dispersion)


def table(dispersion: float, row: int) -> Any:
    """Probabilities of `COUNTS` in a row, by 4,001 equal steps over each log rate."""
    z = np.linspace(-9, 9, 4001)
    w = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    total = np.zeros(len(COUNTS))
    for weight, mean, std in zip(WEIGHTS, MEAN[row], STD[row], strict=True):
        rate = np.exp(mean + std * z)[:, None]
        k = COUNTS[:400] if row == 0 else COUNTS
        if dispersion:
            r = 1 / dispersion
            p = stats.nbinom.pmf(k, r, r / (r + rate))
        else:
            p = stats.poisson.pmf(k, rate)
        total[: len(k)] += weight * (w @ p)
    return total


@every
def test_against_sums(dispersion: float) -> None:
    dist, k = make(dispersion)[0], COUNTS[:400]
    p = table(dispersion, 0)[:400]
    F = np.cumsum(p)
    for y in (0, 1, 4, 25):
        np.testing.assert_allclose(dist.pdf(float(y)), p[y], rtol=1e-9)
        np.testing.assert_allclose(dist.cdf(float(y)), F[y], atol=1e-9)
        np.testing.assert_allclose(dist.sf(float(y)), 1 - F[y], atol=1e-9)
        np.testing.assert_allclose(dist.crps(float(y)), np.sum((F - (k >= y)) ** 2), rtol=1e-7)
    np.testing.assert_allclose(dist.mean(), p @ k, rtol=1e-7)
    np.testing.assert_allclose(dist.var(), p @ (k - p @ k) ** 2, rtol=1e-6)
    q = [0.01, 0.3, 0.5, 0.9, 0.999]
    assert dist.ppf(q)[0].tolist() == [int(np.searchsorted(F, level)) for level in q]


def test_between_counts() -> None:
    dist = make(0.0)[0]
    assert dist.logpdf(1.5)[0] == -np.inf
    assert dist.pdf(-1.0)[0] == 0.0
    assert dist.cdf(2.7) == dist.cdf(2.0)
    assert dist.cdf(-0.1)[0] == 0.0
    assert dist.sf(-0.1)[0] == 1.0
    assert dist.ppf([0.0, 1.0])[0].tolist() == [0.0, np.inf]
    between, below, above = (dist.crps(y)[0] for y in (2.25, 2.0, 3.0))
    assert between == pytest.approx(0.75 * below + 0.25 * above)
    assert np.isnan(dist.logpdf(np.nan)).all()
    assert np.isnan(dist.crps(np.nan)).all()
    assert dist.joint_logpdf(np.nan).tolist() == [0.0]


def test_a_crps_over_many_counts_looks_at_some() -> None:
    """2,000 counts and more; the sum of all squares is the same to four digits."""
    dist = CountMixture(NormalMixture.normal([7.0], 0.3))
    k = np.arange(0, 8000.0)
    F = CountMixture(NormalMixture.normal(np.full(k.size, 7.0), 0.3)).cdf(k)
    np.testing.assert_allclose(dist.crps(1500.0), np.sum((F - (k >= 1500)) ** 2), rtol=1e-4)


def test_log_probability_far_from_the_rate() -> None:
    """Where the nodes of the log rate would not reach: the peak of the integrand is elsewhere."""
    dist = CountMixture(NormalMixture.normal([0.0], 0.1))
    f = np.linspace(-2, 9, 400_001)
    log_p = stats.poisson.logpmf(300, np.exp(f)) + stats.norm.logpdf(f, 0.0, 0.1)
    expected = np.logaddexp.reduce(log_p) + np.log(f[1] - f[0])
    np.testing.assert_allclose(dist.logpdf(300.0), expected, rtol=1e-9)


@every
def test_samples(dispersion: float) -> None:
    dist = make(dispersion)
    x = dist.rvs(400_000, random_state=0)
    assert x.shape == (2, 400_000)
    error = x.std(1) / np.sqrt(x.shape[1])
    assert (np.abs(x.mean(1) - dist.mean()) < 4 * error).all()
    shares = (x <= 2).mean(1)
    assert (np.abs(shares - dist.cdf(2.0)) < 4 * np.sqrt(0.25 / x.shape[1])).all()


@pytest.mark.parametrize("a", [0.0, 0.1, 1.0])
@pytest.mark.parametrize(("mean", "std"), [(-3.0, 2.0), (0.0, 5.0), (15.0, 8.0), (6.0, 20.0)])
def test_probability_of_zero_where_the_rate_is_hardly_known(
    mean: float, std: float, a: float
) -> None:
    def integrand(f: float) -> float:
        at_zero = np.exp(-np.exp(f)) if a == 0.0 else (1.0 + a * np.exp(f)) ** (-1.0 / a)
        return float(at_zero * stats.norm.pdf(f, mean, std))

    far = mean + std * np.array([-12, -6, -2, 0, 2, 6, 12])
    edges = np.unique([far, [-3, -1, 0, 1, 2, 3, 4]])
    expected = sum(quad(integrand, *ends, epsabs=0.0, epsrel=1e-11)[0] for ends in pairwise(edges))
    dist = CountMixture(NormalMixture.normal([mean], std), a)
    np.testing.assert_allclose(dist.pdf(0.0), expected, rtol=2e-9)
    np.testing.assert_array_equal(dist.cdf(0.0), dist.pdf(0.0))


def test_log_probability_of_zero_beyond_what_a_probability_can_be() -> None:
    """log of the integral of exp(-exp(f)) N(f; 300, 4), by many steps around its highest point."""
    f = np.linspace(1.0, 12.0, 200_001)
    log_p = -np.exp(f) + stats.norm.logpdf(f, 300.0, 4.0)
    expected = np.logaddexp.reduce(log_p) + np.log(f[1] - f[0])
    dist = CountMixture(NormalMixture.normal([300.0], 4.0))
    np.testing.assert_allclose(dist.logpdf(0.0), expected, rtol=1e-12)


def test_container() -> None:
    dist = make(0.4)
    assert concat([dist[:1], dist[1:]]).pdf(3.0).tolist() == dist.pdf(3.0).tolist()
    mixed = mix([make(0.0), make(0.4)])
    np.testing.assert_allclose(mixed.pdf(3.0), (make(0.0).pdf(3.0) + dist.pdf(3.0)) / 2)
    np.testing.assert_allclose(mixed.cdf(3.0), (make(0.0).cdf(3.0) + dist.cdf(3.0)) / 2)
    with pytest.raises(ValueError, match="one output"):
        CountMixture(NormalMixture.normal(np.zeros((3, 2)), 1.0))
    with pytest.raises(ValueError, match="negative"):
        make(-1.0)
    assert dist.cov().shape == (2, 1, 1)
    assert "q05" in dist.to_frame()


def test_rows_of_several_models() -> None:
    """Each keeps its own dispersion, and its number of components."""
    one = CountMixture(NormalMixture.normal([1.0, 2.0], 0.5), 0.2)
    parts = [make(0.0), one[:0], one, make([0.1, 3.0])]
    whole, y = concat(parts), np.array([3.0, 20.0, 1.0, 7.0, 0.0, 40.0])
    split = [y[:2], y[:0], y[2:4], y[4:]]
    for name in ("logpdf", "cdf", "sf", "crps"):
        each = [getattr(part, name)(at) for part, at in zip(parts, split, strict=True)]
        np.testing.assert_allclose(getattr(whole, name)(y), np.concatenate(each), rtol=1e-12)
    for name in ("mean", "var", "median"):
        each = [getattr(part, name)() for part in parts]
        np.testing.assert_allclose(getattr(whole, name)(), np.concatenate(each), rtol=1e-12)
    x = whole.rvs(50_000, random_state=0)
    assert (np.abs(x.mean(1) - whole.mean()) < 4 * x.std(1) / np.sqrt(x.shape[1])).all()
    shares = (x <= y[:, None]).mean(1)
    assert (np.abs(shares - whole.cdf(y)) < 4 * np.sqrt(0.25 / x.shape[1])).all()
    np.testing.assert_array_equal(whole[[4, 2]].var(), whole.var()[[4, 2]])
    mixed = mix([whole, concat([one, one, one])])
    np.testing.assert_allclose(
        mixed.pdf(3.0), (whole.pdf(3.0) + np.tile(one.pdf(3.0), 3)) / 2, rtol=1e-12
    )


def test_dispersions_of_rows() -> None:
    base = NormalMixture(np.log(WEIGHTS), MEAN, STD)
    rows = [CountMixture(base[i], a) for i, a in enumerate(([0.0, 0.4], [2.0, 0.1]))]
    dist = CountMixture(base, [[0.0, 0.4], [2.0, 0.1]])
    expected = [row.var()[0] for row in rows]
    np.testing.assert_allclose(dist.var(), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="2 numbers, of all rows or of each"):
        CountMixture(base, [[0.0, 0.4]])


def test_scores() -> None:
    dist, y = make(0.4), np.array([3.0, 20.0])
    assert nll(y, dist) == pytest.approx(-np.log(dist.pdf(y)).mean())
    assert crps(y, dist) == pytest.approx(dist.crps(y).mean())
    assert rmse(y, dist) > 0
    assert interval_score(y, dist) > 0


@every
def test_rate_against_log_normal_distributions(dispersion: float) -> None:
    """What is known of exp(f); the dispersion is a property of a count around it."""
    rate = make(dispersion).rate()
    each = stats.lognorm(STD, scale=np.exp(MEAN))
    y = np.array([2.0, 60.0])
    np.testing.assert_allclose(rate.cdf(y), each.cdf(y[:, None]) @ WEIGHTS, rtol=1e-10)
    np.testing.assert_allclose(rate.pdf(y), each.pdf(y[:, None]) @ WEIGHTS, rtol=1e-7)
    mean = each.mean() @ WEIGHTS
    second = (each.var() + each.mean() ** 2) @ WEIGHTS
    np.testing.assert_allclose(rate.mean(), mean, rtol=1e-8)
    np.testing.assert_allclose(rate.var(), second - mean**2, rtol=1e-6)
    np.testing.assert_allclose(rate.mean(), make(dispersion).mean(), rtol=1e-8)


def over_rates(mean: float, std: float, k: float, upper: bool) -> float:
    """P(Y > k) or P(Y <= k) of Poisson counts, by many steps over the log rate."""
    f = np.linspace(mean - 20 * std, mean + 20 * std, 200_001)
    p = (stats.poisson.sf if upper else stats.poisson.cdf)(k, np.exp(f))
    return float(stats.norm.pdf(f, mean, std) @ p * (f[1] - f[0]))


@pytest.mark.parametrize(
    ("mean", "std", "k"),
    [(1.0, 0.5, 1000.0), (10.0, 1.0, 5.0), (12.0, 3.0, 2e5), (15.0, 1.0, 3e6), (3.0, 0.01, 20.0)],
)
def test_probabilities_of_tails_and_of_large_counts(mean: float, std: float, k: float) -> None:
    dist = CountMixture(NormalMixture.normal([mean], std))
    for upper, values in ((False, dist.cdf(k)), (True, dist.sf(k))):
        np.testing.assert_allclose(values, over_rates(mean, std, k, upper), rtol=1e-8)


@every
def test_quantiles_of_values_of_the_distribution_function(dispersion: float) -> None:
    k = np.arange(30.0)
    dist = make(dispersion)
    np.testing.assert_array_equal(dist[0].ppf(dist[0].cdf(k[np.newaxis])[0])[0], k)


def test_variance_of_large_rates() -> None:
    dist = CountMixture(NormalMixture.normal([32.0], 1e-8))
    np.testing.assert_allclose(dist.var(), np.exp(32.0) + np.exp(64.0) * 1e-16, rtol=1e-9)


def test_a_dispersion_near_zero_is_nearly_that_of_poisson() -> None:
    base = NormalMixture.normal([2.0], 0.1)
    for dispersion in (1e-12, 1e-15, 1e-300):
        dist = CountMixture(base, dispersion)
        np.testing.assert_allclose(dist.logpdf(7.0), CountMixture(base).logpdf(7.0), rtol=1e-9)
        np.testing.assert_allclose(dist.sf(20.0), CountMixture(base).sf(20.0), rtol=1e-9)


def test_no_probability_of_what_is_no_count() -> None:
    dist = make(0.4)
    assert dist.joint_logpdf([1.5, np.nan]).tolist() == [-np.inf, 0.0]
    assert dist.logpdf(np.inf).tolist() == [-np.inf, -np.inf]
    assert dist.crps(np.inf).tolist() == [np.inf, np.inf]


@pytest.mark.parametrize(("std", "y"), [(0.3, 20_000.0), (1.5, 100.0), (1.5, 0.0)])
def test_a_crps_of_counts_over_orders_of_magnitude(std: float, y: float) -> None:
    dist = CountMixture(NormalMixture.normal([5.0], std))
    k = np.arange(200_000.0 if std > 1.0 else 20_001.0)
    F = dist.cdf(k[np.newaxis])[0]
    np.testing.assert_allclose(dist.crps(y), np.sum((F - (k >= y)) ** 2), rtol=1e-4)


@pytest.mark.parametrize("dispersion", [np.inf, np.nan, [0.0, np.inf]])
def test_a_dispersion_is_finite(dispersion) -> None:
    with pytest.raises(ValueError, match="finite and not negative"):
        CountMixture(NormalMixture([0.0, 0.0], [[0.0, 1.0]], 1.0), dispersion)


@pytest.mark.parametrize("y", [50, 20000, 20400])
def test_crps_of_narrow_components_far_apart(y: int) -> None:
    """Each is a step within one of the pieces into which the counts between them fall."""
    rates, k = np.array([50.0, 2e4]), np.arange(30000)
    dist = CountMixture(NormalMixture(np.log([0.5, 0.5]), [np.log(rates)], 1e-6))
    F = stats.poisson.cdf(k[:, None], rates).mean(axis=1)
    np.testing.assert_allclose(dist.crps([float(y)]), np.sum((F - (k >= y)) ** 2), rtol=1e-5)


@pytest.mark.parametrize("y", [0.0, 90.0, 320.5])
def test_a_crps_of_some_hundred_counts_is_that_of_all(y: float) -> None:
    rates, a, k = np.array([60.0, 90.0]), 0.2, np.arange(4000)
    dist = CountMixture(NormalMixture(np.log(WEIGHTS), [np.log(rates)], 1e-7), a)
    F = stats.nbinom.cdf(k[:, None], 1 / a, 1 / (1 + a * rates)) @ WEIGHTS
    missed = np.where(k < np.floor(y), F, 1 - F) ** 2
    at = int(y)
    missed[at] += (y - at) * (F[at] ** 2 - (1 - F[at]) ** 2)
    np.testing.assert_allclose(dist.crps([y]), missed.sum(), rtol=1e-8)


# ---------------------------------------------------------------- far out


def mean_over_rates(mean: float, std: float, of_rate: Any) -> float:
    """Mean of a function of the rate, by equal steps of its logarithm f."""
    f = np.linspace(mean - 12 * std, max(mean + 12 * std, 20.0), 400_001)
    return float(np.trapezoid(stats.norm.pdf(f, mean, std) * of_rate(np.exp(f)), f))


@pytest.mark.parametrize(("mean", "std"), [(-50.0, 4.0), (-60.0, 2.0), (-100.0, 8.0)])
def test_probabilities_of_counts_far_above_their_rate(mean: float, std: float) -> None:
    dist = CountMixture(NormalMixture.normal([mean], std), 0.0)
    p = mean_over_rates(mean, std, lambda rate: stats.poisson.pmf(50, rate))
    np.testing.assert_allclose(dist.logpdf(50.0), np.log(p), rtol=1e-6)


@pytest.mark.parametrize(
    ("std", "dispersion", "count"),
    [(7.0, 0.0, 2.1e14), (7.0, 0.0, 1e15), (5.0, 5.0, 1e10), (5.0, 5.0, 1e14), (7.0, 0.5, 1e12)],
)
def test_tails_of_large_counts(std: float, dispersion: float, count: float) -> None:
    def above(rate: Any) -> Any:
        if not dispersion:
            return gammainc(count + 1.0, rate)
        r = 1.0 / dispersion
        return betaincc(r, count + 1.0, r / (r + rate))

    dist = CountMixture(NormalMixture.normal([0.0], std), dispersion)
    expected = mean_over_rates(0.0, std, above)
    np.testing.assert_allclose(dist.sf(count), expected, rtol=1e-4)
    np.testing.assert_allclose(dist.cdf(count), 1.0 - expected, rtol=1e-7)


def test_a_part_of_next_to_no_rate_keeps_its_weight() -> None:
    """Zeros, or about 160,000: the cdf rises from one half to one."""
    dist = CountMixture(NormalMixture([0.0, 0.0], [[-25.0, 12.0]], [[1.0, 0.3]]), 0.0)
    counts = np.linspace(1e4, 1.2e6, 4001)
    cdf = dist.cdf(counts[None])[0]
    np.testing.assert_allclose(
        cdf, 0.5 + 0.5 * stats.norm.cdf(np.log(counts + 0.5), 12.0, 0.3), atol=1e-4
    )
    error = np.trapezoid((cdf - (counts >= 1.6e5)) ** 2, counts) + 1e4 * 0.25
    np.testing.assert_allclose(dist.crps(1.6e5), error, rtol=2e-3)


def test_quantiles_of_counts_that_are_no_longer_whole_in_floating_point() -> None:
    dist = CountMixture(NormalMixture.normal([37.0], 0.1), 0.0)
    low, high = dist.interval(0.9)
    z = stats.norm.ppf(0.95)
    np.testing.assert_allclose([low[0], high[0]], np.exp([37 - 0.1 * z, 37 + 0.1 * z]), rtol=1e-6)
    draws = dist.rvs(4000, random_state=0)[0]
    assert np.log(draws).mean() == pytest.approx(37.0, abs=0.01)


def test_moments_of_components_that_overflow() -> None:
    """Infinite, without a warning, if they have a weight, and out of the way if they have none."""
    known = CountMixture(NormalMixture.normal([1.0], 0.5))
    without = CountMixture(NormalMixture([0.0, -np.inf], [[1.0, 800.0]], 0.5))
    np.testing.assert_allclose(without.mean(), known.mean(), rtol=1e-15)
    np.testing.assert_allclose(without.var(), known.var(), rtol=1e-15)
    with_some = CountMixture(NormalMixture(np.log([0.5, 0.5]), [[1.0, 800.0]], 0.5))
    assert with_some.mean() == with_some.var() == with_some.std() == np.inf
