"""Stationary kernels as they stand in a textbook, one pair of points at a time."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# k(r) for unit variance, r = |(z - x) / lengthscale|
CORRELATIONS: dict[str, Callable[[float], float]] = {
    "rbf": lambda r: math.exp(-0.5 * r**2),
    "matern12": lambda r: math.exp(-r),
    "matern32": lambda r: (1.0 + math.sqrt(3.0) * r) * math.exp(-math.sqrt(3.0) * r),
    "matern52": lambda r: (
        (1.0 + math.sqrt(5.0) * r + 5.0 / 3.0 * r**2) * math.exp(-math.sqrt(5.0) * r)
    ),
}

# k'(r)
SLOPES: dict[str, Callable[[float], float]] = {
    "rbf": lambda r: -r * math.exp(-0.5 * r**2),
    "matern12": lambda r: -math.exp(-r),
    "matern32": lambda r: -3.0 * r * math.exp(-math.sqrt(3.0) * r),
    "matern52": lambda r: (
        -5.0 / 3.0 * r * (1.0 + math.sqrt(5.0) * r) * math.exp(-math.sqrt(5.0) * r)
    ),
}


def distance(z: Array, x: Array, lengthscale: Array) -> float:
    """r = sqrt(sum over d of ((z_d - x_d) / l_d)^2)."""
    return math.sqrt(
        sum(((a - b) / scale) ** 2 for a, b, scale in zip(z, x, lengthscale, strict=True))
    )


def covariance(name: str, Z: Array, X: Array, lengthscale: Array, variance: float = 1.0) -> Array:
    """Matrix (M, N) of variance * k(r)."""
    K = np.empty((len(Z), len(X)))
    for i, z in enumerate(Z):
        for j, x in enumerate(X):
            K[i, j] = variance * CORRELATIONS[name](distance(z, x, lengthscale))
    return K


def input_gradient(name: str, Z: Array, X: Array, G: Array) -> Array:
    """Gradient in Z of the sum over i, j of G_ij k(|z_i - x_j|); a kink at r = 0 counts zero."""
    grad = np.zeros_like(Z)
    for i, z in enumerate(Z):
        for j, x in enumerate(X):
            r = distance(z, x, np.ones(len(z)))
            if r > 0.0:
                grad[i] += G[i, j] * SLOPES[name](r) * (z - x) / r
    return grad
