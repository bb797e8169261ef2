"""CRPS of normal mixtures against its definitions."""

import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from skgp.distributions import NormalMixture
from skgp.distributions._crps import mean_abs_difference


def absolute_moment(m, v):
    z = m / np.sqrt(v)
    return 2 * np.sqrt(v) * stats.norm.pdf(z) + m * (2 * stats.norm.cdf(z) - 1)


def pair_sum(w, m, s):
    return np.sum(np.outer(w, w) * absolute_moment(m[:, None] - m, s[:, None] ** 2 + s**2))


def closed_form(w, m, s, y):
    return np.sum(w * absolute_moment(y - m, s**2)) - 0.5 * pair_sum(w, m, s)


@pytest.mark.parametrize("kind", ["single", "single-shared", "one-component", "outputs"])
def test_closed_form_by_naive_loops(make, kind):
    dist = make(kind)
    y = dist.mean() + np.linspace(-5, 5, dist.mean().size).reshape(dist.shape)
    cells = [dist] if dist.ndim == 1 else [dist[:, j] for j in range(3)]
    for j, cell in enumerate(cells):
        at = y if dist.ndim == 1 else y[:, j]
        weights, mean, std, _ = cell.components()
        expected = [closed_form(*row) for row in zip(weights, mean, std, at, strict=True)]
        score = dist.crps(y) if dist.ndim == 1 else dist.crps(y)[:, j]
        np.testing.assert_allclose(score, expected, rtol=1e-12)


@pytest.mark.parametrize("S", [3, 60])
def test_integral_definition(make, S):
    dist = make("single", n=2, S=S)
    weights, mean, std, _ = dist.components()
    for row, y in enumerate([0.3, -6.0]):
        w, m, s = weights[row], mean[row], std[row]

        def integrand(x, w=w, m=m, s=s, y=y):
            tail = stats.norm.cdf if x < y else stats.norm.sf
            return (w @ tail(x, m, s)) ** 2

        low, high = (m - 12 * s).min(), (m + 12 * s).max()
        left, _ = quad(integrand, low, y, limit=500, epsabs=1e-12)
        right, _ = quad(integrand, y, high, limit=500, epsabs=1e-12)
        np.testing.assert_allclose(dist[row].crps(y), left + right, rtol=1e-9)


def test_normal_distribution_in_closed_form():
    # Gneiting and Raftery (2007), Eqn 21.
    y = np.array([-1.0, 0.0, 30.0])
    mean, std = np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.1, 3.0])
    z = (y - mean) / std
    expected = std * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(NormalMixture.normal(mean, std).crps(y), expected, rtol=1e-13)


def test_scoringrules(make):
    scoringrules = pytest.importorskip("scoringrules")
    dist = make("single")
    weights, mean, std, _ = dist.components()
    y = dist.mean() + 1.0
    np.testing.assert_allclose(
        dist.crps(y), scoringrules.crps_mixnorm(y, mean, std, weights), rtol=1e-10
    )


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("ratio", [1.0, 3.0, 30.0, 1e4])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_many_components_against_the_pair_sum(spread, ratio, scale):
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(150, 0.5), 3)
    mean = scale * (1.0 + spread * rng.normal(size=(3, 150)))
    std = scale * np.exp(rng.uniform(0, np.log(ratio), (3, 150)))
    expected = [pair_sum(*row) for row in zip(weights, mean, std, strict=True)]
    np.testing.assert_allclose(mean_abs_difference(weights, mean, std), expected, rtol=1e-10)


def test_spectral_sum_where_it_is_coarsest():
    # Equal components: the grid is as coarse as it gets, and E|X - X'| = 2 std / sqrt(pi).
    weights = np.full((1, 50), 1 / 50)
    value = mean_abs_difference(weights, np.zeros((1, 50)), np.full((1, 50), 0.3))
    np.testing.assert_allclose(value, 2 * 0.3 / np.sqrt(np.pi), rtol=1e-11)


def test_score_does_not_depend_on_the_chunks(make, monkeypatch):
    dist = make("single", n=30, S=40)
    whole = dist.crps(0.5)
    monkeypatch.setattr("skgp.distributions._chunks.COPY_ELEMENTS", 100)
    monkeypatch.setattr("skgp.distributions._chunks.WORK_ELEMENTS", 300)
    np.testing.assert_allclose(dist.crps(0.5), whole, rtol=1e-10)


def test_score_at_infinity_is_infinite(make):
    assert (make("single").crps(np.inf) == np.inf).all()
    assert (make("single").crps(-np.inf) == np.inf).all()


def test_score_is_proper(make):
    dist = make("single", n=1)
    draws = dist.rvs(20_000, random_state=0)[0]
    rows = np.zeros(20_000, dtype=int)
    gain = dist.affine(0.5, 1.0)[rows].crps(draws) - dist[rows].crps(draws)
    assert gain.mean() > 5 * gain.std() / np.sqrt(20_000)


MEMORY = """
import resource, sys
import numpy as np
from skgp.distributions import NormalMixture

spread, n = float(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
std = np.exp(rng.uniform(0, 1, 2000))
mean = spread * rng.normal(size=(n, 2000))
dist = NormalMixture(np.zeros(2000), mean, np.broadcast_to(std, mean.shape))
del mean
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
dist.crps(0.0)
dist.ppf([0.1, 0.9])
dist.rvs(10, random_state=0)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.parametrize(
    ("spread", "n"), [pytest.param(1.0, 2000, marks=pytest.mark.slow), (1e6, 20)]
)
def test_memory_of_2000_components_is_bounded(spread, n):
    # One array of the pairs of a row would take 30 MiB, one of the components of all rows too.
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, str(spread), str(n)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert float(run.stdout) < 100  # MiB above what the mixture itself takes


@pytest.mark.slow
def test_2000_components_times_10000_rows():
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(10_000, 2000))
    std = np.exp(rng.uniform(0, np.log(3), (10_000, 2000)))
    dist = NormalMixture(np.zeros(2000), mean, std)
    start = time.perf_counter()
    score = dist.crps(0.5)
    assert time.perf_counter() - start < 120
    weights = np.full(2000, 1 / 2000)
    for row in (0, 9_999):
        np.testing.assert_allclose(
            score[row], closed_form(weights, mean[row], std[row], 0.5), rtol=1e-9
        )
