"""Predictive intervals of single rows."""

from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from skgp._typing import FloatArray
from skgp.distributions import ContinuousDistribution
from skgp.plotting._display import add_legend, count_on_x, has_label, labelled, merge_style, percent
from skgp.plotting._observed import Observed, output_name
from skgp.plotting._outcome_display import OutcomeDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

_OUTCOME = "outcome"


@final
class IntervalDisplay(OutcomeDisplay):
    """Predictive intervals of rows in order of their outcomes or predicted means.

    Of many rows an evenly spaced selection is drawn, in their order. Ordered by outcome, means that
    run less steeply than the outcomes are no fault: they regress to the mean. Ordered by predicted
    mean, the outcomes of a calibrated model scatter evenly around the means.

    Parameters
    ----------
    y_true : ndarray of shape (m,)
        Outcomes, in the units of y.
    mean, lower, upper : ndarray of shape (m,)
        Predictive mean and ends of the predictive interval of each outcome.
    coverage : float
        Nominal coverage of the intervals.
    y_name : str, default="y"
        Label of the output.
    name : str, default=None
        Label of the model.

    Attributes
    ----------
    intervals_ : matplotlib LineCollection
        A vertical line per row; the legend gives the share of all m outcomes inside.
    mean_ : matplotlib Line2D
        The predictive means.
    outcomes_ : matplotlib Line2D
        The outcomes.
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.plotting import IntervalDisplay
    >>> dist, ax = NormalMixture.normal([0.0, 0.0], [1.0, 2.0]), Figure().subplots()
    >>> display = IntervalDisplay.from_predictions([2.0, 1.0], dist, coverage=0.9, ax=ax)
    >>> display.upper.round(2)
    array([1.64, 3.29])
    >>> display.outcomes_.get_ydata()
    array([1., 2.])
    """

    intervals_: "LineCollection"
    mean_: "Line2D"
    outcomes_: "Line2D"

    def __init__(
        self,
        y_true: FloatArray,
        mean: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        *,
        coverage: float,
        y_name: str = "y",
        name: str | None = None,
    ) -> None:
        self.y_true = y_true
        self.mean = mean
        self.lower = lower
        self.upper = upper
        self.coverage = coverage
        self.y_name = y_name
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        dist: ContinuousDistribution,
        *,
        coverage: float = 0.9,
        output: int | str | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Compute and draw, from outcomes and their predictive distributions.

        Parameters
        ----------
        y_true : array-like of shape (n,) or (n, P)
            Outcomes; NaN entries are left out.
        dist : predictive distribution of shape (n,) or (n, P)
        coverage : float, default=0.9
            Nominal coverage of the central intervals, in [0, 1].
        output : int or str, default=None
            Which of several outputs, by its number or its name; needed if there are several.
        name : str, default=None
            Label of the model.
        ax : matplotlib Axes, default=None
            Those of a new figure if None.
        **kwargs : dict
            Further arguments of `plot`.

        Returns
        -------
        display : IntervalDisplay

        Raises
        ------
        ValueError
            If the shapes differ, or `output` or `coverage` is not valid.
        """
        observed = Observed.check(y_true, dist, output)
        data = map(observed.select, (y_true, dist.mean(), *dist.interval(coverage)))
        y_name = output_name(output, dist)
        return cls(*data, coverage=coverage, y_name=y_name, name=name).plot(ax, **kwargs)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        name: str | None = None,
        order: str = "outcome",
        max_rows: int = 150,
        **kwargs: Any,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Those of a new figure if None. Displays that share axes should share the order of rows,
            which those of the same outcomes do with ``order="outcome"``.
        name : str, default=None
            Label of the model; `self.name` if None.
        order : {"outcome", "mean"}, default="outcome"
            What the rows are ordered by, smallest first.
        max_rows : int, default=150
            Number of rows drawn at most, evenly spaced in the order.
        **kwargs : dict
            Line style of the means; the intervals have their colour.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `order` or `max_rows` is out of its range.
        """
        if order not in ("outcome", "mean"):
            raise ValueError(f"order must be 'outcome' or 'mean', got {order!r}.")
        if max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, got {max_rows}.")
        ax = self._begin(ax)
        n_rows = len(self.y_true)
        by_rank = np.argsort(self.y_true if order == "outcome" else self.mean, kind="stable")
        rank = np.linspace(1, n_rows, min(n_rows, max_rows)).round().astype(int)
        rows = by_rank[rank - 1]
        style = merge_style({"linestyle": "none", "marker": "_", "markersize": 5}, kwargs)
        (self.mean_,) = ax.plot(rank, self.mean[rows], **style)
        inside = np.mean((self.lower <= self.y_true) & (self.y_true <= self.upper))
        what = f"{percent(self.coverage)} interval, holds {inside:.1%}"
        self.intervals_ = ax.vlines(
            rank,
            self.lower[rows],
            self.upper[rows],
            colors=self.mean_.get_color(),
            alpha=0.5,
            label=labelled(what, self.name if name is None else name),
        )
        once = None if has_label(ax, _OUTCOME) else _OUTCOME
        (self.outcomes_,) = ax.plot(rank, self.y_true[rows], "k.", markersize=4, label=once)
        shown = "" if len(rank) == n_rows else f" ({len(rank)} of {n_rows:,} drawn)"
        by = "outcome" if order == "outcome" else "predicted mean"
        count_on_x(ax)
        ax.set(xlabel=f"rank by {by}{shown}", ylabel=self.y_name)
        add_legend(ax, "upper left")
        return self
