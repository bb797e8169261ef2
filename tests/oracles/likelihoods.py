"""Terms of the Gaussian likelihood for one output, by quadrature and not by formula."""

import math
from collections.abc import Callable

import numpy as np

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(120)


def log_normal(y: float, mean: float, variance: float) -> float:
    """log N(y; mean, variance)."""
    return -0.5 * (math.log(2.0 * math.pi * variance) + (y - mean) ** 2 / variance)


def expectation(g: Callable[[float], float], mean: float, variance: float) -> float:
    """E g(f) for f ~ N(mean, variance) by Gauss-Hermite quadrature."""
    total = sum(
        w * g(mean + math.sqrt(variance) * z) for z, w in zip(_NODES, _WEIGHTS, strict=True)
    )
    return float(total) / math.sqrt(2.0 * math.pi)


def expected_log_prob(y: float, mean: float, v_prior: float, v_q: float, noise: float) -> float:
    """E_q(f) log N(y; f, s2)."""
    return expectation(lambda f: log_normal(y, f, noise), mean, v_prior + v_q)


def log_marginal(y: float, mean: float, v_prior: float, v_q: float, noise: float) -> float:
    """Log of the integral of N(y; f, s2) q(f) df."""
    return math.log(expectation(lambda f: math.exp(log_normal(y, f, noise)), mean, v_prior + v_q))


def gamma_expectation(
    y: float, mean: float, v_prior: float, v_q: float, noise: float, gamma: float
) -> float:
    """g / (g - 1) * (E_q[p^(g - 1)] / (int p^g dy)^((g - 1) / g) - 1) with p = N(y; f, s2)."""
    power = expectation(
        lambda f: math.exp((gamma - 1.0) * log_normal(y, f, noise)), mean, v_prior + v_q
    )
    # The trapezoidal rule converges faster than any power of the step for such an integrand.
    step = 0.05 * math.sqrt(noise)
    integral = step * sum(
        math.exp(gamma * log_normal(step * i, 0.0, noise)) for i in range(-400, 401)
    )
    ratio = power / integral ** ((gamma - 1.0) / gamma)
    return gamma / (gamma - 1.0) * (ratio - 1.0)


def vfitc_bound(y: float, mean: float, v_prior: float, v_q: float, noise: float) -> float:
    """E log N(y; f, s2 + v_prior) for f ~ N(mean, v_q)."""
    return expectation(lambda f: log_normal(y, f, noise + v_prior), mean, v_q)
