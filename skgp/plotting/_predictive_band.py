"""The predictive distribution along one input."""

from typing import TYPE_CHECKING, Any, Self, final

from numpy.typing import ArrayLike

from skgp._typing import FloatArray
from skgp.compose import predict_dist
from skgp.compose._nested import unwrap
from skgp.distributions import ContinuousDistribution
from skgp.plotting._display import (
    Display,
    add_legend,
    estimator_name,
    function_dist,
    labelled,
    merge_style,
    percent,
)
from skgp.plotting._dots import draw_dots, thinned
from skgp.plotting._input_line import InputLine, increasing
from skgp.plotting._observed import check_output, output_name, select_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.lines import Line2D


@final
class PredictiveBandDisplay(Display):
    """Mean and intervals along one input: those of the function, and with the noise around it.

    The dark band is the interval of the function, the light one that of an observation. Where the
    dark band fills most of the light one, the model describes the spread of y by the uncertainty of
    its function, which may vary with the input. Of counts, the function is their rate.

    Parameters
    ----------
    x : ndarray of shape (m,)
        Values of the input, increasing.
    mean, lower, upper : ndarray of shape (m,)
        Predictive mean and ends of the predictive interval, noise included, in the units of y.
    latent_lower, latent_upper : ndarray of shape (m,), default=None
        Ends of the interval of the function.
    coverage : float
        Nominal coverage of the intervals.
    data : tuple of two ndarrays of shape (n,), default=None
        Inputs and outcomes of observed rows.
    x_name, y_name : str, default="x", "y"
        Labels of the input and of the output.
    name : str, default=None
        Label of the model.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The predictive mean.
    band_, latent_band_ : matplotlib FillBetweenPolyCollection
        The interval of an observation and that of the function; the latter None without one.
    points_ : matplotlib Line2D or None
        The observed rows, or some of them.
    ax_, figure_ : matplotlib Axes and Figure

    Notes
    -----
    Figure 1 of [1]_.

    References
    ----------
    .. [1] M. Jankowiak, G. Pleiss and J. R. Gardner, "Parametric Gaussian process regressors",
       ICML 2020.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.plotting import PredictiveBandDisplay
    >>> function = NormalMixture.normal([0.0, 1.0], [0.1, 0.3])
    >>> dist = NormalMixture.normal([0.0, 1.0], [0.5, 0.6])
    >>> ax = Figure().subplots()
    >>> display = PredictiveBandDisplay.from_predictions([0.0, 1.0], dist, function, ax=ax)
    >>> display.latent_upper.round(2), display.upper.round(2)
    (array([0.16, 1.49]), array([0.82, 1.99]))
    """

    line_: "Line2D"
    band_: "FillBetweenPolyCollection"
    latent_band_: "FillBetweenPolyCollection | None"
    points_: "Line2D | None"

    def __init__(
        self,
        x: FloatArray,
        mean: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        latent_lower: FloatArray | None = None,
        latent_upper: FloatArray | None = None,
        *,
        coverage: float,
        data: tuple[FloatArray, FloatArray] | None = None,
        x_name: str = "x",
        y_name: str = "y",
        name: str | None = None,
    ) -> None:
        self.x = x
        self.mean = mean
        self.lower = lower
        self.upper = upper
        self.latent_lower = latent_lower
        self.latent_upper = latent_upper
        self.coverage = coverage
        self.data = data
        self.x_name = x_name
        self.y_name = y_name
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        grid: int | ArrayLike = 200,
        column: int | str | None = None,
        at: Any = 0,
        coverage: float = 0.9,
        output: int | str | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Compute and draw, from a fitted estimator and rows that span the input.

        Parameters
        ----------
        estimator : fitted estimator
            Anything that :func:`skgp.predict_dist` takes. The band of the function is left out if
            the innermost estimator has no `predict_latent`.
        X : array-like or pandas DataFrame of shape (n, D)
            Rows in the form that `estimator.predict` accepts.
        y : array-like of shape (n,) or (n, P), default=None
            Outcomes of the rows of X, drawn as dots. With several columns, these rows differ from
            those of the band in the other columns.
        grid : int or array-like of shape (m,), default=200
            Number of equally spaced values between the smallest and the largest of the column, or
            the values. Of a column of integers or booleans the values are those of its rows, if
            they are not more.
        column : int or str, default=None
            The input to vary, by its number or its name; needed if X has several columns.
        at : int, array-like of shape (n_features,), Series or mapping, default=0
            What the other columns are held at: the values of the row of X that has this number, or
            these values, in the order of the columns or by their names, as of ``X.median()``.
        coverage : float, default=0.9
            Nominal coverage of the central intervals, in [0, 1].
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
        display : PredictiveBandDisplay

        Raises
        ------
        TypeError
            If the estimator lacks the distribution of y.
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        ValueError
            If an argument has a wrong shape or is out of its range.
        """
        line = InputLine.through(X, column, at, grid)
        dist = predict_dist(estimator, line.rows)
        has_function = hasattr(unwrap(estimator).estimator, "predict_latent")
        latent = function_dist(estimator, line.rows, dist) if has_function else None
        return cls.from_predictions(
            line.values,
            dist,
            latent,
            coverage=coverage,
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
        latent: ContinuousDistribution | None = None,
        *,
        coverage: float = 0.9,
        data: tuple[FloatArray, FloatArray] | None = None,
        x_name: str = "x",
        output: int | str | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Compute and draw, from predictive distributions along an input.

        Parameters
        ----------
        x : array-like of shape (m,)
            Values of the input, in any order.
        dist : predictive distribution of shape (m,) or (m, P)
            Of y, noise included.
        latent : predictive distribution of the same shape, default=None
            Of the function.
        coverage : float, default=0.9
            Nominal coverage of the central intervals, in [0, 1].
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
        display : PredictiveBandDisplay

        Raises
        ------
        ValueError
            If an argument has a wrong shape or is out of its range.
        """
        values, order = increasing(x, len(dist))
        if latent is not None and latent.shape != dist.shape:
            raise ValueError(f"latent has shape {latent.shape}, expected {dist.shape} as dist.")
        dist = dist[order]
        latent = None if latent is None else latent[order]
        ends = [*dist.interval(coverage), *(() if latent is None else latent.interval(coverage))]
        chosen = check_output(output, dist)
        parts = [select_output(part, chosen) for part in (dist.mean(), *ends)]
        y_name = output_name(output, dist)
        display = cls(
            values, *parts, coverage=coverage, data=data, x_name=x_name, y_name=y_name, name=name
        )
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        name: str | None = None,
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
        max_points : int, default=1000
            Number of observed rows drawn at most, a fixed random choice.
        **kwargs : dict
            Line style of the mean; the bands have its colour.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `max_points` is out of its range.
        """
        dots = thinned(self.data, max_points)
        ax = self._begin(ax)
        name = self.name if name is None else name
        self.latent_band_ = None
        self.points_ = draw_dots(ax, dots)
        style = merge_style({"label": labelled("mean", name)}, kwargs)
        (self.line_,) = ax.plot(self.x, self.mean, **style)
        color = self.line_.get_color()
        if self.latent_lower is not None and self.latent_upper is not None:
            self.latent_band_ = ax.fill_between(
                self.x,
                self.latent_lower,
                self.latent_upper,
                color=color,
                alpha=0.45,
                linewidth=0.0,
                label=labelled(f"function, {percent(self.coverage)}", name),
            )
        self.band_ = ax.fill_between(
            self.x,
            self.lower,
            self.upper,
            color=color,
            alpha=0.2,
            linewidth=0.0,
            label=labelled(f"function and noise, {percent(self.coverage)}", name),
        )
        ax.set(xlabel=self.x_name, ylabel=self.y_name)
        add_legend(ax, "upper left")
        return self
