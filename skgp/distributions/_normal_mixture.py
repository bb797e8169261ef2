"""Mixtures of normal distributions, one per row."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import numpy.typing as npt

from skgp._typing import FloatArray, IntArray, Names, RandomState
from skgp._validation import random_generator, sample_size
from skgp.distributions import _components, _crps, _density, _joint, _moments, _quadrature, _solvers
from skgp.distributions._chunks import blocks, row_chunks
from skgp.distributions._components import Components
from skgp.distributions._continuous import ContinuousDistribution, probabilities
from skgp.distributions._gathering import gather_rows
from skgp.distributions._merging import merge_neighbours
from skgp.distributions._outputs import check_names, common_names, selection

if TYPE_CHECKING:
    import torch


@final
class NormalMixture(ContinuousDistribution):
    """Predictive distributions of n rows, each a mixture of S normal components.

    With P outputs the components of a row are shared by its outputs, so that the joint density of
    a row is sum_s w_s N(y; mean_s, L_s L_s^T) exactly. One component is the normal distribution.
    Names follow the frozen distributions of `scipy.stats`.

    Parameters
    ----------
    log_weights : array-like of shape (S,) or (n, S)
        Unnormalised log weights, shared by the rows or per row; -inf excludes a component.
    mean : array-like of shape (n, S) or (n, S, P)
        Means of the components, in the units of the target.
    std : array-like of the shape of `mean`, scalar, or None
        Standard deviations, in the units of the target; axes of length 1 are repeated. None takes
        them from `scale_tril`.
    scale_tril : array-like of shape (n, S, P, P), default=None
        Lower Cholesky factors of the covariances of the components over outputs. None means
        that outputs are independent given the component.

    Raises
    ------
    ValueError
        If shapes do not fit, a value is not finite, or a standard deviation is not positive.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> dist = NormalMixture([0.0, 0.0], mean=[[-1.0, 1.0], [0.0, 4.0]], std=0.5)
    >>> dist
    NormalMixture(n_rows=2, n_outputs=1, n_components=2)
    >>> dist.mean().tolist()
    [0.0, 2.0]
    >>> dist.crps([0.0, 2.0]).round(4).tolist()
    [0.3672, 0.859]
    >>> dist[1].interval(0.9)[1].round(4).tolist()
    [4.6408]
    """

    __slots__ = ("_log_w", "_mean", "_names", "_scale_tril", "_single", "_std")

    _log_w: FloatArray  # (1, S) if shared by the rows, else (n, S)
    _mean: FloatArray  # (n, S, P), with P = 1 for a single output
    _std: FloatArray
    _scale_tril: FloatArray | None
    _single: bool
    _names: Names

    def __init__(
        self,
        log_weights: npt.ArrayLike,
        mean: npt.ArrayLike,
        std: npt.ArrayLike | None,
        scale_tril: npt.ArrayLike | None = None,
    ) -> None:
        self._fill(*_components.check_parts(log_weights, mean, std, scale_tril))

    @classmethod
    def normal(
        cls,
        mean: npt.ArrayLike,
        std: npt.ArrayLike | None,
        scale_tril: npt.ArrayLike | None = None,
    ) -> Self:
        """Make normal distributions, the mixtures of one component.

        Parameters
        ----------
        mean : array-like of shape (n,) or (n, P)
            Means, in the units of the target.
        std : array-like of the shape of `mean`, scalar, or None
            Standard deviations; None takes them from `scale_tril`.
        scale_tril : array-like of shape (n, P, P), default=None
            Lower Cholesky factors of the covariances over outputs.

        Returns
        -------
        NormalMixture of n rows

        Raises
        ------
        ValueError
            As the class does.
        """
        return cls([0.0], *_components.one_component(mean, std, scale_tril))

    @classmethod
    def gather(cls, parts: Iterable[Self], n_rows: int) -> Self:
        """Put together the rows of parts that need not exist at the same time.

        Beside the result there is one part in memory at a time, where :func:`concat` needs all of
        them.

        Parameters
        ----------
        parts : iterable of NormalMixture
            Consecutive rows, at least one part. All have the same outputs and the same number of
            components.
        n_rows : int
            Rows of all parts together.

        Returns
        -------
        NormalMixture of n_rows rows

        Raises
        ------
        ValueError
            If outputs, components or the number of rows do not fit.
        """
        kinds: list[tuple[bool, Names]] = []

        def arrays_of(part: Self) -> tuple[FloatArray, list[FloatArray]]:
            kinds.append((part._single, part._names))
            if part._single != kinds[0][0]:
                raise ValueError("gather needs parts with the same outputs and components")
            arrays = part._mean, part._std, part._scale_tril
            return part._log_w, [array for array in arrays if array is not None]

        log_w, (mean, std, *factor) = gather_rows(map(arrays_of, parts), n_rows)
        moments = mean, std, factor[0] if factor else None
        return cls._make(log_w, *moments, kinds[0][0], common_names([n for _, n in kinds]))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the mean: (n,) or (n, P)."""
        n_rows, _, n_outputs = self._mean.shape
        return (n_rows,) if self._single else (n_rows, n_outputs)

    @property
    def output_names(self) -> Names:
        return self._names

    def with_output_names(self, names: Sequence[str] | None) -> Self:
        checked = check_names(names, self._mean.shape[2])
        return self._make(self._log_w, *self._row_parts(slice(None)), self._single, checked)

    def __repr__(self) -> str:
        n_rows, n_components, n_outputs = self._mean.shape
        return f"NormalMixture({n_rows=}, {n_outputs=}, {n_components=})"

    def components(self) -> Components:
        """Weights, means, standard deviations and factors of the components.

        Returns
        -------
        Components
            Named tuple of read-only arrays (weights, mean, std, scale_tril).
        """
        n_rows, n_components, _ = self._mean.shape
        weights = np.broadcast_to(np.exp(self._log_w), (n_rows, n_components))
        select = (..., 0) if self._single else ...
        return Components(weights, self._mean[select], self._std[select], self._scale_tril)

    def mean(self) -> FloatArray:
        return self._per_cell(_moments.mean)

    def var(self) -> FloatArray:
        return self._per_cell(_moments.variance)

    def std(self) -> FloatArray:
        return self._per_cell(_moments.deviation)

    def cov(self) -> FloatArray:
        """Covariance over the outputs of each row, by the law of total covariance.

        Returns
        -------
        ndarray of shape (n, P, P), with P = 1 for a single output
        """
        n_rows, n_components, n_outputs = self._mean.shape
        out = np.empty((n_rows, n_outputs, n_outputs))
        for rows in row_chunks(n_rows, n_components * n_outputs * n_outputs):
            out[rows] = _joint.mixture_cov(np.exp(self._row_log_w(rows)), *self._row_parts(rows))
        return out

    def mode(self) -> FloatArray:
        """Point of highest density of each output.

        Returns
        -------
        ndarray of shape (n,) or (n, P), in the units of the target
            Exact to about 1e-8 standard deviations of the components. The search starts at the
            means of the components, with more than 64 of them at the 64 densest.
        """
        return self._per_cell(_solvers.mode)

    def entropy(self) -> FloatArray:
        """Differential entropy of each output, by quadrature unless there is one component.

        Returns
        -------
        ndarray of shape (n,) or (n, P), in nats
        """
        return self._per_cell(_quadrature.entropy)

    def logpdf(self, y: npt.ArrayLike) -> FloatArray:
        return self._per_cell(_density.logpdf_at_nodes, self._points(y))

    def joint_logpdf(self, Y: npt.ArrayLike) -> FloatArray:
        n_rows, n_components, n_outputs = self._mean.shape
        points = self._observations(Y, "Y").reshape(n_rows, n_outputs)
        out = np.empty(n_rows)
        for rows in row_chunks(n_rows, n_components * n_outputs**2):
            log_w = self._row_log_w(rows)
            out[rows] = _joint.logpdf(points[rows], log_w, *self._row_parts(rows))
        return out

    def cdf(self, y: npt.ArrayLike) -> FloatArray:
        return self._per_cell(_density.cdf_at_nodes, self._points(y))

    def sf(self, y: npt.ArrayLike) -> FloatArray:
        return self._per_cell(_density.sf_at_nodes, self._points(y))

    def ppf(self, q: npt.ArrayLike) -> FloatArray:
        levels = probabilities(q)
        for_all = np.broadcast_to(levels.ravel(), (*self.shape, levels.size))
        return self._per_cell(_solvers.quantiles, for_all).reshape(self.shape + levels.shape)

    def rvs(self, size: int = 1, random_state: RandomState = None) -> FloatArray:
        size = sample_size(size)
        rng = random_generator(random_state)
        n_rows, n_components, n_outputs = self._mean.shape
        uniform = rng.random((n_rows, size))
        out = np.asarray(rng.standard_normal((n_rows, n_outputs, size)))
        for rows in row_chunks(n_rows, n_components * n_outputs**2):
            log_w = self._row_log_w(rows)
            _joint.transform_noise(out[rows], uniform[rows], log_w, *self._row_parts(rows))
        return out[:, 0] if self._single else out

    def crps(self, y: npt.ArrayLike) -> FloatArray:
        points = self._observations(y)
        return self._per_cell(lambda y, *parts: _crps.crps(y[:, 0], *parts), points)

    def affine(self, loc: npt.ArrayLike, scale: npt.ArrayLike) -> Self:
        """Distribution of loc + scale * Y.

        Parameters
        ----------
        loc, scale : float or, with P outputs, array-like of shape (P,)
            Shift, and factor of either sign.

        Returns
        -------
        NormalMixture of the same shape

        Raises
        ------
        ValueError
            If a number is not finite, `scale` is zero, or the result leaves the range of float64.
        """
        n_outputs = None if self._single else self._mean.shape[2]
        shift = _components.check_affine(loc, "loc", n_outputs)
        factor = _components.check_affine(scale, "scale", n_outputs)
        parts = self._mean, self._std, self._scale_tril
        moved = _components.affine(*parts, shift, factor)
        return self._make(self._log_w, *moved, self._single, self._names)

    def merged(self, n_components: int) -> Self:
        """Mixture of fewer components, whose mean and variance are those of this one.

        In each row, by itself, components that are next to each other become one normal of their
        mean and variance, those first whose merging changes the density least.

        Parameters
        ----------
        n_components : int
            Components that are left at most.

        Returns
        -------
        NormalMixture of the same shape

        Raises
        ------
        ValueError
            If `n_components` is not a positive integer, or there are several outputs.
        """
        if not isinstance(n_components, int | np.integer) or n_components < 1:
            raise ValueError(f"n_components must be a positive integer, got {n_components!r}")
        n_rows, size, n_outputs = self._mean.shape
        if n_outputs > 1:
            raise ValueError("components of several outputs have no order in which to be merged")
        if n_components >= size:
            return self
        parts = np.empty((3, n_rows, n_components))
        for rows in blocks(n_rows, size):
            parts[:, rows] = merge_neighbours(*self._cells(rows), int(n_components))
        log_w, mean, std = parts
        return self._make(log_w, mean[..., None], std[..., None], None, self._single, self._names)

    def to_torch(self) -> "torch.distributions.Distribution":
        """Convert to `torch.distributions`, in float64.

        Returns
        -------
        torch.distributions.Distribution
            Of batch shape (n,) and event shape () or (P,): Normal, MultivariateNormal or
            Independent for one component, else MixtureSameFamily of these.
        """
        return _components.torch_distribution(self.components())

    @classmethod
    def _make(cls, *parts: Any) -> Self:
        """Wrap parts that are known to be valid, as `_fill` takes them, without a copy."""
        dist = cls.__new__(cls)
        dist._fill(*parts)
        return dist

    def _fill(
        self,
        log_w: FloatArray,
        mean: FloatArray,
        std: FloatArray,
        scale_tril: FloatArray | None,
        single: bool,
        names: Names = None,
    ) -> None:
        parts = {"_log_w": log_w, "_mean": mean, "_std": std, "_scale_tril": scale_tril}
        self._store(**parts, _single=single, _names=names)

    def _take(self, rows: slice | IntArray) -> Self:
        return self._make(self._row_log_w(rows), *self._row_parts(rows), self._single, self._names)

    def _take_outputs(self, outputs: Any) -> Self:
        select, single = selection(outputs, self._names)
        mean, std, scale_tril = self._mean[..., select], self._std[..., select], self._scale_tril
        if mean.ndim != 3 or mean.shape[2] == 0:
            raise IndexError("outputs must be an integer, a slice or a one-dimensional array that "
                             "selects at least one output")  # fmt: skip
        if scale_tril is not None:
            scale_tril = None if single else _joint.lower_factor(scale_tril[..., select, :])
        names = None if self._names is None else tuple(np.array(self._names)[select].tolist())
        return self._make(self._log_w, mean, std, scale_tril, single, names)

    @classmethod
    def _join(cls, parts: Sequence[Self]) -> Self:
        if len({part.shape[1:] for part in parts}) > 1:
            raise ValueError("concat needs distributions with the same outputs")
        weights, mean, std, scale_tril = _components.join_components(
            [part.components() for part in parts]
        )
        with np.errstate(divide="ignore"):
            joined = cls(np.log(weights), mean, std, scale_tril)
        return joined.with_output_names(common_names([p._names for p in parts]))

    def _row_log_w(self, rows: slice | IntArray) -> FloatArray:
        return self._log_w if self._log_w.shape[0] == 1 else self._log_w[rows]

    def _row_parts(
        self, rows: slice | IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        scale_tril = None if self._scale_tril is None else self._scale_tril[rows]
        return self._mean[rows], self._std[rows], scale_tril

    def _cells(self, rows: slice) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log weights, means and standard deviations (cells, S) of the outputs of some rows."""
        mean, std, _ = self._row_parts(rows)
        log_w = np.broadcast_to(self._row_log_w(rows), mean.shape[:2])
        return _components.cells(log_w, mean, std)

    def _per_cell(
        self, func: Callable[..., FloatArray], points: FloatArray | None = None
    ) -> FloatArray:
        """Apply `func([points, ]log_w, mean, std)` to the outputs of chunks of rows.

        Points have the shape `shape`, or a last axis more; `func` sees those (cells, k) of cells.
        """
        n_rows, n_components, n_outputs = self._mean.shape
        shape = self.shape if points is None else points.shape
        each = shape[-1] if len(shape) > self.ndim else 1
        given = [] if points is None else [points.reshape(n_rows, n_outputs, each)]
        out = np.empty((n_rows, n_outputs, each))
        for rows in row_chunks(n_rows, n_components * n_outputs * each):
            values = func(*(part[rows].reshape(-1, each) for part in given), *self._cells(rows))
            out[rows] = values.reshape(-1, n_outputs, each)
        return out.reshape(shape)
