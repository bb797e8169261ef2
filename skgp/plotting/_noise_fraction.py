"""The share of observation noise in the predictive variance."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from skgp._typing import FloatArray
from skgp.compose import predict_dist
from skgp.distributions import MonotoneTransformed
from skgp.plotting._display import Display, function_dist, merge_style
from skgp.plotting._observed import check_output, select_output
from skgp.scoring import noise_fraction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

_WIDE, _NARROW = (0.05, 0.95), (0.25, 0.75)


@final
class NoiseFractionDisplay(Display):
    """Share of the predictive variance that is observation noise, for each of several models.

    A dot is the mean over rows, the thick line the middle half of the rows, the thin line the
    middle 90 %. A model near 1 hardly uses the uncertainty of its function; a model whose share
    varies describes noise that depends on the inputs. With transformed targets, such as logarithms,
    it is the share on their scale.

    Parameters
    ----------
    fractions : mapping from str to array-like of shape (n,) or float
        Shares of each model, by its name: one per row, or the mean alone. Without unit, in [0, 1].
    name : str, default=None
        Label of the dots, to tell displays on the same axes apart.

    Attributes
    ----------
    means_ : matplotlib Line2D
        The mean share of each model.
    middle_half_, middle_90_ : matplotlib LineCollection
        Lines between quantiles, one per model; of length 0 for a mean alone.
    ax_, figure_ : matplotlib Axes and Figure

    Raises
    ------
    ValueError
        In `plot`, if a share is not in [0, 1].

    See Also
    --------
    skgp.scoring.noise_fraction : Shares of one model.

    Notes
    -----
    Figure 4 of [1]_ shows the means.

    References
    ----------
    .. [1] M. Jankowiak, G. Pleiss and J. R. Gardner, "Parametric Gaussian process regressors",
       ICML 2020.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from skgp.plotting import NoiseFractionDisplay
    >>> display = NoiseFractionDisplay({"SVGP": [0.9, 0.7], "PPGPR": 0.25})
    >>> display.plot(Figure().subplots()).means_.get_xdata()
    array([0.8 , 0.25])
    """

    means_: "Line2D"
    middle_half_: "LineCollection"
    middle_90_: "LineCollection"

    def __init__(
        self, fractions: Mapping[str, ArrayLike | float], *, name: str | None = None
    ) -> None:
        self.fractions = fractions
        self.name = name

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, Any],
        X: Any,
        *,
        output: int | str | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Compute and draw, from fitted estimators.

        Parameters
        ----------
        estimators : mapping from str to fitted estimator
            Their innermost estimators have `predict_dist` and `predict_latent`; searches, pipelines
            and transformed targets are looked through.
        X : array-like of shape (n, D)
        output : int or str, default=None
            Which of several outputs, by its number or its name; needed if there are several.
        name : str, default=None
            Label of the dots.
        ax : matplotlib Axes, default=None
            Those of a new figure if None.
        **kwargs : dict
            Line style of the dots.

        Returns
        -------
        display : NoiseFractionDisplay

        Raises
        ------
        TypeError
            If `estimators` is no mapping, or one of them lacks the distribution of y or of its
            function.
        sklearn.exceptions.NotFittedError
            If one of them is not fitted.
        ValueError
            If `output` is missing or out of range.
        """
        if not isinstance(estimators, Mapping):
            raise TypeError(
                "estimators must be a mapping from names to fitted estimators, got "
                f"{type(estimators).__name__}: pass {{'name': estimator}}."
            )
        fractions = {key: _fractions(each, X, output) for key, each in estimators.items()}
        return cls(fractions, name=name).plot(ax, **kwargs)

    def plot(self, ax: "Axes | None" = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Those of a new figure if None.
        name : str, default=None
            Label of the dots; `self.name` if None.
        **kwargs : dict
            Line style of the dots; the lines have their colour.

        Returns
        -------
        self
        """
        shares = {key: np.atleast_1d(values) for key, values in self.fractions.items()}
        for key, values in shares.items():
            if not ((values >= 0.0) & (values <= 1.0)).all():
                raise ValueError(f"The fractions of {key!r} must lie between 0 and 1.")
        methods = list(shares)
        ax = self._begin(ax, figsize=(6.4, 1.0 + 0.6 * len(methods)))
        label = self.name if name is None else name
        style = merge_style({"linestyle": "none", "marker": "o", "label": label}, kwargs)
        means = [values.mean() for values in shares.values()]
        (self.means_,) = ax.plot(means, methods, **style)

        def lines(levels: tuple[float, float], linewidth: float) -> "LineCollection":
            low, high = np.transpose([np.quantile(values, levels) for values in shares.values()])
            color = self.means_.get_color()
            return ax.hlines(methods, low, high, colors=color, linewidth=linewidth, alpha=0.6)

        self.middle_90_ = lines(_WIDE, 1.2)
        self.middle_half_ = lines(_NARROW, 5.0)
        ax.set(xlim=(-0.02, 1.02), xlabel="share of the predictive variance that is noise")
        ax.margins(y=0.5 / len(methods))
        ax.yaxis.set_inverted(True)
        if label is not None:
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return self


def _fractions(estimator: Any, X: Any, output: int | str | None) -> FloatArray:
    dist = predict_dist(estimator, X)
    function = function_dist(estimator, X, dist)
    if isinstance(dist, MonotoneTransformed) and isinstance(function, MonotoneTransformed):
        # The image of the function is not the mean of y given it.
        dist, function = dist.base, function.base
    noise = dist.var() - function.var()
    # Without noise the difference is zero up to rounding of either sign.
    return select_output(noise_fraction(dist, np.maximum(noise, 0.0)), check_output(output, dist))
