"""Log probabilities of intervals, which are numbers where probabilities are zero as such."""

from functools import singledispatch
from typing import Final

import numpy as np
from scipy.special import log_ndtr

from skgp.distributions._chunks import row_chunks
from skgp.distributions._continuous import ContinuousDistribution
from skgp.distributions._density import logsumexp
from skgp.distributions._normal_mixture import NormalMixture
from skgp.distributions._transformed import MonotoneTransformed
from skgp.distributions._typing import FloatArray

_LOG_HALF: Final = -np.log(2.0)


@singledispatch
def log_probability(
    dist: ContinuousDistribution, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    """log P(lower <= Y <= upper), for bounds of the shape of the distribution, lower < upper."""
    # On the side of the tail that resolves it.
    below, above = dist.cdf(upper) - dist.cdf(lower), dist.sf(lower) - dist.sf(upper)
    with np.errstate(divide="ignore"):
        return np.log(np.where(dist.cdf(lower) > 0.5, above, below))


@log_probability.register
def _of_normals(dist: NormalMixture, lower: FloatArray, upper: FloatArray) -> FloatArray:
    n_outputs, size = int(np.prod(dist.shape[1:])), dist.components().weights.shape[1]
    a, b = lower.reshape(len(dist), n_outputs), upper.reshape(len(dist), n_outputs)
    out = np.empty(a.shape)
    for rows in row_chunks(len(dist), n_outputs * size):
        log_w, mean, std = dist._cells(rows)
        with np.errstate(over="ignore"):
            low, high = ((x[rows].reshape(-1, 1) - mean) / std for x in (a, b))
        log_p = logsumexp(log_w + _log_difference(low, high)) - logsumexp(log_w)
        out[rows] = log_p.reshape(-1, n_outputs)
    return out.reshape(lower.shape)


@log_probability.register
def _of_transformed(dist: MonotoneTransformed, lower: FloatArray, upper: FloatArray) -> FloatArray:
    a, b = dist._place(lower), dist._place(upper)
    return log_probability(dist._base, np.minimum(a, b), np.maximum(a, b))


def _log_difference(a: FloatArray, b: FloatArray) -> FloatArray:
    """log(Phi(b) - Phi(a)) for a <= b, exact in both tails."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # log Phi resolves the lower tail: so an interval above zero is reflected.
        above = a + b > 0.0
        a, b = np.where(above, -b, a), np.where(above, -a, b)
        log_b = log_ndtr(b)
        d = np.where(a < b, log_ndtr(a) - log_b, 0.0)
        share = np.where(d > _LOG_HALF, np.log(-np.expm1(d)), np.log1p(-np.exp(d)))
    return np.where(np.isneginf(log_b), -np.inf, log_b + share)
