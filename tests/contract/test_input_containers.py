"""Whatever container the numbers come in, the fit is that of a float64 array in C order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from contract_cases import REPRESENTATIVES, Case, Data, for_minibatches, make_data
from matplotlib.figure import Figure

from skgp import SVGPRegressor
from skgp.compose import CrossFittedRegressor
from skgp.plotting import PredictiveBandDisplay, RowDensityDisplay

pytestmark = pytest.mark.usefixtures("short_start")
QUICK = REPRESENTATIVES
COLUMNS = ["width", "height", "depth"]
EPOCHS = 3


def _read_only(array: Any) -> Any:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _strided(array: Any) -> Any:
    return np.repeat(np.repeat(array, 2, axis=0), 2, axis=-1)[::2, ::2]


def _reversed_memory(array: Any) -> Any:
    return array[::-1].copy()[::-1]


def _missing_aware_frame(array: Any) -> Any:
    return pd.DataFrame(array, columns=COLUMNS).astype("Float64")


X_CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "list of lists": lambda X: X.tolist(),
    "list of arrays": list,
    "float32": lambda X: X.astype(np.float32),
    "long double": lambda X: X.astype(np.longdouble),
    "big endian": lambda X: X.astype(">f8"),
    "object of numbers": lambda X: X.astype(object),
    "Fortran order": np.asfortranarray,
    "read-only": _read_only,
    "strided": _strided,
    "reversed memory": _reversed_memory,
    "pandas": lambda X: pd.DataFrame(X, columns=COLUMNS),
    "pandas with an index": lambda X: pd.DataFrame(X, columns=COLUMNS, index=range(len(X), 0, -1)),
    "pandas nullable": _missing_aware_frame,
    "pandas of mixed dtypes": lambda X: pd.DataFrame(X, columns=COLUMNS).astype({"depth": "f4"}),
    "polars": lambda X: pl.DataFrame(X, schema=COLUMNS),
}

Y_CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "list": lambda y: y.tolist(),
    "float32": lambda y: y.astype(np.float32),
    "big endian": lambda y: y.astype(">f8"),
    "object of numbers": lambda y: y.astype(object),
    "read-only": _read_only,
    "reversed memory": _reversed_memory,
    "pandas series": lambda y: pd.Series(y, index=range(len(y), 0, -1)),
    "pandas nullable": lambda y: pd.Series(y, dtype="Float64"),
    "polars series": pl.Series,
}


def _predictions(model: Any, X: Any) -> tuple[Any, Any]:
    return model.predict(X, return_std=True)


@pytest.fixture(scope="module")
def reference(case: Case, data: Data) -> tuple[Any, Any]:
    model = case.make(max_iter=EPOCHS, dtype="float64").fit(data.X, data.y)
    return _predictions(model, data.X_new)


def assert_equal_predictions(actual: Any, desired: Any) -> None:
    for a, b in zip(actual, desired, strict=True):
        # Another memory layout is another order of summation, whose rounding training amplifies.
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("container", X_CONTAINERS.values(), ids=X_CONTAINERS.keys())
def test_containers_of_inputs(case: Case, data: Data, reference: Any, container: Any) -> None:
    model = case.make(max_iter=EPOCHS, dtype="float64").fit(container(data.X), data.y)
    assert_equal_predictions(_predictions(model, container(data.X_new)), reference)


@pytest.mark.parametrize("container", Y_CONTAINERS.values(), ids=Y_CONTAINERS.keys())
def test_containers_of_targets(case: Case, data: Data, reference: Any, container: Any) -> None:
    model = case.make(max_iter=EPOCHS, dtype="float64").fit(data.X, container(data.y))
    assert_equal_predictions(_predictions(model, data.X_new), reference)


def test_memory_maps(case: Case, data: Data, reference: Any, tmp_path: Path) -> None:
    maps = []
    for number, array in enumerate(data):
        np.save(tmp_path / f"{number}.npy", array)
        maps.append(np.load(tmp_path / f"{number}.npy", mmap_mode="r"))
    model = case.make(max_iter=EPOCHS, dtype="float64").fit(maps[0], maps[1])
    assert_equal_predictions(_predictions(model, maps[2]), reference)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_of_targets(make: Any, data: Data, frame: Any) -> None:
    desired = make(max_iter=EPOCHS).fit(data.X, data.Y).predict(data.X_new)
    model = make(max_iter=EPOCHS).fit(data.X, frame({"a": data.Y[:, 0], "b": data.Y[:, 1]}))
    np.testing.assert_array_equal(model.predict(data.X_new), desired)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float16, bool])
def test_narrow_numbers(make: Any, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2 if dtype is bool else 50, size=(40, 3))
    y = X.sum(axis=1) + rng.integers(0, 3, size=40)
    narrow, wide = (
        make(max_iter=EPOCHS, dtype="float64").fit(X.astype(t), y) for t in (dtype, np.float64)
    )
    assert_equal_predictions(
        _predictions(narrow, X[:9].astype(dtype)), _predictions(wide, X[:9].astype(float))
    )


@pytest.mark.parametrize("container", [list, pd.Series, np.float32, pl.Series])
def test_containers_of_weights(make: Any, data: Data, container: Any) -> None:
    weight = np.arange(len(data.X)) % 4 * 0.5
    model, desired = (
        make(max_iter=EPOCHS).fit(data.X, data.y, sample_weight=w)
        for w in (container(weight), weight)
    )
    np.testing.assert_array_equal(model.predict(data.X_new), desired.predict(data.X_new))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_of_columns_are_remembered_and_checked(make: Any, data: Data, frame: Any) -> None:
    columns = dict(zip(COLUMNS, data.X.T, strict=True))
    model = make(max_iter=1).fit(frame(columns), data.y)
    assert list(model.feature_names_in_) == COLUMNS
    assert model.n_features_in_ == 3
    shuffled = frame({name: columns[name] for name in reversed(COLUMNS)})
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(shuffled)
    again = model.set_params(warm_start=True)
    with pytest.raises(ValueError, match="feature names should match"):
        again.fit(shuffled, data.y)


@for_minibatches
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_of_columns_are_checked_chunk_by_chunk(make: Any, data: Data, frame: Any) -> None:
    columns = dict(zip(COLUMNS, data.X.T, strict=True))
    model = make().partial_fit(frame(columns), data.y)
    shuffled = frame({name: columns[name] for name in reversed(COLUMNS)})
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(shuffled, data.y)


def test_validation_rows_may_be_frames(make: Any) -> None:
    data = make_data(n=40)
    frames = [pd.DataFrame(X, columns=COLUMNS) for X in (data.X, data.X_new)]
    model = make(max_iter=EPOCHS).fit(frames[0], data.y, X_val=frames[1], y_val=data.y_new)
    desired = make(max_iter=EPOCHS).fit(data.X, data.y, X_val=data.X_new, y_val=data.y_new)
    # The order of summation follows the order in memory, so the last digits may differ.
    np.testing.assert_allclose(model.validation_scores_, desired.validation_scores_, rtol=1e-6)
    assert len(model.validation_scores_) == EPOCHS


def test_inputs_are_not_modified(make: Any, data: Data) -> None:
    X, Y, weight = data.X.copy(), data.Y.copy(), np.ones(len(data.X))
    model = make(max_iter=2).fit(X, Y, sample_weight=weight)
    if hasattr(model, "partial_fit"):
        model.partial_fit(X, Y, weight)
    model.predict(X)
    np.testing.assert_array_equal(X, data.X)
    np.testing.assert_array_equal(Y, data.Y)
    np.testing.assert_array_equal(weight, 1.0)


@pytest.mark.parametrize("dtype", ["Float64", "float64[pyarrow]"])
def test_missing_targets_of_pandas(data: Data, dtype: str) -> None:
    """NA in one of two outputs is missing wherever targets are read, as NaN is."""
    given = data.Y.copy()
    given[:9, 0] = np.nan
    y = pd.DataFrame(given, columns=["a", "b"]).astype(dtype)
    y.loc[:8, "a"] = pd.NA
    member = SVGPRegressor(n_inducing=8, max_iter=3, random_state=0)
    scales = [
        CrossFittedRegressor(member, cv=2, recalibrate=True).fit(data.X, of).scale_
        for of in (given, y)
    ]
    assert scales[0] == scales[1] != 1.0
    model = member.fit(data.X, given)
    dist = model.predict_dist(data.X).with_output_names(["a", "b"])
    np.testing.assert_array_equal(dist.logpdf(y), dist.logpdf(given))
    chosen = {"output": "a", "ax": Figure().subplots()}
    rows = RowDensityDisplay.from_predictions(dist, y, **chosen)
    assert np.isnan(rows.observed).any()
    band = PredictiveBandDisplay.from_estimator(
        member.fit(data.X, y), data.X, y, column=0, **chosen
    )
    assert len(band.points_.get_ydata()) == len(y) - 9
