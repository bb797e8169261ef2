"""Models compared across data sets."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from skgp._typing import FloatArray
from skgp.plotting._display import COLORS, Display, merge_style

if TYPE_CHECKING:
    from matplotlib.container import ErrorbarContainer

_KEYS = ("dataset", "method", "split")
_PANEL_COLUMNS = 4


@final
class ModelComparisonDisplay(Display):
    """Score of each method on each data set, with standard errors over splits.

    A small panel per data set, since scores of different data sets have no common scale. The bars
    are one standard error to either side; they tell how well the mean over splits is known, and as
    all methods see the same splits, differences between methods are often known better.

    Parameters
    ----------
    datasets : sequence of str of length S
    methods : sequence of str of length K
    mean : ndarray of shape (S, K)
        Mean of the metric over splits; NaN for a method without a result.
    std_err : ndarray of shape (S, K)
        Its standard error; NaN, which draws no bar, if there is one split only.
    metric : str
        Name of the metric, with its unit.
    name : str, default=None
        Label of the points, to tell displays on the same panels apart.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (S,)
        The panels.
    errorbars_ : list of matplotlib ErrorbarContainer of length S
        The points and bars of each panel.
    ax_, figure_ : matplotlib Axes and Figure
        The axes whose place the panels take.

    Notes
    -----
    Figures 2 and 3 of [1]_.

    References
    ----------
    .. [1] M. Jankowiak, G. Pleiss and J. R. Gardner, "Parametric Gaussian process regressors",
       ICML 2020.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from skgp.plotting import ModelComparisonDisplay
    >>> results = [
    ...     {"dataset": "pol", "method": "SVGP", "split": 0, "nll": 1.0},
    ...     {"dataset": "pol", "method": "SVGP", "split": 1, "nll": 2.0},
    ...     {"dataset": "pol", "method": "PPGPR", "split": 0, "nll": 0.5},
    ... ]
    >>> ax = Figure().subplots()
    >>> display = ModelComparisonDisplay.from_results(results, metric="nll", ax=ax)
    >>> display.mean, display.std_err
    (array([[1.5, 0.5]]), array([[0.5, nan]]))
    """

    axes_: "np.ndarray[Any, Any]"
    errorbars_: "list[ErrorbarContainer]"

    def __init__(
        self,
        datasets: Sequence[str],
        methods: Sequence[str],
        mean: FloatArray,
        std_err: FloatArray,
        *,
        metric: str,
        name: str | None = None,
    ) -> None:
        self.datasets = datasets
        self.methods = methods
        self.mean = mean
        self.std_err = std_err
        self.metric = metric
        self.name = name

    @classmethod
    def from_results(
        cls,
        results: Any,
        *,
        metric: str,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Average over splits and draw.

        Parameters
        ----------
        results : iterable of dict, or pandas or polars DataFrame
            One record per data set, method and split with the keys or columns "dataset", "method",
            "split" and that of the metric. Data sets and methods are drawn in the order of their
            first appearance.
        metric : str
            Key of the metric, and its label.
        name : str, default=None
            Label of the points.
        ax : matplotlib Axes or array of Axes, default=None
            As in `plot`.
        **kwargs : dict
            Further arguments of `plot`.

        Returns
        -------
        display : ModelComparisonDisplay

        Raises
        ------
        TypeError
            If `results` holds something else than dicts.
        ValueError
            If there are no results, a key is missing, a value is not finite, or a data set, method
            and split occur twice.
        """
        scores = _collect(results, metric)
        datasets = list(dict.fromkeys(dataset for dataset, _ in scores))
        methods = list(dict.fromkeys(method for _, method in scores))
        mean = np.full((len(datasets), len(methods)), np.nan)
        std_err = mean.copy()
        for (dataset, method), by_split in scores.items():
            cell, values = (datasets.index(dataset), methods.index(method)), [*by_split.values()]
            mean[cell] = np.mean(values)
            if len(values) > 1:
                std_err[cell] = np.std(values, ddof=1) / np.sqrt(len(values))
        return cls(datasets, methods, mean, std_err, metric=metric, name=name).plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        metric: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or array of Axes, default=None
            Axes whose place the panels take; or the panels themselves, one per data set, such as
            `axes_` of another display, whose titles then say which is whose; or None for those of
            a new figure.
        name : str, default=None
            Label of the points; `self.name` if None.
        metric : str, default=None
            Label of the horizontal axes; `self.metric` if None.
        **kwargs : dict
            Line style of points and bars.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `ax` is an array of another number of axes than there are data sets, or with titles
            of some of them alone, or is to be divided but does not come from subplots or
            add_subplot.
        """
        self.axes_ = self._panels(ax)
        label = self.name if name is None else name
        style = merge_style({"linestyle": "none", "marker": "o", "label": label}, kwargs)
        self.errorbars_ = []
        for panel, dataset, mean, bar in zip(
            self.axes_, self.datasets, self.mean, self.std_err, strict=True
        ):
            self.errorbars_.append(panel.errorbar(mean, self.methods, xerr=bar, **style))
            panel.set(title=dataset, xlabel=self.metric if metric is None else metric)
            panel.margins(x=0.1)
            # Every method has its place in every panel, with a result or without.
            panel.set_ylim(max(panel.get_yticks()) + 0.5, -0.5)
            panel.grid(axis="y", color="0.9")
        if label is not None:
            self.axes_[min(len(self.axes_), _PANEL_COLUMNS) - 1].legend(
                loc="center left", bbox_to_anchor=(1.0, 0.5)
            )
        return self

    def _panels(self, ax: Any) -> "np.ndarray[Any, Any]":
        """One axes per data set, in an array."""
        n_panels = len(self.datasets)
        if np.ndim(ax) > 0:
            panels = np.ravel(ax)
            if len(panels) != n_panels:
                raise ValueError(
                    f"ax holds {len(panels)} axes for {n_panels} data sets: pass one for each, or "
                    "a single one to divide."
                )
            self._begin(panels[0])
            return self._by_title(panels)
        n_columns = min(n_panels, _PANEL_COLUMNS)
        n_rows = -(-n_panels // n_columns)
        size = (1.2 + 2.2 * n_columns, n_rows * (1.1 + 0.25 * len(self.methods)))
        frame = self._begin(ax, figsize=size)
        if n_panels == 1:
            return self._by_title(np.array([frame]))
        place = frame.get_subplotspec()
        if place is None:
            raise ValueError("ax must come from subplots or add_subplot to be divided.")
        frame.set_axis_off()
        grid = place.subgridspec(n_rows, n_columns)
        panels = np.array([self.figure_.add_subplot(grid[i]) for i in range(n_panels)])
        for i, panel in enumerate(panels):
            if ax is None:
                panel.set_prop_cycle(color=COLORS)
            panel.tick_params(labelleft=i % n_columns == 0)
        return panels

    def _by_title(self, panels: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """Panels in the order of the data sets, if these are their titles.

        Panels of other data sets are refused. A title without points may be replaced.
        """
        by_title = {panel.get_title(): panel for panel in panels}
        found = [dataset for dataset in self.datasets if dataset in by_title]
        if not found and not any(title and panel.has_data() for title, panel in by_title.items()):
            return panels
        if len(found) < len(panels):
            raise ValueError(f"ax has the titles {[*by_title]}, the data sets are {self.datasets}.")
        return np.array([by_title[dataset] for dataset in self.datasets])


def _collect(results: Any, metric: str) -> dict[tuple[str, str], dict[Any, float]]:
    """Values of the metric by data set and method, and then by split."""
    if hasattr(results, "to_dicts"):
        records = results.to_dicts()
    else:
        records = results.to_dict("records") if hasattr(results, "to_dict") else results
    scores: dict[tuple[str, str], dict[Any, float]] = {}
    for number, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise TypeError(
                "results must be a list of dicts or a DataFrame: its items are of type "
                f"{type(record).__name__}."
            )
        missing = [key for key in (*_KEYS, metric) if key not in record]
        if missing:
            raise ValueError(f"results[{number}] lacks {missing}; it has {sorted(record)}.")
        dataset, method, split = (record[key] for key in _KEYS)
        value, where = float(record[metric]), f"{dataset=}, {method=}, {split=}"
        if not np.isfinite(value):
            raise ValueError(f"{metric} is {value} for {where}: leave failed runs out.")
        by_split = scores.setdefault((str(dataset), str(method)), {})
        if split in by_split:
            raise ValueError(f"results has several records for {where}: keep one.")
        by_split[split] = value
    if not scores:
        raise ValueError("results is empty: there is nothing to compare.")
    return scores
