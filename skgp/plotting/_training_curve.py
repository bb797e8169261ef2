"""The course of a training."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, final

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError

from skgp.compose._nested import predicts_counts, unwrap
from skgp.plotting._display import Display, add_legend, count_on_x, labelled, merge_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_VALIDATION = "validation: negative log "  # begins the label of the twin


@final
class TrainingCurveDisplay(Display):
    """Training loss after each epoch and, if recorded, the negative log density of held-out rows.

    Lower is better for both. They have an axis each, because they differ by more than the rows: the
    training loss includes the weighted divergence from the prior and is that of the standardised
    target, the validation density is in the units of y. Classes and counts have probabilities
    instead of densities, and no units.

    Parameters
    ----------
    loss : sequence of float
        Training loss of each epoch, nats per row.
    validation_scores : sequence of float, default=None
        Mean log density of the held-out rows after each epoch, nats per row; drawn with the
        opposite sign.
    name : str, default=None
        Label of the model.
    quantity : {"density", "probability"}, default="density"
        What the model predicts of a row; a probability has no unit.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The training loss.
    validation_line_ : matplotlib Line2D or None
        The negative log density of the held-out rows, dashed; None if not recorded.
    validation_ax_ : matplotlib Axes or None
        The twin of `ax_` on the right that it is drawn on; shared by the displays of one `ax_`.
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from skgp.plotting import TrainingCurveDisplay
    >>> display = TrainingCurveDisplay([1.5, 0.9], [-1.2, -1.0]).plot(Figure().subplots())
    >>> display.validation_line_.get_ydata()
    array([1.2, 1. ])
    """

    line_: "Line2D"
    validation_line_: "Line2D | None"
    validation_ax_: "Axes | None"

    def __init__(
        self,
        loss: Sequence[float],
        validation_scores: Sequence[float] | None = None,
        *,
        name: str | None = None,
        quantity: Literal["density", "probability"] = "density",
    ) -> None:
        self.loss = loss
        self.validation_scores = validation_scores
        self.name = name
        self.quantity = quantity

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Draw what a fitted estimator has recorded.

        Parameters
        ----------
        estimator : fitted estimator
            With `loss_curve_` and perhaps `validation_scores_`; searches, pipelines and transformed
            targets are looked through.
        name : str, default=None
            Label of the model; the class of the innermost estimator if None.
        ax : matplotlib Axes, default=None
            Those of a new figure if None.
        **kwargs : dict
            Line style of both curves.

        Returns
        -------
        display : TrainingCurveDisplay

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the innermost estimator has no `loss_curve_`.
        """
        inner = unwrap(estimator).estimator
        kind = type(inner).__name__
        if not hasattr(inner, "loss_curve_"):
            raise NotFittedError(
                f"{kind} has no loss_curve_: it is not fitted yet, or does not record one."
            )
        scores = getattr(inner, "validation_scores_", None)
        is_discrete = is_classifier(inner) or predicts_counts(inner)
        display = cls(
            inner.loss_curve_,
            scores,
            name=kind if name is None else name,
            quantity="probability" if is_discrete else "density",
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax: "Axes | None" = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Those of a new figure if None.
        name : str, default=None
            Label of the model; `self.name` if None.
        **kwargs : dict
            Line style of both curves; that of the validation curve is dashed unless told otherwise.

        Returns
        -------
        self
        """
        ax = self._begin(ax)
        name = self.name if name is None else name
        self.validation_line_ = self.validation_ax_ = None
        # A single point is no line: a model that is best as it begins has one epoch.
        dots = {"marker": "o"} if len(self.loss) == 1 else {}
        style = merge_style({"label": labelled("training", name), **dots}, kwargs)
        (self.line_,) = ax.plot(np.arange(1, len(self.loss) + 1), self.loss, **style)
        count_on_x(ax)
        is_density = self.quantity == "density"
        units = ("nats per row, y standardised", "nats per row, y in its units")
        of_loss, of_scores = units if is_density else ("nats per row", "nats per row")
        ax.set(xlabel="epoch", ylabel=f"training loss\n({of_loss})")
        twin = _find_twin(ax)
        if self.validation_scores is not None:
            if twin is None:
                twin = _make_twin(ax, f"{_VALIDATION}{self.quantity}\n({of_scores})")
            self.validation_ax_ = twin
            label, color = labelled("validation", name), self.line_.get_color()
            dashes = {"label": label, "color": color, "linestyle": "--", **dots}
            style = merge_style(dashes, kwargs)
            epochs = np.arange(1, len(self.validation_scores) + 1)
            nll = -np.asarray(self.validation_scores)
            (self.validation_line_,) = twin.plot(epochs, nll, **style)
        add_legend(ax, "upper right", twin)
        return self


def _find_twin(ax: "Axes") -> "Axes | None":
    """The axes in the same place on which an earlier display has drawn its validation curve."""
    for other in ax.get_shared_x_axes().get_siblings(ax):
        same_place = other.get_position(True).bounds == ax.get_position(True).bounds
        if same_place and other.get_ylabel().startswith(_VALIDATION):
            return other
    return None


def _make_twin(ax: "Axes", label: str) -> "Axes":
    """Axes for validation curves, behind `ax` and its legend."""
    twin = ax.twinx()
    twin.set_ylabel(label)
    twin.set_zorder(ax.get_zorder() - 1)
    twin.patch.set_visible(True)
    ax.patch.set_visible(False)
    return twin
