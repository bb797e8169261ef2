"""Moments of mixtures of normals, for cells with log weights, means and deviations (cells, S)."""

import numpy as np

from skgp._typing import FloatArray
from skgp.distributions._magnitude import binary_exponent


def mean(log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Mean of each cell."""
    return np.asarray(np.sum(np.exp(log_w) * mean, axis=1))


def variance(log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Variance of each cell by the law of total variance: E[Var[Y | s]] + Var[E[Y | s]]."""
    weights = np.exp(log_w)
    centre = np.sum(weights * mean, axis=1, keepdims=True)
    return np.asarray(np.sum(weights * (std**2 + (mean - centre) ** 2), axis=1))


def deviation(log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Root of the variance, for numbers whose squares leave the range of float64 too.

    Each cell is measured in a power of two near its largest deviation, which rounds nothing.
    """
    weights = np.exp(log_w)
    spread = mean - np.sum(weights * mean, axis=1, keepdims=True)
    unit = binary_exponent(std, spread)
    squares = np.ldexp(std, -unit) ** 2 + np.ldexp(spread, -unit) ** 2
    return np.ldexp(np.sqrt(np.sum(weights * squares, axis=1)), unit[:, 0])
