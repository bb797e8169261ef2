"""The predictive density of the outcome along one input."""

from typing import TYPE_CHECKING, Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike

from skgp._typing import FloatArray
from skgp.compose import predict_dist
from skgp.distributions import ContinuousDistribution
from skgp.plotting._display import (
    Display,
    add_legend,
    estimator_name,
    labelled,
    merge_style,
)
from skgp.plotting._dots import draw_dots, thinned
from skgp.plotting._input_line import InputLine, increasing
from skgp.plotting._observed import check_output, output_name, select_output
from skgp.plotting._outcome_cells import cell_densities, outcome_grid, quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.lines import Line2D

_OPACITY = 0.85  # of the highest density
_SATURATED = 0.05  # share of the columns whose peaks may exceed the full colour


@final
class ConditionalDensityDisplay(Display):
    """Heat map of the density of the outcome, given one input.

    A vertical line through the picture is the predictive density at one input. A model that
    predicts normals shows one ridge about the mean; a mixture may show several, with the mean
    between them where no outcome is likely.

    Parameters
    ----------
    x : ndarray of shape (m,)
        Values of the input, increasing.
    y : ndarray of shape (k,)
        Values of the outcome, increasing.
    density : ndarray of shape (k, m)
        Predictive density at each outcome, given each input, per unit of y; of counts, the
        probability of one.
    mean : ndarray of shape (m,)
        Predictive mean, in the units of y.
    data : tuple of two ndarrays of shape (n,), default=None
        Inputs and outcomes of observed rows.
    x_name, y_name : str, default="x", "y"
        Labels of the input and of the output.
    name : str, default=None
        Label of the model.
    quantity : {"density", "probability"}, default="density"
        What `density` is; the probability of a count has no unit.

    Attributes
    ----------
    mesh_ : matplotlib QuadMesh
        The heat map; its array is the density. ``display.figure_.colorbar(display.mesh_)`` adds the
        scale.
    line_ : matplotlib Line2D
        The predictive mean.
    points_ : matplotlib Line2D or None
        The observed rows, or some of them.
    ax_, figure_ : matplotlib Axes and Figure

    Notes
    -----
    Figures 1 and 12 of [1]_.

    References
    ----------
    .. [1] H. Salimbeni, V. Dutordoir, J. Hensman and M. P. Deisenroth, "Deep Gaussian processes
       with importance-weighted variational inference", ICML 2019.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.plotting import ConditionalDensityDisplay
    >>> dist = NormalMixture([0.0, 0.0], mean=[[0.0, 0.0], [-2.0, 2.0]], std=1.0)
    >>> display = ConditionalDensityDisplay.from_predictions(
    ...     [0.0, 1.0], dist, y_grid=[-2.0, 0.0, 2.0], ax=Figure().subplots()
    ... )
    >>> display.density.round(2)
    array([[0.08, 0.17],
           [0.34, 0.08],
           [0.08, 0.17]])
    """

    mesh_: "QuadMesh"
    line_: "Line2D"
    points_: "Line2D | None"

    def __init__(
        self,
        x: FloatArray,
        y: FloatArray,
        density: FloatArray,
        mean: FloatArray,
        *,
        data: tuple[FloatArray, FloatArray] | None = None,
        x_name: str = "x",
        y_name: str = "y",
        name: str | None = None,
        quantity: Literal["density", "probability"] = "density",
    ) -> None:
        self.x = x
        self.y = y
        self.density = density
        self.mean = mean
        self.data = data
        self.x_name = x_name
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
        grid: int | ArrayLike = 200,
        y_grid: int | ArrayLike = 200,
        column: int | str | None = None,
        at: Any = 0,
        output: int | str | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Compute and draw, from a fitted estimator and rows that span the input.

        Parameters
        ----------
        estimator : fitted estimator
            Anything that :func:`skgp.predict_dist` accepts: also searches, pipelines and
            transformed targets.
        X : array-like or pandas DataFrame of shape (n, D)
            Rows in the form that `estimator.predict` accepts.
        y : array-like of shape (n,) or (n, P), default=None
            Outcomes of the rows of X, drawn as dots. With several columns, these rows differ from
            those of the heat map in the other columns.
        grid : int or array-like of shape (m,), default=200
            Number of equally spaced values between the smallest and the largest of the column, or
            the values. Of a column of integers or booleans the values are those of its rows, if
            they are not more.
        y_grid : int or array-like of shape (k,), default=200
            Number of equally spaced outcomes over all observed and nearly all predicted ones, or
            the outcomes. Of counts these are whole ones.
        column : int or str, default=None
            The input to vary, by its number or its name; needed if X has several columns.
        at : int, array-like of shape (n_features,), Series or mapping, default=0
            What the other columns are held at: the values of the row of X that has this number, or
            these values, in the order of the columns or by their names, as of ``X.median()``.
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
        display : ConditionalDensityDisplay

        Raises
        ------
        TypeError
            If the estimator has no predictive distribution.
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        ValueError
            If an argument has a wrong shape or is out of its range.
        """
        line = InputLine.through(X, column, at, grid)
        dist = predict_dist(estimator, line.rows)
        return cls.from_predictions(
            line.values,
            dist,
            y_grid=y_grid,
            data=line.outcomes(y, dist, output),
            x_name=line.name,
            output=output,
            name=estimator_name(estimator) if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        x: ArrayLike,
        dist: ContinuousDistribution,
        *,
        y_grid: int | ArrayLike = 200,
        data: tuple[FloatArray, FloatArray] | None = None,
        x_name: str = "x",
        output: int | str | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Compute and draw, from predictive distributions along an input.

        The density is averaged over each cell of the heat map, so that no peak, however narrow,
        falls between two outcomes.

        Parameters
        ----------
        x : array-like of shape (m,)
            Values of the input, in any order.
        dist : predictive distribution of shape (m,) or (m, P)
            Of y, noise included.
        y_grid : int or array-like of shape (k,), default=200
            Number of equally spaced outcomes over all observed and nearly all predicted ones, or
            the outcomes. Of counts these are whole ones.
        data : tuple of two arrays of shape (n,), default=None
            Inputs and outcomes of observed rows, drawn as dots.
        x_name : str, default="x"
            Label of the input.
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
        display : ConditionalDensityDisplay

        Raises
        ------
        ValueError
            If an argument has a wrong shape or is out of its range.
        """
        values, order = increasing(x, len(dist))
        dist = dist[order]
        chosen = check_output(output, dist)
        y = outcome_grid(y_grid, dist, chosen, None if data is None else data[1])
        density = cell_densities(y, dist, chosen)
        mean = select_output(dist.mean(), chosen)
        display = cls(
            values,
            y,
            density,
            mean,
            data=data,
            x_name=x_name,
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
        max_points: int = 1000,
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
            Density per unit of y that has the full colour, as have all above it; give displays side
            by side the same to compare them. If None, the peaks of all but 5 % of the inputs are
            lower.
        max_points : int, default=1000
            Number of observed rows drawn at most, a fixed random choice.
        **kwargs : dict
            Line style of the mean; the heat map has its colour.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `highest` or `max_points` is out of its range.
        """
        if highest is None:
            highest = float(np.quantile(self.density.max(axis=0), 1.0 - _SATURATED))
        if not highest > 0.0:
            raise ValueError(f"The highest density must be positive, got {highest}.")
        dots = thinned(self.data, max_points)
        ax = self._begin(ax)
        from matplotlib.colors import LinearSegmentedColormap, to_rgba

        name = self.name if name is None else name
        style = merge_style({"linewidth": 1.0, "label": labelled("mean", name)}, kwargs)
        (self.line_,) = ax.plot(self.x, self.mean, **style)
        color = self.line_.get_color()
        # From nothing to the colour, so that displays on the same axes do not hide each other.
        shades = [to_rgba(color, 0.0), to_rgba(color, _OPACITY)]
        self.mesh_ = ax.pcolormesh(
            self.x,
            self.y,
            self.density,
            shading="nearest",
            cmap=LinearSegmentedColormap.from_list("density", shades),
            vmin=0.0,
            vmax=highest,
            rasterized=True,
            zorder=0.5,
        )
        label = labelled(f"{self.quantity}, full colour from {highest:.2g}", name)
        ax.fill([], [], color=color, alpha=_OPACITY, linewidth=0.0, label=label)
        self.points_ = draw_dots(ax, dots)
        ax.set(xlabel=self.x_name, ylabel=self.y_name)
        add_legend(ax, "upper left")
        return self
