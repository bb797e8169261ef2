"""Composite Gauss-Legendre quadrature adapted to the components of normal mixtures."""

from collections.abc import Iterator

import numpy as np

from skgp._typing import BoolArray, FloatArray, IntArray
from skgp.distributions._chunks import chunks_by_cost
from skgp.distributions._density import logpdf_at_nodes
from skgp.distributions._magnitude import binary_exponent

# Every component is resolved by panels of one of its standard deviations, out to nine of them or
# more.
REACH = 9
PANEL_NODES = 8
# Standard deviations that moments look at, more if the last panels have such a share.
REACHES = (REACH, 14, 24, 38)
_NEGLIGIBLE = 3e-9
_NEGLIGIBLE_OF_MIXTURES = 1e-11  # whose panels depend on the other rows, which results must not
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(PANEL_NODES)


def panel_quadrature(
    log_w: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    split: FloatArray | None = None,
    group: int = 1,
    reach: int = REACH,
) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Yield (cells, nodes, weights); nodes and weights of shape (len(cells), G).

    `split` (B,) is an extra panel edge per cell, where an integrand has a kink. Cells come in
    whole groups of `group` consecutive ones.
    """
    n_components = mean.shape[1]
    steps = np.arange(-reach, reach + 1.0)
    low = np.min(mean - reach * std, axis=1)
    high = np.max(mean + reach * std, axis=1)
    n_union = steps.size * n_components - 1
    n_uniform = np.ceil((high - low) / std.min(axis=1))
    n_panels = np.minimum(n_uniform, n_union).astype(np.intp).reshape(-1, group).max(axis=1)
    for groups in chunks_by_cost(n_panels * (group * _NODES.size * n_components)):
        cells = (groups[:, None] * group + np.arange(group)).ravel()
        size = int(n_panels[groups].max())
        if size < n_union:  # uniform panels are narrow enough, and fewer
            edges = low[cells, None] + (high - low)[cells, None] * np.linspace(0, 1, size + 1)
        else:
            edges = mean[cells, :, None] + std[cells, :, None] * steps
            edges = np.sort(edges.reshape(cells.size, -1), axis=1)
        if split is not None:
            inside = np.clip(split[cells], low[cells], high[cells])
            edges = np.sort(np.column_stack([edges, inside]), axis=1)
        half = 0.5 * np.diff(edges, axis=1)
        middle = edges[:, :-1] + half
        nodes = middle[..., None] + half[..., None] * _NODES
        weights = half[..., None] * _WEIGHTS
        yield cells, nodes.reshape(cells.size, -1), weights.reshape(cells.size, -1)


def entropy(log_w: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Differential entropy -int f log f of each cell, in nats."""
    if mean.shape[1] == 1:
        return np.asarray(0.5 * np.log(2.0 * np.pi * np.e) + np.log(std[:, 0]))
    out = np.empty(mean.shape[0])
    mean = mean - mean.min(axis=1, keepdims=True)  # a standard deviation may be less than its ulp
    for cells, nodes, weights in panel_quadrature(log_w, mean, std):
        log_f = logpdf_at_nodes(nodes, log_w[cells], mean[cells], std[cells])
        out[cells] = -np.sum(weights * np.exp(log_f) * np.maximum(log_f, -1e300), axis=1)
    return out


def moment_at_nodes(
    y: FloatArray, weights: FloatArray, centre: FloatArray | None, n_components: int
) -> tuple[FloatArray, BoolArray]:
    """A moment of cells by nodes (cells, G), and whether it goes on beyond the ends of them."""
    share = _NEGLIGIBLE if n_components == 1 else _NEGLIGIBLE_OF_MIXTURES
    if centre is None:
        terms = weights * y
        value = total = np.sum(terms, axis=1)
    else:
        # Squared in a power of two near the largest deviation of their cell.
        with np.errstate(invalid="ignore"):  # an infinite mean
            deviation = y - centre
        unit = binary_exponent(deviation)
        terms = weights * np.ldexp(deviation, -unit) ** 2
        total = np.sum(terms, axis=1)
        value = np.ldexp(np.sqrt(total), unit[:, 0])
    with np.errstate(invalid="ignore", over="ignore"):
        ends = np.abs(terms[:, :PANEL_NODES].sum(axis=1))
        ends += np.abs(terms[:, -PANEL_NODES:].sum(axis=1))
        is_cut: BoolArray = ends > share * np.abs(total)
        if is_cut.any():  # unless terms of two signs cancel
            is_cut[is_cut] = ends[is_cut] > share * np.abs(terms[is_cut]).sum(axis=1)
    return value, is_cut
