"""Distributions of real targets: their interface, and what follows from it."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt

from skgp._typing import FloatArray, Names
from skgp._validation import check_order, mask_to_nan, output_names, refuse_times
from skgp.distributions import _drawing
from skgp.distributions._base import Distribution
from skgp.distributions._html import MOST_COLUMNS, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SUMMARY: Final = ("mean", "std", "q05", "q50", "q95")
_TAIL: Final = 1e-3  # of the probability, which pictures leave out on either side
_COARSE: Final = 40  # bins of a picture in a notebook
_FINE: Final = 500  # bins of a drawing, so that it looks smooth


class ContinuousDistribution(Distribution):
    """Predictive distributions of real targets, one per row and output.

    Values have shape (n,), or (n, P) with P outputs, and the units of the target.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def output_names(self) -> Names:
        """Names of the outputs, such as the columns of the y that a model was fitted on, or None.

        ``dist[:, "name"]`` chooses an output by its name; `to_frame` and displays show it.
        """

    @abstractmethod
    def with_output_names(self, names: Sequence[str] | None) -> Self:
        """The same distribution with other names of its outputs.

        Parameters
        ----------
        names : sequence of P different strings, a string for a single output, or None

        Returns
        -------
        distribution of the same class

        Raises
        ------
        ValueError
            If there are more or fewer names than outputs, or one twice.
        """

    @abstractmethod
    def mean(self) -> FloatArray:
        """Mean.

        Returns
        -------
        ndarray of shape (n,) or (n, P), in the units of the target
        """

    @abstractmethod
    def var(self) -> FloatArray:
        """Variance.

        Returns
        -------
        ndarray of shape (n,) or (n, P), in the squared units of the target
        """

    @abstractmethod
    def logpdf(self, y: npt.ArrayLike) -> FloatArray:
        """Log density of each output.

        Parameters
        ----------
        y : array-like of shape (n,) or (n, P), or scalar
            Points, in the units of the target. One axis more means k points for each, in the last
            axis; the others are repeated. So ``grid[np.newaxis]`` of shape (1, k), or (1, 1, k)
            with outputs, is a grid for all rows, and the shapes of `ppf` and `rvs` fit, too.

        Returns
        -------
        ndarray of shape (n,) or (n, P), of k points (n, k) or (n, P, k)
            NaN where `y` is NaN.

        Raises
        ------
        ValueError
            If the shape of `y` is another one.
        """

    @abstractmethod
    def joint_logpdf(self, Y: npt.ArrayLike) -> FloatArray:
        """Log density of the outputs of each row together.

        Parameters
        ----------
        Y : array-like of shape (n,) or (n, P), or scalar
            Points, in the units of the target. An output that is NaN is marginalised exactly.

        Returns
        -------
        ndarray of shape (n,)
            0, the logarithm of the empty product, for a row that is NaN throughout. For a single
            output equal to `logpdf` wherever `Y` is observed.

        Raises
        ------
        ValueError
            If the shape of `Y` is another one.
        """

    @abstractmethod
    def cdf(self, y: npt.ArrayLike) -> FloatArray:
        """Probability of a value of at most `y`.

        Parameters
        ----------
        y : array-like of shape (n,) or (n, P), or scalar
            Points, in the units of the target; or several for each, as `logpdf` takes them.

        Returns
        -------
        ndarray of shape (n,) or (n, P), of k points (n, k) or (n, P, k)
            NaN where `y` is NaN.
        """

    @abstractmethod
    def sf(self, y: npt.ArrayLike) -> FloatArray:
        """Probability of a value above `y`, exact in the upper tail.

        Parameters
        ----------
        y : array-like of shape (n,) or (n, P), or scalar
            Points, in the units of the target; or several for each, as `logpdf` takes them.

        Returns
        -------
        ndarray of shape (n,) or (n, P), of k points (n, k) or (n, P, k)
            NaN where `y` is NaN.
        """

    def cdf_ends(self, y: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Probabilities of less than `y`, and of at most `y`.

        They differ where a value has a probability of its own: a count, or an atom.

        Parameters
        ----------
        y : array-like of shape (n,) or (n, P), or scalar
            Points, in the units of the target; or several for each, as `logpdf` takes them.

        Returns
        -------
        below, up_to : ndarrays of shape (n,) or (n, P), of k points (n, k) or (n, P, k)
            NaN where `y` is NaN. The second is `cdf`.
        """
        up_to = self.cdf(y)
        return up_to, up_to

    @abstractmethod
    def ppf(self, q: npt.ArrayLike) -> FloatArray:
        """Quantiles, the inverse of `cdf`.

        Parameters
        ----------
        q : float or array-like of shape (k,)
            Probabilities in [0, 1]; 0 and 1 give the ends of the support, such as -inf and inf.

        Returns
        -------
        ndarray of shape (n,) or (n, P), for k probabilities (n, k) or (n, P, k)
            In the units of the target.

        Raises
        ------
        ValueError
            If `q` has another shape or leaves [0, 1].
        """

    def quantile(self, q: npt.ArrayLike) -> FloatArray:
        """The quantiles of `ppf`, by the name that NumPy, pandas and others have for it.

        Parameters
        ----------
        q : float or array-like of shape (k,)
            Probabilities in [0, 1]; 0 and 1 give the ends of the support, such as -inf and inf.

        Returns
        -------
        ndarray of shape (n,) or (n, P), for k probabilities (n, k) or (n, P, k)
            In the units of the target.
        """
        return self.ppf(q)

    @abstractmethod
    def crps(self, y: npt.ArrayLike) -> FloatArray:
        """Continuous ranked probability score of each output; smaller is better.

        Parameters
        ----------
        y : array-like of shape (n,) or (n, P), or scalar
            Observations, in the units of the target.

        Returns
        -------
        ndarray of shape (n,) or (n, P), in the units of the target
            NaN where `y` is NaN.

        References
        ----------
        Gneiting and Raftery (2007), "Strictly proper scoring rules, prediction, and estimation",
        Eqn 20.
        """

    def std(self) -> FloatArray:
        """Square root of the variance.

        Returns
        -------
        ndarray of shape (n,) or (n, P), in the units of the target
        """
        return np.sqrt(self.var())

    def median(self) -> FloatArray:
        """Median.

        Returns
        -------
        ndarray of shape (n,) or (n, P), in the units of the target
        """
        return self.ppf(0.5)

    def pdf(self, y: npt.ArrayLike) -> FloatArray:
        """Density of each output.

        Parameters
        ----------
        y : array-like of shape (n,) or (n, P), or scalar
            Points, in the units of the target; or several for each, as `logpdf` takes them.

        Returns
        -------
        ndarray of shape (n,) or (n, P), of k points (n, k) or (n, P, k)
            NaN where `y` is NaN.
        """
        return np.exp(self.logpdf(y))

    def interval(self, coverage: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Central interval, with equal probability below and above.

        Parameters
        ----------
        coverage : float in [0, 1], default=0.9
            Probability of the interval.

        Returns
        -------
        lower, upper : ndarrays of shape (n,) or (n, P), in the units of the target

        Raises
        ------
        ValueError
            If `coverage` is not a number in [0, 1].
        """
        if not (np.ndim(coverage) == 0 and 0.0 <= coverage <= 1.0):
            raise ValueError(f"coverage must be a number in [0, 1], got {coverage!r}")
        ends = self.ppf([0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage])
        return ends[..., 0], ends[..., 1]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        if self.ndim == 2 and self.shape[1] > 1:
            raise ValueError(f"choose one of {self.shape[1]} outputs, such as dist[:, 0].plot()")
        ax = _drawing.begin(ax, f"{type(self).__name__}.plot", len(self))
        edges, mass = self._histogram(_FINE)
        label = "y" if self.output_names is None else self.output_names[0]
        return _drawing.draw_densities(ax, edges[0], mass[:, 0] / np.diff(edges[0]), label)

    def _pictures(self) -> Sequence[Picture]:
        edges, mass = self._histogram(_COARSE)
        names = self.output_names or [str(output) for output in range(len(edges))]
        pictures = []
        for output in range(min(len(edges), MOST_COLUMNS // len(_SUMMARY))):
            low, high = edges[output, [0, -1]]
            if not high > low:  # no rows, or quantiles beyond the range of numbers
                continue
            title = f"density from {low:.3g} to {high:.3g}"
            heights = mass[:, output] / mass[:, output].max(axis=1, keepdims=True)
            title = title if self.ndim == 1 else f"{names[output]} {title}"
            pictures.append(Picture(title, heights, gap=0.0))
        return pictures

    def _histogram(self, n_bins: int) -> tuple[FloatArray, FloatArray]:
        """Edges (P, b + 1) of bins for all rows, and masses (n, P, b); NaN where there are none.

        Masses show each peak, however narrow, and the atoms of a transformed distribution.
        """
        n_rows, n_outputs = len(self), math.prod(self.shape[1:])
        tails = self.ppf([_TAIL, 1.0 - _TAIL]).reshape(n_rows, n_outputs, 2)
        low = tails[..., 0].min(axis=0, initial=np.inf)
        high = tails[..., 1].max(axis=0, initial=-np.inf)
        with np.errstate(invalid="ignore"):
            edges = self._edges(low, high, n_bins)
        points = edges.reshape(1, *self.shape[1:], -1)
        return edges, np.diff(self.cdf(points)).reshape(n_rows, *edges[:, 1:].shape)

    def _edges(self, low: FloatArray, high: FloatArray, n_bins: int) -> FloatArray:
        """Edges (P, b + 1) of bins between two ends (P,)."""
        return np.linspace(low, high, n_bins + 1, axis=-1)

    def _point(self) -> FloatArray:
        return self.mean()

    def _columns(self) -> dict[Any, npt.NDArray[Any]]:
        q = np.moveaxis(self.ppf([0.05, 0.5, 0.95]), -1, 0)
        table = dict(zip(_SUMMARY, (self.mean(), self.std(), *q), strict=True))
        if self.ndim == 1:
            return {**table}
        return {
            (output, name): values[:, number]
            for number, output in enumerate(self.output_names or range(self.shape[1]))
            for name, values in table.items()
        }

    def _given(self, y: npt.ArrayLike, name: str) -> FloatArray:
        """Values of outputs, in their order, NaN where masked."""
        check_order(name, output_names(y), self.output_names)
        refuse_times(y, name)
        given: Any = mask_to_nan(y)
        if hasattr(given, "iloc"):  # of pandas, whose missing entries may be no numbers
            given = given.to_numpy(np.float64, na_value=np.nan)
        return np.asarray(given, dtype=np.float64)

    def _points(self, y: npt.ArrayLike) -> FloatArray:
        """`y` as an array of shape `shape`, or with a last axis of k points for each."""
        values = self._given(y, "y")
        each = values.shape[-1:] if values.ndim > self.ndim else ()
        try:
            if values.ndim in (0, self.ndim + 1) or values.shape == self.shape:
                return np.broadcast_to(values, (*self.shape, *each))
        except ValueError:
            pass
        one = (1,) * self.ndim
        raise ValueError(
            f"y must be a scalar or have shape {self.shape}, got shape {values.shape}; k points "
            f"for all rows have shape ({', '.join(map(str, one))}, k), as "
            f"np.reshape(points, {(*one, -1)}) has"
        )

    def _observations(self, y: npt.ArrayLike, name: str = "y") -> FloatArray:
        """`y` as an array of shape `shape`; only a scalar is broadcast."""
        values = self._given(y, name)
        if values.ndim > 0 and values.shape != self.shape:
            raise ValueError(f"{name} must be a scalar or have shape {self.shape}, got shape "
                             f"{values.shape}")  # fmt: skip
        return np.broadcast_to(values, self.shape)


def probabilities(q: npt.ArrayLike) -> FloatArray:
    """`q` as an array of shape () or (k,), checked to lie in [0, 1]."""
    levels = np.asarray(q, dtype=np.float64)
    if levels.ndim > 1:
        raise ValueError(f"q must be a scalar or one-dimensional, got shape {levels.shape}")
    if not levels.size:
        raise ValueError("q is empty: pass one level in [0, 1] or more")
    wrong = levels[~((levels >= 0.0) & (levels <= 1.0))]
    if wrong.size:
        raise ValueError(f"q must lie in [0, 1], got {wrong[0]:g}: the level of 90 % is 0.9")
    return levels
