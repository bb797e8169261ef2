"""Integrals of the bivariate normal density over its correlation."""

import itertools
import math

import numpy as np
import pytest
import torch
from oracles.models import to_array
from scipy.integrate import quad
from scipy.stats import multivariate_normal
from torch import Tensor

from skgp.core.numerics.bivariate import correlation_integrals

LIMITS = (-3.0, -0.4, 0.0, 0.03, 1.7)


def tensors(*values: float, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [torch.tensor([value], dtype=dtype, requires_grad=True) for value in values]


def naive(h: float, k: float, rho: float) -> tuple[float, float]:
    """Adaptive quadrature over the correlation r = sin(angle) of the density as it is written."""

    def density(r: float) -> float:
        exponent = (h**2 - 2.0 * r * h * k + k**2) / (2.0 * (1.0 - r**2))
        return math.exp(-exponent) / (2.0 * math.pi)

    limit = math.asin(rho)
    settings = {"epsabs": 1e-13, "epsrel": 1e-12, "limit": 400}
    first, _ = quad(lambda t: density(math.sin(t)), 0.0, limit, **settings)
    second, _ = quad(lambda t: (rho - math.sin(t)) * density(math.sin(t)), 0.0, limit, **settings)
    return first, second


@pytest.mark.parametrize("rho", [-0.9999, -0.99, -0.5, -1e-3, 0.0, 1e-6, 0.3, 0.9, 0.999, 0.9999])
def test_integrals_against_adaptive_quadrature(rho: float) -> None:
    for h, k in itertools.product(LIMITS, LIMITS):
        first, second = correlation_integrals(*tensors(h, k, rho))
        expected = naive(h, k, rho)
        np.testing.assert_allclose(first.item(), expected[0], rtol=0, atol=1e-8)
        np.testing.assert_allclose(second.item(), expected[1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("rho", [-0.8, 0.2, 0.95])
def test_first_integral_is_the_excess_of_the_joint_distribution_function(rho: float) -> None:
    """P(x1 < h, x2 < k) - Phi(h) Phi(k)."""
    joint = multivariate_normal([0.0, 0.0], [[1.0, rho], [rho, 1.0]])
    for h, k in itertools.product(LIMITS, LIMITS):
        first, _ = correlation_integrals(*tensors(h, k, rho))
        product = torch.special.ndtr(torch.tensor([h, k], dtype=torch.float64)).prod().item()
        np.testing.assert_allclose(first.item(), joint.cdf([h, k]) - product, rtol=0, atol=1e-8)


def phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@pytest.mark.parametrize("beyond", [0.0, 1e-12])
def test_integrals_at_full_correlation(beyond: float) -> None:
    """P(x < h, x < k), P(x < h, -x < k) and E of two ramps of one variable, less the products."""
    for h, k in itertools.product(LIMITS, LIMITS):
        first, second = correlation_integrals(*tensors(h, k, 1.0 + beyond))
        np.testing.assert_allclose(first.item(), phi(min(h, k)) - phi(h) * phi(k), atol=1e-5)
        low = min(h, k)
        both = quad(
            lambda x, h=h, k=k: (h - x) * (k - x) * math.exp(-0.5 * x**2),
            -40.0,
            low,
            points=[-5.0, low - 1.0],
        )[0] / math.sqrt(2.0 * math.pi)
        ramps = [x * phi(x) + math.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi) for x in (h, k)]
        expected = both - ramps[0] * ramps[1] - phi(h) * phi(k)
        np.testing.assert_allclose(second.item(), expected, rtol=0, atol=1e-10)
        first, _ = correlation_integrals(*tensors(h, k, -1.0 - beyond))
        expected = max(phi(h) + phi(k) - 1.0, 0.0) - phi(h) * phi(k)
        np.testing.assert_allclose(first.item(), expected, atol=1e-5)


@pytest.mark.parametrize("rho", [-0.97, -0.3, 0.0, 0.6, 0.99])
def test_gradients_against_finite_differences(rho: float) -> None:
    pairs = torch.tensor(list(itertools.product((-3.0, 0.0, 0.03, 1.7), repeat=2)))
    h, k = pairs.double().unbind(-1)
    arguments = [part.clone().requires_grad_() for part in (h, k, torch.full_like(h, rho))]
    assert torch.autograd.gradcheck(correlation_integrals, arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_is_infinite_at_the_limits(dtype: torch.dtype) -> None:
    for h, k in itertools.product((-1e7, -30.0, 0.0, 1e-7, 2.0, 1e7), repeat=2):
        for rho in (-1.0, 0.0, 1.0):
            arguments = tensors(h, k, rho, dtype=dtype)
            first, second = correlation_integrals(*arguments)
            gradients = torch.autograd.grad((first + second).sum(), arguments)
            assert all(bool(torch.isfinite(value).all()) for value in (first, second, *gradients))


def test_gradient_at_full_correlation_is_the_limit() -> None:
    """One variable twice: the second integral of (h, h, 1) has the slopes of (h, h, 1 - 1e-12)."""
    for h in (-1.0, 0.0, 0.7):
        arguments, near = tensors(h, h, 1.0), tensors(h, h, 1.0 - 1e-12)
        slopes = torch.autograd.grad(correlation_integrals(*arguments)[1].sum(), arguments)
        limits = torch.autograd.grad(correlation_integrals(*near)[1].sum(), near)
        for slope, limit in zip(slopes, limits, strict=True):
            np.testing.assert_allclose(slope.item(), limit.item(), atol=1e-6)


def test_float32_keeps_the_relative_accuracy_of_a_small_correlation() -> None:
    """rho phi(h) phi(k) to first order."""
    first, _ = correlation_integrals(*tensors(0.5, -0.3, 1e-5, dtype=torch.float32))
    expected = 1e-5 * math.exp(-0.5 * (0.5**2 + 0.3**2)) / (2.0 * math.pi)
    np.testing.assert_allclose(to_array(first), [expected], rtol=1e-4)
