"""Drawings of few distributions by matplotlib."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skgp._typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 10


def begin(ax: "Axes | None", caller: str, n_rows: int) -> "Axes":
    """Axes to draw on, by default those of a new figure.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    ValueError
        If there are too many rows for one picture.
    """
    from sklearn.utils._optional_dependencies import check_matplotlib_support

    check_matplotlib_support(caller)
    if n_rows > _MOST_ROWS:
        raise ValueError(
            f"{n_rows} rows are too many for one picture: choose up to {_MOST_ROWS}, such as "
            "dist[:3].plot(); skgp.plotting has displays of many rows"
        )
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(layout="constrained")
    return ax


def draw_densities(ax: "Axes", edges: FloatArray, density: FloatArray, label: str) -> "Axes":
    """Densities (n, b) in bins between `edges` (b + 1,), a line for each row."""
    for row, values in enumerate(density):
        ax.stairs(values, edges, linewidth=1.5, label=f"row {row}")
    ax.set(xlabel=label, ylabel="density", ylim=(0.0, None))
    return _with_legend(ax, len(density))


def draw_probabilities(ax: "Axes", classes: Sequence[Any], probs: FloatArray) -> "Axes":
    """Probabilities (n, C) of classes, a group of n bars for each class."""
    n_rows, n_classes = probs.shape
    width = 0.8 / max(n_rows, 1)
    for row, values in enumerate(probs):
        places = np.arange(n_classes) + width * (row - 0.5 * (n_rows - 1))
        ax.bar(places, values, width, label=f"row {row}")
    ax.set_xticks(range(n_classes), [str(label) for label in classes])
    ax.set(ylabel="probability", ylim=(0.0, 1.0))
    return _with_legend(ax, n_rows)


def _with_legend(ax: "Axes", n_rows: int) -> "Axes":
    if n_rows > 1:
        ax.legend(fontsize="small")
    return ax
