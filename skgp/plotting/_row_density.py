"""The predictive densities of single rows."""

from typing import TYPE_CHECKING, Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgp._typing import FloatArray
from skgp.compose import predict_dist
from skgp.distributions import ContinuousDistribution
from skgp.plotting._display import (
    Display,
    add_legend,
    estimator_name,
    has_label,
    labelled,
    merge_style,
)
from skgp.plotting._observed import check_output, output_name, select_output
from skgp.plotting._outcome_cells import cell_densities, cell_ends, outcome_grid, quantity
from skgp.scoring._reduce import check_targets

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_HEIGHT = 0.9  # of the highest density, in distances between rows
_OPACITY = 0.25


@final
class RowDensityDisplay(Display):
    """Densities of the outcome of single rows, above each other.

    Shapes differ from row to row: one is wide, another has two modes. The observed outcome of each
    row may be marked.

    Parameters
    ----------
    rows : ndarray of int of shape (m,)
        Numbers of the rows.
    y : ndarray of shape (k,)
        Values of the outcome, increasing.
    density : ndarray of shape (m, k)
        Predictive density of each row at each outcome, per unit of y; of counts, the probability
        of one.
    observed : ndarray of shape (m,), default=None
        Observed outcomes, NaN where there is none.
    y_name : str, default="y"
        Label of the output.
    name : str, default=None
        Label of the model.
    quantity : {"density", "probability"}, default="density"
        What `density` is; the probability of a count has no unit.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        The density of each row, the first at the top; of counts, the outline of bars.
    points_ : matplotlib Line2D or None
        The observed outcomes.
    ax_, figure_ : matplotlib Axes and Figure

    Notes
    -----
    Figures 67 and 68 of [1]_.

    References
    ----------
    .. [1] H. Salimbeni, V. Dutordoir, J. Hensman and M. P. Deisenroth, "Deep Gaussian processes
       with importance-weighted variational inference", ICML 2019.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.plotting import RowDensityDisplay
    >>> dist = NormalMixture([0.0, 0.0], mean=[[0.0, 0.0], [-2.0, 2.0]], std=1.0)
    >>> display = RowDensityDisplay.from_predictions(
    ...     dist, y_grid=[-2.0, 0.0, 2.0], ax=Figure().subplots()
    ... )
    >>> display.density.round(2)
    array([[0.08, 0.34, 0.08],
           [0.17, 0.08, 0.17]])
    """

    lines_: "list[Line2D]"
    points_: "Line2D | None"

    def __init__(
        self,
        rows: NDArray[np.int_],
        y: FloatArray,
        density: FloatArray,
        *,
        observed: FloatArray | None = None,
        y_name: str = "y",
        name: str | None = None,
        quantity: Literal["density", "probability"] = "density",
    ) -> None:
        self.rows = rows
        self.y = y
        self.density = density
        self.observed = observed
        self.y_name = y_name
        self.name = name
        self.quantity = quantity

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        y_grid: int | ArrayLike = 400,
        max_rows: int = 8,
        output: int | str | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Compute and draw, from a fitted estimator and rows.

        Parameters
        ----------
        estimator : fitted estimator
            Anything that :func:`skgp.predict_dist` accepts: also searches, pipelines and
            transformed targets.
        X : array-like or pandas DataFrame of shape (n, D)
            The rows, in the form that `estimator.predict` accepts.
        y : array-like of shape (n,) or (n, P), default=None
            Their outcomes, drawn as dots.
        y_grid : int or array-like of shape (k,), default=400
            Number of equally spaced outcomes over all observed and nearly all predicted ones, or
            the outcomes. Of counts these are whole ones.
        max_rows : int, default=8
            Number of rows drawn at most, equally spaced among those of X.
        output : int or str, default=None
            Which of several outputs, by its number or its name; needed if there are several.
        name : str, default=None
            Label of the model; the class of the innermost estimator if None.
        ax : matplotlib Axes, default=None
            Those of a new figure if None.
        **kwargs : dict
            Further arguments of `plot`.

        Returns
        -------
        display : RowDensityDisplay

        Raises
        ------
        TypeError
            If the estimator has no predictive distribution.
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        ValueError
            If an argument has a wrong shape or is out of its range.
        """
        return cls.from_predictions(
            predict_dist(estimator, X),
            y,
            y_grid=y_grid,
            max_rows=max_rows,
            output=output,
            name=estimator_name(estimator) if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        dist: ContinuousDistribution,
        y: ArrayLike | None = None,
        *,
        y_grid: int | ArrayLike = 400,
        max_rows: int = 8,
        output: int | str | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Compute and draw, from predictive distributions.

        The density is averaged between the middles of neighbouring outcomes, so that no peak,
        however narrow, falls between two of them.

        Parameters
        ----------
        dist : predictive distribution of shape (n,) or (n, P)
            Of y, noise included.
        y : array-like of shape (n,) or (n, P), default=None
            Observed outcomes, drawn as dots.
        y_grid : int or array-like of shape (k,), default=400
            Number of equally spaced outcomes over all observed and nearly all predicted ones, or
            the outcomes. Of counts these are whole ones.
        max_rows : int, default=8
            Number of rows drawn at most, equally spaced among all.
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
        display : RowDensityDisplay

        Raises
        ------
        ValueError
            If an argument has a wrong shape or is out of its range.
        """
        if max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, got {max_rows}.")
        n_rows = len(dist)
        rows = np.unique(np.linspace(0, n_rows - 1, min(n_rows, max_rows)).round().astype(int))
        observed, chosen = None, check_output(output, dist)
        if y is not None:
            observed = select_output(check_targets(y, dist, None).y, chosen)[rows]
        part = dist[rows]
        outcomes = outcome_grid(y_grid, part, chosen, observed)
        density = cell_densities(outcomes, part, chosen).T
        display = cls(
            rows,
            outcomes,
            density,
            observed=observed,
            y_name=output_name(output, dist),
            name=name,
            quantity=quantity(dist),
        )
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        name: str | None = None,
        highest: float | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Those of a new figure if None.
        name : str, default=None
            Label of the model; `self.name` if None.
        highest : float, default=None
            Density per unit of y that reaches nearly to the row above; give models on the same axes
            the same to compare them. The highest of all if None.
        **kwargs : dict
            Line style of the densities.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `highest` is not positive.
        """
        highest = float(self.density.max()) if highest is None else highest
        if not highest > 0.0:
            raise ValueError(f"The highest density must be positive, got {highest}.")
        ax = self._begin(ax)
        name = self.name if name is None else name
        label = labelled(f"{self.quantity}, up to {highest:.2g}", name)
        style: dict[str, Any] = merge_style({"linewidth": 1.0, "label": label}, kwargs)
        base = np.arange(len(self.rows))[::-1]
        self.lines_ = []
        y, heights = self.y, self.density
        if self.quantity == "probability":  # bars about the counts
            y = np.repeat(cell_ends(y), 2)
            heights = np.pad(np.repeat(heights, 2, axis=1), [(0, 0), (1, 1)])
        for zero, height in zip(base, heights, strict=True):
            (line,) = ax.plot(y, zero + _HEIGHT / highest * height, **style)
            color = line.get_color()
            ax.fill_between(y, zero, line.get_ydata(), color=color, alpha=_OPACITY, linewidth=0.0)
            self.lines_.append(line)
            style |= {"color": color, "label": None}  # of all rows, named once
        self.points_ = None
        if self.observed is not None:
            said = None if has_label(ax, "observed") else "observed"
            (self.points_,) = ax.plot(
                self.observed, base, "o", color="0.2", markersize=4, label=said
            )
        ax.set(xlabel=self.y_name, ylabel="row")
        ax.set_yticks(base, [str(row) for row in self.rows])
        add_legend(ax, "upper left")
        return self
