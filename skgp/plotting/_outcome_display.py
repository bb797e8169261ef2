"""Displays that set outcomes against their predictive distributions."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from skgp.compose import predict_dist
from skgp.distributions import ContinuousDistribution
from skgp.plotting._display import Display, estimator_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class OutcomeDisplay(Display):
    """Abstract base: an estimator's display is that of its predictions."""

    @classmethod
    @abstractmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        dist: ContinuousDistribution,
        *,
        output: int | str | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Compute and draw, from outcomes and their predictive distributions."""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        output: int | str | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Compute and draw, from a fitted estimator and rows that it has not seen.

        Parameters
        ----------
        estimator : fitted estimator
            Anything that :func:`skgp.predict_dist` accepts: also searches, pipelines and
            transformed targets.
        X : array-like of shape (n, D)
        y : array-like of shape (n,) or (n, P)
            Outcomes; NaN entries are left out.
        output : int or str, default=None
            Which of several outputs, by its number or its name; needed if there are several.
        name : str, default=None
            Label of the model; the class of the innermost estimator if None.
        ax : matplotlib Axes, default=None
            Those of a new figure if None.
        **kwargs : dict
            Further arguments of `from_predictions`.

        Returns
        -------
        display

        Raises
        ------
        TypeError
            If the estimator has no predictive distribution.
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        ValueError
            If `y` has another shape than the predictions, or `output` is missing or out of range.
        """
        dist = predict_dist(estimator, X)
        name = estimator_name(estimator) if name is None else name
        return cls.from_predictions(y, dist, output=output, name=name, ax=ax, **kwargs)
