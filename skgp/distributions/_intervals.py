"""Log probabilities of intervals, which are numbers where probabilities are zero as such."""

from functools import singledispatch
from typing import Final

import numpy as np
from scipy.special import log_ndtr

from skgp._typing import FloatArray
from skgp.distributions._chunks import row_chunks
from skgp.distributions._continuous import ContinuousDistribution
from skgp.distributions._counts import CountMixture
from skgp.distributions._density import LOG_SQRT_2PI, logsumexp
from skgp.distributions._normal_mixture import NormalMixture
from skgp.distributions._transformed import MonotoneTransformed

_LOG_HALF: Final = -np.log(2.0)
# Widths, in standard deviations, below which the density says more: cdfs cancel.
_NARROW: Final = 1e-3
_NARROW_STEP: Final = 1e-5  # of a transformed target, whose density is taken as constant
_FEW: Final = 40  # counts whose probabilities are added up
_TINY: Final = 1e-200  # probability that is a sum of fewer still


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
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = ((x[rows].reshape(-1, 1) - mean) / std for x in (a, b))
            width = (b - a)[rows].reshape(-1, 1) / std
        log_p = logsumexp(log_w + _log_difference(low, high, width)) - logsumexp(log_w)
        out[rows] = log_p.reshape(-1, n_outputs)
    return out.reshape(lower.shape)


@log_probability.register
def _of_transformed(dist: MonotoneTransformed, lower: FloatArray, upper: FloatArray) -> FloatArray:
    # With the whole of an atom at either bound, whether the transformation rises or falls.
    a, b = dist._place(lower), dist._place(upper)
    first, last = dist._end(np.minimum(a, b), -1.0), dist._end(np.maximum(a, b), 1.0)
    log_p = log_probability(dist._base, first, last)
    with np.errstate(invalid="ignore"):
        is_smooth = np.abs(b - a) == last - first
        narrow = is_smooth & (last - first < _NARROW_STEP * dist._reach()[2])
    if narrow.any():
        width = upper - lower
        log_p = np.where(narrow, dist.logpdf(lower + 0.5 * width) + np.log(width), log_p)
    return log_p


@log_probability.register
def _of_counts(dist: CountMixture, lower: FloatArray, upper: FloatArray) -> FloatArray:
    first, last = np.maximum(np.ceil(lower), 0.0), np.floor(upper)
    low, high = dist.cdf(first - 1.0), dist.sf(first - 1.0)
    p = np.where(low > 0.5, high - dist.sf(last), dist.cdf(last) - low)
    with np.errstate(divide="ignore"):
        out = np.log(np.maximum(p, 0.0))
    few = last - first < _FEW
    rows = np.flatnonzero(few | (p < _TINY))
    if rows.size:
        is_up = (few | (low > 0.5))[rows]
        start, left = np.where(is_up, first[rows], last[rows]), last[rows] - first[rows]
        steps = np.where(is_up, 1.0, -1.0)[..., np.newaxis] * np.arange(_FEW)
        log_p = dist[rows].logpdf(start[..., np.newaxis] + steps)
        log_p = np.where(np.arange(_FEW) <= left[..., np.newaxis], log_p, -np.inf)
        out[rows] = logsumexp(np.column_stack([log_p, _log_rest(log_p, left - _FEW + 1.0)]))
    return out


def _log_rest(log_p: FloatArray, size: FloatArray) -> FloatArray:
    """Logarithm of the sum of `size` more terms of a tail, of which each is about r times the last.

    In a far tail the ratio r of one count to the next changes slowly.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        log_r = log_p[..., -1] - log_p[..., -2]
        rest = log_p[..., -1] + log_r + np.log(np.expm1(log_r * size) / np.expm1(log_r))
    return np.where((size > 0.0) & (log_r < 0.0), rest, -np.inf)


def _log_difference(a: FloatArray, b: FloatArray, width: FloatArray) -> FloatArray:
    """log(Phi(b) - Phi(a)) for a <= b, exact in both tails.

    `width` is b - a, of which a caller may know more digits.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        middle = a + 0.5 * width
        narrow = width * np.maximum(np.abs(middle), 1.0) < _NARROW
        # log Phi resolves the lower tail: so an interval above zero is reflected.
        above = a + b > 0.0
        a, b = np.where(above, -b, a), np.where(above, -a, b)
        log_b = log_ndtr(b)
        d = np.where(a < b, log_ndtr(a) - log_b, 0.0)
        share = np.where(d > _LOG_HALF, np.log(-np.expm1(d)), np.log1p(-np.exp(d)))
        wide = np.where(np.isneginf(log_b), -np.inf, log_b + share)
        # Phi(b) - Phi(a) = phi(m) w (1 + (m^2 - 1) w^2 / 24 + ...)
        bend = (np.square(middle * width) - np.square(width)) / 24.0
        density = -0.5 * np.square(middle) - LOG_SQRT_2PI
        return np.where(narrow, density + np.log(width) + bend, wide)
