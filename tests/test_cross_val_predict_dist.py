"""Out-of-fold distributions against a loop over the folds."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, StandardScaler
from toy_regressor import ToyBayesianRidge, make_data

from skgp import SVGPClassifier
from skgp.compose import CrossFittedRegressor
from skgp.scoring import cross_val_predict_dist

SHUFFLED = KFold(4, shuffle=True, random_state=0)


def assert_is_the_loop(dist: Any, X: Any, y: Any, splits: Any, weight: Any = None) -> None:
    """Each row has the distribution of the model that was fitted without it."""
    splits = list(splits)
    assert sum(len(test) for _, test in splits) == len(dist)
    for train, test in splits:
        w = None if weight is None else weight[train]
        expected = ToyBayesianRidge().fit(X[train], y[train], w).predict_dist(X[test])
        np.testing.assert_array_equal(dist[test].mean(), expected.mean())
        np.testing.assert_array_equal(dist[test].std(), expected.std())


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("n_outputs", [None, 2])
def test_rows_are_in_the_order_of_X(n_jobs: int | None, n_outputs: int | None) -> None:
    X, y = make_data(n_outputs=n_outputs)
    dist = cross_val_predict_dist(ToyBayesianRidge(), X, y, cv=SHUFFLED, n_jobs=n_jobs)
    assert_is_the_loop(dist, X, y, SHUFFLED.split(X))


def test_default_is_five_folds_and_the_estimator_stays_unfitted() -> None:
    X, y = make_data()
    model = ToyBayesianRidge()
    assert_is_the_loop(cross_val_predict_dist(model, X, y), X, y, KFold(5).split(X))
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, "list"])
def test_frames_and_lists(frame: Any) -> None:
    X, y = make_data()
    if frame == "list":
        data, target = X.tolist(), y.tolist()
    else:
        data = frame({"a": X[:, 0], "b": X[:, 1]})
        target = (pd.Series if frame is pd.DataFrame else pl.Series)(y)
    dist = cross_val_predict_dist(make_pipeline(StandardScaler(), ToyBayesianRidge()), data, target,
                                  cv=SHUFFLED)  # fmt: skip
    expected = cross_val_predict(
        make_pipeline(StandardScaler(), ToyBayesianRidge()), X, y, cv=SHUFFLED
    )
    np.testing.assert_allclose(dist.mean(), expected, rtol=1e-12)


@pytest.mark.parametrize("enable_metadata_routing", [False, True])
def test_weights_are_split_with_the_rows(enable_metadata_routing: bool) -> None:
    X, y = make_data()
    w = np.random.default_rng(1).uniform(size=len(y))
    with config_context(enable_metadata_routing=enable_metadata_routing):
        model = ToyBayesianRidge()
        if enable_metadata_routing:
            with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
                cross_val_predict_dist(model, X, y, params={"sample_weight": w})
            model.set_fit_request(sample_weight=True)
        dist = cross_val_predict_dist(model, X, y, cv=SHUFFLED, params={"sample_weight": w})
    assert_is_the_loop(dist, X, y, SHUFFLED.split(X), w)


def test_weights_of_a_pipeline_step_are_split_too() -> None:
    X, y = make_data()
    w = np.random.default_rng(1).uniform(size=len(y)).tolist()
    model = make_pipeline("passthrough", ToyBayesianRidge())
    params = {"toybayesianridge__sample_weight": w}
    dist = cross_val_predict_dist(model, X, y, cv=SHUFFLED, params=params)
    assert_is_the_loop(dist, X, y, SHUFFLED.split(X), np.array(w))


@pytest.mark.parametrize("enable_metadata_routing", [False, True])
def test_groups(enable_metadata_routing: bool) -> None:
    X, y = make_data()
    groups = np.random.default_rng(1).integers(0, 9, size=len(y))
    given: dict[str, Any] = {"groups": groups}
    with config_context(enable_metadata_routing=enable_metadata_routing):
        if enable_metadata_routing:
            with pytest.raises(ValueError, match="params="):
                cross_val_predict_dist(ToyBayesianRidge(), X, y, cv=GroupKFold(3), **given)
            given = {"params": given}
        dist = cross_val_predict_dist(ToyBayesianRidge(), X, y, cv=GroupKFold(3), **given)
    assert_is_the_loop(dist, X, y, GroupKFold(3).split(X, groups=groups))


@pytest.mark.parametrize(
    "cv", [ShuffleSplit(3, random_state=0), RepeatedKFold(n_repeats=2), [([0, 1, 2], [3, 4])]]
)
def test_test_sets_must_be_a_partition(cv: Any) -> None:
    X, y = make_data()
    with pytest.raises(ValueError, match=r"partition: .* fold by fold .*concat"):
        cross_val_predict_dist(ToyBayesianRidge(), X, y, cv=cv)


def test_masks_in_the_place_of_row_numbers_are_named() -> None:
    X, y = make_data()
    first = np.arange(len(y)) < 30
    cv = [(~first, first), (first, ~first)]
    message = r"row numbers, and they are boolean masks: give np\.flatnonzero\(mask\)"
    with pytest.raises(ValueError, match=message):
        cross_val_predict_dist(ToyBayesianRidge(), X, y, cv=cv)
    with pytest.raises(ValueError, match=message):
        CrossFittedRegressor(ToyBayesianRidge(), cv=cv).fit(X, y)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_fixed_target_functions_join(n_jobs: int | None) -> None:
    X, y = make_data()
    y = np.exp(0.1 * y)
    model = TransformedTargetRegressor(ToyBayesianRidge(), func=np.log1p, inverse_func=np.expm1)
    dist = cross_val_predict_dist(model, X, y, cv=SHUFFLED, n_jobs=n_jobs)
    base = cross_val_predict_dist(ToyBayesianRidge(), X, np.log1p(y), cv=SHUFFLED)
    np.testing.assert_allclose(dist.cdf(y), base.cdf(np.log1p(y)), rtol=1e-9)


def _nested(kind: str, model: Any) -> Any:
    return {
        "plain": lambda: model,
        "pipeline": lambda: make_pipeline(StandardScaler(), model),
        "search": lambda: GridSearchCV(model, {"check_inverse": [False]}, cv=2),
        "frozen": lambda: make_pipeline(StandardScaler(), FrozenEstimator(model.fit(*make_data()))),
        "bag": lambda: BaggingRegressor(model, n_estimators=2, random_state=0),
        "voters": lambda: VotingRegressor([("a", model), ("b", "drop")]),
        "cross-fitted": lambda: CrossFittedRegressor(model, cv=2),
    }[kind]()


KINDS = "plain", "pipeline", "search", "frozen", "bag", "voters", "cross-fitted"


@pytest.mark.parametrize("as_transformer", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_the_session_join_whatever_n_jobs(kind: str, as_transformer: bool) -> None:
    X, y = make_data()
    shift = 1.0 - y.min()
    functions: Any = {
        "func": lambda v: np.log(v + shift),
        "inverse_func": lambda v: np.exp(v) - shift,
        "check_inverse": False,
    }
    if as_transformer:
        functions = {"transformer": FunctionTransformer(**functions), "check_inverse": False}
    model = _nested(kind, TransformedTargetRegressor(ToyBayesianRidge(), **functions))
    found, desired = (
        cross_val_predict_dist(model, X, y, cv=SHUFFLED, n_jobs=n_jobs) for n_jobs in (2, None)
    )
    np.testing.assert_array_equal(found.mean(), desired.mean())
    np.testing.assert_array_equal(found.logpdf(y), desired.logpdf(y))


def test_affine_transformers_learned_per_fold_join() -> None:
    X, y = make_data()
    model = TransformedTargetRegressor(ToyBayesianRidge(), transformer=StandardScaler())
    dist = cross_val_predict_dist(model, X, y, cv=SHUFFLED)
    np.testing.assert_allclose(dist.mean(), cross_val_predict(model, X, y, cv=SHUFFLED), rtol=1e-10)


def test_other_transformers_learned_per_fold_are_refused() -> None:
    X, y = make_data()
    model = TransformedTargetRegressor(
        ToyBayesianRidge(), transformer=PowerTransformer(), check_inverse=False
    )
    with pytest.raises(ValueError, match="func and inverse_func"):
        cross_val_predict_dist(model, X, np.exp(0.1 * y))


def test_a_fold_with_all_rows_of_a_class_is_named_before_a_fit() -> None:
    X, labels = np.zeros((30, 2)), np.where(np.arange(30) < 3, "rare", "usual")
    with pytest.raises(ValueError, match="Class 'rare' has no row outside fold 0"):
        cross_val_predict_dist(SVGPClassifier(), X, pd.Series(labels), cv=KFold(10))
