"""Quantiles and modes of univariate normal mixtures: vectorised safeguarded iterations."""

import numpy as np
from scipy.special import ndtri

from skgp._typing import FloatArray
from skgp.distributions._chunks import blocks, row_chunks
from skgp.distributions._density import (
    SMALLEST_STD,
    cdf,
    log_terms,
    logpdf,
    logpdf_at_nodes,
    logsumexp,
)
from skgp.distributions._magnitude import common_unit

_MAX_ITER = 400
_MAX_HALVINGS = 2200  # from one end of the range of float64 to a spacing at the other
_RELATIVE_TAIL_TOLERANCE = 1e-12
_STEP_TOLERANCE = 1e-10
_MAX_STARTS = 64


def quantiles(q: FloatArray, log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Solve F(x) = q for each cell and each of its k probabilities `q` of shape (B, k)."""
    flat, parts = q.reshape(-1), (log_w, mean, std)
    out = np.empty(flat.size)
    for block in blocks(flat.size, mean.shape[1]):
        cell = np.arange(block.start, block.stop) // q.shape[1]
        out[block] = quantile(flat[block], *(part[cell] for part in parts))
    return out.reshape(q.shape)


def quantile(q: FloatArray, log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Solve F(x) = q for each cell; `q` of shape (B,) with values in [0, 1].

    Newton's method on log F, inside a bracket that bisection halves whenever Newton leaves it or
    fails to halve its step.
    """
    if mean.shape[1] == 1:
        return np.asarray(mean[:, 0] + std[:, 0] * ndtri(q))
    # An upper quantile is the mirrored lower one, so that small tail probabilities stay exact.
    sign = np.where(q > 0.5, -1.0, 1.0)
    p = np.where(q > 0.5, 1.0 - q, q)
    x = np.where(p == 0.0, -np.inf, 0.0)
    active = np.flatnonzero(p > 0.0)

    p, log_w, std = p[active], log_w[active], std[active]
    mean = sign[active, None] * mean[active]
    # A quantile of the mixture lies between the smallest and the largest one of its components.
    component = mean + std * ndtri(p)[:, None]
    low, high = component.min(axis=1), component.max(axis=1)
    point = np.clip(np.sum(np.exp(log_w) * component, axis=1), low, high)
    step = high - low
    for _ in range(_MAX_HALVINGS):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            tail = cdf(point, log_w, mean, std)
            excess = np.log(tail / p)
            newton = point - excess * tail / np.exp(logpdf(point, log_w, mean, std))
            low, high = np.where(excess < 0.0, point, low), np.where(excess < 0.0, high, point)
            middle = low + 0.5 * (high - low)
            done = (np.abs(excess) <= _RELATIVE_TAIL_TOLERANCE) | (middle <= low) | (middle >= high)
            slow = ~(np.abs(newton - point) <= 0.5 * np.abs(step))
        x[active[done]] = point[done]
        if done.all():
            break
        proposal = np.where(slow | (newton <= low) | (newton >= high), middle, newton)
        go = ~done
        active, p, low, high = active[go], p[go], low[go], high[go]
        log_w, mean, std = log_w[go], mean[go], std[go]
        step, point = (proposal - point)[go], proposal[go]
    else:  # bisection of float64 has ended before; kept so that no cell is ever left unset
        x[active] = point
    return np.asarray(sign * x)


def mode(log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Point of highest density of each cell.

    Climbs from every component's mean (the 64 densest of them when there are more) by the
    mean-shift fixed point, and by Newton's method once it is near.
    """
    n_cells, n_components = mean.shape
    if n_components == 1:
        return mean[:, 0].copy()
    n_starts = min(n_components, _MAX_STARTS)
    unit = common_unit(mean, std)
    mean, std = np.ldexp(mean, -unit), np.maximum(np.ldexp(std, -unit), SMALLEST_STD)
    out = np.empty(n_cells)
    for rows in row_chunks(n_cells, n_starts * n_components):
        part = log_w[rows], mean[rows], std[rows]
        starts = part[1]
        if n_components > n_starts:
            height = logpdf_at_nodes(starts, *part)
            chosen = np.argpartition(-height, n_starts, axis=1)[:, :n_starts]
            starts = np.take_along_axis(starts, np.sort(chosen, axis=1), axis=1)
        peaks = _climb(starts, *part)
        best = np.argmax(logpdf_at_nodes(peaks, *part), axis=1)
        out[rows] = np.take_along_axis(peaks, best[:, None], axis=1)[:, 0]
    return np.asarray(np.ldexp(out, unit[:, 0]))


def _climb(starts: FloatArray, log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Move each start, shape (B, K), to a local maximum of its cell's density."""
    n_cells, n_starts = starts.shape
    peaks = starts.flatten()
    active = np.arange(peaks.size)
    cell = np.repeat(np.arange(n_cells), n_starts)
    for _ in range(_MAX_ITER):
        x, w, m, s = peaks[active], log_w[cell], mean[cell], std[cell]
        log_r = log_terms(x[:, None], w, m, s)
        r = np.exp(log_r - logsumexp(log_r)[:, None])  # responsibilities
        with np.errstate(over="ignore", invalid="ignore"):
            u = np.where(r > 0.0, (m - x[:, None]) / s, 0.0)
        gradient = np.sum(r * u / s, axis=1)
        precision = np.sum(r / s / s, axis=1)
        curvature = np.sum(r * (u * u - 1.0) / s / s, axis=1) - gradient**2
        # Mean shift, x + gradient / precision, never descends. Newton's step replaces it where the
        # log density is concave and the step is short beside the components.
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = gradient / -curvature
        close = (curvature < 0.0) & (np.abs(newton) * np.sqrt(precision) < 0.3)
        step = np.where(close, newton, gradient / precision)
        peaks[active] = x + step
        go = np.abs(step) * np.sqrt(precision) > _STEP_TOLERANCE
        go &= peaks[active] != x
        active, cell = active[go], cell[go]
        if active.size == 0:
            break
    return peaks.reshape(n_cells, n_starts)
