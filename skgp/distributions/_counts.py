"""Mixtures of Poisson and negative binomial distributions, one per row."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Self, final

import numpy as np
import numpy.typing as npt

from skgp._typing import FloatArray, IntArray, Names, RandomState
from skgp._validation import random_generator, sample_size
from skgp.distributions._chunks import blocks
from skgp.distributions._continuous import ContinuousDistribution, probabilities
from skgp.distributions._count_masses import log_mass_given_normal, tail_given_normal
from skgp.distributions._density import logsumexp
from skgp.distributions._normal_mixture import NormalMixture
from skgp.distributions._transformed import MonotoneTransformed

_POINTS: Final = 100  # about those of each integral over f
_ROUNDING: Final = 1e-12  # of a probability that may be that of a count
_TAIL: Final = 1e-6  # of the counts that a CRPS leaves out, which has its square
_MOST_COUNTS: Final = 500  # of which a CRPS looks at each
_PIECES: Final = 50  # of more counts
_RESOLVED: Final = 2.0  # standard deviation of a component, in pieces, that these resolve
_OWN: Final = np.arange(-6.0, 6.5, 0.5)  # ends of pieces of a narrower one, in units of it
_LARGEST_RATE: Final = 1e15  # of a sample


@final
class CountMixture(ContinuousDistribution):
    """Predictive distributions of counts: a count has the mean exp(f), and f is a normal mixture.

    Given f a count is Poisson, or negative binomial with the variance mu + dispersion mu^2. Means
    and variances are exact, all else comes from quadrature over f. `logpdf` is the log probability
    of a count, and minus infinity between the integers; quantiles are integers, that of zero is 0.

    Parameters
    ----------
    log_rate : NormalMixture of one output
        Distribution of f, with S components.
    dispersion : float or array-like of shape (S,) or (n, S), default=0.0
        Of all components, or of each, shared by the rows or per row; zero is Poisson.

    Raises
    ------
    ValueError
        If there are several outputs, or a dispersion is negative or infinite.

    Examples
    --------
    >>> from skgp.distributions import CountMixture, NormalMixture
    >>> dist = CountMixture(NormalMixture.normal([1.0], 0.5))
    >>> dist.mean().round(3).tolist(), dist.interval(0.9)
    ([3.08], (array([0.]), array([8.])))
    >>> dist.pdf([3.0]).round(3).tolist()
    [0.17]
    """

    __slots__ = ("_base", "_dispersion")

    _base: NormalMixture
    _dispersion: FloatArray  # (1, S) if shared by the rows, else (n, S)

    def __init__(self, log_rate: NormalMixture, dispersion: npt.ArrayLike = 0.0) -> None:
        if not isinstance(log_rate, NormalMixture) or log_rate.shape[1:] not in ((), (1,)):
            raise ValueError("log_rate must be a NormalMixture of one output")
        n_rows, size = log_rate.components().weights.shape
        values = np.asarray(dispersion, dtype=np.float64)
        is_valid = np.isfinite(values) & (values >= 0.0)
        if values.shape not in ((), (size,), (n_rows, size)) or not is_valid.all():
            raise ValueError(
                f"dispersion must be a number or {size} numbers, of all rows or of each, finite "
                "and not negative"
            )
        rows = n_rows if values.ndim == 2 else 1
        self._store(_base=log_rate, _dispersion=np.broadcast_to(values, (rows, size)).copy())

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the mean: (n,) or (n, 1)."""
        return self._base.shape

    @property
    def output_names(self) -> Names:
        return self._base.output_names

    def with_output_names(self, names: Sequence[str] | None) -> Self:
        return self._with_base(self._base.with_output_names(names))

    def __repr__(self) -> str:
        return f"CountMixture({self._base!r})"

    def rate(self) -> MonotoneTransformed:
        """Distribution of exp(f), the mean of a count given f: what is known of it without noise.

        Returns
        -------
        MonotoneTransformed of the same shape
        """
        return MonotoneTransformed(self._base, np.exp, np.log, np.reciprocal)

    def mean(self) -> FloatArray:
        weights, mean, std, _ = self._components(slice(None))
        with np.errstate(over="ignore"):
            each = np.exp(mean + 0.5 * std**2)
        return self._shaped(_shares(weights, each).sum(axis=1))

    def var(self) -> FloatArray:
        # Of each component, and of their means: a difference of squares would cancel.
        weights, mean, std, a = self._components(slice(None))
        with np.errstate(over="ignore", invalid="ignore"):
            each = np.exp(mean + 0.5 * std**2)
            total = _shares(weights, each).sum(axis=1, keepdims=True)
            within = each + each**2 * ((1.0 + a) * np.expm1(std**2) + a)
            found = _shares(weights, within + (each - total) ** 2).sum(axis=1)
        return self._shaped(np.where(np.isinf(total[:, 0]), np.inf, found))

    def cov(self) -> FloatArray:
        """Variance as a matrix over the single output.

        Returns
        -------
        ndarray of shape (n, 1, 1)
        """
        return self.var().reshape(-1, 1, 1)

    def logpdf(self, y: npt.ArrayLike) -> FloatArray:
        return self._per_point(self._log_mass, self._points(y))

    def joint_logpdf(self, Y: npt.ArrayLike) -> FloatArray:
        points = self._observations(Y, "Y")
        return np.where(np.isnan(points), 0.0, self.logpdf(points)).reshape(len(self))

    def cdf(self, y: npt.ArrayLike) -> FloatArray:
        return self._per_point(partial(self._cdf, upper=False), self._points(y))

    def sf(self, y: npt.ArrayLike) -> FloatArray:
        return self._per_point(partial(self._cdf, upper=True), self._points(y))

    def cdf_ends(self, y: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        return self.cdf(np.ceil(self._points(y)) - 1.0), self.cdf(y)

    def ppf(self, q: npt.ArrayLike) -> FloatArray:
        levels = probabilities(q)
        return self._per_point(self._quantile, np.broadcast_to(levels, self.shape + levels.shape))

    def rvs(self, size: int = 1, random_state: RandomState = None) -> FloatArray:
        size = sample_size(size)
        rng = random_generator(random_state)
        weights, *parts = self._components(slice(None))
        uniform = rng.random((len(self), size, 1))
        below = np.cumsum(weights, axis=1)[:, None, :-1] <= uniform
        which = below.sum(axis=2)
        mean, std, a = (np.take_along_axis(part, which, axis=1) for part in parts)
        rate = np.exp(mean + std * rng.standard_normal(which.shape))
        rate = np.where(a > 0.0, rate * rng.gamma(1.0 / np.where(a > 0.0, a, 1.0)) * a, rate)
        counts = rng.poisson(np.minimum(rate, _LARGEST_RATE)).astype(np.float64)
        counts = np.where(rate > _LARGEST_RATE, np.floor(rate), counts)
        return counts.reshape((*self.shape, size))

    def crps(self, y: npt.ArrayLike) -> FloatArray:
        return self._per_point(self._crps, self._observations(y))

    def _crps(self, rows: IntArray, y: FloatArray) -> FloatArray:
        # The integral of (F(x) - 1{x >= y})^2; between integers F is constant.
        q = np.full(rows.size, _TAIL)
        low, high = self._quantile(rows, q), self._quantile(rows, 1.0 - q)
        weights, mean, std, a = self._components(rows)
        with np.errstate(over="ignore"):
            spread = np.sqrt(std**2 + a + np.exp(-mean))
        out = np.where(np.isnan(y), np.nan, np.inf)
        for i in np.flatnonzero(np.isfinite(y)):
            at = np.floor(y[i])
            components = mean[i, weights[i] > 0.0], spread[i, weights[i] > 0.0]
            edges = np.unique([*_places(low[i], high[i] + 1.0, *components), at, at + 1.0])
            counts, lengths = _nodes(edges)
            F = self._cdf_of_increasing(rows[i], counts)
            terms = np.where(counts < at, F, 1.0 - F) ** 2
            is_at = counts == at
            terms[is_at] += (y[i] - at) * (F[is_at] ** 2 - (1.0 - F[is_at]) ** 2)
            out[i] = lengths @ terms
        return out

    def _log_mass(self, rows: IntArray, y: FloatArray) -> FloatArray:
        """log P(Y = y)."""
        weights, mean, std, a = self._components(rows)
        is_count = (y == np.floor(y)) & (y >= 0.0) & np.isfinite(y)
        count = np.broadcast_to(np.where(is_count, y, 0.0)[:, None], mean.shape)
        terms = log_mass_given_normal(count, mean, std, a)
        with np.errstate(divide="ignore"):
            log_p = logsumexp(np.log(weights) + terms)
        return np.where(np.isnan(y), np.nan, np.where(is_count, log_p, -np.inf))

    def _cdf(self, rows: IntArray, y: FloatArray, *, upper: bool) -> FloatArray:
        """P(Y <= y), or P(Y > y)."""
        weights, mean, std, a = self._components(rows)
        is_count = (y >= 0.0) & np.isfinite(y)
        count = np.broadcast_to(np.floor(np.where(is_count, y, 0.0))[:, None], mean.shape)
        parts = (part.ravel() for part in (count, mean, std, a))
        tails = tail_given_normal(*parts, upper=upper).reshape(mean.shape)
        out = np.clip(np.sum(weights * tails, axis=1), 0.0, 1.0)
        out = np.where(is_count, out, np.where((y < 0.0) == upper, 1.0, 0.0))
        return np.where(np.isnan(y), np.nan, out)

    def _cdf_of_increasing(self, row: int, counts: FloatArray) -> FloatArray:
        """P(Y <= k) of one row; of counts that follow each other by sums, which take less time."""
        follows = np.diff(counts, prepend=-np.inf) == 1.0
        rows, rise = np.full(counts.size, row), np.empty(counts.size)
        for part in blocks(counts.size, self._dispersion.shape[1] * _POINTS):
            at, one, run = counts[part], rows[part], follows[part]
            rise[part][run] = np.exp(self._log_mass(one[run], at[run]))
            rise[part][~run] = self._cdf(one[~run], at[~run], upper=False)
        runs = np.split(rise, np.flatnonzero(~follows)[1:])
        return np.minimum(np.concatenate([np.cumsum(run) for run in runs]), 1.0)

    def _quantile(self, rows: IntArray, q: FloatArray) -> FloatArray:
        """The least count k with F(k) >= q, by bisection."""
        low, high = np.full(rows.size, -1.0), np.zeros(rows.size)

        def is_below(index: IntArray, k: FloatArray) -> npt.NDArray[np.bool_]:
            # By the smaller tail, so that quantiles near one are right, and up to rounding, so that
            # the quantile of a value of F is its count.
            level = q[index]
            below = np.empty(index.size, dtype=bool)
            for upper in (False, True):
                part = np.flatnonzero((level > 0.5) == upper)
                tail = self._cdf(rows[index[part]], k[part], upper=upper)
                if upper:
                    bound = (1.0 - level[part]) * (1.0 + _ROUNDING) + 0.01 * _ROUNDING
                    below[part] = tail > bound
                else:
                    below[part] = tail < level[part] * (1.0 - _ROUNDING)
            return below

        open_ = np.flatnonzero((q > 0.0) & (q < 1.0))
        while open_.size:
            open_ = open_[is_below(open_, high[open_])]
            low[open_] = high[open_]
            high[open_] = 2.0 * high[open_] + 1.0
        open_ = np.arange(q.size)
        while True:
            middle = np.floor(0.5 * low[open_] + 0.5 * high[open_])
            # Not the distance of the ends: neighbours above 2^53 are further apart than one.
            inside = (low[open_] < middle) & (middle < high[open_])
            open_, middle = open_[inside], middle[inside]
            if not open_.size:
                break
            below = is_below(open_, middle)
            low[open_[below]], high[open_[~below]] = middle[below], middle[~below]
        return np.where(q == 1.0, np.inf, high)

    def _edges(self, low: FloatArray, high: FloatArray, n_bins: int) -> FloatArray:
        step = np.maximum(np.ceil((high - low + 1.0) / n_bins), 1.0)
        size = np.ceil((high - low + 1.0) / step).max(initial=0.0)
        if not math.isfinite(size):
            return np.full((len(low), 2), np.nan)
        return low[:, None] - 0.5 + step[:, None] * np.arange(size + 1.0)

    def _components(self, rows: slice | IntArray) -> tuple[FloatArray, ...]:
        """Weights, means and standard deviations (B, S) of the log rate, and dispersions."""
        weights, mean, std, _ = self._base.components()
        parts = weights, mean.reshape(weights.shape), std.reshape(weights.shape), self._per_row()
        return tuple(part[rows] for part in parts)

    def _per_row(self) -> FloatArray:
        """Dispersions (n, S)."""
        return np.broadcast_to(self._dispersion, (len(self), self._dispersion.shape[1]))

    def _per_point(
        self, func: Callable[[IntArray, FloatArray], FloatArray], points: FloatArray
    ) -> FloatArray:
        """Apply `func(rows, y)` to blocks of points of the shape `shape`, or with an axis more."""
        each = points.shape[-1] if points.ndim > self.ndim else 1
        row_of, flat = np.repeat(np.arange(len(self)), each), points.reshape(-1)
        out = np.empty(flat.size)
        for part in blocks(flat.size, self._dispersion.shape[1] * _POINTS):
            out[part] = func(row_of[part], flat[part])
        return out.reshape(points.shape)

    def _shaped(self, values: FloatArray) -> FloatArray:
        return values.reshape(self.shape)

    @classmethod
    def _make(cls, base: NormalMixture, dispersion: FloatArray) -> Self:
        """Wrap parts that are known to be valid."""
        dist = cls.__new__(cls)
        dist._store(_base=base, _dispersion=dispersion)
        return dist

    def _with_base(self, base: NormalMixture) -> Self:
        return self._make(base, self._dispersion)

    def _take(self, rows: slice | IntArray) -> Self:
        is_shared = len(self._dispersion) == 1
        dispersion = self._dispersion if is_shared else self._dispersion[rows]
        return self._make(self._base._take(rows), dispersion)

    def _take_outputs(self, outputs: Any) -> Self:
        return self._with_base(self._base._take_outputs(outputs))

    @classmethod
    def _join(cls, parts: Sequence[Self]) -> Self:
        base = NormalMixture._join([part._base for part in parts])
        # Components that fill up a part have no weight, whatever their dispersion.
        size = base.components().weights.shape[1]
        rows = [
            np.pad(a, [(0, 0), (0, size - a.shape[1])], mode="edge")
            for a in (part._per_row() for part in parts)
        ]
        return cls._make(base, _shared(np.concatenate(rows)))

    @classmethod
    def _mixed(
        cls, parts: Sequence[Self], mix: Callable[[Sequence[NormalMixture]], NormalMixture]
    ) -> Self:
        """The mixture of all parts, each component with its own dispersion."""
        dispersion = np.concatenate([part._per_row() for part in parts], axis=1)
        return cls._make(mix([part._base for part in parts]), _shared(dispersion))


def _shared(dispersion: FloatArray) -> FloatArray:
    """Dispersions (n, S), or (1, S) if all rows have the same."""
    is_shared = len(dispersion) > 0 and (dispersion == dispersion[0]).all()
    return dispersion[:1].copy() if is_shared else dispersion


def _places(low: float, high: float, mean: FloatArray, spread: FloatArray) -> FloatArray:
    """The integers from low to high or, of many, some at about equal ratios.

    `mean` and `spread` (S,) are the means and standard deviations of the log counts of the
    components. One that is too narrow for these ratios adds places around its own mean.
    """
    if high - low <= _MOST_COUNTS:
        return np.arange(low, high + 1.0)
    ends = np.log1p([low, high])
    wide = np.linspace(ends[0], ends[1], _PIECES + 1)
    narrow = spread < _RESOLVED * (wide[1] - wide[0])
    own = mean[narrow, None] + spread[narrow, None] * _OWN
    with np.errstate(over="ignore"):
        inner = np.floor([*np.expm1(wide[1:-1]), *np.exp(own).ravel()])
    return np.asarray([low, *np.clip(inner, low, high), high])


def _nodes(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Counts and weights that sum quadratic functions of the integers between edges exactly.

    Three of each piece, its ends and its middle, increasing; weights that are zero are left out.
    """
    first, size = edges[:-1], np.diff(edges)
    last = size - 1.0
    middle = np.floor(0.5 * last)
    inner = last * size * (last - 1.0) / np.maximum(6.0 * middle * (last - middle), 1.0)
    outer = (0.5 * last * size - middle * inner) / np.maximum(last, 1.0)
    counts = np.concatenate([first, first + middle, first + last])
    weights = np.concatenate([size - inner - outer, inner, outer])
    order = np.argsort(counts, kind="stable")
    order = order[weights[order] != 0.0]
    return counts[order], weights[order]


def _shares(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Weighted values; those of weight zero, which may be infinite, have none."""
    return np.multiply(weights, values, where=weights > 0.0, out=np.zeros(values.shape))
