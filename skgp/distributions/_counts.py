"""Mixtures of Poisson and negative binomial distributions, one per row."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Self, final

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincc, expit, gammainc, gammaincc, gammaln, log_expit

from skgp.distributions._base import random_generator, sample_size
from skgp.distributions._chunks import blocks
from skgp.distributions._continuous import ContinuousDistribution, probabilities
from skgp.distributions._density import logsumexp
from skgp.distributions._normal_mixture import NormalMixture
from skgp.distributions._outputs import Names
from skgp.distributions._transformed import MonotoneTransformed
from skgp.distributions._typing import FloatArray, IntArray, RandomState

_REACH: Final = 8.0  # standard deviations of a log rate
_STEP: Final = 0.8  # of equal steps there: their error is 1e-13
_FINE: Final = 0.7  # of what a count says of its log rate, if that is less
_MOST_POINTS: Final = 1001  # of a component
_NEWTON_STEPS: Final = 20
_PEAK_POINTS: Final = 64
_STRETCH: Final = 0.3
_TAIL: Final = 1e-5  # of the counts that a CRPS leaves out, which has its square
_MOST_COUNTS: Final = 300  # at which a CRPS looks at F
_LARGEST_RATE: Final = 1e15  # of a sample


@final
class CountMixture(ContinuousDistribution):
    """Predictive distributions of counts: a count has the mean exp(f), and f is a normal mixture.

    Given f a count is Poisson, or negative binomial with the variance mu + dispersion mu^2. Means
    and variances are exact, all else comes from quadrature over f. `logpdf` is the log probability
    of a count, and minus infinity between the integers; quantiles are integers.

    Parameters
    ----------
    log_rate : NormalMixture of one output
        Distribution of f, with S components.
    dispersion : float or array-like of shape (S,), default=0.0
        Of all components or of each; zero is Poisson.

    Raises
    ------
    ValueError
        If there are several outputs, or a dispersion is negative.

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
    _dispersion: FloatArray  # (S,)

    def __init__(self, log_rate: NormalMixture, dispersion: npt.ArrayLike = 0.0) -> None:
        if not isinstance(log_rate, NormalMixture) or log_rate.shape[1:] not in ((), (1,)):
            raise ValueError("log_rate must be a NormalMixture of one output")
        size = log_rate.components().mean.shape[1]
        values = np.asarray(dispersion, dtype=np.float64)
        if values.shape not in ((), (size,)) or not (values >= 0.0).all():
            raise ValueError(
                f"dispersion must be a number or {size} numbers, none of them negative"
            )
        self._store(_base=log_rate, _dispersion=np.broadcast_to(values, (size,)).copy())

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
        weights, mean, std = self._components(slice(None))
        return self._shaped(np.sum(weights * np.exp(mean + 0.5 * std**2), axis=1))

    def var(self) -> FloatArray:
        weights, mean, std = self._components(slice(None))
        first = np.sum(weights * np.exp(mean + 0.5 * std**2), axis=1)
        second = np.sum(weights * (1.0 + self._dispersion) * np.exp(2.0 * (mean + std**2)), axis=1)
        return self._shaped(first + second - first**2)

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
        return np.nan_to_num(self.logpdf(self._observations(Y, "Y")).reshape(len(self)))

    def cdf(self, y: npt.ArrayLike) -> FloatArray:
        return self._per_point(partial(self._cdf, upper=False), self._points(y))

    def sf(self, y: npt.ArrayLike) -> FloatArray:
        return self._per_point(partial(self._cdf, upper=True), self._points(y))

    def ppf(self, q: npt.ArrayLike) -> FloatArray:
        levels = probabilities(q)
        return self._per_point(self._quantile, np.broadcast_to(levels, self.shape + levels.shape))

    def rvs(self, size: int = 1, random_state: RandomState = None) -> FloatArray:
        size = sample_size(size)
        rng = random_generator(random_state)
        weights, mean, std = self._components(slice(None))
        uniform = rng.random((len(self), size, 1))
        below = np.cumsum(weights, axis=1)[:, None, :-1] <= uniform
        which = below.sum(axis=2)
        mean, std = (np.take_along_axis(part, which, axis=1) for part in (mean, std))
        rate = np.exp(mean + std * rng.standard_normal(which.shape))
        a = self._dispersion[which]
        rate = np.where(a > 0.0, rate * rng.gamma(1.0 / np.where(a > 0.0, a, 1.0)) * a, rate)
        counts = rng.poisson(np.minimum(rate, _LARGEST_RATE)).astype(np.float64)
        return counts.reshape((*self.shape, size))

    def crps(self, y: npt.ArrayLike) -> FloatArray:
        return self._per_point(self._crps, self._observations(y))

    def _crps(self, rows: IntArray, y: FloatArray) -> FloatArray:
        # The integral of (F(x) - 1{x >= y})^2; between integers F is constant, and of many of them
        # only some are looked at, between which F^2 is taken to be linear.
        q = np.full(rows.size, _TAIL)
        low = np.fmin(self._quantile(rows, q), np.floor(y))
        high = np.fmax(self._quantile(rows, 1.0 - q), np.floor(y))
        out = np.full(rows.size, np.nan)
        for i in np.flatnonzero(~np.isnan(y)):
            size = int(min(high[i] - low[i], _MOST_COUNTS))
            places = np.floor(np.linspace(low[i], high[i] + 1.0, size + 2))
            edges = np.unique([*places, np.floor(y[i]), np.floor(y[i]) + 1.0])
            first, last, length = edges[:-1], edges[1:] - 1.0, np.diff(edges)
            F = self._cdf(np.full(first.size, rows[i]), first, upper=False)
            end = (
                F
                if size < _MOST_COUNTS
                else self._cdf(np.full(last.size, rows[i]), last, upper=False)
            )
            above = np.clip(edges[1:] - y[i], 0.0, length)  # the part that is not below y
            below = 0.5 * (length - above) * (F**2 + end**2)
            out[i] = np.sum(below + 0.5 * above * ((1.0 - F) ** 2 + (1.0 - end) ** 2))
        return out

    def _log_mass(self, rows: IntArray, y: FloatArray) -> FloatArray:
        """log P(Y = y), by equal steps around the mode of each component's integrand."""
        weights, mean, std = self._components(rows)
        count = np.maximum(np.floor(y), 0.0)[:, None]
        var = np.maximum(std, 1e-8) ** 2
        mode = np.minimum(mean, np.log(count + 0.5))
        for _ in range(_NEWTON_STEPS):
            slope, curvature = _slopes(mode, count, self._dispersion)
            step = (slope + (mean - mode) / var) / (curvature + 1.0 / var)
            mode += np.clip(step, -2.0, 2.0)
        width = 1.0 / np.sqrt(_slopes(mode, count, self._dispersion)[1] + 1.0 / var)
        u = np.linspace(-_REACH, _REACH, _PEAK_POINTS)[:, None, None]
        f = mode + width * np.sinh(_STRETCH * u) / _STRETCH
        log_h = np.log(np.cosh(_STRETCH * u) * width * (u[1] - u[0]))
        prior = -0.5 * ((f - mean) ** 2 / var + np.log(2.0 * np.pi * var))
        terms = log_h + prior + _log_mass(f, count, self._dispersion)
        with np.errstate(divide="ignore"):
            log_p = logsumexp(np.log(weights) + logsumexp(np.moveaxis(terms, 0, -1)))
        return np.where((y == count[:, 0]) | np.isnan(y), log_p + 0.0 * y, -np.inf)

    def _cdf(self, rows: IntArray, y: FloatArray, *, upper: bool) -> FloatArray:
        """P(Y <= y), or P(Y > y), by equal steps over each component of f."""
        if not rows.size:
            return np.empty(0)
        weights, mean, std = self._components(rows)
        count = np.maximum(np.floor(y), 0.0)
        a = self._dispersion
        # What a count that large says of its log rate has about this deviation.
        width = np.sqrt(np.exp(-(mean + 4.0 * std)) + a)
        step = min(_STEP, float(np.min(_FINE * width / np.maximum(std, 1e-300))))
        n_points = min(2 * int(np.ceil(_REACH / step)) + 1, _MOST_POINTS)
        out = np.empty(rows.size)
        z = np.linspace(-_REACH, _REACH, n_points)
        w = np.exp(-0.5 * z**2)
        w /= w.sum()
        for part in blocks(rows.size, mean.shape[1] * n_points):
            f = mean[part, :, None] + std[part, :, None] * z
            p = _cumulative(count[part, None, None], f, a[:, None], upper)
            out[part] = np.sum(weights[part] * (p @ w), axis=1)
        out = np.where(y < 0.0, float(upper), np.clip(out, 0.0, 1.0))
        return np.where(np.isnan(y), np.nan, out)

    def _quantile(self, rows: IntArray, q: FloatArray) -> FloatArray:
        """The least count k with F(k) >= q, by bisection."""
        low, high = np.full(rows.size, -1.0), np.zeros(rows.size)

        def is_below(index: IntArray, k: FloatArray) -> npt.NDArray[np.bool_]:
            # By the smaller tail, so that quantiles near one are right.
            level = q[index]
            below = np.empty(index.size, dtype=bool)
            for upper in (False, True):
                part = np.flatnonzero((level > 0.5) == upper)
                tail = self._cdf(rows[index[part]], k[part], upper=upper)
                below[part] = tail > 1.0 - level[part] if upper else tail < level[part]
            return below

        open_ = np.flatnonzero((q > 0.0) & (q < 1.0))
        while open_.size:
            open_ = open_[is_below(open_, high[open_])]
            low[open_] = high[open_]
            high[open_] = 2.0 * high[open_] + 1.0
        open_ = np.flatnonzero(high - low > 1.0)
        while open_.size:
            middle = np.floor(0.5 * (low[open_] + high[open_]))
            below = is_below(open_, middle)
            low[open_[below]], high[open_[~below]] = middle[below], middle[~below]
            open_ = open_[high[open_] - low[open_] > 1.0]
        return np.where(q == 1.0, np.inf, high)

    def _edges(self, low: FloatArray, high: FloatArray, n_bins: int) -> FloatArray:
        step = np.maximum(np.ceil((high - low + 1.0) / n_bins), 1.0)
        size = np.ceil((high - low + 1.0) / step).max(initial=0.0)
        if not math.isfinite(size):
            return np.full((len(low), 2), np.nan)
        return low[:, None] - 0.5 + step[:, None] * np.arange(size + 1.0)

    def _components(self, rows: slice | IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights, means and standard deviations (B, S) of the log rate."""
        weights, mean, std, _ = self._base.components()
        n_rows, size = weights.shape
        return weights[rows], mean.reshape(n_rows, size)[rows], std.reshape(n_rows, size)[rows]

    def _per_point(
        self, func: Callable[[IntArray, FloatArray], FloatArray], points: FloatArray
    ) -> FloatArray:
        """Apply `func(rows, y)` to blocks of points of the shape `shape`, or with an axis more."""
        each = points.shape[-1] if points.ndim > self.ndim else 1
        row_of, flat = np.repeat(np.arange(len(self)), each), points.reshape(-1)
        out = np.empty(flat.size)
        for part in blocks(flat.size, self._dispersion.size * _PEAK_POINTS):
            out[part] = func(row_of[part], flat[part])
        return out.reshape(points.shape)

    def _shaped(self, values: FloatArray) -> FloatArray:
        return values.reshape(self.shape)

    def _with_base(self, base: NormalMixture) -> Self:
        dist = type(self).__new__(type(self))
        dist._store(_base=base, _dispersion=self._dispersion)
        return dist

    def _take(self, rows: slice | IntArray) -> Self:
        return self._with_base(self._base._take(rows))

    def _take_outputs(self, outputs: Any) -> Self:
        return self._with_base(self._base._take_outputs(outputs))

    @classmethod
    def _join(cls, parts: Sequence[Self]) -> Self:
        if not all(np.array_equal(part._dispersion, parts[0]._dispersion) for part in parts):
            raise ValueError("concat needs distributions with the same dispersion")
        return parts[0]._with_base(NormalMixture._join([part._base for part in parts]))

    @classmethod
    def _mixed(
        cls, parts: Sequence[Self], mix: Callable[[Sequence[NormalMixture]], NormalMixture]
    ) -> Self:
        """The mixture of all parts, each component with its own dispersion."""
        dist = cls.__new__(cls)
        dispersion = np.concatenate([part._dispersion for part in parts])
        dist._store(_base=mix([part._base for part in parts]), _dispersion=dispersion)
        return dist


def _log_mass(f: FloatArray, y: FloatArray, a: FloatArray) -> FloatArray:
    """log P(Y = y) given the log rate f and the dispersion a."""
    is_poisson = a == 0.0
    a = np.where(is_poisson, 1.0, a)
    r = 1.0 / a
    poisson = y * f - np.exp(f)
    binomial = (
        gammaln(y + r) - gammaln(r) + y * np.log(a) + y * f + (y + r) * log_expit(-np.log(a) - f)
    )
    return np.asarray(np.where(is_poisson, poisson, binomial) - gammaln(y + 1.0))


def _slopes(f: FloatArray, y: FloatArray, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Slope of that in f, and minus its curvature."""
    is_poisson = a == 0.0
    r = 1.0 / np.where(is_poisson, 1.0, a)
    rate, share = np.exp(f), expit(f - np.log(r))
    slope = np.where(is_poisson, y - rate, y - (y + r) * share)
    return slope, np.where(is_poisson, rate, (y + r) * share * (1.0 - share))


def _cumulative(y: FloatArray, f: FloatArray, a: FloatArray, upper: bool) -> FloatArray:
    """P(Y <= y), or P(Y > y), given the log rate f and the dispersion a."""
    is_poisson = a == 0.0
    r = 1.0 / np.where(is_poisson, 1.0, a)
    poisson, binomial = (gammainc, betainc) if upper else (gammaincc, betaincc)
    if is_poisson.all():
        return np.asarray(poisson(y + 1.0, np.exp(f)))
    p: FloatArray = np.asarray(binomial(y + 1.0, r, expit(f - np.log(r))), dtype=np.float64)
    if is_poisson.any():
        p = np.where(is_poisson, poisson(y + 1.0, np.exp(f)), p)
    return p
