"""What all displays share: a name, axes, colours and labels."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from sklearn.utils._optional_dependencies import check_matplotlib_support

from skgp.compose import predict_latent
from skgp.compose._nested import unwrap
from skgp.distributions import ContinuousDistribution, CountMixture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Okabe and Ito, "Color universal design", 2008: told apart with every kind of colour vision.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_ENTRY = 0.075  # height of an entry of a legend, in that of the data below it


class Display(ABC):
    """Abstract base of the displays.

    Attributes
    ----------
    name : str or None
        What the legend calls the model.
    ax_, figure_ : matplotlib Axes and Figure
        Where `plot` has drawn.
    """

    name: str | None
    ax_: "Axes"
    figure_: "Figure | SubFigure"

    @abstractmethod
    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw, by default on the axes of a new figure."""

    def _begin(self, ax: "Axes | None", **figure_options: Any) -> "Axes":
        """Axes to draw on; those of a new figure get colours that everyone can tell apart."""
        caller = f"{type(self).__name__}.plot"
        try:
            check_matplotlib_support(caller)
        except ImportError as error:
            raise ImportError(
                f"{caller} requires matplotlib: install it with `pip install skgp[plot]`."
            ) from error
        if ax is not None and not hasattr(ax, "figure"):
            raise TypeError(
                f"ax must be matplotlib Axes, got {type(ax).__name__}: choose one of several, ax[0]"
            )
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(layout="constrained", **figure_options)
            ax.set_prop_cycle(color=COLORS)
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def function_dist(estimator: Any, X: Any, dist: Any) -> ContinuousDistribution:
    """Distribution of the mean of y given the function, in the units of y, beside that of y."""
    latent: ContinuousDistribution
    latent = dist.rate() if isinstance(dist, CountMixture) else predict_latent(estimator, X)
    return latent


def estimator_name(estimator: Any) -> str:
    """Class of the innermost estimator, which tells more than that of a pipeline or a search."""
    return type(unwrap(estimator).estimator).__name__


def merge_style(defaults: Mapping[str, Any], style: Mapping[str, Any]) -> dict[str, Any]:
    """The user's line style, which may abbreviate (lw for linewidth), over the default one."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return {**defaults, **normalize_kwargs(dict(style), Line2D)}


def has_label(ax: "Axes", label: str) -> bool:
    """Whether an artist on the axes has this label, so that references are drawn once."""
    return label in ax.get_legend_handles_labels()[1]


def count_on_x(ax: "Axes") -> None:
    """No ticks between whole numbers on the horizontal axis."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))


def add_legend(
    ax: "Axes",
    loc: Literal["upper left", "upper center", "upper right"],
    twin: "Axes | None" = None,
) -> None:
    """A legend of what is on the axes and their twin, with room for it above the data.

    Limits that the user has set stay.
    """
    layers = [ax] if twin is None else [ax, twin]
    handles = [handle for layer in layers for handle in layer.get_legend_handles_labels()[0]]
    for layer in layers:
        if layer.get_autoscaley_on():
            layer.autoscale(axis="y")
            low, high = layer.get_ylim()
            layer.set_ylim(low, high + _ENTRY * len(handles) * (high - low), auto=None)
    ax.legend(handles=handles, loc=loc, fontsize="small")


def percent(share: float) -> str:
    """A share in per cent, with as many digits as it has."""
    return f"{100.0 * share:g}%"


def labelled(what: str, name: str | None) -> str:
    """Label of a part of the display of a model that may have a name."""
    return what if name is None else f"{name}: {what}"
