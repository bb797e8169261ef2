"""Observed rows along one input, drawn as dots."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skgp._typing import FloatArray
from skgp.plotting._display import has_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


class Dots(NamedTuple):
    """Points (k, 2), and what the legend calls them."""

    points: FloatArray
    label: str


def thinned(data: tuple[FloatArray, FloatArray] | None, max_points: int) -> Dots | None:
    """Of the rows whose input and outcome are finite all, or some if there are many.

    Raises
    ------
    ValueError
        If `max_points` is out of its range.
    """
    if max_points < 1:
        raise ValueError(f"max_points must be at least 1, got {max_points}.")
    if data is None:
        return None
    points = np.column_stack(data)
    points = points[np.isfinite(points).all(axis=1)]
    n_rows = len(points)
    if n_rows <= max_points:
        return Dots(points, "observed")
    # Not every k-th row, which would draw lines across points on a grid.
    points = points[np.random.default_rng(0).choice(n_rows, max_points, replace=False)]
    return Dots(points, f"observed ({max_points:,} of {n_rows:,} drawn)")


def draw_dots(ax: "Axes", dots: Dots | None) -> "Line2D | None":
    """Dots, lightly if there are many: they would hide what is predicted."""
    if dots is None:
        return None
    (line,) = ax.plot(
        *dots.points.T,
        ".",
        color="0.3",
        markersize=3,
        alpha=np.clip(150 / max(len(dots.points), 1), 0.15, 1.0),
        label=None if has_label(ax, dots.label) else dots.label,
    )
    return line
