"""Inputs and targets of another kind than numbers are refused with the remedy.

Dates, times and durations would lose their unit as numbers, and sparse inputs are not supported.
"""

import datetime
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from contract_cases import CLASSIFIERS, EMBEDDINGS, REGRESSORS, Case, Data
from scipy.sparse import csr_array
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skgp import SVGPRegressor
from skgp.plotting import PredictiveBandDisplay
from skgp.scoring import coverage, crps, neg_crps_scorer, nll

NAMES = {"svgp-full", "mcdropout", "exact"}
pytestmark = pytest.mark.usefixtures("short_start")
CASES = [*(case for case in REGRESSORS if case.name in NAMES), *CLASSIFIERS[:1]]

DAYS = np.datetime64("2024-03-01") + np.arange(200)
SPANS = DAYS - DAYS[0]
MONTHS = pd.Series(pd.period_range("2020", periods=200, freq="M"))


def _table(n: int, kind: Any) -> Any:
    days, ones = pd.Series(DAYS[:n]), np.ones(n)
    column = {
        "pandas": days,
        "pandas with a zone": days.astype("datetime64[ns]").dt.tz_localize("UTC"),
        "pandas of dates": days.dt.date,
        "pandas of durations": days - days[0],
    }.get(kind)
    if column is not None:
        return pd.DataFrame({"width": ones, "height": ones, "time of day": column})
    if kind == "polars":
        return pl.DataFrame({"width": ones, "height": ones, "time of day": pl.Series(DAYS[:n])})
    array = np.tile(DAYS[:n, None] if kind != "durations" else SPANS[:n, None], 3)
    array[n // 2, 0] = "NaT"
    if kind == "objects":
        return np.array([list(row) for row in array], dtype=object)
    return {"list": [list(row) for row in array], "list of arrays": list(array)}.get(kind, array)


FRAMES = "pandas", "pandas with a zone", "pandas of dates", "pandas of durations", "polars"
ARRAYS = "array", "durations", "list", "list of arrays", "objects"


@pytest.mark.parametrize("kind", [*FRAMES, *ARRAYS])
def test_times_among_the_inputs(case: Case, data: Data, kind: str) -> None:
    y = data.y > np.median(data.y) if case in CLASSIFIERS else data.y
    X = _table(len(y), kind)
    named = " has the column 'time of day' of " if kind in FRAMES else " holds dates or times"
    model = case.make(max_iter=1)
    for method in (model.fit, getattr(model, "partial_fit", model.fit)):
        with pytest.raises(ValueError, match=f"^X{named}.*: convert .* to numbers, such as days"):
            method(X, y)
    with pytest.raises(ValueError, match=f"^X_val{named}"):
        model.fit(data.X, y, X_val=X, y_val=y)
    model.fit(data.X, y)
    for method in ("predict", "predict_proba", "predict_dist"):
        with pytest.raises(ValueError, match=f"^X{named}"):
            getattr(model, method)(X)


@pytest.mark.only(tuple(CASES[:-1]))
@pytest.mark.parametrize(
    "y",
    [
        DAYS,
        SPANS,
        list(DAYS),
        [datetime.timedelta(hours=i) for i in range(200)],
        pd.Series(DAYS),
        pl.Series(DAYS),
        pd.DataFrame({"a": np.ones(200), "b": DAYS}),
        np.column_stack([DAYS, DAYS]),
    ],
    ids=lambda y: f"{type(y).__module__}-{getattr(y, 'dtype', 'none')}-{np.ndim(y)}",
)
def test_times_as_targets(case: Case, data: Data, y: Any) -> None:
    y = y[: len(data.y)]
    named = "y has the column 'b' of" if hasattr(y, "columns") else "y holds dates or times"
    with pytest.raises(ValueError, match=f"^{named}.*: convert"):
        case.make(max_iter=1).fit(data.X, y)


@pytest.mark.parametrize("y", [DAYS, pd.Series(SPANS), MONTHS])
def test_times_as_targets_of_scores(y: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 1))
    model = SVGPRegressor(n_inducing=8, max_iter=1, random_state=0).fit(X, X[:, 0])
    dist, message = model.predict_dist(X), "holds dates or times: convert"
    for score in (crps, nll, coverage):
        with pytest.raises(ValueError, match=f"^y_true {message}"):
            score(y, dist)
    with pytest.raises(ValueError, match=f"^y_true {message}"):
        neg_crps_scorer(model, X, y)
    for method in (model.score, partial(PredictiveBandDisplay.from_estimator, model)):
        with pytest.raises(ValueError, match=f"^y {message}"):
            method(X, y)
    with pytest.raises(ValueError, match=f"^y {message}"):
        dist.logpdf(y)


def test_periods_as_inputs(data: Data) -> None:
    X = pd.DataFrame({"a": data.X[:, 0], "month": MONTHS[:60]})
    with pytest.raises(ValueError, match=r"^X has the column 'month' of period\[M\]: convert"):
        SVGPRegressor(max_iter=1).fit(X, data.y)


def test_times_in_a_table_that_is_embedded(data: Data) -> None:
    table = pd.DataFrame({"a": data.Y[:, 0], "day": DAYS[: len(data.Y)]})
    with pytest.raises(ValueError, match=r"^X has the column 'day' of"):
        EMBEDDINGS[0].make(max_iter=1).fit(table)


def test_sparse_inputs(case: Case, data: Data) -> None:
    y = data.y > np.median(data.y) if case in CLASSIFIERS else data.y
    pipe = make_pipeline(OneHotEncoder(), case.make(max_iter=1))
    remedy = (
        r"^Sparse data .* for X, .*pass X\.toarray\(\), .* OneHotEncoder\(sparse_output=False\)"
    )
    with pytest.raises(TypeError, match=remedy):
        pipe.fit(np.round(data.X), y)
    model = case.make(max_iter=1).fit(data.X, y)
    with pytest.raises(TypeError, match=remedy):
        model.predict(csr_array(data.X))


def test_a_sparse_table_that_is_embedded(data: Data) -> None:
    model = EMBEDDINGS[0].make(max_iter=1)
    with pytest.raises(TypeError, match=r"^Sparse data was passed for X, .*pass X\.toarray\(\)"):
        model.fit(csr_array(data.Y))


@pytest.mark.only(tuple(CASES[:1]))
def test_numbers_in_any_container_are_no_times(case: Case, data: Data) -> None:
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"]).astype(object)
    models = [case.make(max_iter=1).fit(X, data.y) for X in (frame, data.X)]
    found, desired = models[0].predict(frame), models[1].predict(data.X)
    np.testing.assert_allclose(found, desired, rtol=1e-6)
