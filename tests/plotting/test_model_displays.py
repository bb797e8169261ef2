"""The numbers behind the displays of models: noise, training, comparison."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skgp import SVGPClassifier, SVGPRegressor
from skgp.plotting import ModelComparisonDisplay, NoiseFractionDisplay, TrainingCurveDisplay

X = np.arange(1.0, 6.0)[:, None]


def test_noise_fractions_of_estimators(model: Any, ax: Axes) -> None:
    doubled = make_pipeline(FunctionTransformer(lambda X: 2.0 * X), model).fit(X, X)
    models = {"plain": model, "doubled": doubled}
    display = NoiseFractionDisplay.from_estimators(models, X, ax=ax)
    # Noise variance 1 beside a function variance of x ** 2, in the pipeline (2 x) ** 2.
    expected = {"plain": 1 / (1 + X[:, 0] ** 2), "doubled": 1 / (1 + 4 * X[:, 0] ** 2)}
    for name, fraction in expected.items():
        np.testing.assert_allclose(display.fractions[name], fraction)
    np.testing.assert_allclose(display.means_.get_xdata(), [f.mean() for f in expected.values()])
    for lines, levels in ((display.middle_90_, [0.05, 0.95]), (display.middle_half_, [0.25, 0.75])):
        drawn = np.array(lines.get_segments())  # (model, end, (x, y))
        np.testing.assert_allclose(
            drawn[:, :, 0], [np.quantile(f, levels) for f in expected.values()]
        )
    assert [label.get_text() for label in ax.get_yticklabels()] == ["plain", "doubled"]
    assert ax.yaxis_inverted()  # the first model stands on top


def test_noise_fraction_of_counts(counting: Any, ax: Axes) -> None:
    """The variance of a count around its rate: E mu + a E mu^2, of a log normal rate mu."""
    display = NoiseFractionDisplay.from_estimators({"counts": counting}, X, ax=ax)
    m, s = 0.5 * X[:, 0], 0.3
    first, second = np.exp(m + s**2 / 2), np.exp(2 * (m + s**2))
    noise = first + 0.2 * second
    np.testing.assert_allclose(display.fractions["counts"], noise / (noise + second - first**2))


def test_noise_fraction_of_transformed_targets(ax: Axes) -> None:
    """The share on the scale of the logarithms, not what noise does to their exponentials."""
    x = np.linspace(-1.0, 1.0, 30)[:, None]
    gp = SVGPRegressor(max_iter=5, random_state=0)
    plain = clone(gp).fit(x, x[:, 0])
    logs = TransformedTargetRegressor(gp, func=np.log, inverse_func=np.exp)
    logs.fit(x, np.exp(x[:, 0]))
    display = NoiseFractionDisplay.from_estimators({"plain": plain, "logs": logs}, x, ax=ax)
    np.testing.assert_allclose(display.fractions["logs"], display.fractions["plain"], rtol=1e-6)


def test_noise_fraction_of_an_output(two_outputs: Any, ax: Axes) -> None:
    display = NoiseFractionDisplay.from_estimators({"m": two_outputs}, X, output=1, ax=ax)
    np.testing.assert_allclose(display.fractions["m"], 1 / (1 + X[:, 0] ** 2))
    with pytest.raises(ValueError, match="choose one by output=0 to output=1"):
        NoiseFractionDisplay.from_estimators({"m": two_outputs}, X, ax=ax)


def test_same_names_share_a_row(ax: Axes) -> None:
    NoiseFractionDisplay({"a": 0.1, "b": 0.2}).plot(ax)
    NoiseFractionDisplay({"b": 0.3, "c": 0.4}).plot(ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]


def test_noise_fraction_errors(model: Any, ax: Axes) -> None:
    with pytest.raises(TypeError, match="estimators must be a mapping from names"):
        NoiseFractionDisplay.from_estimators(model, X, ax=ax)
    with pytest.raises(NotFittedError):
        NoiseFractionDisplay.from_estimators({"a": SVGPRegressor()}, X, ax=ax)
    for wrong in (1.5, [0.5, np.nan], [-0.1]):
        with pytest.raises(ValueError, match="fractions of 'a' must lie between 0 and 1"):
            NoiseFractionDisplay({"a": wrong}).plot(ax)


def test_sparse_gp_with_its_noise_variance(ax: Axes) -> None:
    y = np.sin(X[:, 0])
    gp = SVGPRegressor(max_iter=5, random_state=0).fit(X, y)
    display = NoiseFractionDisplay.from_estimators({"gp": gp}, X, ax=ax)
    expected = gp.noise_variance_ / gp.predict_dist(X).var()
    np.testing.assert_allclose(display.fractions["gp"], expected, rtol=1e-6)


def test_curves_of_a_fitted_search_over_pipelines(ax: Axes) -> None:
    y = np.sin(X[:, 0])
    gp = SVGPRegressor(max_iter=4, random_state=0)
    pipe = make_pipeline(StandardScaler(), gp).fit(
        X, y, svgpregressor__X_val=X, svgpregressor__y_val=y
    )
    display = TrainingCurveDisplay.from_estimator(pipe, ax=ax)
    np.testing.assert_array_equal(display.line_.get_xdata(), [1, 2, 3, 4])
    np.testing.assert_array_equal(display.line_.get_ydata(), pipe[-1].loss_curve_)
    # The opposite sign: lower is better on both axes.
    scores = np.array(pipe[-1].validation_scores_)
    np.testing.assert_array_equal(display.validation_line_.get_ydata(), -scores)
    assert display.validation_line_.axes is display.validation_ax_ is not ax
    assert "validation: negative log density" in display.validation_ax_.get_ylabel()
    assert "nats per row, y standardised" in ax.get_ylabel()

    search = GridSearchCV(make_pipeline(StandardScaler(), gp), {}, cv=2).fit(X, y)
    other = TrainingCurveDisplay.from_estimator(search, ax=Figure().subplots())
    assert other.loss == search.best_estimator_[-1].loss_curve_
    assert other.name == "SVGPRegressor"
    assert other.validation_line_ is other.validation_ax_ is None


def test_curves_of_probabilities_have_no_units() -> None:
    labels = np.arange(len(X)) % 2
    options = {"n_inducing": 3, "max_iter": 1, "random_state": 0}
    for model in (SVGPClassifier(**options), SVGPRegressor(likelihood="poisson", **options)):
        fitted = model.fit(X, labels, X_val=X, y_val=labels)
        display = TrainingCurveDisplay.from_estimator(fitted, ax=Figure().subplots())
        assert display.ax_.get_ylabel() == "training loss\n(nats per row)"
        expected = "validation: negative log probability\n(nats per row)"
        assert display.validation_ax_.get_ylabel() == expected


def test_training_curves_of_one_axes_share_the_twin() -> None:
    left, right = Figure().subplots(1, 2, sharex=True)
    first = TrainingCurveDisplay([2.0, 1.0], [-2.0, -1.0]).plot(left)
    second = TrainingCurveDisplay([3.0, 1.0], [-4.0, -1.0]).plot(left)
    third = TrainingCurveDisplay([3.0, 1.0], [-4.0, -1.0]).plot(right)
    assert first.validation_ax_ is second.validation_ax_ is not third.validation_ax_
    assert third.validation_ax_.get_position().bounds == right.get_position().bounds
    assert second.line_.get_color() == second.validation_line_.get_color()
    assert second.line_.get_color() != first.line_.get_color()


def test_legend_keeps_the_validation_curve_of_an_earlier_display(ax: Axes) -> None:
    TrainingCurveDisplay([2.0], [-2.0], name="one").plot(ax)
    TrainingCurveDisplay([2.0], name="two").plot(ax)
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said == ["one: training", "two: training", "one: validation"]
    assert (
        ax.get_legend().axes.get_zorder()
        > TrainingCurveDisplay([1.0], [1.0]).plot(ax).validation_ax_.get_zorder()
    )


def test_limits_of_the_user_stay_and_others_make_room_for_each_legend(ax: Axes) -> None:
    TrainingCurveDisplay([2.0, 0.0], name="one").plot(ax)
    one = ax.get_ylim()
    TrainingCurveDisplay([4.0, 0.0], name="two").plot(ax)
    assert one[1] > 2.2
    assert ax.get_ylim()[1] > 4.4
    ax.set_ylim(-2.0, 2.0)
    TrainingCurveDisplay([9.0, 0.0], [-1.0, -5.0], name="three").plot(ax)
    assert ax.get_ylim() == (-2.0, 2.0)
    assert len(ax.get_legend().get_texts()) == 4


def test_training_curve_needs_a_fit(ax: Axes) -> None:
    for estimator in (SVGPRegressor(), LinearRegression(), make_pipeline(SVGPRegressor())):
        with pytest.raises(NotFittedError, match="has no loss_curve_: it is not fitted yet"):
            TrainingCurveDisplay.from_estimator(estimator, ax=ax)


SCORES = {("a", "SVGP"): [1.0, 2.0, 6.0], ("a", "PPGPR"): [0.0, 2.0], ("b", "PPGPR"): [7.0]}


def records() -> list[dict[str, Any]]:
    return [
        {"dataset": dataset, "method": method, "split": split, "nll": value}
        for (dataset, method), values in SCORES.items()
        for split, value in enumerate(values)
    ]


@pytest.mark.parametrize("container", [list, iter, pd.DataFrame, pl.DataFrame])
def test_comparison_is_the_mean_and_its_standard_error(container: Any, ax: Axes) -> None:
    display = ModelComparisonDisplay.from_results(container(records()), metric="nll", ax=ax)
    assert (display.datasets, display.methods) == (["a", "b"], ["SVGP", "PPGPR"])
    np.testing.assert_allclose(display.mean, [[3.0, 1.0], [np.nan, 7.0]])
    # Variances (4 + 1 + 9) / 2 of three splits and (1 + 1) / 1 of two.
    expected = [[np.sqrt(7 / 3), np.sqrt(2 / 2)], [np.nan, np.nan]]
    np.testing.assert_allclose(display.std_err, expected)
    for panel, errorbar, mean, bar in zip(
        display.axes_, display.errorbars_, display.mean, display.std_err, strict=True
    ):
        points, _, (bars,) = errorbar.lines
        np.testing.assert_allclose(np.ma.filled(points.get_xdata(), np.nan), mean)
        drawn = [segment[:, 0] for segment in bars.get_segments() if len(segment)]
        known = np.isfinite(bar)
        expected = np.column_stack([mean - bar, mean + bar])[known]
        np.testing.assert_allclose(np.reshape(drawn, (-1, 2)), expected)
        assert list(panel.yaxis.units._mapping) == ["SVGP", "PPGPR"]
        assert panel.get_xlabel() == "nll"
    assert [panel.get_title() for panel in display.axes_] == ["a", "b"]


def test_panels_fill_the_place_of_the_axes() -> None:
    left, right = Figure().subplots(1, 2)
    bounds = right.get_position()
    display = ModelComparisonDisplay.from_results(records(), metric="nll", ax=right)
    assert not right.axison
    for panel in display.axes_:
        assert bounds.x0 <= panel.get_position().x0 < panel.get_position().x1 <= bounds.x1
    again = ModelComparisonDisplay.from_results(records(), metric="nll", ax=display.axes_)
    assert list(again.axes_) == list(display.axes_)
    alone = ModelComparisonDisplay.from_results(records()[:3], metric="nll", ax=left)
    assert list(alone.axes_) == [left]


def test_comparison_errors(ax: Axes) -> None:
    def draw(results: Any, **options: Any) -> None:
        ModelComparisonDisplay.from_results(results, **{"metric": "nll", "ax": ax} | options)

    with pytest.raises(TypeError, match=r"results must be a list of dicts .* of type str"):
        draw({"dataset": ["a"], "method": ["SVGP"], "split": [0], "nll": [1.0]})
    with pytest.raises(ValueError, match="results is empty"):
        draw([])
    with pytest.raises(ValueError, match=r"results\[0\] lacks \['rmse'\]"):
        draw(records(), metric="rmse")
    with pytest.raises(ValueError, match="several records for dataset='a', method='SVGP', split=0"):
        draw(records() * 2)
    with pytest.raises(ValueError, match=r"nll is nan for dataset='a'.*leave failed runs out"):
        draw([records()[0] | {"nll": np.nan}])
    with pytest.raises(ValueError, match="ax holds 3 axes for 2 data sets"):
        draw(records(), ax=Figure().subplots(1, 3))
    with pytest.raises(ValueError, match="ax must come from subplots or add_subplot"):
        draw(records(), ax=Figure().add_axes((0, 0, 1, 1)))


def scores(*rows: tuple[str, str, float]) -> list[dict[str, Any]]:
    return [{"dataset": d, "method": m, "split": 0, "nll": v} for d, m, v in rows]


@pytest.mark.parametrize("order", [1, -1])
def test_methods_stand_at_their_labels_without_some_results(ax: Axes, order: int) -> None:
    rows = [("p", "A", 1.0), ("p", "B", 2.0), ("p", "C", 3.0), ("q", "C", 5.0)]
    display = ModelComparisonDisplay.from_results(scores(*rows[::order]), metric="nll", ax=ax)
    assert [panel.get_ylim() for panel in display.axes_] == [(2.5, -0.5)] * 2
    by_title = {panel.get_title(): panel for panel in display.axes_}
    (point,) = (line for line in by_title["q"].get_lines() if np.isfinite(line.get_xdata()).any())
    heights = dict(zip(point.get_xdata(), point.get_ydata(orig=False), strict=True))
    assert heights[5.0] == display.methods.index("C")


def test_panels_of_another_display_are_found_by_their_titles(ax: Axes) -> None:
    old = scores(("pol", "SVGP", 1.0), ("bike", "SVGP", -4.0))
    new = scores(("bike", "DSPP", -5.0), ("pol", "DSPP", 2.0))
    first = ModelComparisonDisplay.from_results(old, metric="nll", ax=ax)
    second = ModelComparisonDisplay.from_results(new, metric="nll", ax=first.axes_)
    assert [panel.get_title() for panel in first.axes_] == ["pol", "bike"]
    assert [panel.get_title() for panel in second.axes_] == ["bike", "pol"]
    drawn = [[line.get_xdata()[0] for line in panel.get_lines()] for panel in first.axes_]
    assert drawn == [[1.0, 2.0], [-4.0, -5.0]]
    assert first.axes_[0].get_ylim() == (1.5, -0.5)  # one place for each of two methods
    other = scores(("pol", "DSPP", 2.0), ("kin8nm", "DSPP", 2.0))
    with pytest.raises(ValueError, match=r"titles \['pol', 'bike'\], the data sets are"):
        ModelComparisonDisplay.from_results(other, metric="nll", ax=first.axes_)
    none = scores(("wine", "DSPP", 2.0), ("kin8nm", "DSPP", 2.0))
    with pytest.raises(ValueError, match=r"titles \['pol', 'bike'\], the data sets are"):
        ModelComparisonDisplay.from_results(none, metric="nll", ax=first.axes_)
    with pytest.raises(ValueError, match=r"titles \['pol'\], the data sets are"):
        ModelComparisonDisplay.from_results(none[:1], metric="nll", ax=first.axes_[0])
    assert [panel.get_title() for panel in first.axes_] == ["pol", "bike"]


def test_a_training_of_one_epoch_is_a_dot() -> None:
    """A line through one point is not seen: models that are best as they begin have one epoch."""
    display = TrainingCurveDisplay([2.0], [-2.0]).plot(Figure().subplots())
    assert [line.get_marker() for line in (display.line_, display.validation_line_)] == ["o", "o"]
    longer = TrainingCurveDisplay([2.0, 1.0]).plot(Figure().subplots())
    assert longer.line_.get_marker() == "None"
