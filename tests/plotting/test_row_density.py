"""The numbers behind the predictive densities of single rows."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from scipy import stats

from skgp.distributions import Bernoulli, CountMixture, NormalMixture
from skgp.plotting import RowDensityDisplay

X = np.array([[1.0], [4.0], [2.0]])


def test_curves_are_the_densities_above_their_rows(model: Any, ax: Axes) -> None:
    """Normals with mean x and variance x^2 + 1; the first row is at the top."""
    y = np.linspace(-20.0, 30.0, 2001)
    display = RowDensityDisplay.from_estimator(model, X, [0.5, np.nan, -3.0], y_grid=y, ax=ax)
    expected = stats.norm.pdf(y, X, np.hypot(X, 1.0))
    np.testing.assert_allclose(display.density, expected, atol=1e-4)
    for line, zero, density in zip(display.lines_, (2, 1, 0), expected, strict=True):
        height = (line.get_ydata() - zero) / 0.9 * expected.max()
        np.testing.assert_allclose(height, density, atol=2e-4)
        np.testing.assert_array_equal(line.get_xdata(), y)
    np.testing.assert_array_equal(display.points_.get_data(), [[0.5, np.nan, -3.0], [2, 1, 0]])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0", "1", "2"]


def test_masked_outcomes_are_missing(model: Any, ax: Axes) -> None:
    y = np.ma.masked_array([0.5, 1e3, -3.0], mask=[False, True, False])
    display = RowDensityDisplay.from_estimator(model, X, y, ax=ax)
    np.testing.assert_array_equal(display.observed, [0.5, np.nan, -3.0])
    assert display.y[-1] < 100.0


def test_few_of_many_rows_are_drawn(ax: Axes) -> None:
    dist = NormalMixture.normal(np.arange(1001.0), 1.0)
    display = RowDensityDisplay.from_predictions(dist, np.arange(1001.0), max_rows=5, ax=ax)
    np.testing.assert_array_equal(display.rows, [0, 250, 500, 750, 1000])
    np.testing.assert_array_equal(display.observed, display.rows)
    # Peaks narrower than the distance of two outcomes keep their mass.
    np.testing.assert_allclose(display.density.sum(axis=1) * np.diff(display.y)[0], 1.0, atol=2e-3)


def test_output_and_highest_are_chosen(two_outputs: Any, ax: Axes) -> None:
    Y = np.column_stack([[1.0, 2.0, 3.0], [10.0, 20.0, np.nan]])
    y = np.linspace(-80.0, 160.0, 801)
    options = {"y_grid": y, "output": 1, "highest": 0.1, "ax": ax}
    display = RowDensityDisplay.from_estimator(two_outputs, X, Y, **options)
    expected = stats.norm.pdf(y, 10.0 * X, 10.0 * np.hypot(X, 1.0))
    np.testing.assert_allclose(display.density, expected, atol=1e-5)
    np.testing.assert_allclose(display.lines_[2].get_ydata(), 9.0 * display.density[2])
    np.testing.assert_array_equal(display.observed, Y[:, 1])


def test_an_output_is_chosen_by_its_name(ax: Axes) -> None:
    dist = NormalMixture.normal([[0.0, 5.0]], 1.0).with_output_names(("rain", "wind"))
    display = RowDensityDisplay.from_predictions(dist, y_grid=[4.0, 5.0, 6.0], output="wind", ax=ax)
    assert ax.get_xlabel() == "wind"
    assert display.density[0].argmax() == 1


@pytest.mark.parametrize("grid", [40, 400, np.linspace(0.0, 12.0, 100)])
def test_bars_of_counts_are_their_probabilities(grid: Any, ax: Axes) -> None:
    """Poisson counts; the grid makes no difference but for the counts that it has."""
    dist = CountMixture(NormalMixture.normal(np.log([1.5, 4.0]), 1e-8))
    display = RowDensityDisplay.from_predictions(dist, [3.0, 12.0], y_grid=grid, ax=ax)
    np.testing.assert_array_equal(display.y, np.arange(13.0))
    expected = stats.poisson.pmf(np.arange(13), [[1.5], [4.0]])
    np.testing.assert_allclose(display.density, expected, rtol=1e-6)
    x, outline = display.lines_[1].get_data()
    assert x[[0, 1, 2, -1]].tolist() == [-0.5, -0.5, 0.5, 12.5]
    np.testing.assert_allclose(outline[1:-1:2] / 0.9 * expected.max(), expected[1], rtol=1e-6)
    assert outline[[0, -1]].tolist() == [0.0, 0.0]
    assert ax.get_legend().get_texts()[0].get_text() == f"probability, up to {expected.max():.2g}"


def test_wrong_arguments(model: Any, two_outputs: Any, ax: Axes) -> None:
    with pytest.raises(ValueError, match="max_rows must be at least 1"):
        RowDensityDisplay.from_estimator(model, X, max_rows=0, ax=ax)
    with pytest.raises(ValueError, match="choose one by output"):
        RowDensityDisplay.from_estimator(two_outputs, X, ax=ax)
    with pytest.raises(ValueError, match="highest density must be positive"):
        RowDensityDisplay.from_estimator(model, X, highest=0.0, ax=ax)
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        RowDensityDisplay.from_estimator(model, X, [1.0, 2.0], ax=ax)
    with pytest.raises(TypeError, match=r"of a regressor, got Bernoulli: classes have rps"):
        RowDensityDisplay.from_predictions(Bernoulli([0.2, 0.7]), ax=ax)


def test_counts_on_a_grid_with_gaps() -> None:
    """A cell shows the mean probability of the counts that it has, however many these are."""
    dist = CountMixture(NormalMixture.normal([1.0], 0.4), 0.2)
    display = RowDensityDisplay.from_predictions(dist, y_grid=[0, 1, 3, 5, 6])
    p = np.exp(dist.logpdf(np.arange(7.0)[None])[0])
    expected = [p[0], p[1:3].mean(), p[3:5].mean(), p[5], p[6]]
    np.testing.assert_allclose(np.ravel(display.density), expected, rtol=1e-9)
