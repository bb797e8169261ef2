"""What every predictive distribution is: an immutable container of rows with a few methods."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

import numpy as np
import numpy.typing as npt

from skgp._typing import IntArray, LabelArray, RandomState
from skgp.distributions._html import MOST_ROWS, Picture, to_html

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # has no types
    from matplotlib.axes import Axes

AnyDistribution = TypeVar("AnyDistribution", bound="Distribution")


class Distribution(ABC):
    """Predictive distributions of n rows, as one immutable array-like object.

    Rows come first; a second axis exists only if the targets were two-dimensional. As an array
    the object is its point summary, so that NumPy and scikit-learn can compare and index it.
    """

    __slots__ = ()

    def _store(self, **parts: Any) -> None:
        """Set the slots once, arrays read-only."""
        for name, value in parts.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable; cannot delete {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        slots: tuple[str, ...] = type(self).__slots__
        return {name: getattr(self, name) for name in slots}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._store(**state)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the distribution as an array: rows first."""

    @property
    def ndim(self) -> int:
        """Number of axes of `shape`."""
        return len(self.shape)

    @abstractmethod
    def _point(self) -> npt.NDArray[Any]:
        """Array of shape `shape` that stands for the distribution."""

    @abstractmethod
    def _take(self, rows: slice | IntArray) -> Self:
        """Distribution of some of the rows."""

    def _take_outputs(self, outputs: Any) -> Self:
        """Distribution of some of the outputs of every row."""
        raise IndexError(f"{type(self).__name__} can be indexed by rows only")

    @classmethod
    @abstractmethod
    def _join(cls, parts: Sequence[Self]) -> Self:
        """Rows of several distributions of this class, one after another."""

    @abstractmethod
    def _columns(self) -> dict[Any, npt.NDArray[Any]]:
        """Columns of the table that summarises the distribution."""

    @abstractmethod
    def rvs(self, size: int = 1, random_state: RandomState = None) -> LabelArray:
        """Draw samples, jointly over the outputs of a row and independently over rows.

        Parameters
        ----------
        size : int, default=1
            Number of samples per row.
        random_state : int, Generator, RandomState or None, default=None
            Source of randomness; None draws afresh at every call.

        Returns
        -------
        ndarray of shape (n, size), with P outputs (n, P, size)
            Values in the units of the target, or class labels.

        Raises
        ------
        ValueError
            If `size` is not a non-negative integer.
        """

    def sample(self, size: int = 1, random_state: RandomState = None) -> LabelArray:
        """The draws of `rvs`, by the name that torch and other libraries have for it.

        Parameters
        ----------
        size : int, default=1
            Number of samples per row.
        random_state : int, Generator, RandomState or None, default=None
            Source of randomness; None draws afresh at every call.

        Returns
        -------
        ndarray of shape (n, size), with P outputs (n, P, size)
        """
        return self.rvs(size, random_state)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError(f"{type(self).__name__} becomes an array only by computing a new one")
        return np.array(self._point(), dtype=dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Self:
        rows, *outputs = key if isinstance(key, tuple) else (key,)
        taken = self if rows is Ellipsis else self._take(_row_selection(rows, len(self)))
        if not outputs or (len(outputs) == 1 and outputs[0] is Ellipsis):
            return taken
        if len(outputs) > 1 or self.ndim == 1:
            raise IndexError(f"too many indices: {type(self).__name__} has {self.ndim} axes")
        return taken._take_outputs(outputs[0])

    def __iter__(self) -> Iterator[Self]:
        return (self[row] for row in range(len(self)))

    def to_frame(self, index: Any = None) -> "pd.DataFrame":
        """Summarise each row in a pandas data frame.

        Parameters
        ----------
        index : array-like of shape (n,) or pandas.Index, default=None
            Labels of the rows, such as `X.index`; None numbers them.

        Returns
        -------
        pandas.DataFrame of n rows
            Columns of the summary; with several outputs the first column level is the output.
        """
        import pandas as pd

        return pd.DataFrame(self._columns(), index=index)

    @abstractmethod
    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw up to ten rows: densities, or probabilities of classes.

        Displays of `skgp.plotting` draw many rows, along an input or against what came true.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Those of a new figure if None.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If there are more rows, or several outputs.
        """

    @abstractmethod
    def _pictures(self) -> Sequence[Picture]:
        """Small pictures of few rows, for a notebook."""

    def _repr_html_(self) -> str:
        first = self[:MOST_ROWS]
        return to_html(repr(self), len(self), first._columns(), first._pictures())


def concat(distributions: Sequence[AnyDistribution]) -> AnyDistribution:
    """Put the rows of several distributions of one class one after another.

    Parameters
    ----------
    distributions : sequence of distributions
        At least one; all of one class, with the same outputs or classes. Mixtures may differ in
        their number of components.

    Returns
    -------
    distribution
        Of the same class, with the sum of the numbers of rows.

    Raises
    ------
    ValueError
        If the sequence is empty or its items do not fit together.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture, concat
    >>> a = NormalMixture.normal(mean=[0.0, 1.0], std=1.0)
    >>> len(concat([a, a[:1]]))
    3
    """
    parts = list(distributions)
    if not parts:
        raise ValueError("concat needs at least one distribution")
    kinds = {type(part) for part in parts}
    if len(kinds) > 1:
        names = sorted(kind.__name__ for kind in kinds)
        raise ValueError(f"concat needs distributions of one class, got {', '.join(names)}")
    return type(parts[0])._join(parts)


def _row_selection(key: Any, n_rows: int) -> slice | IntArray:
    """Turn a key into a slice or an array of row numbers; an integer keeps the row axis."""
    if isinstance(key, slice):
        return key
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not -n_rows <= key < n_rows:
            raise IndexError(f"row {key} is out of bounds for {n_rows} rows")
        return np.array([int(key)])
    rows = np.asarray(key)
    if rows.size == 0 and rows.dtype != np.bool_:
        rows = rows.astype(np.intp)
    if rows.ndim != 1 or not (rows.dtype == np.bool_ or np.issubdtype(rows.dtype, np.integer)):
        raise IndexError(
            "rows must be an integer, a slice, or a one-dimensional array of integers or booleans"
        )
    selected: IntArray = np.arange(n_rows)[rows]
    return selected
