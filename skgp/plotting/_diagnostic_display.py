"""Displays of one diagnostic number per outcome."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from skgp._typing import FloatArray
from skgp.distributions import ContinuousDistribution
from skgp.plotting._observed import Observed
from skgp.plotting._outcome_display import OutcomeDisplay
from skgp.scoring._calibration import pit_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class DiagnosticDisplay(OutcomeDisplay):
    """Abstract base: all that is drawn follows from the diagnostic of each outcome."""

    @abstractmethod
    def __init__(self, values: FloatArray, *, name: str | None = None) -> None: ...

    @staticmethod
    @abstractmethod
    def _diagnose(y_true: ArrayLike, dist: ContinuousDistribution) -> FloatArray:
        """The diagnostic of each entry, in the shape of `dist`."""

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        dist: ContinuousDistribution,
        *,
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
        display

        Raises
        ------
        ValueError
            If the shapes differ, or `output` is missing or out of range.
        """
        observed = Observed.check(y_true, dist, output)
        return cls(observed.select(cls._diagnose(y_true, dist)), name=name).plot(ax, **kwargs)


class PITBasedDisplay(DiagnosticDisplay):
    """Abstract base: all that is drawn follows from the PIT of each outcome."""

    def __init__(self, pit: FloatArray, *, name: str | None = None) -> None:
        self.pit = pit
        self.name = name

    @staticmethod
    def _diagnose(y_true: ArrayLike, dist: ContinuousDistribution) -> FloatArray:
        return pit_ends(y_true, dist)
