"""The histogram of the probability integral transform."""

from numbers import Integral
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from skgp.plotting._diagnostic_display import PITBasedDisplay
from skgp.plotting._display import add_legend, has_label, merge_style
from skgp.plotting._observed import observed_shares
from skgp.plotting._sampling_band import band_label, share_band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle, StepPatch

_IDEAL = "calibrated"


@final
class PITDisplay(PITBasedDisplay):
    """Histogram of the probability integral transform (PIT), flat for a calibrated model.

    The PIT of a row is its predictive cdf at the outcome. At a count the cdf jumps, and the row is
    spread evenly over the jump ([1]_, equation 2), which makes bars vary less. A hump in the
    middle shows intervals that are too wide, a U shape ones that are too narrow, a slope
    predictions that are too low or too high. The band holds a bar of a calibrated model with the
    probability `band_level`; each bar by itself, so with ten bars at 95 % one outside is no
    surprise.

    Parameters
    ----------
    pit : ndarray of shape (m,) or (m, 2)
        PIT values of one output, in [0, 1]; of counts the cdf below and at each outcome.
    name : str, default=None
        Label of the model.

    Attributes
    ----------
    bars_ : matplotlib StepPatch
        The histogram, as a density.
    ideal_ : matplotlib Line2D or None
        The flat line at 1; None if it was on the axes already, or is not wanted.
    band_ : matplotlib Rectangle or None
        The band of sampling variation: binomial quantiles for m outcomes; None as `ideal_`.
    ax_, figure_ : matplotlib Axes and Figure

    References
    ----------
    .. [1] C. Czado, T. Gneiting and L. Held, "Predictive model assessment for count data",
       Biometrics 65 (2009) 1254-1261.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.plotting import PITDisplay
    >>> dist = NormalMixture.normal([0.0, 0.0], [1.0, 2.0])
    >>> display = PITDisplay.from_predictions([0.0, -3.0], dist, ax=Figure().subplots())
    >>> display.pit.round(4)
    array([0.5   , 0.0668])
    """

    bars_: "StepPatch"
    ideal_: "Line2D | None"
    band_: "Rectangle | None"

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        name: str | None = None,
        n_bins: int | None = None,
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
        n_bins : int, default=None
            Number of bars; None makes 10 of them, fewer for less than 50 outcomes.
        band_level : float, default=0.95
            Probability of the band of sampling variation, in (0, 1).
        ref_line : bool, default=True
            Whether to draw line and band, once per axes; the band again if the number of outcomes
            is another one.
        **kwargs : dict
            Patch style of the histogram.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `n_bins` or `band_level` is out of its range.
        """
        n_rows = len(self.pit)
        n_bins = min(10, max(2, n_rows // 5)) if n_bins is None else n_bins
        if not isinstance(n_bins, Integral) or n_bins < 1:
            raise ValueError(f"n_bins must be an integer of at least 1, got {n_bins}.")
        ax = self._begin(ax)
        self.ideal_ = self.band_ = None
        band = band_label(band_level, n_rows)
        if ref_line and not has_label(ax, band):
            low, high = n_bins * share_band(1.0 / n_bins, n_rows, band_level)
            self.band_ = ax.axhspan(low, high, color="0.85", zorder=0, label=band)
        if ref_line and not has_label(ax, _IDEAL):
            self.ideal_ = ax.axhline(1.0, color="k", linestyle=":", label=_IDEAL)
        edges = np.linspace(0.0, 1.0, n_bins + 1)
        shares = np.diff(observed_shares(self.pit, edges[1:-1]), prepend=0.0, append=1.0)
        label = self.name if name is None else name
        style = merge_style({"label": label, "linewidth": 1.8}, kwargs)
        self.bars_ = ax.stairs(shares * n_bins, edges, **style)
        ax.set(xlim=(0.0, 1.0), xlabel="probability integral transform", ylabel="density")
        add_legend(ax, "upper center")
        ax.set_ylim(bottom=0.0, auto=None)
        return self
