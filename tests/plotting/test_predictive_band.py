"""The numbers behind the display of predictions along one input."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skgp import PPGPRRegressor, SVGPRegressor
from skgp.distributions import NormalMixture
from skgp.plotting import PredictiveBandDisplay

X = np.array([[1.0], [4.0], [2.0]])
WIDE = np.array([[1.0, 10.0, 100.0], [4.0, 20.0, 300.0], [2.0, 50.0, 200.0]])


def ends(band: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of a band over n increasing values of x."""
    corners = band.get_paths()[0].vertices
    inner = corners[:, 1]
    return inner[1 : n + 1], inner[n + 2 : 2 * n + 2][::-1]


@pytest.mark.parametrize("coverage", [0.5, 0.95])
def test_bands_of_an_estimator(coverage: float, model: Any, ax: Axes) -> None:
    y = [3.0, 5.0, 4.0]
    display = PredictiveBandDisplay.from_estimator(model, X, y, grid=7, coverage=coverage, ax=ax)
    grid = np.linspace(1, 4, 7)
    np.testing.assert_allclose(display.line_.get_data(), [grid, grid])
    z = stats.norm.ppf(0.5 + coverage / 2)
    for band, variance in ((display.band_, grid**2 + 1), (display.latent_band_, grid**2)):
        lower, upper = ends(band, 7)
        np.testing.assert_allclose(lower, grid - z * np.sqrt(variance))
        np.testing.assert_allclose(upper, grid + z * np.sqrt(variance))
    np.testing.assert_allclose(display.points_.get_data(), [X[:, 0], y])
    assert ax.get_xlabel() == "x"


def test_bands_of_counts_are_in_counts(counting: Any, ax: Axes) -> None:
    """The function is the rate exp(f), whose quantiles are those of a log normal distribution."""
    display = PredictiveBandDisplay.from_estimator(counting, X, grid=5, coverage=0.8, ax=ax)
    grid = np.linspace(1.0, 4.0, 5)
    rate = stats.lognorm(0.3, scale=np.exp(0.5 * grid))
    np.testing.assert_allclose(display.mean, rate.mean())
    np.testing.assert_allclose(np.array(ends(display.latent_band_, 5)), rate.interval(0.8))
    counts = counting.predict_dist(grid[:, None]).interval(0.8)
    np.testing.assert_array_equal(np.array(ends(display.band_, 5)), counts)


def test_one_column_is_varied_and_the_others_are_held(model: Any, ax: Axes) -> None:
    # The mean is the sum of the inputs: row 1 holds the others at 4 and 300.
    display = PredictiveBandDisplay.from_estimator(
        model, WIDE, grid=[30.0, 10.0], column=1, at=1, ax=ax
    )
    np.testing.assert_allclose(display.x, [10.0, 30.0])
    np.testing.assert_allclose(display.mean, [314.0, 334.0])
    assert ax.get_xlabel() == "column 1"
    assert display.points_ is None
    by_default = PredictiveBandDisplay.from_estimator(model, WIDE, column=1, grid=3, ax=ax)
    np.testing.assert_allclose(by_default.x, [10.0, 30.0, 50.0])
    np.testing.assert_allclose(by_default.mean, [111.0, 131.0, 151.0])


@pytest.mark.parametrize(
    "at",
    [
        pd.Series({"c": 300.0, "b": np.nan, "a": 4.0}),
        {"a": 4, "c": 300},
        [4, 0, 300],
        np.array([4.0, 0.0, 300.0]),
    ],
    ids=["series", "mapping", "list", "array"],
)
def test_the_others_are_held_at_values_that_are_no_row(model: Any, ax: Axes, at: Any) -> None:
    frame = pd.DataFrame(WIDE, columns=["a", "b", "c"]).astype({"a": int})
    tables = [frame] if isinstance(at, dict) else [frame, WIDE]
    for table in tables:
        if table is WIDE and isinstance(at, pd.Series):
            at = at[["a", "b", "c"]]
        display = PredictiveBandDisplay.from_estimator(
            model, table, grid=[30.0, 10.0], column=1, at=at, ax=ax
        )
        np.testing.assert_allclose(display.mean, [314.0, 334.0])
    np.testing.assert_array_equal(frame, WIDE)
    median = PredictiveBandDisplay.from_estimator(
        model, frame, column="b", at=frame.median(), grid=3, ax=ax
    )
    others = frame[["a", "c"]].median().sum()
    np.testing.assert_allclose(median.mean, others + np.array([10.0, 30.0, 50.0]))


def test_integers_are_not_rounded(model: Any, ax: Axes) -> None:
    for table in (X.astype(int), pd.DataFrame(X.astype(int))):
        display = PredictiveBandDisplay.from_estimator(model, table, grid=[1.5, 2.5], ax=ax)
        np.testing.assert_allclose(display.mean, [1.5, 2.5])
    assert X.tolist() == [[1.0], [4.0], [2.0]]


def test_frames_with_categories_go_through_pipelines(model: Any, ax: Axes) -> None:
    frame = pd.DataFrame({"speed": [3, 1, 2], "colour": ["red", "blue", "red"]}, index=[7, 7, 9])
    encode = make_column_transformer(
        ("passthrough", ["speed"]), (OneHotEncoder(categories=[["blue", "red"]]), ["colour"])
    )
    weigh = FunctionTransformer(lambda X: X * [1.0, 100.0, 1000.0])
    pipe = make_pipeline(encode, weigh, model).fit(frame, [0.0, 1.0, 2.0])
    for at, base in ((0, 1000.0), (1, 100.0)):
        display = PredictiveBandDisplay.from_estimator(
            pipe, frame, grid=3, column="speed", at=at, ax=ax
        )
        np.testing.assert_allclose(display.mean, base + np.array([1.0, 2.0, 3.0]))
    assert ax.get_xlabel() == "speed"
    assert display.name == "Heteroscedastic"
    assert frame["speed"].tolist() == [3, 1, 2]


def test_dots_are_finite_few_and_in_the_legend(model: Any, ax: Axes) -> None:
    x = np.linspace(1.0, 4.0, 1500)
    y = np.where(np.arange(1500) < 300, np.nan, x)
    display = PredictiveBandDisplay.from_estimator(model, x[:, None], y, grid=5, ax=ax)
    points = np.column_stack(display.points_.get_data())
    assert points.shape == (1000, 2)
    assert set(points[:, 0]) <= set(x[300:])
    np.testing.assert_array_equal(points[:, 0], points[:, 1])
    assert "observed (1,000 of 1,200 drawn)" in [t.get_text() for t in ax.get_legend().get_texts()]
    few = PredictiveBandDisplay.from_estimator(
        model, x[:, None], y, grid=5, ax=ax, max_points=1200, color="r"
    )
    assert len(few.points_.get_xdata()) == 1200
    assert few.points_.get_label() == "observed"
    assert few.line_.get_color() == "r"
    with pytest.raises(ValueError, match="max_points must be at least 1, got 0"):
        display.plot(ax, max_points=0)


def test_output_is_chosen(two_outputs: Any, ax: Axes) -> None:
    Y = np.column_stack([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])
    display = PredictiveBandDisplay.from_estimator(two_outputs, X, Y, grid=3, output=1, ax=ax)
    np.testing.assert_allclose(display.mean, [10.0, 25.0, 40.0])
    np.testing.assert_allclose(display.points_.get_ydata(), [10.0, 20.0, 30.0])
    np.testing.assert_allclose(display.latent_upper / display.x, 10 * (1 + stats.norm.ppf(0.95)))
    with pytest.raises(ValueError, match="choose one by output=0 to output=1"):
        PredictiveBandDisplay.from_estimator(two_outputs, X, ax=ax)


def test_without_a_function_there_is_one_band(ax: Axes) -> None:
    dist = NormalMixture.normal([0.0, 1.0], [1.0, 1.0])
    assert PredictiveBandDisplay.from_predictions([0, 1], dist, ax=ax).latent_band_ is None


class WithoutFunction(TransformerMixin, BaseEstimator):
    """Predicts y, but says nothing of a function."""

    def predict_dist(self, X: Any) -> NormalMixture:
        return NormalMixture.normal(np.zeros(len(X)), np.ones(len(X)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"X": X[:, 0]}, r"X must have shape \(n, D\), got \(3,\)"),
        ({"X": WIDE}, "3 columns: choose the one to vary by column="),
        ({"column": 1}, "column=1 is out of range: X has 1 columns"),
        ({"column": "speed"}, "column='speed' is none of the columns"),
        ({"at": 0.5}, r"at must be the number of a row of X, or a row of 1 values"),
        ({"at": [1.0, 2.0]}, r"a row of 1 values, one for each column: got list of shape \(2,\)"),
        ({"X": pd.DataFrame(WIDE), "column": 0, "at": {1: 2.0}}, r"at lacks .* columns \[2\]"),
        ({"at": 3}, "at=3 is out of range: X has 3 rows"),
        ({"grid": 1}, "grid must be a number of at least 2 or an array"),
        ({"grid": [[1.0, 2.0]]}, "grid must be a number of at least 2 or an array"),
        ({"y": [1.0, 2.0]}, r"y has shape \(2,\), expected \(3,\)"),
        ({"coverage": 2.0}, "coverage must be a number in"),
        ({"output": 1}, "output=1 is not an output"),
    ],
)
def test_arguments_are_checked(options: Any, message: str, model: Any, ax: Axes) -> None:
    with pytest.raises(ValueError, match=message):
        PredictiveBandDisplay.from_estimator(model, **{"X": X, "ax": ax} | options)


def test_unsuitable_estimators_and_shapes(ax: Axes) -> None:
    assert PredictiveBandDisplay.from_estimator(WithoutFunction(), X, ax=ax).latent_band_ is None
    with pytest.raises(NotFittedError, match="PPGPRRegressor"):
        PredictiveBandDisplay.from_estimator(PPGPRRegressor(), X, ax=ax)
    dist = NormalMixture.normal([0.0, 1.0], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"x has shape \(3,\), expected \(2,\) as dist"):
        PredictiveBandDisplay.from_predictions([0, 1, 2], dist, ax=ax)
    with pytest.raises(ValueError, match=r"latent has shape \(1,\), expected \(2,\)"):
        PredictiveBandDisplay.from_predictions([0, 1], dist, dist[:1], ax=ax)


def test_frames_of_polars_keep_their_names(ax: Axes) -> None:
    frames = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((30, 2)), columns=["a", "b"])
    y = np.sin(table["a"].to_numpy())
    fitted = SVGPRegressor(n_inducing=5, max_iter=1, random_state=0).fit(table, y)
    means = []
    for X in (table, frames.from_dict(table.to_dict("list"))):
        display = PredictiveBandDisplay.from_estimator(fitted, X, y, column="b", at=3, ax=ax)
        means.append(display.mean)
    np.testing.assert_array_equal(*means)
    swapped = frames.from_dict(table[["b", "a"]].to_dict("list"))
    with pytest.raises(ValueError, match="feature names"):
        PredictiveBandDisplay.from_estimator(fitted, swapped, y, column="b", at=3, ax=ax)


def test_outcomes_in_another_order_of_columns_are_refused(ax: Axes) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 1))
    Y = pd.DataFrame({"a": X[:, 0], "b": 100.0 + X[:, 0]})
    fitted = SVGPRegressor(n_inducing=5, max_iter=1, random_state=0).fit(X, Y)
    PredictiveBandDisplay.from_estimator(fitted, X, Y, output="a", ax=ax)
    with pytest.raises(ValueError, match=r"y has the columns \['b', 'a'\]"):
        PredictiveBandDisplay.from_estimator(fitted, X, Y[["b", "a"]], output="a", ax=ax)


def test_predictions_in_any_order_are_drawn_from_left_to_right(ax: Axes) -> None:
    x = np.array([2.0, -1.0, 0.5])
    function, dist = NormalMixture.normal(3.0 * x, 0.1 * x**2), NormalMixture.normal(3.0 * x, x**2)
    display = PredictiveBandDisplay.from_predictions(x, dist, function, coverage=0.5, ax=ax)
    x = np.sort(x)
    np.testing.assert_array_equal(display.line_.get_data(), [x, 3.0 * x])
    z = stats.norm.ppf(0.75)
    np.testing.assert_allclose(ends(display.band_, 3)[1], 3.0 * x + z * x**2)
    np.testing.assert_allclose(ends(display.latent_band_, 3)[0], 3.0 * x - 0.1 * z * x**2)


@pytest.mark.parametrize("values", [[0, 10, 20], [False, True, True]], ids=["codes", "booleans"])
def test_codes_stay_codes(ax: Axes, values: list[Any]) -> None:
    """Numbers between them stand for nothing, and an encoder ignores or refuses them."""
    frame = pd.DataFrame({"code": values * 4, "x": np.linspace(-1.0, 1.0, 12)})
    kinds = make_column_transformer(
        ("passthrough", ["x"]), (OneHotEncoder(handle_unknown="error"), ["code"])
    )
    y = frame["code"].astype(float) + frame["x"]
    pipe = make_pipeline(kinds, SVGPRegressor(n_inducing=12, random_state=0)).fit(frame, y)
    display = PredictiveBandDisplay.from_estimator(pipe, frame, column="code", ax=ax)
    np.testing.assert_array_equal(display.x, sorted(set(values)))
    rows = pd.DataFrame({"code": sorted(set(values)), "x": frame["x"][0]})
    np.testing.assert_allclose(display.mean, pipe.predict(rows))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.date_range("2020", periods=9), "the column 'c' holds dates or times: convert dates"),
        (list("abcabcabc"), "the column 'c' of .* holds no numbers.*choose another column"),
        ([1.0] * 9, "'c' has the same value in all rows of X.*by grid="),
    ],
    ids=["dates", "texts", "constant"],
)
def test_columns_along_which_there_is_no_line(
    ax: Axes, model: Any, column: Any, message: str
) -> None:
    frame = pd.DataFrame({"c": column, "x": np.arange(9.0)})
    with pytest.raises(ValueError, match=message):
        PredictiveBandDisplay.from_estimator(model, frame, column="c", ax=ax)


def test_a_frame_of_one_row_holds_the_others(ax: Axes) -> None:
    frames = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((30, 2)), columns=["a", "b"])
    fitted = SVGPRegressor(n_inducing=5, max_iter=1, random_state=0).fit(table, table["a"])
    polars = frames.from_dict(table.to_dict("list"))
    at = [table.median(), table.median().to_frame().T, polars.median()]
    for X, row in ((table, at[1]), (polars, at[2])):
        displays = [
            PredictiveBandDisplay.from_estimator(fitted, X, column="b", at=held, ax=ax)
            for held in (row, {"a": at[0]["a"], "b": 0.0})
        ]
        np.testing.assert_allclose(displays[0].mean, displays[1].mean)


def test_several_axes_are_refused() -> None:
    dist = NormalMixture.normal([0.0, 1.0], [1.0, 1.0])
    with pytest.raises(TypeError, match="ax must be matplotlib Axes, got ndarray: choose one"):
        PredictiveBandDisplay.from_predictions([0, 1], dist, ax=Figure().subplots(1, 2))
