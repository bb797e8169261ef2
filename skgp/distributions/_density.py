"""Density and distribution function of univariate normal mixtures.

The functions work on *cells*: one cell is one output of one row. Arrays of components have shape
(B, S), points have shape (B,), with B cells and S components.
"""

import math

import numpy as np
from scipy.special import ndtr

from skgp._typing import FloatArray
from skgp.distributions._chunks import blocks

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
# The square of a much smaller standard deviation underflows; treated as this one instead.
SMALLEST_STD = 1e-150


def logsumexp(a: FloatArray) -> FloatArray:
    """log(sum(exp(a))) over the last axis, with -inf for an axis that is -inf throughout."""
    largest = np.max(a, axis=-1, keepdims=True)
    largest = np.where(np.isneginf(largest), 0.0, largest)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.sum(np.exp(a - largest), axis=-1)) + largest[..., 0])


def log_terms(x: FloatArray, log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """log(w_s N(x; mean_s, std_s^2)), by broadcasting."""
    with np.errstate(over="ignore"):  # a far point has density 0
        z = (x - mean) / std
        return np.asarray(log_w - 0.5 * z * z - np.log(std) - LOG_SQRT_2PI)


def logpdf(x: FloatArray, log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Log density of each cell at its own point."""
    return logsumexp(log_terms(x[:, None], log_w, mean, std))


def cdf(x: FloatArray, log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """P(Y <= x) of each cell at its own point; `cdf(-x, log_w, -mean, std)` is P(Y > x)."""
    return cdf_at_nodes(x[:, None], log_w, mean, std)[:, 0]


def sf_at_nodes(x: FloatArray, log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """P(Y > x) of each cell at its G nodes, exact in the upper tail."""
    return cdf_at_nodes(-x, log_w, -mean, std)


def logpdf_at_nodes(
    x: FloatArray, log_w: FloatArray, mean: FloatArray, std: FloatArray
) -> FloatArray:
    """Log density of each cell at its G nodes, `x` and result of shape (B, G)."""
    out = np.empty_like(x)
    for part in blocks(x.shape[1], mean.size):
        out[:, part] = logsumexp(
            log_terms(x[:, part, None], log_w[:, None], mean[:, None], std[:, None])
        )
    return out


def cdf_at_nodes(x: FloatArray, log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """P(Y <= x) of each cell at its G nodes, `x` and result of shape (B, G)."""
    out = np.empty_like(x)
    weights = np.exp(log_w)[:, None]
    # Weights sum to one up to rounding; divided by their sum, F reaches 1 exactly.
    total = np.sum(weights, axis=-1)
    for part in blocks(x.shape[1], mean.size):
        with np.errstate(over="ignore"):
            z = (x[:, part, None] - mean[:, None]) / std[:, None]
        out[:, part] = np.sum(weights * ndtr(z), axis=-1) / total
    return out
