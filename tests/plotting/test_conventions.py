"""What scikit-learn's displays have in common, over all displays of skgp.plotting."""

import builtins
import inspect
import subprocess
import sys
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import skgp.plotting
from skgp.plotting import (
    ConditionalDensityDisplay,
    IntervalDisplay,
    ModelComparisonDisplay,
    NoiseFractionDisplay,
    PITDisplay,
    PredictiveBandDisplay,
    ReliabilityDisplay,
    RowDensityDisplay,
    TrainingCurveDisplay,
    ZScoreDisplay,
)

ONE = np.array([0.1, 0.4, 0.8])
TWO = np.array([[1.0, 2.0], [3.0, 4.0]])
# The arguments of each constructor: what is given is what is stored.
ARGUMENTS: dict[type, dict[str, Any]] = {
    ZScoreDisplay: {"z": ONE},
    PITDisplay: {"pit": ONE},
    ReliabilityDisplay: {"pit": ONE},
    IntervalDisplay: {
        "y_true": ONE, "mean": ONE, "lower": ONE - 1, "upper": ONE + 1,
        "coverage": 0.9, "y_name": "delay",
    },
    PredictiveBandDisplay: {
        "x": ONE, "mean": ONE, "lower": ONE - 2, "upper": ONE + 2,
        "latent_lower": ONE - 1, "latent_upper": ONE + 1,
        "coverage": 0.9, "data": (ONE, ONE), "x_name": "speed", "y_name": "delay",
    },
    ConditionalDensityDisplay: {
        "x": ONE, "y": TWO[:, 0], "density": np.array([ONE, ONE[::-1]]), "mean": ONE,
        "data": (ONE, ONE), "x_name": "speed", "y_name": "delay", "quantity": "probability",
    },
    RowDensityDisplay: {
        "rows": np.array([0, 5]), "y": ONE, "density": np.array([ONE, ONE[::-1]]),
        "observed": TWO[:, 0], "y_name": "delay", "quantity": "probability",
    },
    NoiseFractionDisplay: {"fractions": {"SVGP": ONE, "PPGPR": 0.2}},
    TrainingCurveDisplay: {
        "loss": [2.0, 1.0], "validation_scores": [-3.0, -2.0], "quantity": "probability",
    },
    ModelComparisonDisplay: {
        "datasets": ["a", "b"], "methods": ["SVGP", "PPGPR"], "mean": TWO, "std_err": TWO / 10,
        "metric": "NLL",
    },
}  # fmt: skip

every_display = pytest.mark.parametrize("cls", ARGUMENTS, ids=lambda cls: cls.__name__)


def make(cls: type, **overrides: Any) -> Any:
    return cls(**{**ARGUMENTS[cls], "name": "model", **overrides})


def texts(display: Any) -> list[str]:
    """What the legends of a display say."""
    axes = getattr(display, "axes_", [display.ax_])
    legends = [ax.get_legend() for ax in axes if ax.get_legend()]
    return [text.get_text() for legend in legends for text in legend.get_texts()]


def test_every_display_is_covered() -> None:
    assert {cls.__name__ for cls in ARGUMENTS} == set(skgp.plotting.__all__)


@every_display
def test_constructor_stores_and_does_nothing_else(cls: type) -> None:
    display = make(cls)
    assert set(ARGUMENTS[cls]) | {"name"} == set(inspect.signature(cls).parameters)
    assert vars(display).keys() == ARGUMENTS[cls].keys() | {"name"}
    assert all(getattr(display, key) is value for key, value in ARGUMENTS[cls].items())


@every_display
def test_plot_returns_self_and_draws_on_the_given_axes(cls: type, ax: Axes) -> None:
    display = make(cls)
    assert display.plot(ax) is display
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    artists = [value for value in vars(display).values() if isinstance(value, Artist)]
    assert all(artist.figure is ax.figure for artist in artists)
    assert plt.get_fignums() == []  # no figure behind the user's back
    ax.figure.draw_without_rendering()


@every_display
def test_plot_without_axes_makes_a_figure_with_colors_for_everyone(cls: type) -> None:
    settings = dict(matplotlib.rcParams)
    display = make(cls).plot()
    assert display.figure_ is plt.gcf()
    first, second = make(cls).plot(), make(cls).plot()
    assert first.ax_ is not second.ax_
    assert dict(matplotlib.rcParams) == settings
    axes = getattr(display, "axes_", [display.ax_])
    drawn = {line.get_color() for ax in axes for line in ax.get_lines()}
    drawn |= {matplotlib.colors.to_hex(p.get_edgecolor()) for p in axes[0].patches}
    assert "#0072b2" in {str(color).lower() for color in drawn}


@every_display
def test_displays_share_axes(cls: type, ax: Axes) -> None:
    first = make(cls, name="one").plot(ax)
    second = make(cls, name="two").plot(getattr(first, "axes_", ax))
    said = texts(second)
    assert len(said) == len(set(said))  # references are named once
    assert any(text.startswith("one") for text in said)
    assert any(text.startswith("two") for text in said)
    first.figure_.draw_without_rendering()


@every_display
def test_name_of_plot_goes_before_that_of_the_display(cls: type, ax: Axes) -> None:
    said = texts(make(cls).plot(ax, name="other"))
    assert any("other" in text for text in said)
    assert not any("model" in text for text in said)


@every_display
def test_style_reaches_the_main_artist(cls: type, ax: Axes) -> None:
    display = make(cls).plot(ax, color="red", linewidth=3)
    axes = getattr(display, "axes_", [ax])
    artists = [*axes[0].get_lines(), *axes[0].patches]
    widths = [artist.get_linewidth() for artist in artists if artist_color(artist) == "#ff0000"]
    assert 3 in widths


def artist_color(artist: Any) -> str:
    color = artist.get_color() if hasattr(artist, "get_color") else artist.get_edgecolor()
    return matplotlib.colors.to_hex(color)


@every_display
def test_missing_matplotlib_is_named_with_the_remedy(
    cls: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_import = builtins.__import__

    def without_matplotlib(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    display = make(cls)
    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(ImportError, match=rf"{cls.__name__}\.plot .* `pip install skgp\[plot\]`"):
        display.plot()


def test_import_and_constructors_leave_matplotlib_alone() -> None:
    code = (
        "import sys, skgp.plotting as p; p.ZScoreDisplay([0.0]);"
        "sys.exit(int('matplotlib' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_axes_of_a_subfigure_are_good_enough() -> None:
    subfigure = Figure().subfigures(1, 2)[0]
    display = make(ZScoreDisplay).plot(subfigure.subplots())
    assert display.figure_ is subfigure
