"""Expectations under likelihoods of classes, by adaptive quadrature and by plain sampling."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.integrate import quad

Array = npt.NDArray[np.float64]

_REACH = 14.0


def expectation(g: Callable[[float], float], mean: float, variance: float) -> float:
    """E g(f) for f ~ N(mean, variance); g may bend near zero."""
    scale = math.sqrt(variance)
    bend = min(max(-mean / scale, -_REACH), _REACH)
    value, _ = quad(
        lambda z: math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) * g(mean + scale * z),
        -_REACH,
        _REACH,
        points=[bend],
        limit=500,
        epsabs=1e-13,
        epsrel=1e-12,
    )
    return float(value)


def robust_max(f: Array, c: int, slip: float) -> Array:
    """p(y = c | f) for draws f (S, C)."""
    n_classes = f.shape[1]
    return np.where(f.argmax(1) == c, 1.0 - slip, slip / (n_classes - 1))


def softmax(f: Array, c: int) -> Array:
    """p(y = c | f) for draws f (S, C)."""
    return np.exp(f[:, c]) / np.exp(f).sum(1)
