"""Names of the columns of y: estimators remember them, distributions and displays show them."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import skgp
from skgp import plotting
from skgp.compose import CrossFittedRegressor, predict_latent
from skgp.estimators.baselines import MCDropoutRegressor

pytestmark = pytest.mark.usefixtures("short_start")

NAMES = ("wind", "rain")
SMALL = {"max_iter": 1, "n_inducing": 5, "random_state": 0}
MODELS = [
    skgp.SVGPRegressor(**SMALL),
    skgp.IWDGPRegressor(**SMALL),
    skgp.GPRNRegressor(**SMALL),
    MCDropoutRegressor(max_iter=1, random_state=0),
]


def _name(model: Any) -> str:
    return type(model).__name__


@pytest.fixture(scope="module")
def rows() -> tuple[Any, Any]:
    X = np.random.default_rng(0).normal(size=(40, 2))
    return X, np.column_stack([X[:, 0] + X[:, 1], X[:, 0] ** 2])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("model", MODELS, ids=_name)
def test_columns_of_a_frame(model: Any, frame: Any, rows: tuple[Any, Any], tmp_path: Path) -> None:
    X, Y = rows
    model.fit(X, frame(dict(zip(NAMES, Y.T, strict=True))))
    assert model.output_names_ == NAMES
    dist = model.predict_dist(X)
    assert dist.output_names == NAMES
    np.testing.assert_array_equal(dist[:, "rain"].mean(), model.predict(X)[:, 1])
    skgp.save(model, tmp_path / "model.skgp")
    for copy in (pickle.loads(pickle.dumps(model)), skgp.load(tmp_path / "model.skgp")):
        assert copy.predict_dist(X[:3]).output_names == NAMES
    assert model.fit(X, Y).predict_dist(X).output_names is None


def test_name_of_a_series_and_of_the_latent_function(rows: tuple[Any, Any]) -> None:
    X, Y = rows
    for series in (pd.Series(Y[:, 0], name="wind"), pl.Series("wind", Y[:, 0])):
        model = skgp.SVGPRegressor(**SMALL).fit(X, series)
        assert model.predict_dist(X).output_names == ("wind",)
        assert model.predict_latent(X).output_names == ("wind",)
    for unnamed in (pd.Series(Y[:, 0]), pl.Series(Y[:, 0]), pd.DataFrame(Y)):
        assert model.fit(X, unnamed).output_names_ is None


def test_counts_have_a_name(rows: tuple[Any, Any]) -> None:
    X, Y = rows
    calls = pd.Series(np.floor(np.abs(Y[:, 1])), name="calls")
    model = skgp.SVGPRegressor(likelihood="poisson", **SMALL).fit(X, calls)
    assert model.predict_dist(X).output_names == ("calls",)


def test_names_pass_through_compositions(rows: tuple[Any, Any]) -> None:
    X, Y = rows
    frame = pd.DataFrame(Y, columns=NAMES)
    pipe = make_pipeline(StandardScaler(), skgp.SVGPRegressor(**SMALL)).fit(X, frame)
    assert skgp.predict_dist(pipe, X).output_names == NAMES
    assert predict_latent(pipe, X).output_names == NAMES
    ensemble = CrossFittedRegressor(skgp.SVGPRegressor(**SMALL), cv=2).fit(X, frame)
    assert ensemble.predict_dist(X).output_names == NAMES


def test_names_of_the_table_of_an_embedding(rows: tuple[Any, Any]) -> None:
    frame = pd.DataFrame(np.column_stack(rows), columns=["a", "b", "c", "d"])
    model = skgp.MOGPEmbedding(n_components=1, **SMALL).fit(frame)
    assert model.predict_dist([[0.0]]).output_names == ("a", "b", "c", "d")


def test_a_stream_and_a_warm_start_keep_the_names_and_their_order(rows: tuple[Any, Any]) -> None:
    X, Y = rows
    frame = pd.DataFrame(Y, columns=NAMES)
    stream = skgp.SVGPRegressor(**SMALL).partial_fit(X, frame)
    assert stream.partial_fit(X, Y).output_names_ == NAMES
    with pytest.raises(ValueError, match=r"y has the columns \['rain', 'wind'\].*same order"):
        stream.partial_fit(X, frame[["rain", "wind"]])
    warm = skgp.SVGPRegressor(warm_start=True, **SMALL).fit(X, frame)
    assert warm.fit(X, Y).output_names_ == NAMES
    with pytest.raises(ValueError, match="y_val has the columns"):
        skgp.SVGPRegressor(**SMALL).fit(X, frame, X_val=X, y_val=frame[["rain", "wind"]])


def test_scores_and_known_noise_have_the_order_of_the_outputs(rows: tuple[Any, Any]) -> None:
    X, Y = rows
    frame = pd.DataFrame(Y, columns=NAMES)
    swapped = frame[["rain", "wind"]]
    model = skgp.ExactGPRegressor(max_iter=2, random_state=0).fit(X, frame)
    assert (
        model.score(X, frame) == model.score(X, Y) == model.score(X, frame.set_axis([0, 1], axis=1))
    )
    with pytest.raises(ValueError, match=r"y has the columns \['rain', 'wind'\].*same order"):
        model.score(X, swapped)
    model.fit(X, frame, noise_variance=frame.add_prefix("noise of ") ** 2)
    with pytest.raises(ValueError, match="noise_variance has the columns"):
        model.fit(X, frame, noise_variance=swapped**2)
    held_out = {"X_val": X, "y_val": frame, "noise_variance_val": swapped**2}
    with pytest.raises(ValueError, match="noise_variance_val has the columns"):
        model.fit(X, frame, **held_out)


def test_displays_take_and_show_names(rows: tuple[Any, Any]) -> None:
    X, Y = rows
    frame = pd.DataFrame(Y, columns=NAMES)
    model = skgp.SVGPRegressor(**SMALL).fit(X, frame)
    band, density = plotting.PredictiveBandDisplay, plotting.ConditionalDensityDisplay
    for display in (band, density):
        shown = display.from_estimator(
            model, X, frame, column=0, output="rain", grid=3, ax=Figure().subplots()
        )
        same = display.from_estimator(
            model, X, frame, column=0, output=1, grid=3, ax=Figure().subplots()
        )
        np.testing.assert_array_equal(shown.mean, same.mean)
        assert shown.ax_.get_ylabel() == same.ax_.get_ylabel() == "rain"
    intervals = plotting.IntervalDisplay.from_estimator(
        model, X, frame, output="rain", ax=Figure().subplots()
    )
    assert intervals.ax_.get_ylabel() == "rain"
    np.testing.assert_array_equal(np.sort(intervals.y_true), np.sort(Y[:, 1]))
    with pytest.raises(ValueError, match=r"or by its name out of \['wind', 'rain'\]"):
        plotting.PITDisplay.from_estimator(model, X, frame)
    with pytest.raises(ValueError, match="output='snow' is no name of an output"):
        plotting.PITDisplay.from_estimator(model, X, frame, output="snow")


TARGETS = {
    "affine": FunctionTransformer(lambda Y: 3.0 * Y, lambda Y: Y / 3.0),
    "monotone": FunctionTransformer(np.arcsinh, np.sinh),
}


@pytest.mark.parametrize("transformer", TARGETS.values(), ids=TARGETS)
def test_names_behind_a_transformed_target(transformer: Any, rows: tuple[Any, Any]) -> None:
    """scikit-learn makes an array of y; what a transformer or the user names is kept."""
    X, Y = rows
    frame = pd.DataFrame(Y, columns=NAMES)
    model = TransformedTargetRegressor(skgp.SVGPRegressor(**SMALL), transformer=transformer)
    dist = skgp.predict_dist(model.fit(X, frame), X)
    assert dist.output_names is None
    columns = dist.with_output_names(frame.columns).to_frame().columns
    assert list(columns.unique(level=0)) == [*NAMES]
    naming = clone(transformer).set_params(feature_names_out=lambda *_: NAMES)
    model.set_params(transformer=naming.set_output(transform="pandas")).fit(X, frame)
    named = skgp.predict_dist(model, X)
    assert named.output_names == NAMES
    np.testing.assert_array_equal(named.mean(), dist.mean())
