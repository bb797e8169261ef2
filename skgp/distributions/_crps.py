"""Continuous ranked probability score of univariate normal mixtures.

CRPS(F, y) = E|X - y| - E|X - X'| / 2, with X, X' independent draws from F. The first term costs
O(S). The second, over pairs of components, is summed directly when that is cheap and is otherwise
computed in the Fourier domain, to the same precision.
"""

import math

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import erf, sici

from skgp._typing import FloatArray, IntArray
from skgp.distributions._chunks import WORK_ELEMENTS, blocks, chunks_by_cost
from skgp.distributions._density import SMALLEST_STD
from skgp.distributions._magnitude import common_unit

# Standard deviations beyond which a normal tail (5e-13) is dropped.
_HALF_WIDTH = 7.2
# Grid step in units of the smallest standard deviation; aliasing is exp(-(pi / 0.6)^2) = 1e-12.
_STEP = 0.6
# One pair of components costs about as much as this many evaluations of a component on the grid.
_PAIR_COST = 8


def crps(y: FloatArray, log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """CRPS of each cell at its own observation `y`, shape (B,)."""
    unit = common_unit(mean, std, y)
    y, mean = np.ldexp(y[:, None], -unit), np.ldexp(mean, -unit)
    weights, std = np.exp(log_w), np.maximum(np.ldexp(std, -unit), SMALLEST_STD)
    misfit = np.sum(weights * _mean_abs(y - mean, std * std), axis=1)
    score = misfit - 0.5 * mean_abs_difference(weights, mean, std)
    return np.asarray(np.ldexp(score, unit[:, 0]))


def mean_abs_difference(weights: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """E|X - X'| of each cell, by whichever of the two ways is cheaper for it."""
    n_components = mean.shape[1]
    mean = mean - mean.min(axis=1, keepdims=True)  # a standard deviation may be less than its ulp
    n_pairs = n_components * (n_components + 1) // 2
    low = np.min(mean - _HALF_WIDTH * std, axis=1)
    high = np.max(mean + _HALF_WIDTH * std, axis=1)
    n_nodes = np.ceil((high - low) / (_STEP * std.min(axis=1))) + 1.0
    spectral = n_nodes * n_components < n_pairs * _PAIR_COST
    out = np.empty(mean.shape[0])
    cells = np.flatnonzero(~spectral)
    for part in blocks(cells.size, n_components * n_components):
        chosen = cells[part]
        out[chosen] = _by_pairs(weights[chosen], mean[chosen], std[chosen])
    cells = np.flatnonzero(spectral)
    nodes: IntArray = n_nodes[cells].astype(np.intp)
    for index in chunks_by_cost(nodes * n_components):
        chosen = cells[index]
        out[chosen] = _spectral(
            weights[chosen],
            mean[chosen] - low[chosen, None],
            std[chosen],
            (high - low)[chosen],
            int(nodes[index].max()),
        )
    return out


def _mean_abs(m: FloatArray, v: FloatArray) -> FloatArray:
    """E|Z| of Z ~ N(m, v): 2 sqrt(v) phi(m / sqrt(v)) + m (2 Phi(m / sqrt(v)) - 1)."""
    with np.errstate(over="ignore"):
        z = m / np.sqrt(2.0 * v)
        return np.asarray(np.sqrt(2.0 / math.pi * v) * np.exp(-z * z) + m * erf(z))


def _by_pairs(weights: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """sum_ij w_i w_j A(mean_i - mean_j, std_i^2 + std_j^2), each unordered pair (almost) once."""
    n_cells, n_components = mean.shape
    var = std * std
    total = np.zeros(n_cells)
    # Blocks of rows i against columns j >= (first i of the block): the square block on the
    # diagonal holds both orders of a pair, the rest one of them. Narrow blocks waste little.
    width = min(max(1, n_components // 8), max(1, WORK_ELEMENTS // (n_cells * n_components)))
    for start in range(0, n_components, width):
        stop = min(start + width, n_components)
        order = np.where(np.arange(start, n_components) < stop, 1.0, 2.0)
        terms = _mean_abs(
            mean[:, start:stop, None] - mean[:, None, start:],
            var[:, start:stop, None] + var[:, None, start:],
        )
        terms *= (order * weights[:, start:])[:, None, :]
        terms *= weights[:, start:stop, None]
        total += terms.sum(axis=(1, 2))
    return total


def _spectral(
    weights: FloatArray, mean: FloatArray, std: FloatArray, width: FloatArray, n_nodes: int
) -> FloatArray:
    """E|X - X'| from samples of the density on a grid over [0, width], exact up to aliasing.

    With c(t) the characteristic function of Z = X - X', E|Z| = (2 / pi) int_0^inf (1 - c(t)) / t^2
    dt. The grid x_a = a h resolves the density f: c vanishes (1e-12) beyond t = pi / h, and within,
    c(t) = h sum_k r_k cos(t h k), where r_k = h sum_a f(x_a) f(x_{a+k}) is the density of Z at the
    lag k. Integrated term by term,

        E|Z| = 2 h / pi^2 + h sum_k r_k W_k,  W_k = (2 h / pi) (k Si(pi k) - (1 - (-1)^k) / pi).
    """
    h = width / (n_nodes - 1)
    grid = h[:, None] * np.arange(n_nodes)
    slope = math.sqrt(0.5) / std
    height = weights / (math.sqrt(2.0 * math.pi) * std)
    density = np.zeros_like(grid)
    for part in blocks(mean.shape[1], grid.size):
        z = slope[:, part, None] * grid[:, None, :]
        z -= (slope[:, part] * mean[:, part])[:, :, None]
        np.square(z, out=z)
        np.negative(z, out=z)
        np.exp(z, out=z)
        density += np.matmul(height[:, None, part], z)[:, 0]

    length = next_fast_len(2 * n_nodes, real=True)
    spectrum = rfft(h[:, None] * density, n=length, axis=1)
    r = irfft(spectrum.real**2 + spectrum.imag**2, n=length, axis=1)[:, :n_nodes]  # h r_k
    lag = np.arange(n_nodes)
    kernel = lag * sici(math.pi * lag)[0] - (lag % 2) * (2.0 / math.pi)
    # Both signs of a lag contribute, hence the factor 2; the kernel is 0 at lag 0.
    return np.asarray(h * (2.0 / math.pi**2 + 4.0 / math.pi * (r @ kernel)))
