"""The numbers behind the heat map of predictive densities along one input."""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from scipy import integrate, stats
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError

from skgp import PPGPRRegressor
from skgp.datasets import bimodal_distribution, make_bimodal
from skgp.distributions import CountMixture, NormalMixture
from skgp.plotting import ConditionalDensityDisplay

X = np.array([[1.0], [4.0], [2.0]])
WIDE = np.array([[1.0, 10.0, 100.0], [4.0, 20.0, 300.0], [2.0, 50.0, 200.0]])


def drawn(display: Any) -> np.ndarray:
    """Numbers of the heat map."""
    return np.asarray(display.mesh_.get_array())


def test_heat_map_is_the_density_of_the_mixture(ax: Axes) -> None:
    x, y = np.linspace(-2, 2, 9), np.linspace(-2, 2, 801)
    display = ConditionalDensityDisplay.from_predictions(
        x, bimodal_distribution(x[:, None]), y_grid=y, ax=ax
    )
    up, down = (stats.norm(sign * (x + 1) / 2, s) for sign, s in ((1, 0.1), (-1, 0.2)))
    density = 0.7 * up.pdf(y[:, None]) + 0.3 * down.pdf(y[:, None])
    # The mean over a cell of height h is off by h^2 / 24 max |p''| = 0.005^2 / 24 * 2.8 / 0.1^3.
    np.testing.assert_allclose(drawn(display), density, atol=0.003)
    np.testing.assert_allclose(display.line_.get_data(), [x, 0.2 * (x + 1)])


def test_cells_hold_the_mean_of_the_density(ax: Axes) -> None:
    # Cells of unequal height about 0, 1, 3 end at -0.5, 0.5, 2, 4.
    display = ConditionalDensityDisplay.from_predictions(
        [1.0, 2.0], NormalMixture.normal([0.5, 2.0], [0.3, 1.0]), y_grid=[3.0, 0.0, 1.0], ax=ax
    )
    ends = [-0.5, 0.5, 2.0, 4.0]
    for column, normal in enumerate((stats.norm(0.5, 0.3), stats.norm(2.0, 1.0))):
        for row, (low, high) in enumerate(pairwise(ends)):
            mass = integrate.quad(normal.pdf, low, high)[0]
            np.testing.assert_allclose(drawn(display)[row, column], mass / (high - low), rtol=1e-7)
    corners = display.mesh_.get_coordinates()
    np.testing.assert_allclose(corners[:, 0, 1], ends)
    np.testing.assert_allclose(corners[0, :, 0], [0.5, 1.5, 2.5])


def test_no_narrow_peak_is_lost(ax: Axes) -> None:
    # A hundredth of a cell wide, and between two outcomes of the grid.
    display = ConditionalDensityDisplay.from_predictions(
        [0.0, 1.0], NormalMixture.normal([0.3, 0.6], 1e-3), y_grid=np.linspace(0, 1, 11), ax=ax
    )
    np.testing.assert_allclose(0.1 * drawn(display).sum(axis=0), 1.0)


def test_cells_of_counts_are_whole_ones(ax: Axes) -> None:
    """Of many counts each cell holds as many, with the mean of their probabilities."""
    rates, x = np.array([2.0, 6.0]), [0.0, 1.0]
    dist = CountMixture(NormalMixture.normal(np.log(rates), 1e-8))
    k = np.arange(17)
    pmf = stats.poisson.pmf(k[:, None], rates)
    few = ConditionalDensityDisplay.from_predictions(
        x, dist, data=(np.zeros(2), np.array([0.0, 16.0])), ax=ax
    )
    np.testing.assert_array_equal(few.y, k)
    np.testing.assert_allclose(drawn(few), pmf, rtol=1e-6)
    assert "probability, full colour" in ax.get_legend().get_texts()[1].get_text()
    coarse = ConditionalDensityDisplay.from_predictions(
        x, dist, y_grid=6, data=(np.zeros(2), np.array([0.0, 16.0])), ax=ax
    )
    np.testing.assert_array_equal(coarse.y, [1.0, 4.0, 7.0, 10.0, 13.0, 16.0])
    expected = stats.poisson.pmf(np.arange(18)[:, None], rates).reshape(6, 3, 2).mean(axis=1)
    np.testing.assert_allclose(drawn(coarse), expected, rtol=1e-6)
    np.testing.assert_allclose(coarse.mesh_.get_coordinates()[:, 0, 1], np.arange(-0.5, 18.0, 3.0))


def test_predictions_in_any_order_are_drawn_from_left_to_right(ax: Axes) -> None:
    x, y = np.array([2.0, -1.0, 0.5]), np.linspace(-10.0, 10.0, 2001)
    display = ConditionalDensityDisplay.from_predictions(
        x, NormalMixture.normal(3.0 * x, 1.0), y_grid=y, ax=ax
    )
    x = np.sort(x)
    np.testing.assert_array_equal(display.line_.get_data(), [x, 3.0 * x])
    np.testing.assert_allclose(drawn(display), stats.norm.pdf(y[:, None], 3.0 * x), atol=1e-5)


def test_grid_by_default_covers_predictions_and_outcomes(model: Any, ax: Axes) -> None:
    # Normals with mean x and variance x^2 + 1, x from 1 to 4; the outcome 90 is an outlier.
    display = ConditionalDensityDisplay.from_estimator(model, X, [0, 90, 0], y_grid=5, ax=ax)
    lowest = min(x + stats.norm.ppf(0.001) * np.hypot(x, 1) for x in (1.0, 4.0))
    np.testing.assert_allclose(display.y, np.linspace(lowest, 90, 5))
    assert len(display.x) == 200
    alone = ConditionalDensityDisplay.from_estimator(model, X, ax=ax)
    masked = np.ma.masked_array([0, 90, 0], mask=[False, True, False])
    display = ConditionalDensityDisplay.from_estimator(model, X, masked, ax=ax)
    np.testing.assert_array_equal(display.y, alone.y)
    np.testing.assert_allclose(alone.y[-1], 4 + stats.norm.ppf(0.999) * np.hypot(4, 1))
    np.testing.assert_allclose(drawn(alone).sum(axis=0) * np.diff(alone.y)[0], 1.0, atol=0.002)


def test_one_column_is_varied_and_the_others_are_held(model: Any, ax: Axes) -> None:
    frame = pd.DataFrame(WIDE, columns=["a", "speed", "c"])
    display = ConditionalDensityDisplay.from_estimator(
        model, frame, grid=3, column="speed", at=1, ax=ax
    )
    np.testing.assert_allclose(display.mean, [314.0, 334.0, 354.0])
    assert ax.get_xlabel() == "speed"
    assert display.name == "Heteroscedastic"
    assert display.points_ is None
    of_values = ConditionalDensityDisplay.from_estimator(
        model, frame, grid=3, column="speed", at={"a": 4.0, "c": 300.0}, ax=ax
    )
    np.testing.assert_array_equal(of_values.mean, display.mean)


def test_output_is_chosen(two_outputs: Any, ax: Axes) -> None:
    Y = np.column_stack([[1.0, 2.0, 3.0], [10.0, 20.0, np.nan]])
    y_grid = np.linspace(-80, 160, 2001)
    display = ConditionalDensityDisplay.from_estimator(
        two_outputs, X, Y, grid=3, y_grid=y_grid, output=1, ax=ax
    )
    np.testing.assert_allclose(display.mean, [10.0, 25.0, 40.0])
    peaks = stats.norm.pdf(0) / (10 * np.hypot(display.x, 1))
    np.testing.assert_allclose(drawn(display).max(axis=0), peaks, rtol=1e-3)
    np.testing.assert_allclose(display.points_.get_data(), [[1.0, 4.0], [10.0, 20.0]])
    # The grid by default is that of the output.
    for output, scale in enumerate((1.0, 10.0)):
        by_default = ConditionalDensityDisplay.from_estimator(two_outputs, X, output=output, ax=ax)
        largest = scale * (4 + stats.norm.ppf(0.999) * np.hypot(4, 1))
        np.testing.assert_allclose(by_default.y[-1], largest)
    with pytest.raises(ValueError, match="choose one by output=0 to output=1"):
        ConditionalDensityDisplay.from_estimator(two_outputs, X, ax=ax)


def test_transformed_targets_are_looked_through(model: Any, ax: Axes) -> None:
    # y = exp(z): the density of a log-normal, which is no mixture of normals.
    log_normal = TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp)
    log_normal.fit(X, [1.0, 2.0, 3.0])
    y = np.linspace(0.5, 4.0, 701)
    display = ConditionalDensityDisplay.from_estimator(
        log_normal, X, grid=[1.0, 2.0], y_grid=y, ax=ax
    )
    for column, x in enumerate((1.0, 2.0)):
        expected = stats.lognorm(np.hypot(x, 1), scale=np.exp(x)).pdf(y)
        np.testing.assert_allclose(drawn(display)[:, column], expected, rtol=1e-3)


def test_full_colour_is_that_of_all_but_few_peaks_or_is_given(ax: Axes) -> None:
    x = np.arange(101.0)
    std = 1.0 / (1.0 + x)  # peaks in proportion to 1 + x
    display = ConditionalDensityDisplay.from_predictions(
        x, NormalMixture.normal(0.0 * x, std), y_grid=np.linspace(-1, 1, 20001), ax=ax
    )
    np.testing.assert_allclose(display.mesh_.get_clim(), [0, 96 * stats.norm.pdf(0)], rtol=1e-4)
    assert display.plot(ax, highest=2.5).mesh_.get_clim() == (0.0, 2.5)
    transparent, full = display.mesh_.to_rgba([0.0, 2.5])
    assert transparent[3] == 0.0
    assert full[3] > 0.5
    with pytest.raises(ValueError, match="highest density must be positive, got 0"):
        display.plot(ax, highest=0.0)


def test_many_points_are_thinned(ax: Axes) -> None:
    table, y = make_bimodal(3000, random_state=0)
    dist = bimodal_distribution([[-2.0], [2.0]])
    data = table[:, 0], y
    display = ConditionalDensityDisplay.from_predictions([-2, 2], dist, data=data, ax=ax)
    points = np.column_stack(display.points_.get_data())
    assert len(np.unique(points, axis=0)) == 1000
    assert set(map(tuple, points)) <= set(zip(*data, strict=True))
    assert "observed (1,000 of 3,000 drawn)" in display.points_.get_label()
    few = display.plot(ax, max_points=3000).points_
    assert len(few.get_xdata()) == 3000
    assert few.get_label() == "observed"
    with pytest.raises(ValueError, match="max_points must be at least 1, got 0"):
        display.plot(ax, max_points=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"X": WIDE}, "3 columns: choose the one to vary by column="),
        ({"grid": 1}, "grid must be a number of at least 2 or an array"),
        ({"y_grid": 1}, "y_grid must be a number of at least 2 or an array"),
        ({"y_grid": [1.0, 1.0]}, "at least two different values"),
        ({"y": [1.0, 2.0]}, r"y has shape \(2,\), expected \(3,\)"),
        ({"output": 1}, "output=1 is not an output"),
    ],
)
def test_arguments_are_checked(options: Any, message: str, model: Any, ax: Axes) -> None:
    with pytest.raises(ValueError, match=message):
        ConditionalDensityDisplay.from_estimator(model, **{"X": X, "ax": ax} | options)


def test_unfitted_estimators_and_shapes(ax: Axes) -> None:
    with pytest.raises(NotFittedError, match="PPGPRRegressor"):
        ConditionalDensityDisplay.from_estimator(PPGPRRegressor(), X, ax=ax)
    dist = NormalMixture.normal([0.0, 1.0], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"x has shape \(3,\), expected \(2,\) as dist"):
        ConditionalDensityDisplay.from_predictions([0, 1, 2], dist, ax=ax)
