"""The numbers behind the displays of outcomes against their distributions."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from scipy import stats
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skgp import SVGPRegressor
from skgp.distributions import CountMixture, NormalMixture
from skgp.plotting import IntervalDisplay, PITDisplay, ReliabilityDisplay, ZScoreDisplay
from skgp.scoring import coverage

EVERY = [IntervalDisplay, PITDisplay, ReliabilityDisplay, ZScoreDisplay]
Y = np.array([0.5, -3.0, 2.0, 4.0])
DIST = NormalMixture.normal([0.0, 1.0, 2.0, 2.0], [1.0, 2.0, 3.0, 0.5])
Z = [0.5, -2.0, 0.0, 4.0]


def test_zscores_are_drawn_as_their_empirical_cdf(ax: Axes) -> None:
    display = ZScoreDisplay.from_predictions(Y, DIST, ax=ax)
    np.testing.assert_allclose(display.z, Z)
    x, share = display.line_.get_data()
    np.testing.assert_allclose(x, [-2.0, -2.0, 0.0, 0.5, 4.0])
    np.testing.assert_allclose(share, [0.0, 0.25, 0.5, 0.75, 1.0])
    assert display.line_.get_drawstyle() == "steps-post"
    x, ideal = display.ideal_.get_data()
    np.testing.assert_allclose(ideal, stats.norm.cdf(x))
    assert ax.get_xlim() == (-4.0, 4.0)


def test_pit_histogram_is_a_density(ax: Axes) -> None:
    display = PITDisplay.from_predictions(Y, DIST, n_bins=4, ax=ax)
    # cdfs of 0.5, -2, 0 and 4 standard deviations: 0.69, 0.02, 0.5, 1. One at an edge is below it.
    np.testing.assert_allclose(display.pit, stats.norm.cdf(Z))
    np.testing.assert_allclose(display.bars_.get_data().values, [1.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(display.bars_.get_data().edges, [0.0, 0.25, 0.5, 0.75, 1.0])
    assert set(display.ideal_.get_ydata()) == {1.0}


def test_counts_are_spread_over_the_jumps_of_their_cdf(ax: Axes) -> None:
    y, rate = np.arange(12), 1.3
    # As many outcomes of each count as their Poisson probabilities ask for.
    outcomes = np.repeat(y, np.round(1e4 * stats.poisson.pmf(y, rate)).astype(int))
    dist = CountMixture(NormalMixture.normal(np.full(len(outcomes), np.log(rate)), 1e-8))
    bars = PITDisplay.from_predictions(outcomes, dist, ax=ax).bars_.get_data().values
    np.testing.assert_allclose(bars, 1.0, atol=2e-3)
    for kind in ("interval", "quantile"):
        line = ReliabilityDisplay.from_predictions(outcomes, dist, ax=ax, kind=kind).line_
        np.testing.assert_allclose(*line.get_data(), atol=2e-4)


def test_one_count_fills_bars_up_to_its_cdf(ax: Axes) -> None:
    dist = CountMixture(NormalMixture.normal([0.0], [1e-8]))
    display = PITDisplay.from_predictions([0], dist, n_bins=4, ax=ax)
    first = 0.25 / np.exp(-1.0)  # of a Poisson variable of rate 1, whose cdf at 0 is 0.37
    expected = [4.0 * first, 4.0 * (1.0 - first), 0.0, 0.0]
    np.testing.assert_allclose(display.bars_.get_data().values, expected, rtol=1e-6)
    np.testing.assert_allclose(display.pit, [[0.0, np.exp(-1.0)]], rtol=1e-6)


@pytest.mark.parametrize(("n_rows", "n_bins"), [(4, 2), (20, 4), (49, 9), (50, 10), (10_000, 10)])
def test_few_outcomes_have_few_bars(n_rows: int, n_bins: int, ax: Axes) -> None:
    display = PITDisplay(np.linspace(0, 1, n_rows)).plot(ax)
    assert len(display.bars_.get_data().values) == n_bins


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_bands_are_binomial_quantiles(level: float, ax: Axes) -> None:
    pit = np.linspace(0.01, 0.99, 50)
    band = PITDisplay(pit).plot(ax, n_bins=5, band_level=level).band_
    low, high = stats.binom.ppf([(1 - level) / 2, (1 + level) / 2], 50, 0.2)
    np.testing.assert_allclose(band.get_y(), low / 10)
    np.testing.assert_allclose(band.get_y() + band.get_height(), high / 10)
    ax.clear()
    corners = ReliabilityDisplay(pit).plot(ax, band_level=level).band_.get_paths()[0].vertices
    for nominal in (0.1, 0.5, 0.9):
        low, high = stats.binom.ppf([(1 - level) / 2, (1 + level) / 2], 50, nominal) / 50
        drawn = corners[np.isclose(corners[:, 0], nominal), 1]
        np.testing.assert_allclose([drawn.min(), drawn.max()], [low, high])


def test_band_holds_a_bar_of_a_calibrated_model_as_often_as_stated(
    ax: Axes, rng: np.random.Generator
) -> None:
    pits = rng.uniform(size=(1000, 200))
    band = PITDisplay(pits[0]).plot(ax, n_bins=10, band_level=0.9).band_
    first_bar = 10 * np.mean(pits < 0.1, axis=1)
    inside = np.mean((first_bar >= band.get_y()) & (first_bar <= band.get_y() + band.get_height()))
    exact = np.diff(stats.binom.cdf([stats.binom.ppf(0.05, 200, 0.1) - 1,
                                     stats.binom.ppf(0.95, 200, 0.1)], 200, 0.1))[0]  # fmt: skip
    assert exact >= 0.9  # counts are discrete
    assert abs(inside - exact) < 4 * np.sqrt(exact * (1 - exact) / 1000)


def test_band_is_drawn_once_for_each_number_of_outcomes(ax: Axes) -> None:
    pit = np.linspace(0, 1, 50)
    for cls in (PITDisplay, ReliabilityDisplay):
        ax.clear()
        bands = [cls(values).plot(ax).band_ is None for values in (pit, pit, pit[:20], pit[:20])]
        assert bands == [False, True, False, True]
        assert cls(pit).plot(ax, ref_line=False).ideal_ is None


def test_reliability_is_the_coverage_of_the_intervals(ax: Axes, rng: np.random.Generator) -> None:
    dist = NormalMixture(np.log([0.4, 0.6]), rng.normal(size=(60, 2)), np.full((60, 2), 0.4))
    y = 1.3 * dist.rvs(1, random_state=0)[:, 0]
    display = ReliabilityDisplay.from_predictions(y, dist, ax=ax)
    nominal, observed = display.line_.get_data()
    np.testing.assert_allclose(nominal, np.arange(1, 20) / 20)
    np.testing.assert_allclose(observed, [coverage(y, dist, coverage=c) for c in nominal])


def test_reliability_of_quantiles_is_the_share_below_them(
    ax: Axes, rng: np.random.Generator
) -> None:
    dist = NormalMixture.normal(rng.normal(size=60), rng.uniform(0.5, 2, size=60))
    y = rng.normal(0.5, 1.0, size=60)
    display = ReliabilityDisplay.from_predictions(y, dist, kind="quantile", n_levels=9, ax=ax)
    expected = [np.mean(y <= dist.ppf(p)) for p in np.arange(1, 10) / 10]
    np.testing.assert_allclose(display.line_.get_ydata(), expected)


@pytest.mark.parametrize("order", ["outcome", "mean"])
def test_intervals_stand_in_order(order: str, ax: Axes) -> None:
    display = IntervalDisplay.from_predictions(Y, DIST, coverage=0.8, order=order, ax=ax)
    rows = np.argsort(Y if order == "outcome" else DIST.mean(), kind="stable")
    lower, upper = DIST.interval(0.8)
    segments = np.array(display.intervals_.get_segments())  # (row, end, (x, y))
    np.testing.assert_allclose(segments[:, 0, 1], lower[rows])
    np.testing.assert_allclose(segments[:, 1, 1], upper[rows])
    np.testing.assert_allclose(segments[:, 0, 0], [1, 2, 3, 4])
    np.testing.assert_allclose(display.outcomes_.get_data(), [[1, 2, 3, 4], Y[rows]])
    np.testing.assert_allclose(display.mean_.get_ydata(), DIST.mean()[rows])
    # Two of the four z-scores exceed 1.28 in size.
    assert display.intervals_.get_label() == "80% interval, holds 50.0%"


def test_of_many_intervals_an_even_selection_is_drawn(ax: Axes) -> None:
    y = np.random.default_rng(0).permutation(10_000).astype(float)
    dist = NormalMixture.normal(np.full(10_000, 5000.0), np.full(10_000, 100.0))
    display = IntervalDisplay.from_predictions(y, dist, max_rows=101, ax=ax)
    rank, outcome = display.outcomes_.get_data()
    assert len(rank) == 101
    np.testing.assert_array_equal(outcome, rank - 1)  # the outcomes are their own ranks from 0
    assert (rank[0], rank[-1]) == (1, 10_000)
    assert set(np.diff(rank)) <= {99, 100, 101}
    assert ax.get_xlabel() == "rank by outcome (101 of 10,000 drawn)"
    # The label speaks of all rows: those within 1.645 standard deviations of 5000.
    assert display.intervals_.get_label().endswith("holds 3.3%")


@pytest.mark.parametrize("cls", EVERY)
def test_missing_targets_are_left_out(cls: Any, ax: Axes) -> None:
    y, mean = np.array([0.5, np.nan, -3.0, 2.0, 4.0]), [0.0, 7.0, 1.0, 2.0, 2.0]
    dist = NormalMixture.normal(mean, [1.0, 1.0, 2.0, 3.0, 0.5])
    expected = cls.from_predictions(Y, DIST, ax=ax)
    assert_same_data(cls.from_predictions(y, dist, ax=ax), expected)
    masked = np.ma.masked_array(np.nan_to_num(y, nan=1e3), mask=np.isnan(y))
    assert_same_data(cls.from_predictions(masked, dist, ax=ax), expected)


@pytest.mark.parametrize("cls", EVERY)
def test_output_is_chosen(cls: Any, ax: Axes) -> None:
    dist = NormalMixture.normal(
        np.column_stack([np.zeros(4), DIST.mean()]), np.column_stack([np.ones(4), DIST.std()])
    )
    both = np.column_stack([[np.nan, 1.0, 1.0, 1.0], Y])
    expected = cls.from_predictions(Y, DIST, ax=ax)
    assert_same_data(cls.from_predictions(both, dist, output=1, ax=ax), expected)
    with pytest.raises(ValueError, match="2 outputs: choose one by output=0 to output=1"):
        cls.from_predictions(both, dist, ax=ax)
    for output in (-1, 2):
        with pytest.raises(ValueError, match=f"output={output} is not an output"):
            cls.from_predictions(both, dist, output=output, ax=ax)


def assert_same_data(got: Any, expected: Any) -> None:
    for key, value in vars(expected).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(getattr(got, key), value)


@pytest.mark.parametrize("cls", EVERY)
def test_estimators_are_looked_through(cls: Any, model: Any, ax: Axes) -> None:
    X = np.array([[0.5], [1.0], [2.0], [3.0]])
    shift = FunctionTransformer(lambda X: X + 1.0)
    search = GridSearchCV(make_pipeline(shift, model), {}, cv=2)
    scaled = TransformedTargetRegressor(search, transformer=StandardScaler()).fit(X, Y)
    inner = model.predict_dist(X + 1.0).affine(Y.mean(), Y.std())
    got = cls.from_estimator(scaled, X, Y, ax=ax)
    assert_same_data(got, cls.from_predictions(Y, inner, ax=ax))
    assert got.name == "Heteroscedastic"
    assert cls.from_estimator(scaled, X, Y, name="mine", ax=ax).name == "mine"


@pytest.mark.parametrize("cls", EVERY)
def test_errors_name_the_trouble(cls: Any, model: Any, ax: Axes) -> None:
    X = np.ones((4, 1))
    with pytest.raises(TypeError, match="LinearRegression offers no predictive distribution"):
        cls.from_estimator(LinearRegression().fit(X, Y), X, Y, ax=ax)
    with pytest.raises(NotFittedError, match="SVGPRegressor"):
        cls.from_estimator(SVGPRegressor(), X, Y, ax=ax)
    with pytest.raises(ValueError, match=r"y_true has shape \(3,\) .* shape \(4,\)"):
        cls.from_estimator(model, X, Y[:3], ax=ax)


@pytest.mark.parametrize(
    ("cls", "option", "message"),
    [
        (PITDisplay, {"n_bins": 0}, "n_bins must be an integer of at least 1"),
        (PITDisplay, {"band_level": 1.0}, "band_level must lie between 0 and 1"),
        (ReliabilityDisplay, {"band_level": 0.0}, "band_level must lie between 0 and 1"),
        (ReliabilityDisplay, {"kind": "tail"}, "kind must be 'interval' or 'quantile'"),
        (ReliabilityDisplay, {"n_levels": 0}, "n_levels must be at least 1"),
        (IntervalDisplay, {"order": "size"}, "order must be 'outcome' or 'mean'"),
        (IntervalDisplay, {"max_rows": 0}, "max_rows must be at least 1"),
        (IntervalDisplay, {"coverage": 1.5}, "coverage must be a number in"),
    ],
)
def test_options_are_checked(cls: Any, option: dict[str, Any], message: str, ax: Axes) -> None:
    with pytest.raises(ValueError, match=message):
        cls.from_predictions(Y, DIST, ax=ax, **option)
