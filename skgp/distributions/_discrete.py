"""Distributions over classes."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from skgp._typing import FloatArray, IntArray, LabelArray, RandomState
from skgp._validation import random_generator, sample_size, unmasked
from skgp.distributions import _drawing
from skgp.distributions._base import Distribution
from skgp.distributions._html import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# How far probabilities may be from [0, 1] and from the sum 1.
_TOLERANCE = 1e-6


class DiscreteDistribution(Distribution):
    """Predictive distributions over C classes, one per row.

    As an array it is the matrix (n, C) of probabilities that scikit-learn's `predict_proba`
    returns, one column per entry of `classes`.
    """

    __slots__ = ()

    _probs: FloatArray  # (n, C)
    _classes: LabelArray  # (C,)

    @abstractmethod
    def __init__(self, probs: npt.ArrayLike, classes: npt.ArrayLike | None = None) -> None: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix of probabilities, (n, C)."""
        return self._probs.shape

    @property
    def classes(self) -> LabelArray:
        """Labels of the classes, shape (C,), in the order of the probabilities."""
        return self._classes

    def __repr__(self) -> str:
        n_rows, n_classes = self._probs.shape
        return f"{type(self).__name__}({n_rows=}, {n_classes=})"

    def mode(self) -> LabelArray:
        """Most probable class; the first one of several.

        Returns
        -------
        ndarray of shape (n,), labels
        """
        return np.asarray(self._classes[np.argmax(self._probs, axis=1)])

    def pmf(self, y: npt.ArrayLike) -> FloatArray:
        """Probability of a class.

        Parameters
        ----------
        y : array-like of shape (n,), or a single label
            Labels out of `classes`.

        Returns
        -------
        ndarray of shape (n,)

        Raises
        ------
        ValueError
            If a label is unknown or the shape does not fit.
        """
        return np.asarray(self._probs[np.arange(len(self)), self._codes(y)])

    def logpmf(self, y: npt.ArrayLike) -> FloatArray:
        """Log probability of a class; parameters and errors as in `pmf`.

        Parameters
        ----------
        y : array-like of shape (n,), or a single label
            Labels out of `classes`.

        Returns
        -------
        ndarray of shape (n,)
            -inf where the probability is zero.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.pmf(y))

    def cdf(self, y: npt.ArrayLike) -> FloatArray:
        """Probability of a class that is not after `y` in `classes`, for ordered classes.

        Parameters
        ----------
        y : array-like of shape (n,), or a single label
            Labels out of `classes`.

        Returns
        -------
        ndarray of shape (n,)
        """
        total = np.cumsum(self._probs, axis=1)
        return np.asarray((total / total[:, -1:])[np.arange(len(self)), self._codes(y)])

    def entropy(self) -> FloatArray:
        """Entropy.

        Returns
        -------
        ndarray of shape (n,), in nats
        """
        return np.asarray(np.sum(entr(self._probs), axis=1))

    def rvs(self, size: int = 1, random_state: RandomState = None) -> LabelArray:
        uniform = random_generator(random_state).random((len(self), sample_size(size)))
        total = np.cumsum(self._probs, axis=1)
        total /= total[:, -1:]
        # As many classes lie before the drawn one as have their cumulative probability below u.
        codes = np.sum(total[:, None, :-1] <= uniform[..., None], axis=2)
        return np.asarray(self._classes[codes])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        ax = _drawing.begin(ax, f"{type(self).__name__}.plot", len(self))
        return _drawing.draw_probabilities(ax, self._classes.tolist(), self._probs)

    def _pictures(self) -> Sequence[Picture]:
        return [Picture("probabilities", self._probs, gap=0.2)]

    def _codes(self, y: npt.ArrayLike) -> IntArray:
        labels = np.asarray(unmasked(y, "y"))
        if labels.ndim > 0 and labels.shape != (len(self),):
            raise ValueError(
                f"y must be a label or have shape ({len(self)},), got shape {labels.shape}"
            )
        order = np.argsort(self._classes, kind="stable")
        place = np.searchsorted(self._classes, labels, sorter=order)
        codes = order[np.minimum(place, order.size - 1)]
        known = self._classes[codes] == labels
        if not np.all(known):
            unknown = np.unique(labels[~known] if labels.ndim else labels).tolist()
            raise ValueError(f"y contains labels that are not in classes: {unknown[:5]}")
        return np.broadcast_to(codes, (len(self),))

    def _point(self) -> FloatArray:
        return self._probs

    def _take(self, rows: slice | IntArray) -> Self:
        dist = type(self).__new__(type(self))
        dist._store(_probs=self._probs[rows], _classes=self._classes)
        return dist

    @classmethod
    def _join(cls, parts: Sequence[Self]) -> Self:
        if not all(np.array_equal(part._classes, parts[0]._classes) for part in parts):
            raise ValueError("concat needs distributions with the same classes")
        dist = cls.__new__(cls)
        probs = np.concatenate([part._probs for part in parts])
        dist._store(_probs=probs, _classes=parts[0]._classes)
        return dist

    def _columns(self) -> dict[Any, npt.NDArray[Any]]:
        return dict(zip(self._classes.tolist(), self._probs.T, strict=True))


@final
class Bernoulli(DiscreteDistribution):
    """Predictive distributions over two classes.

    Parameters
    ----------
    probs : array-like of shape (n,)
        Probabilities of the second class.
    classes : array-like of shape (2,), default=None
        Labels of the classes; None means 0 and 1.

    Raises
    ------
    ValueError
        If a probability is not in [0, 1] or the classes are not two different labels.

    Examples
    --------
    >>> from skgp.distributions import Bernoulli
    >>> dist = Bernoulli([0.25, 0.9], classes=["no", "yes"])
    >>> dist.mode().tolist(), dist.pmf("yes").tolist()
    (['no', 'yes'], [0.25, 0.9])
    """

    __slots__ = ("_classes", "_probs")

    def __init__(self, probs: npt.ArrayLike, classes: npt.ArrayLike | None = None) -> None:
        p = np.asarray(probs, dtype=np.float64)
        if p.ndim != 1:
            raise ValueError(f"probs must have shape (n,), got {p.shape}")
        p = _checked(p)
        self._store(_probs=np.column_stack([1.0 - p, p]), _classes=_check_classes(classes, 2))

    @classmethod
    def of_columns(cls, probs: npt.ArrayLike, classes: npt.ArrayLike | None = None) -> Self:
        """From the probabilities of both classes, of which a small one keeps its digits.

        Parameters
        ----------
        probs : array-like of shape (n, 2)
            Each row sums to one (within 1e-6, and is then normalised).
        classes : array-like of shape (2,), default=None
            Labels of the classes; None means 0 and 1.

        Returns
        -------
        Bernoulli

        Raises
        ------
        ValueError
            If a row is no probability vector of two classes, or the classes are not two different
            labels.
        """
        dist = cls.__new__(cls)
        both = Categorical(probs, _check_classes(classes, 2))
        dist._store(_probs=both._probs, _classes=both._classes)
        return dist

    def mean(self) -> FloatArray:
        """Probability of the second class, the mean of its indicator.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._probs[:, 1].copy()

    def var(self) -> FloatArray:
        """Variance of the indicator of the second class.

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.asarray(self._probs[:, 0] * self._probs[:, 1])

    def std(self) -> FloatArray:
        """Square root of the variance of the indicator of the second class.

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.sqrt(self.var())


@final
class Categorical(DiscreteDistribution):
    """Predictive distributions over C classes.

    Parameters
    ----------
    probs : array-like of shape (n, C)
        Probabilities; each row sums to one (within 1e-6, and is then normalised).
    classes : array-like of shape (C,), default=None
        Labels of the classes; None means 0, 1, ..., C - 1.

    Raises
    ------
    ValueError
        If a row is no probability vector or the classes are not C different labels.

    Examples
    --------
    >>> from skgp.distributions import Categorical
    >>> dist = Categorical([[0.2, 0.5, 0.3]], classes=["a", "b", "c"])
    >>> dist.mode().tolist(), dist.entropy().round(4).tolist()
    (['b'], [1.0297])
    """

    __slots__ = ("_classes", "_probs")

    def __init__(self, probs: npt.ArrayLike, classes: npt.ArrayLike | None = None) -> None:
        p = np.asarray(probs, dtype=np.float64)
        if p.ndim != 2 or p.shape[1] == 0:
            raise ValueError(f"probs must have shape (n, C) with C >= 1, got {p.shape}")
        p = _checked(p)
        total = p.sum(axis=1, keepdims=True)
        if not (np.abs(total - 1.0) <= _TOLERANCE).all():
            raise ValueError("probs must sum to one in every row")
        self._store(_probs=p / total, _classes=_check_classes(classes, p.shape[1]))


def _checked(p: FloatArray) -> FloatArray:
    if not ((p >= -_TOLERANCE) & (p <= 1.0 + _TOLERANCE)).all():
        raise ValueError("probs must lie in [0, 1]")
    return np.clip(p, 0.0, 1.0)


def _check_classes(classes: npt.ArrayLike | None, n_classes: int) -> LabelArray:
    labels = np.arange(n_classes) if classes is None else np.array(classes)
    if labels.shape != (n_classes,):
        raise ValueError(f"classes must have shape ({n_classes},), got {labels.shape}")
    if np.unique(labels).size != n_classes:
        raise ValueError("classes must be different labels")
    return labels
