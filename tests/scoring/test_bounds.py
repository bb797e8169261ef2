"""The log score of bounds of censored targets."""

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.preprocessing import QuantileTransformer

from skgp.distributions import CountMixture, MonotoneTransformed, NormalMixture
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


def log_interval(mean: float, std: float, lower: float, upper: float) -> mpmath.mpf:
    """log(Phi(b) - Phi(a)) with hundreds of digits more than float64 has."""
    with mpmath.workdps(60):
        a, b = ((mpmath.mpf(x) - mean) / std for x in (lower, upper))
        if a > -b:  # the digits of a tail are those of the lower one
            a, b = -b, -a
        return mpmath.log(mpmath.ncdf(b) - mpmath.ncdf(a))


@pytest.mark.parametrize(
    "bounds",
    [(40.0, INF), (-INF, -40.0), (1e4, INF), (50.0, 50.001), (-61.0, -60.0), (-40.0, 40.0)],
)
def test_bounds_far_beyond_where_probabilities_underflow(bounds: tuple[float, float]) -> None:
    expected = -log_interval(0.0, 1.0, *bounds)
    assert nll([bounds], NormalMixture.normal([0.0], [1.0])) == pytest.approx(
        float(expected), rel=1e-12, abs=1e-300
    )


@pytest.mark.parametrize("width", [1e-15, 1e-13, 1e-11, 1e-8, 1e-5, 1e-3, 1e-2])
@pytest.mark.parametrize("middle", [0.0, 0.1, -0.7, 5.0, -30.0])
def test_narrow_intervals(middle: float, width: float) -> None:
    lower, upper = middle - 0.5 * width, np.nextafter(middle + 0.5 * width, INF)
    means, stds, weights = [0.3, -0.2, 0.3], [0.7, 1.0, 3.0], [0.5, 0.3, 0.2]
    for k in range(3):
        dist = NormalMixture.normal(means[k : k + 1], stds[k])
        expected = float(-log_interval(means[k], stds[k], lower, upper))
        assert nll([[lower, upper]], dist) == pytest.approx(expected, rel=1e-12, abs=1e-11)
    with mpmath.workdps(60):
        p = [w * mpmath.exp(log_interval(m, s, lower, upper)) for m, s, w in
             zip(means, stds, weights, strict=True)]  # fmt: skip
        expected = float(-mpmath.log(mpmath.fsum(p)))
    mixture = NormalMixture(np.log(weights), [means], [stds])
    assert nll([[lower, upper]], mixture) == pytest.approx(expected, rel=1e-12, abs=1e-11)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("width", [1e-14, 1e-11, 1e-8, 1e-5, 1e-3])
def test_narrow_intervals_of_a_transformed_target(sign: float, width: float) -> None:
    base = NormalMixture.normal([0.1 * sign], [0.4])
    dist = MonotoneTransformed(base, lambda z: np.exp(sign * z), lambda y: sign * np.log(y))
    for lower in (0.3, 1.0, 2.7):
        upper = lower + width
        with mpmath.workdps(60):
            ends = (mpmath.log(mpmath.mpf(x)) for x in (lower, upper))
            a, b = ((z - mpmath.mpf(0.1)) / mpmath.mpf(0.4) for z in ends)
            expected = float(-mpmath.log(mpmath.ncdf(b) - mpmath.ncdf(a)))
        assert nll([[lower, upper]], dist) == pytest.approx(expected, abs=1e-8)


def test_far_bounds_of_a_mixture() -> None:
    means, stds, weights = [0.0, 3.0, -5.0], [1.0, 0.5, 1.1], [0.5, 0.3, 0.2]
    dist = NormalMixture(np.log(weights), [means], [stds])
    for bounds in [(60.0, INF), (-INF, -80.0), (50.0, 50.5), (0.2, 0.4), (-INF, INF)]:
        with mpmath.workdps(60):
            terms = [
                w * mpmath.exp(log_interval(m, s, *bounds))
                for w, m, s in zip(weights, means, stds, strict=True)
            ]
            expected = -mpmath.log(mpmath.fsum(terms))
        assert nll([bounds], dist) == pytest.approx(float(expected), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_far_bounds_of_a_transformed_target(sign: float) -> None:
    base = NormalMixture.normal([0.0], [0.1])
    dist = MonotoneTransformed(
        base, lambda z: np.exp(sign * z), lambda y: sign * np.log(y), np.reciprocal
    )
    for lower, upper in [(90.0, INF), (0.0, 0.01), (-1.0, 0.01), (90.0, 91.0)]:
        a, b = (np.log(x) if x > 0.0 else -INF for x in (lower, upper))
        expected = float(-log_interval(0.0, 0.1, a, b))
        assert nll([[lower, upper]], dist) == pytest.approx(expected, rel=1e-11)
    assert nll([[-2.0, -1.0]], dist) == INF


def test_bounds_behind_a_transformer_that_refuses_no_rows() -> None:
    sample = np.linspace(-1.0, 1.0, 101)[:, np.newaxis]
    map_ = QuantileTransformer(n_quantiles=101, output_distribution="normal").fit(sample)
    dist = MonotoneTransformed(
        NormalMixture.normal([0.0, 0.0], [1.0, 1.0]),
        lambda z: map_.inverse_transform(z[:, np.newaxis])[:, 0],
        lambda y: map_.transform(y[:, np.newaxis])[:, 0],
    )
    assert nll([[0.0, INF], [-INF, 0.0]], dist) == pytest.approx(np.log(2.0))
    assert nll([[0.0, 0.0], [0.5, 0.5]], dist) == pytest.approx(nll([0.0, 0.5], dist))


def log_sum_of_counts(mean: float, std: float, counts: range) -> float:
    """log P(Y in counts) of Poisson counts whose log rate is N(mean, std^2), by brute force."""
    f = mean + std * np.linspace(-40.0, 40.0, 8001)
    terms = stats.poisson.logpmf(np.array(counts)[:, np.newaxis], np.exp(f))
    return float(logsumexp(terms + stats.norm.logpdf(f, mean, std) + np.log(f[1] - f[0])))


@pytest.mark.parametrize(
    ("lower", "upper", "counts"),
    [
        (3.0, 5.0, range(3, 6)),
        (2.5, 5.9, range(3, 6)),
        (2.0, 200.0, range(2, 201)),
        (-INF, 4.0, range(5)),
        (6.0, INF, range(6, 400)),
        (2000.0, INF, range(2000, 2800)),
        (8000.0, INF, range(8000, 9200)),
        (8000.0, 8100.0, range(8000, 8101)),
        (3.1, 3.9, range(0)),
        (-3.0, -1.0, range(0)),
    ],
)
def test_bounds_of_counts_are_counts_themselves(lower: float, upper: float, counts: range) -> None:
    dist = CountMixture(NormalMixture.normal([1.0, 1.0], [0.3, 0.3]))
    expected = -log_sum_of_counts(1.0, 0.3, counts) if counts else INF
    assert nll([[lower, upper]] * 2, dist) == pytest.approx(expected, rel=1e-7)
    assert nll([[3.0, 3.0], [2.5, 3.5]], dist) == pytest.approx(nll([3.0, 3.0], dist))


def test_bounds_in_the_lower_tail_of_counts() -> None:
    dist = CountMixture(NormalMixture.normal([8.0], [0.001]))
    expected = -log_sum_of_counts(8.0, 0.001, range(100))
    assert nll([[0.0, 99.0]], dist) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_bound_at_an_atom_has_it(sign: float) -> None:
    """Of the larger of a normal variable and zero, and of its negative."""
    base = NormalMixture.normal([0.2], 1.0)
    dist = MonotoneTransformed(base, lambda z: sign * np.maximum(z, 0.0), lambda y: sign * y)
    for low, high, expected in [(0.0, 1.0, base.cdf(1.0)), (-1.0, 0.0, base.cdf(0.0))]:
        bounds = np.sort([sign * low, sign * high])[None]
        np.testing.assert_allclose(np.exp(-nll(bounds, dist)), expected[0], rtol=1e-12)


def test_a_masked_bound_is_no_bound() -> None:
    bounds = np.ma.masked_array([[0.0, 1.0], [0.0, 1e9]], [[False, False], [False, True]])
    with pytest.raises(ValueError, match=r"bounds \[0.0, nan\] in row 1"):
        nll(bounds, NormalMixture.normal([0.0, 0.0], [1.0, 1.0]))
