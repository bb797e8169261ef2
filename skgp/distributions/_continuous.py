"""Distributions of real targets: their interface, and what follows from it."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from skgp.distributions._base import Distribution
from skgp.distributions._outputs import Names
from skgp.distributions._typing import FloatArray


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

    @abstractmethod
    def ppf(self, q: npt.ArrayLike) -> FloatArray:
        """Quantiles, the inverse of `cdf`.

        Parameters
        ----------
        q : float or array-like of shape (k,)
            Probabilities in [0, 1]; 0 and 1 give -inf and inf.

        Returns
        -------
        ndarray of shape (n,) or (n, P), for k probabilities (n, k) or (n, P, k)
            In the units of the target.

        Raises
        ------
        ValueError
            If `q` has another shape or leaves [0, 1].
        """

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

    def _point(self) -> FloatArray:
        return self.mean()

    def _columns(self) -> dict[Any, npt.NDArray[Any]]:
        q = self.ppf([0.05, 0.5, 0.95])
        table = {
            "mean": self.mean(),
            "std": self.std(),
            "q05": q[..., 0],
            "q50": q[..., 1],
            "q95": q[..., 2],
        }
        if self.ndim == 1:
            return dict(table)
        return {
            (output, name): values[:, number]
            for number, output in enumerate(self.output_names or range(self.shape[1]))
            for name, values in table.items()
        }

    def _points(self, y: npt.ArrayLike) -> FloatArray:
        """`y` as an array of shape `shape`, or with a last axis of k points for each."""
        values = np.asarray(y, dtype=np.float64)
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
        values = np.asarray(y, dtype=np.float64)
        if values.ndim > 0 and values.shape != self.shape:
            raise ValueError(f"{name} must be a scalar or have shape {self.shape}, got shape "
                             f"{values.shape}")  # fmt: skip
        return np.broadcast_to(values, self.shape)


def probabilities(q: npt.ArrayLike) -> FloatArray:
    """`q` as an array of shape () or (k,), checked to lie in [0, 1]."""
    levels = np.asarray(q, dtype=np.float64)
    if levels.ndim > 1:
        raise ValueError(f"q must be a scalar or one-dimensional, got shape {levels.shape}")
    if not np.all((levels >= 0.0) & (levels <= 1.0)):
        raise ValueError("q must lie in [0, 1]")
    return levels
