"""Monotone transformations of normal mixtures."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt

from skgp._typing import BoolArray, FloatArray, IntArray, Names, RandomState
from skgp.distributions._chunks import row_chunks
from skgp.distributions._continuous import ContinuousDistribution, probabilities
from skgp.distributions._density import cdf_at_nodes, logpdf_at_nodes, sf_at_nodes
from skgp.distributions._elementwise import (
    Elementwise,
    SomeOutputs,
    apply,
    apply_at_points,
    bisected,
    changed_density,
    directions,
    domain_end,
)
from skgp.distributions._normal_mixture import NormalMixture
from skgp.distributions._outputs import selection
from skgp.distributions._quadrature import (
    REACH,
    REACHES,
    moment_at_nodes,
    panel_quadrature,
)
from skgp.distributions._slopes import slope_of_inverse

# Cells, nodes (cells, G), weights (cells, G), (log_w, mean, std) of the cells.
_Nodes: TypeAlias = tuple[IntArray, FloatArray, FloatArray, tuple[FloatArray, ...]]

# Relative error that the values of a transformation may have, one in float32 too.
_ROUNDING = 1e-7
_FAR = 10.0  # standard deviations of the base
# Least length of an interval with one value, in standard deviations of the narrowest component:
# rounding to float32 makes short ones.
_FLAT = 0.01


@final
class MonotoneTransformed(ContinuousDistribution):
    """Distribution of Y = inverse_func(Z), where Z follows a normal mixture.

    It serves models that were trained on transformed targets z = func(y). All functions act
    elementwise on arrays of shape (m,), or (m, P) with P outputs, for any m; an output may have
    its own transformation. Distribution functions, quantiles and samples are exact, moments and
    scores come from quadrature. Values that `func` gives no number for, or that `inverse_func`
    does not reach, are outside the support: their density is 0, and their cdf 0 below it and 1
    above.

    A transformation that is constant over a range of z, as the inverse of a QuantileTransformer is
    beyond the extremes of what it was fitted to, puts atoms into the distribution of Y. Moments,
    quantiles, samples, `cdf` and the CRPS have them; `pdf` and `logpdf` are of the continuous part
    alone, whose mass is less than one.

    Parameters
    ----------
    base : NormalMixture
        Distribution of Z.
    inverse_func : callable
        Monotone z -> y, such as `numpy.exp`. Moments and the CRPS are NaN for rows where it has no
        value within nine standard deviations of the mean.
    func : callable
        Its inverse y -> z, such as `numpy.log`.
    func_derivative : callable, default=None
        dz/dy as a function of y; None differentiates `inverse_func` numerically.

    Raises
    ------
    ValueError
        If `inverse_func` changes the shape of its argument, is constant over the range of `base`,
        or rises between the quartiles of one row and falls between those of another.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp.distributions import MonotoneTransformed, NormalMixture
    >>> dist = MonotoneTransformed(NormalMixture.normal([0.0], 0.5), np.exp, np.log)
    >>> dist.mean().round(6).tolist(), np.exp(0.5**2 / 2).round(6).item()
    ([1.133148], 1.133148)
    """

    __slots__ = ("_base", "_func", "_func_derivative", "_inverse_func", "_sign")

    _base: NormalMixture
    _func: Elementwise
    _func_derivative: Elementwise | None
    _inverse_func: Elementwise
    _sign: FloatArray  # (P,) or (1,): 1 for an increasing, -1 for a decreasing transformation

    def __init__(
        self,
        base: NormalMixture,
        inverse_func: Elementwise,
        func: Elementwise,
        func_derivative: Elementwise | None = None,
    ) -> None:
        if not isinstance(base, NormalMixture):
            raise ValueError(f"base must be a NormalMixture, got {type(base).__name__}")
        self._store(
            _base=base,
            _inverse_func=inverse_func,
            _func=func,
            _func_derivative=func_derivative,
            _sign=directions(base, inverse_func, _FAR),
        )

    @property
    def base(self) -> NormalMixture:
        """Distribution of Z."""
        return self._base

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the mean: (n,) or (n, P)."""
        return self._base.shape

    @property
    def output_names(self) -> Names:
        return self._base.output_names

    def with_output_names(self, names: Sequence[str] | None) -> Self:
        return self._with_base(self._base.with_output_names(names))

    def __repr__(self) -> str:
        return f"MonotoneTransformed({self._base!r})"

    def mean(self) -> FloatArray:
        return self._moment(None).reshape(self.shape)

    def var(self) -> FloatArray:
        with np.errstate(over="ignore", under="ignore"):
            return np.square(self.std())

    def std(self) -> FloatArray:
        centre = self.mean().reshape(-1)
        return np.where(np.isinf(centre), np.inf, self._moment(centre)).reshape(self.shape)

    def median(self) -> FloatArray:
        return self._image(self._base.median())

    def logpdf(self, y: npt.ArrayLike) -> FloatArray:
        points = self._points(y)
        z = self._place(points)
        return changed_density(self._base.logpdf(z), self._log_slope(points, z))

    def joint_logpdf(self, Y: npt.ArrayLike) -> FloatArray:
        points = self._observations(Y, "Y")
        z = self._place(points)
        slope = np.where(np.isnan(points), 0.0, self._log_slope(points, z))
        return changed_density(self._base.joint_logpdf(z), slope.reshape(len(self), -1).sum(axis=1))

    def cdf(self, y: npt.ArrayLike) -> FloatArray:
        return self._tail(y, self._sign, upper=False)

    def sf(self, y: npt.ArrayLike) -> FloatArray:
        return self._tail(y, self._sign, upper=True)

    def cdf_ends(self, y: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        return self._tail(y, -self._sign, upper=False), self.cdf(y)

    def ppf(self, q: npt.ArrayLike) -> FloatArray:
        levels = probabilities(q)
        # A decreasing function maps the lower quantiles of -Z to those of Y.
        signs = self._sign if self._base.ndim == 2 else self._sign[0]
        z = self._base.affine(0.0, signs).ppf(levels.ravel())
        z = z.reshape(len(self), self._sign.size, levels.size) * self._sign[:, None]
        return self._limited_inverse(z).reshape(self.shape + levels.shape)

    def rvs(self, size: int = 1, random_state: RandomState = None) -> FloatArray:
        z = self._base.rvs(size, random_state)
        cells = z.reshape(len(self), self._sign.size, z.shape[-1])
        return self._limited_inverse(cells).reshape(z.shape)

    def crps(self, y: npt.ArrayLike) -> FloatArray:
        # int (F_Y(x) - 1{x >= y})^2 dx by parts, with g = inverse_func, z0 = func(y):
        #   CRPS = 2 E[F_Z(Z) |y - g(Z)| 1{Z < z0} + (1 - F_Z(Z)) |y - g(Z)| 1{Z > z0}].
        y0 = self._observations(y).reshape(-1)
        # Of an observation beyond an atom the number of the atom, at which there is a kink.
        z0 = self._forward(self._observations(y)).reshape(-1)
        out = np.empty(y0.size)
        signs = np.tile(self._sign, len(self))
        for cells, z, weights, parts in self._quadrature(z0):
            lower, upper = cdf_at_nodes(z, *parts), sf_at_nodes(z, *parts)
            error = self._at_nodes(z) - y0[cells, None]
            # The side by values of Y: an observation beyond an atom has the z0 of the atom.
            tail = np.where(signs[cells, None] * error < 0.0, lower, upper)
            out[cells] = 2.0 * np.sum(weights * tail * np.abs(error), axis=1)
        return out.reshape(self.shape)

    def _take(self, rows: slice | IntArray) -> Self:
        return self._with_base(self._base._take(rows))

    def _take_outputs(self, outputs: Any) -> Self:
        base = self._base._take_outputs(outputs)
        select, _ = selection(outputs, self.output_names)
        chosen = tuple(np.arange(self._sign.size)[select].tolist())
        z = self._base.mean()[:1] if len(self) > 0 else np.zeros((1, self._sign.size))
        y = apply(self._inverse_func, z, "inverse_func")
        slope = self._func_derivative
        dist = type(self).__new__(type(self))
        dist._store(
            _base=base,
            _inverse_func=SomeOutputs(self._inverse_func, chosen, z[0]),
            _func=SomeOutputs(self._func, chosen, y[0]),
            _func_derivative=None if slope is None else SomeOutputs(slope, chosen, y[0]),
            _sign=self._sign[select],
        )
        return dist

    @classmethod
    def _join(cls, parts: Sequence[Self]) -> Self:
        return cls._of_bases(parts, NormalMixture._join, "concat")

    @classmethod
    def _of_bases(
        cls,
        parts: Sequence[Self],
        combine: Callable[[Sequence[NormalMixture]], NormalMixture],
        name: str,
    ) -> Self:
        """Combine the distributions of Z, which all are transformed in the same way."""
        if len({(part._func, part._inverse_func, part._func_derivative) for part in parts}) > 1:
            raise ValueError(f"{name} needs distributions with the same transformation")
        # One without rows does not know whether the transformation decreases.
        first = next((part for part in parts if len(part) > 0), parts[0])
        return first._with_base(combine([part._base for part in parts]))

    def _with_base(self, base: NormalMixture) -> Self:
        """Transform another mixture in the same way."""
        dist = type(self).__new__(type(self))
        dist._store(**{**self.__getstate__(), "_base": base})
        return dist

    def _forward(self, y: FloatArray) -> FloatArray:
        """Z of observed values; beyond the support it is infinite, as nothing lies there."""
        infinite = np.isinf(y)
        points = y
        if infinite.any():  # which scikit-learn's transformers refuse
            inner = self._image(self._base.mean())
            points = np.where(infinite, self._beside(inner, y), y)
        z = self._apply(self._func, points, "func")
        undefined = np.isnan(z) & ~np.isnan(y)
        if undefined.any():
            # The support is an interval that holds the median: beyond it is below or above.
            with np.errstate(invalid="ignore"):
                side = np.sign(y - self._beside(self.median(), y))
                beyond = side * self._beside(self._sign, y) * np.inf
            z = np.where(undefined, beyond, z)
        return np.where(infinite, y * self._beside(self._sign, y), z) if infinite.any() else z

    def _place(self, y: FloatArray) -> FloatArray:
        """Z of observed values, infinite beyond the image of `inverse_func`.

        There `func` gives the number of the atom at the end of the image, as one that clips does.
        """
        z = self._forward(y)
        sign = self._beside(self._sign, y)
        inner = np.isfinite(y) & np.isfinite(z)
        some = np.where(inner, z, self._beside(self._base.mean(), y))
        side = np.where(inner, self._beyond(y, some), 0.0)
        if side.any():
            # A value may differ from its image by more than rounding for other reasons: it is
            # beyond the image if no number in its direction is mapped to it or past it.
            step = np.abs(some) + _FAR * self._beside(self._base.std(), y)
            side *= self._beyond(y, some + side * sign * step) == side
        return np.where(side == 0.0, z, np.copysign(np.inf, side * sign))

    def _tail(self, y: npt.ArrayLike, direction: FloatArray, *, upper: bool) -> FloatArray:
        """P(Y > y) if `upper`, else P(Y <= y).

        `direction` is the sign of the transformation. Its opposite leaves out an atom at y, and
        P(Y <= y) becomes P(Y < y).
        """
        z = self._end(self._place(self._points(y)), direction)
        is_lower = (self._beside(self._sign, z) > 0.0) != upper
        return np.where(is_lower, self._base.cdf(z), self._base.sf(z))

    def _end(self, z: FloatArray, direction: float | FloatArray) -> FloatArray:
        """The end, in a direction, of the interval at z on which `inverse_func` is constant.

        It is z where there is none, and infinite if the interval goes on for ten standard
        deviations of each component of the base beyond its mean.
        """
        direction = self._beside(direction, z)
        low, high, narrowest = (self._beside(x, z) for x in self._reach())
        start = np.where(np.isfinite(z), z, low)
        image = self._image(start)

        def is_flat(step: FloatArray) -> BoolArray:
            return np.isfinite(z) & (self._image(start + direction * step) == image)

        inside = _FLAT * narrowest
        if not (some := is_flat(inside)).any():
            return z
        outside = np.maximum(np.where(direction > 0.0, high - start, start - low), inside)
        is_endless = is_flat(outside)
        last = bisected(is_flat, inside, outside)
        end = np.where(is_endless, direction * np.inf, start + direction * last)
        return np.where(some, end, z)

    def _reach(self) -> tuple[FloatArray, ...]:
        """Ends of the base, and the standard deviation of its narrowest component."""
        _, mean, std = self._base._cells(slice(None))
        ends = np.min(mean - _FAR * std, axis=1), np.max(mean + _FAR * std, axis=1)
        return tuple(part.reshape(self.shape) for part in (*ends, std.min(axis=1)))

    def _beyond(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """Whether values are above the images of z, 1, or below, -1, by more than rounding."""
        image = self._image(z)
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.maximum(np.abs(y), np.abs(image))
            is_off = np.isfinite(image) & (np.abs(y - image) > _ROUNDING * size)
            return np.where(is_off, np.sign(y - image), 0.0)

    def _image(self, z: FloatArray) -> FloatArray:
        return self._apply(self._inverse_func, z, "inverse_func")

    def _inverse(self, z: FloatArray) -> FloatArray:
        """`inverse_func` of an array (n, P, k)."""
        return self._image(z[:, 0] if self.ndim == 1 else z).reshape(z.shape)

    def _limited_inverse(self, z: FloatArray) -> FloatArray:
        """`_inverse`; the end of the support beyond the numbers that `inverse_func` is for.

        Far out it may have no value, or turn: as the square does, the inverse of the root.
        """
        y = self._inverse(z)
        low, high = (end.reshape(*z.shape[:2], 1) for end in self._reach()[:2])
        inner = np.clip(z, low, high)
        if not (np.isnan(y).any() or (inner != z).any()):
            return y
        side = self._sign[:, None] * np.sign(z - 0.5 * (low + high))
        with np.errstate(invalid="ignore"):
            is_beyond = np.isnan(y) | (side * (y - self._inverse(inner)) < 0.0)
        if is_beyond.any():
            lower, upper = (domain_end(self._func, self.median()[:1], end) for end in (-1.0, 1.0))
            end = np.where(side < 0.0, lower.reshape(-1, 1), upper.reshape(-1, 1))
            y = np.where(is_beyond, end, y)
        return y

    def _apply(self, func: Elementwise, values: FloatArray, name: str) -> FloatArray:
        return apply_at_points(func, values, name, self.ndim)

    def _beside(self, values: float | FloatArray, points: FloatArray) -> FloatArray:
        """Values of rows or outputs, with the axis of the points if there is one."""
        whole = np.broadcast_to(values, self.shape)
        return whole if points.ndim == self.ndim else whole[..., np.newaxis]

    def _at_nodes(self, z: FloatArray) -> FloatArray:
        """`inverse_func` at the nodes (cells, G) of whole rows."""
        return self._inverse(z.reshape(-1, self._sign.size, z.shape[1])).reshape(z.shape)

    def _log_slope(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """Logarithm of |dz/dy|."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self._func_derivative is not None:
                return np.log(np.abs(self._apply(self._func_derivative, y, "func_derivative")))
            z = np.where(np.isinf(z), self._beside(self._base.mean(), z), z)  # of density 0
            std = np.broadcast_to(self._beside(self._base.std(), z), z.shape)
            return -np.log(np.abs(slope_of_inverse(self._image, z, std, _ROUNDING)))

    def _moment(self, centre: FloatArray | None, reach: int = REACH) -> FloatArray:
        """Means of cells, or roots of their mean squared deviations from a centre."""
        out, is_cut = (
            np.empty(len(self) * self._sign.size),
            np.zeros((len(self), self._sign.size), bool),
        )
        for cells, z, weights, parts in self._quadrature(reach=reach):
            at = None if centre is None else centre[cells, None]
            found = moment_at_nodes(self._at_nodes(z), weights, at, parts[0].shape[1])
            out[cells], is_cut.reshape(-1)[cells] = found
        rows = np.flatnonzero(is_cut.any(axis=1))
        if rows.size and reach < REACHES[-1]:
            # Values such as exp(z) have their moments where the density of z is small already.
            cells = np.arange(out.size).reshape(is_cut.shape)[rows].reshape(-1)
            further = REACHES[REACHES.index(reach) + 1]
            wider = self._take(rows)._moment(None if centre is None else centre[cells], further)
            use = is_cut.reshape(-1)[cells] & np.isfinite(wider)
            out[cells] = np.where(use, wider, out[cells])
        return out

    def _quadrature(self, split: FloatArray | None = None, reach: int = REACH) -> Iterator[_Nodes]:
        """Nodes of Z, weights that include its density, and components, by chunks of cells."""
        n_outputs = self._sign.size
        n_components = self._base.components().mean.shape[1]
        for rows in row_chunks(len(self), n_outputs * n_components):
            parts = self._base._cells(rows)
            first = rows.start * n_outputs
            kinks = None if split is None else split[first : rows.stop * n_outputs]
            for cells, z, weights in panel_quadrature(*parts, kinks, n_outputs, reach):
                log_w, mean, std = (part[cells] for part in parts)
                weights = weights * np.exp(logpdf_at_nodes(z, log_w, mean, std))
                yield first + cells, z, weights, (log_w, mean, std)
