"""Quantiles, modes and entropies of normal mixtures."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.integrate import quad

from skgp.distributions import NormalMixture

LEVELS = np.array([1e-300, 1e-30, 1e-6, 0.05, 0.3, 0.5, 0.7, 0.95, 1 - 1e-6])


def assert_quantiles(dist, q):
    x = dist.ppf(q)
    for k, level in enumerate(q):
        np.testing.assert_allclose(dist.cdf(x[..., k]), level, rtol=0, atol=1e-10)
        if level < 0.5:  # relative, in the lower tail
            np.testing.assert_allclose(dist.cdf(x[..., k]), level, rtol=1e-9)
        else:
            np.testing.assert_allclose(dist.sf(x[..., k]), 1.0 - level, rtol=1e-9)


def test_quantiles_invert_the_distribution_function(mixture):
    assert_quantiles(mixture, LEVELS)
    np.testing.assert_allclose(mixture.ppf(0.3), mixture.ppf([0.1, 0.3])[..., 1], rtol=1e-14)
    assert mixture.ppf(0.3).shape == mixture.shape


@settings(max_examples=60, deadline=None)
@given(
    arrays(float, (2, 3), elements=st.floats(-50, 50)),
    arrays(float, (2, 3), elements=st.floats(-3, 2)),
    arrays(float, 3, elements=st.floats(-20, 0)),
    st.floats(1e-12, 1 - 1e-12),
)
def test_quantiles_of_arbitrary_mixtures(mean, log_std, log_weights, q):
    dist = NormalMixture(log_weights, mean, 10.0**log_std)
    np.testing.assert_allclose(dist.cdf(dist.ppf(q)), q, rtol=0, atol=1e-10)


def test_quantiles_of_hard_mixtures():
    mean = np.array([[0.0, 0.0, 0.0], [-1e6, 0.0, 1e6], [0.0, 1e-3, 3.0], [0.0, 40.0, 80.0]])
    std = np.array([[1e-12, 1.0, 1e3], [1.0, 1e-2, 1.0], [1e-9, 1.0, 1e-6], [1.0, 1.0, 1.0]])
    dist = NormalMixture(np.log([0.2, 0.5, 0.3]), mean, std)
    x = dist.ppf([1e-12, 0.1, 0.25, 0.6, 0.9, 1 - 1e-9])
    for k, q in enumerate([1e-12, 0.1, 0.25, 0.6, 0.9, 1 - 1e-9]):
        np.testing.assert_allclose(dist.cdf(x[:, k]), q, rtol=0, atol=1e-10)


def test_quantiles_are_scipys_for_one_component():
    dist = NormalMixture.normal([1.0], 2.0)
    q = np.array([0.0, 1e-20, 0.2, 0.9, 1.0])
    np.testing.assert_array_equal(dist.ppf(q)[0], 1.0 + 2.0 * stats.norm.ppf(q))


def test_quantiles_at_zero_and_one(make):
    ends = make("outputs").ppf([0.0, 1.0])
    assert (ends[..., 0] == -np.inf).all()
    assert (ends[..., 1] == np.inf).all()


def test_quantiles_do_not_depend_on_the_chunks(make, monkeypatch):
    dist = make("outputs", n=30)
    whole = dist.ppf(LEVELS)
    monkeypatch.setattr("skgp.distributions._chunks.COPY_ELEMENTS", 50)
    monkeypatch.setattr("skgp.distributions._chunks.WORK_ELEMENTS", 100)
    np.testing.assert_allclose(dist.ppf(LEVELS), whole, rtol=1e-13)


def test_interval_is_central(make):
    dist = make("outputs")
    lower, upper = dist.interval(0.9)
    np.testing.assert_allclose(dist.cdf(lower), 0.05, atol=1e-10)
    np.testing.assert_allclose(dist.sf(upper), 0.05, atol=1e-10)
    np.testing.assert_array_equal(dist.median(), dist.ppf(0.5))


def test_mode_is_the_highest_point_of_a_fine_grid(make):
    dist = make("single", n=40, S=6, seed=3)
    weights, mean, std, _ = dist.components()
    found = dist.mode()
    for row, (w, m, s) in enumerate(zip(weights, mean, std, strict=True)):
        grid = (m[:, None] + s[:, None] * np.linspace(-4, 4, 4001)).ravel()
        density = w @ stats.norm.pdf(grid, m[:, None], s[:, None])
        best = grid[np.argmax(density)]
        assert dist[row].pdf([found[row]])[0] >= density.max()
        assert abs(found[row] - best) < 0.01 * s.max()
        # The density is flat there: a stationary point to 1e-8 of the standard deviation.
        z = (found[row] - m) / s
        terms = w * stats.norm.pdf(z) / s
        slope = np.sum(-terms * z / s)
        curvature = np.sum(terms * (z**2 - 1) / s**2)
        assert abs(slope / curvature) < 1e-8 * s.min()


def test_mode_finds_a_spike_beside_a_broad_component():
    dist = NormalMixture(np.log([0.999, 0.001]), [[0.0, 2.5]], [[1.0, 1e-9]])
    np.testing.assert_allclose(dist.mode(), [2.5], rtol=0, atol=1e-15)


def test_mode_finds_a_spike_among_many_components():
    mean, std = np.linspace(-1.0, 1.0, 200), np.ones(200)
    mean[130], std[130] = 2.5, 1e-9
    np.testing.assert_allclose(NormalMixture(np.zeros(200), [mean], [std]).mode(), [2.5])


def test_mode_between_components():
    # Two equal components closer than two standard deviations have their mode in the middle.
    dist = NormalMixture([0.0, 0.0], [[-0.9, 0.9], [1.0, 1.0]], 1.0)
    np.testing.assert_allclose(dist.mode(), [0.0, 1.0], atol=1e-8)


def test_mode_of_many_components(make):
    dist = make("single-shared", n=3, S=300, seed=1)
    found = dist.mode()
    for row in range(3):
        grid = found[row] + np.linspace(-15, 15, 6001)
        assert dist[row].pdf([found[row]])[0] >= dist[np.full(6001, row)].pdf(grid).max()


@pytest.mark.parametrize("kind", ["single", "outputs"])
@pytest.mark.parametrize("width", [1.0, 1e3])
def test_entropy_against_adaptive_quadrature(make, kind, width):
    dist = make(kind, n=2)
    weights, mean, std, _ = dist.components()
    std = std * np.array([1.0, 1.0, width, 1.0])[:, *[None] * (mean.ndim - 2)]
    dist = NormalMixture(np.log(weights), mean, std)
    cells = [dist] if kind == "single" else [dist[:, j] for j in range(3)]
    entropy = dist.entropy().reshape(2, -1)
    for j, cell in enumerate(cells):
        for row in range(2):
            w, m, s = (c[row] for c in cell.components()[:3])

            def integrand(x, w=w, m=m, s=s):
                p = w @ stats.norm.pdf(x, m, s)
                return -p * np.log(p)

            edges = np.unique(m[:, None] + s[:, None] * np.arange(-9, 10))
            total = sum(quad(integrand, a, b, epsabs=1e-12)[0] for a, b in pairwise(edges))
            assert abs(entropy[row, j] - total) < 1e-9


def test_entropy_of_far_components_adds_the_entropy_of_the_weights():
    weights = np.array([0.2, 0.8])
    dist = NormalMixture(np.log(weights), [[0.0, 1e3]], [[1.0, 1e-3]])
    expected = stats.entropy(weights) + weights @ stats.norm.entropy(0, [1.0, 1e-3])
    np.testing.assert_allclose(dist.entropy(), expected, rtol=1e-9)


@pytest.mark.parametrize("std", [1e-6, 1e-8])
def test_entropy_does_not_depend_on_the_place(std):
    weights = np.array([0.2, 0.8])
    dist = NormalMixture(np.log(weights), [[1e9, 1e9 + 1.0]], std)
    expected = stats.entropy(weights) + stats.norm.entropy(0, std)
    np.testing.assert_allclose(dist.entropy(), expected, rtol=1e-7)


def test_entropy_of_many_components_agrees_with_monte_carlo(make):
    dist = make("single-shared", n=1, S=500)
    draws = dist.rvs(50_000, random_state=0)[0]
    surprise = -dist[np.zeros(50_000, dtype=int)].logpdf(draws)
    error = (surprise.mean() - dist.entropy()[0]) / (surprise.std() / np.sqrt(50_000))
    assert abs(error) < 4.5


def test_quantiles_of_components_a_hundred_orders_apart():
    dist = NormalMixture(np.log([0.7, 0.3]), [[0.0, 1e150]], 1.0)
    expected = stats.norm.ppf(np.array([0.3, 0.5]) / 0.7)
    np.testing.assert_allclose(dist.ppf([0.3, 0.5]), [expected], rtol=1e-9)
