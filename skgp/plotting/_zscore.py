"""The distribution of z-scores."""

from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from skgp._typing import FloatArray
from skgp.distributions import ContinuousDistribution
from skgp.plotting._diagnostic_display import DiagnosticDisplay
from skgp.plotting._display import has_label, merge_style
from skgp.scoring import zscores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_IDEAL = "standard normal"
_RANGE = 4.0  # of the horizontal axis, in standard deviations to either side


@final
class ZScoreDisplay(DiagnosticDisplay):
    """Empirical cdf of the z-scores (y - mean) / std against the standard normal cdf.

    If the curve is steeper than the normal one, the predictive standard deviations are too large;
    if it is flatter, they are too small; if it lies to the right, the means are too low. The axis
    ends at 4 standard deviations: a curve that does not reach 0 and 1 there has outliers beyond.

    Parameters
    ----------
    z : ndarray of shape (m,)
        z-scores of one output; without unit.
    name : str, default=None
        Label of the model.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The empirical cdf, a step function.
    ideal_ : matplotlib Line2D or None
        The standard normal cdf; None if it was on the axes already, or is not wanted.
    ax_, figure_ : matplotlib Axes and Figure

    Notes
    -----
    Figure 5 of [1]_. The reference is right for normal predictive distributions; for others use
    :class:`PITDisplay`.

    References
    ----------
    .. [1] M. Jankowiak, G. Pleiss and J. R. Gardner, "Parametric Gaussian process regressors",
       ICML 2020.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.plotting import ZScoreDisplay
    >>> dist = NormalMixture.normal([0.0, 0.0], [1.0, 2.0])
    >>> display = ZScoreDisplay.from_predictions([1.0, -1.0], dist, ax=Figure().subplots())
    >>> display.z
    array([ 1. , -0.5])
    """

    line_: "Line2D"
    ideal_: "Line2D | None"

    def __init__(self, z: FloatArray, *, name: str | None = None) -> None:
        self.z = z
        self.name = name

    @staticmethod
    def _diagnose(y_true: ArrayLike, dist: ContinuousDistribution) -> FloatArray:
        return zscores(y_true, dist)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        name: str | None = None,
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
        ref_line : bool, default=True
            Whether to draw the standard normal cdf, once per axes.
        **kwargs : dict
            Line style of the empirical cdf.

        Returns
        -------
        self
        """
        ax = self._begin(ax)
        self.ideal_ = None
        if ref_line and not has_label(ax, _IDEAL):
            grid = np.linspace(-_RANGE, _RANGE, 201)
            (self.ideal_,) = ax.plot(grid, ndtr(grid), "k:", label=_IDEAL)
        label = self.name if name is None else name
        self.line_ = ax.ecdf(self.z, **merge_style({"label": label}, kwargs))
        ax.set(
            xlim=(-_RANGE, _RANGE),
            ylim=(-0.02, 1.02),
            xlabel="z-score: (y - mean) / standard deviation",
            ylabel="share of outcomes up to z",
        )
        ax.legend(loc="upper left", fontsize="small")
        return self
