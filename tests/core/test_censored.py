"""Censored targets: quadrature, samples, limits, tails, gradients; what stands in for them."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize
from torch import Tensor

from skgp.core.bounds import densities, imputed
from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.censored import Censored
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.numerics.normal import log_ndtr_difference

N_DRAWS = 1_000_000
NOISE = 0.3
INF = math.inf
MEANS, VARIANCES = [0.3, -1.0, 2.0, 0.5, 0.0], [0.4, 0.05, 0.8, 0.2, 1.0]
# Observed, right- and left-censored, an interval, nothing known.
BOUNDS = [(0.7, 0.7), (0.2, INF), (-INF, 1.1), (0.9, 1.4), (-INF, INF)]
TERMS = "expected_log_prob", "log_marginal"


def make() -> Censored:
    likelihood = Censored(1.0, 1e-4).double()
    likelihood.start(torch.tensor([NOISE], dtype=torch.float64))
    return likelihood


def latent(means: Any = MEANS, variances: Any = VARIANCES) -> Latent:
    """Moments (1, B, 1)."""
    mean = torch.tensor(means, dtype=torch.float64).view(1, -1, 1)
    var = torch.tensor(variances, dtype=torch.float64).view_as(mean)
    return Latent(mean, 0.25 * var, 0.75 * var)


def targets(bounds: Any = BOUNDS, dtype: torch.dtype = torch.float64) -> Targets:
    y = torch.tensor(bounds, dtype=dtype)
    finite = y.isfinite()
    return Targets(torch.where(finite, y, torch.zeros_like(y)), finite.to(dtype))


def log_likelihood(bounds: tuple[float, float], f: Any) -> Any:
    """By SciPy alone, of moderate numbers."""
    lower, upper = bounds
    s = math.sqrt(NOISE)
    if lower == upper:
        return stats.norm.logpdf(lower, f, s)
    return np.log(stats.norm.cdf(upper, f, s) - stats.norm.cdf(lower, f, s))


@pytest.mark.parametrize("row", range(len(BOUNDS)))
def test_terms_against_quadrature(row: int) -> None:
    mean, s = MEANS[row], math.sqrt(VARIANCES[row])
    # Within eight standard deviations, where SciPy's differences are exact enough.
    ends = mean - 8 * s, mean + 8 * s
    options = {"epsabs": 1e-13, "epsrel": 1e-12, "limit": 400}

    def expected(g: Any) -> float:
        return quad(lambda f: g(f) * stats.norm.pdf(f, mean, s), *ends, **options)[0]

    at, y = latent([mean], [VARIANCES[row]]), targets([BOUNDS[row]])
    value = make().expected_log_prob(at, y).item()
    assert value == pytest.approx(expected(lambda f: log_likelihood(BOUNDS[row], f)), abs=1e-8)
    value = make().log_marginal(at, y).exp().item()
    assert value == pytest.approx(
        expected(lambda f: np.exp(log_likelihood(BOUNDS[row], f))), abs=1e-8
    )


def test_terms_against_samples() -> None:
    f = np.random.default_rng(0).standard_normal(N_DRAWS)
    at, y = latent(), targets()
    terms = make().expected_log_prob(at, y)[0], make().log_marginal(at, y)[0].exp()
    for row, bounds in enumerate(BOUNDS):
        log_p = log_likelihood(bounds, MEANS[row] + math.sqrt(VARIANCES[row]) * f)
        for term, draws in zip(terms, (log_p, np.exp(log_p)), strict=True):
            error = draws.std() / math.sqrt(N_DRAWS)
            assert abs(term[row].item() - draws.mean()) <= 4.0 * error + 1e-12


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_censoring_it_is_the_normal_bit_for_bit(term: str, dtype: torch.dtype) -> None:
    likelihood = make().to(dtype)
    at = Latent(*(part.to(dtype) for part in latent()))
    y = torch.linspace(-2, 2, 5, dtype=dtype).unsqueeze(-1)
    desired = getattr(likelihood.noise, term)(at, Targets(y, None))
    assert torch.equal(getattr(likelihood, term)(at, Targets(y.expand(-1, 2), None)), desired)
    # Beside a censored row as well.
    bounds, mask = y.expand(-1, 2).clone(), torch.ones(5, 2, dtype=dtype)
    mask[2, 1] = 0.0
    value = getattr(likelihood, term)(at, Targets(bounds, mask))
    others = [0, 1, 3, 4]
    assert torch.equal(value[:, others], desired[:, others])
    assert value[0, 2] > desired[0, 2]  # a probability, not a density


@pytest.mark.parametrize("width", [1e-14, 1e-12, 1e-10, 1e-5])
@pytest.mark.parametrize("term", TERMS)
def test_narrow_interval_is_a_density_times_its_width(term: str, width: float) -> None:
    y = torch.tensor([[0.7], [-1.0], [3.0]], dtype=torch.float64)
    at = latent(MEANS[:3], VARIANCES[:3])
    between = torch.cat([y - 0.5 * width, y + 0.5 * width], -1)
    exact = between[:, 1] - between[:, 0]  # of what was rounded
    value = getattr(make(), term)(at, Targets(between, None))
    desired = getattr(make().noise, term)(at, Targets(y, None)) + exact.log()
    torch.testing.assert_close(value, desired, rtol=0, atol=1e-8)


def test_a_row_without_bounds_adds_nothing() -> None:
    moments = [part.requires_grad_() for part in latent([0.3], [0.4])]
    likelihood = make()
    for term in TERMS:
        value = getattr(likelihood, term)(Latent(*moments), targets([(-INF, INF)]))
        assert value.item() == 0.0
        for gradient in torch.autograd.grad(value.sum(), [*moments, *likelihood.parameters()]):
            assert (gradient == 0.0).all()


@pytest.mark.parametrize("term", TERMS)
def test_gradients(term: str) -> None:
    """In the moments and in the noise, of all kinds of rows."""
    likelihood = make()
    parameters = list(likelihood.parameters())

    def of(*values: Tensor) -> Tensor:
        return getattr(likelihood, term)(Latent(*values[:3]), targets())

    values = [part.clone().requires_grad_() for part in latent()]
    assert torch.autograd.gradcheck(of, [*values, *parameters])


@pytest.mark.parametrize("mean", [0.0, 30.0, -1e3, 1e6])
def test_far_from_the_bounds_values_and_slopes_are_finite(mean: float) -> None:
    for dtype in (torch.float32, torch.float64):
        likelihood = make().to(dtype)
        at = Latent(*(part.to(dtype) for part in latent([mean] * 5)))
        moments = [part.requires_grad_() for part in at]
        for term in TERMS:
            value = getattr(likelihood, term)(Latent(*moments), targets(dtype=dtype))
            assert value.isfinite().all()
            slopes = torch.autograd.grad(value.sum(), [*moments, *likelihood.parameters()])
            assert all(slope.isfinite().all() for slope in slopes)


INTERVALS = [
    (-1e9, 0.3), (-0.4, 1e9), (-1.0, 2.0), (30.0, 31.0), (-31.0, -30.0), (45.0, 1e9),
    (-200.0, -199.0), (0.3, 0.3 + 1e-6), (-8.0, 8.0), (12.0, 12.001),
]  # fmt: skip


def log_mass(a: float, b: float) -> float:
    """Log probability of (a, b) by quadrature, relative to the density at its highest point."""
    top = min(max(0.0, a), b)
    low, high = max(a, top - 40.0), min(b, top + 40.0)
    near = [top + step for step in (-0.3, -0.01, 0.01, 0.3) if low < top + step < high]
    edges = sorted({low, *near, top, high})
    parts = [
        quad(lambda z: math.exp(0.5 * (top - z) * (top + z)), *ends, epsabs=0, epsrel=1e-12)[0]
        for ends in pairwise(edges)
    ]
    return float(math.log(sum(parts)) + stats.norm.logpdf(top))


def test_log_difference_in_both_tails() -> None:
    """Against quadrature; the slopes are -phi(a) and phi(b) over the difference."""
    ends = torch.tensor(INTERVALS, dtype=torch.float64, requires_grad=True)
    value = log_ndtr_difference(*ends.mT, ends.mT[1] - ends.mT[0])
    (slopes,) = torch.autograd.grad(value.sum(), ends)
    for row, (a, b) in enumerate(INTERVALS):
        desired = log_mass(a, b)
        assert value[row].item() == pytest.approx(desired, rel=1e-9, abs=1e-12)
        for slope, z, sign in zip(slopes[row], (a, b), (-1.0, 1.0), strict=True):
            expected = sign * math.exp(stats.norm.logpdf(z) - desired)
            assert slope.item() == pytest.approx(expected, rel=1e-7, abs=1e-12)


def test_log_difference_of_a_narrow_interval() -> None:
    """log phi(m) + log w, whose slopes at both ends are -m / 2 -/+ 1 / w, on either side of 0."""
    m = torch.tensor([0.0, 0.7, -3.0, 40.0, -1e3, 1e6], dtype=torch.float64).view(-1, 1)
    width = torch.tensor([1e-15, 1e-12, 1e-10], dtype=torch.float64).expand(6, -1)
    width = width.clone().requires_grad_()
    m = m.expand(-1, 3).clone().requires_grad_()
    value = log_ndtr_difference(m - 0.5 * width, m + 0.5 * width, width)
    slopes = torch.autograd.grad(value.sum(), [m, width])
    desired = -0.5 * m.square() - 0.5 * math.log(2.0 * math.pi) + width.log()
    torch.testing.assert_close(value, desired, rtol=1e-14, atol=1e-12)
    torch.testing.assert_close(slopes[0], -m, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(slopes[1], 1.0 / width, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("m", [0.0, 3.0, -40.0])
def test_log_difference_is_continuous_in_the_width(m: float) -> None:
    """On either side of where the density takes over, against the integral of the density."""
    width = torch.logspace(-5, -2, 40, dtype=torch.float64) / max(1.0, abs(m))
    value = log_ndtr_difference(m - 0.5 * width, m + 0.5 * width, width)
    nodes, weights = map(torch.from_numpy, np.polynomial.legendre.leggauss(8))
    t = 0.5 * width[:, None] * nodes
    mean = (torch.exp(-m * t - 0.5 * t.square()) * weights).sum(-1) / 2.0
    desired = stats.norm.logpdf(m) + width.log() + mean.log()
    torch.testing.assert_close(value, desired, rtol=0, atol=2e-11 * (1.0 + m * m / 100.0))


def test_stand_ins_are_means_under_the_most_likely_normal() -> None:
    """Against the maximum of the likelihood of all bounds, by a search of its own."""
    rng = np.random.default_rng(0)
    y = 5.0 + 2.0 * rng.standard_normal(400)
    bounds = np.column_stack([y, y])
    bounds[y > 6.0] = [6.0, np.nan]
    bounds[y < 2.0] = [np.nan, 2.0]
    bounds[::7] = np.column_stack([np.floor(y), np.floor(y) + 1.0])[::7]
    low, high = np.nan_to_num(bounds[:, 0], nan=-INF), np.nan_to_num(bounds[:, 1], nan=INF)
    exact = low == high

    def minus_log_likelihood(parameters: Any) -> float:
        normal = stats.norm(parameters[0], np.exp(parameters[1]))
        mass = normal.cdf(high[~exact]) - normal.cdf(low[~exact])
        return -normal.logpdf(low[exact]).sum() - np.log(mass).sum()

    best = minimize(minus_log_likelihood, [4.0, 0.5], method="Nelder-Mead", tol=1e-8).x
    mean, std = best[0], np.exp(best[1])
    a, b = (low - mean) / std, (high - mean) / std
    desired = low.copy()
    desired[~exact] = stats.truncnorm.mean(a[~exact], b[~exact], mean, std)
    # Ten steps of the EM algorithm, of which each leaves less than half of the error.
    np.testing.assert_allclose(imputed(bounds, None)[:, 0], desired, atol=0.02)
    np.testing.assert_array_equal(imputed(bounds, None)[exact, 0], y[exact])
    # A row of weight two is two rows.
    weight = 1.0 + (np.arange(400) < 100)
    twice = imputed(np.concatenate([bounds, bounds[:100]]), None)[:400]
    np.testing.assert_allclose(imputed(bounds, weight), twice, rtol=1e-12)


def test_stand_ins_at_the_limits() -> None:
    nan = np.nan
    same = np.array([[3.0, 3.0], [3.0, nan], [nan, 3.0], [nan, nan]])
    np.testing.assert_array_equal(imputed(same, None)[:, 0], [3.0, 3.0, 3.0, nan])
    far = np.array([[0.0, 0.0], [1.0, 1.0], [1e6, nan], [nan, -1e6]])
    values = imputed(far, None)[:, 0]
    assert values[2] >= 1e6
    assert values[3] <= -1e6
    assert np.isfinite(values).all()
    units = imputed(1e140 * far, None)[:, 0]
    np.testing.assert_allclose(units, 1e140 * values, rtol=1e-9)


def test_which_rows_have_densities() -> None:
    nan = np.nan
    bounds = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, nan], [nan, nan]])
    np.testing.assert_array_equal(densities(bounds, 1)[:, 0], [True, False, False, False])
    np.testing.assert_array_equal(densities(bounds, 2), ~np.isnan(bounds))


def test_predictions_are_those_of_the_normal() -> None:
    likelihood, at = make(), latent()
    normal = Gaussian(1, 1.0, 1e-4).double()
    normal.start(torch.tensor([NOISE], dtype=torch.float64))
    for value, desired in zip(likelihood.predictive(at), normal.predictive(at), strict=True):
        assert (value is desired is None) or torch.equal(value, desired)
