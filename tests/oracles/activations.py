"""Moments of activations of normals, by quadrature and by sampling, not by formula."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erf

Function = Callable[[Any], Any]

# By name, the function and whether it has a kink at zero or bends there fastest; both want a
# quadrature rule that is split at zero.
FUNCTIONS: dict[str, Function] = {
    "relu": lambda a: np.maximum(0.0, a),
    "leaky_relu": lambda a: np.maximum(0.35 * a, a),
    "erf": erf,
    "shifted_erf": lambda a: 1.0 + erf(a),
    "xerf": lambda a: a * erf(a),
}
_HERMITE = np.polynomial.hermite_e.hermegauss(200)
_LEGENDRE = np.polynomial.legendre.leggauss(200)
_FAR = 9.0  # standard deviations; what lies beyond weighs 1e-19


def hermite(g: Function, mean: float, var: float) -> float:
    """E g(a) for a ~ N(mean, var) by 200 Gauss-Hermite points: for smooth and narrow functions."""
    z, weights = _HERMITE
    return float(weights @ g(mean + math.sqrt(var) * z)) / math.sqrt(2.0 * math.pi)


def split_rule(at: Any) -> tuple[Any, Any]:
    """Points and weights (..., 400) of a standard normal, by 200 on each side of `at` (...)."""
    x, weights = _LEGENDRE
    middle = np.clip(np.asarray(at, dtype=float), -_FAR, _FAR)[..., np.newaxis]
    parts = []
    for low, high in ((-_FAR, middle), (middle, _FAR)):
        half = 0.5 * (high - low)
        z = low + half * (1.0 + x)
        parts.append((z, half * weights * np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)))
    (z_low, w_low), (z_high, w_high) = parts
    return np.concatenate([z_low, z_high], -1), np.concatenate([w_low, w_high], -1)


def mean(g: Function, mean: Any, var: Any) -> Any:
    """E g(a) for a ~ N(mean, var), element by element, by a rule that is split where a = 0."""
    mean, deviation = np.asarray(mean), np.sqrt(var)
    z, weights = split_rule(-mean / np.maximum(deviation, 1e-300))
    return np.sum(weights * g(mean[..., np.newaxis] + deviation * z), -1)


def covariance(
    g: Function, mean_1: float, var_1: float, mean_2: float, var_2: float, cov: float
) -> float:
    """Cov(g(a1), g(a2)) by nested quadrature: a1 outside, a2 given a1 inside."""
    z, weights = split_rule(-mean_1 / math.sqrt(var_1))
    a = mean_1 + math.sqrt(var_1) * z
    rest = var_2 - cov**2 / var_1
    means = [float(mean(g, m, v)) for m, v in ((mean_1, var_1), (mean_2, var_2))]
    inner = mean(g, mean_2 + cov / var_1 * (a - mean_1), rest) - means[1]
    return float(np.sum(weights * (g(a) - means[0]) * inner))


def within_four_errors(value: Any, samples: Any) -> bool:
    """Whether `value` lies within 4 standard errors of the mean of the samples along axis 0."""
    samples = np.asarray(samples)
    error = np.std(samples, axis=0, ddof=1) / math.sqrt(len(samples))
    return bool(np.all(np.abs(np.mean(samples, axis=0) - value) <= 4.0 * error))
