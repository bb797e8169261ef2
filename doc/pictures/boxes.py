"""Boxes and arrows, for the pictures of how things run."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

PLAIN, DISK, MODEL = "#eceff1", "#f6d8ae", "#a9d3ee"


def canvas(width: float, height: float) -> Axes:
    """Axes in inches, without frame."""
    ax = plt.figure(figsize=(width, height), layout="constrained").subplots()
    ax.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    ax.axis("off")
    return ax


def box(ax: Axes, x: float, y: float, text: str, color: str = PLAIN, width: float = 1.6) -> None:
    """A box around its centre."""
    style = {"boxstyle": "round,pad=0.06", "facecolor": color, "edgecolor": "0.4"}
    ax.add_patch(FancyBboxPatch((x - width / 2, y - 0.3), width, 0.6, **style))
    ax.text(x, y, text, ha="center", va="center", fontsize=9)


def arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    text: str = "",
    style: str = "->",
) -> None:
    """An arrow, and a text above its middle."""
    ax.annotate("", end, start, arrowprops={"arrowstyle": style, "color": "0.3"})
    middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 0.12
    ax.text(*middle, text, ha="center", va="bottom", fontsize=8, color="0.3")
