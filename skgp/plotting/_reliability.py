"""The reliability diagram of intervals and quantiles."""

from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from skgp.plotting._diagnostic_display import PITBasedDisplay
from skgp.plotting._display import has_label, merge_style
from skgp.plotting._observed import observed_shares
from skgp.plotting._sampling_band import band_label, share_band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.lines import Line2D

_IDEAL = "calibrated"
_AXIS_LABELS = {
    "interval": ("nominal coverage of the central interval", "observed coverage"),
    "quantile": ("nominal level of the quantile", "share of outcomes up to the quantile"),
}


@final
class ReliabilityDisplay(PITBasedDisplay):
    """Observed against nominal coverage of central intervals, or levels of quantiles.

    For intervals, a curve below the diagonal shows too narrow predictive distributions, above it
    too wide ones. For quantiles ([1]_, section 3.5), a curve off the diagonal in one direction
    shows a bias. The band holds each point of a calibrated model with the probability `band_level`;
    the points depend on each other, so a curve may leave it over a longer stretch by chance. At a
    count the predictive cdf jumps; the outcome is spread evenly over the jump ([2]_, equation 2),
    and so lies in part within an interval or below a quantile.

    Parameters
    ----------
    pit : ndarray of shape (m,) or (m, 2)
        Probability integral transform of one output, in [0, 1], which decides in which intervals
        and below which quantiles an outcome lies; of counts the cdf below and at each outcome.
    name : str, default=None
        Label of the model.

    Attributes
    ----------
    line_ : matplotlib Line2D
        Nominal and observed shares.
    ideal_ : matplotlib Line2D or None
        The diagonal; None if it was on the axes already, or is not wanted.
    band_ : matplotlib FillBetweenPolyCollection or None
        The band of sampling variation: binomial quantiles for m outcomes; None as `ideal_`.
    ax_, figure_ : matplotlib Axes and Figure

    References
    ----------
    .. [1] V. Kuleshov, N. Fenner and S. Ermon, "Accurate uncertainties for deep learning using
       calibrated regression", ICML 2018.
    .. [2] C. Czado, T. Gneiting and L. Held, "Predictive model assessment for count data",
       Biometrics 65 (2009) 1254-1261.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.plotting import ReliabilityDisplay
    >>> dist = NormalMixture.normal([0.0] * 4, [1.0] * 4)
    >>> y, ax = [0.0, 0.5, 1.0, -3.0], Figure().subplots()
    >>> display = ReliabilityDisplay.from_predictions(y, dist, ax=ax, n_levels=3)
    >>> display.line_.get_xydata()
    array([[0.25, 0.25],
           [0.5 , 0.5 ],
           [0.75, 0.75]])
    """

    line_: "Line2D"
    ideal_: "Line2D | None"
    band_: "FillBetweenPolyCollection | None"

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        name: str | None = None,
        kind: str = "interval",
        n_levels: int = 19,
        band_level: float = 0.95,
        ref_line: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Those of a new figure if None.
        name : str, default=None
            Label of the model; `self.name` if None.
        kind : {"interval", "quantile"}, default="interval"
            Central intervals, or quantiles.
        n_levels : int, default=19
            Number of equally spaced nominal levels, at least 1; 19 are the multiples of 5 %.
        band_level : float, default=0.95
            Probability of the band of sampling variation, in (0, 1).
        ref_line : bool, default=True
            Whether to draw diagonal and band, once per axes; the band again if the number of
            outcomes is another one.
        **kwargs : dict
            Line style of the curve.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `kind`, `n_levels` or `band_level` is out of its range.
        """
        if kind not in _AXIS_LABELS:
            raise ValueError(f"kind must be 'interval' or 'quantile', got {kind!r}.")
        if n_levels < 1:
            raise ValueError(f"n_levels must be at least 1, got {n_levels}.")
        ax = self._begin(ax)
        n_rows = len(self.pit)
        self.ideal_ = self.band_ = None
        band = band_label(band_level, n_rows)
        if ref_line and not has_label(ax, band):
            grid = np.linspace(0.0, 1.0, 201)
            low, high = share_band(grid, n_rows, band_level)
            self.band_ = ax.fill_between(
                grid, low, high, color="0.85", linewidth=0.0, zorder=0, label=band
            )
        if ref_line and not has_label(ax, _IDEAL):
            (self.ideal_,) = ax.plot([0.0, 1.0], [0.0, 1.0], "k:", label=_IDEAL)
        nominal = np.arange(1, n_levels + 1) / (n_levels + 1)
        observed = observed_shares(self.pit, nominal)
        if kind == "interval":  # between the quantiles (1 - c) / 2 and (1 + c) / 2
            low, high = 0.5 * (1.0 - nominal), 0.5 * (1.0 + nominal)
            observed = observed_shares(self.pit, high) - observed_shares(self.pit, low)
        label = self.name if name is None else name
        style = merge_style({"label": label, "marker": "o", "markersize": 3.5}, kwargs)
        (self.line_,) = ax.plot(nominal, observed, **style)
        xlabel, ylabel = _AXIS_LABELS[kind]
        ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal", xlabel=xlabel, ylabel=ylabel)
        ax.legend(fontsize="small")
        return self
