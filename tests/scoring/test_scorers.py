"""Scorers in every place of scikit-learn that accepts a scorer."""

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import clone, config_context
from sklearn.callback import CallbackSupportMixin, ScoringMonitor, with_callbacks
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import check_scoring
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from toy_regressor import ToyBayesianRidge, make_data

import skgp.scoring as scoring
from skgp.scoring import (
    DistributionScorer,
    coverage,
    coverage_scorer,
    crps,
    interval_score,
    make_dist_scorer,
    neg_crps_scorer,
    neg_nll_scorer,
)

OF_CLASSES = {"neg_expected_calibration_error_scorer", "neg_rps_scorer"}
READY_MADE = [
    name
    for name in scoring.__all__
    if name.endswith("_scorer") and "make" not in name and name not in OF_CLASSES
]


@pytest.fixture
def routing() -> Iterator[None]:
    with config_context(enable_metadata_routing=True):
        yield


def fold_scores(X: Any, y: Any, weight: Any = None, fit_weight: Any = None) -> np.ndarray:
    """Negative CRPS of the toy regressor on three folds, without scikit-learn's machinery."""
    scores = []
    for train, test in KFold(3).split(X):
        w = None if fit_weight is None else fit_weight[train]
        model = ToyBayesianRidge().fit(X[train], y[train], w)
        v = None if weight is None else weight[test]
        scores.append(-crps(y[test], model.predict_dist(X[test]), sample_weight=v))
    return np.array(scores)


@pytest.mark.parametrize("name", READY_MADE)
def test_ready_made_scorer_is_its_function_with_a_sign(name: str) -> None:
    X, y = make_data()
    w = np.linspace(0.0, 1.0, len(y))
    model = ToyBayesianRidge().fit(X, y)
    stem = name.removesuffix("_scorer").removeprefix("neg_")
    function = getattr(scoring, stem, None) or getattr(scoring, f"{stem}_loss")
    expected = function(y, model.predict_dist(X), sample_weight=w)
    sign = -1.0 if name.startswith("neg_") else 1.0
    assert getattr(scoring, name)(model, X, y, sample_weight=w) == sign * expected


def test_ready_made_scorers_are_all_there() -> None:
    assert len(READY_MADE) == 9


def test_scorer_passes_its_arguments() -> None:
    X, y = make_data(n_outputs=2)
    model = ToyBayesianRidge().fit(X, y)
    dist = model.predict_dist(X)
    kwargs: dict[str, Any] = {"coverage": 0.5, "multioutput": [1.0, 0.0]}
    scorer = make_dist_scorer(interval_score, **kwargs)
    assert scorer(model, X, y) == -interval_score(y, dist, **kwargs)
    scorer = make_dist_scorer(coverage, greater_is_better=True, **kwargs)
    assert scorer(model, X, y) == coverage(y, dist, **kwargs)
    assert repr(scorer) == (
        "make_dist_scorer(coverage, greater_is_better=True, coverage=0.5, multioutput=[1.0, 0.0])"
    )


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_cross_val_score(n_jobs: int | None) -> None:
    X, y = make_data()
    got = cross_val_score(ToyBayesianRidge(), X, y, cv=KFold(3), scoring=neg_crps_scorer,
                          n_jobs=n_jobs, error_score="raise")  # fmt: skip
    np.testing.assert_array_equal(got, fold_scores(X, y))


def test_missing_targets_are_scored_by_the_observed_ones() -> None:
    X, y = make_data(n_outputs=2)
    y[::4, 0] = np.nan
    model = ToyBayesianRidge()
    got = cross_val_score(model, X, y, cv=KFold(3), scoring=neg_crps_scorer, error_score="raise")
    np.testing.assert_array_equal(got, fold_scores(X, y))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(frame: Any) -> None:
    X, y = make_data()
    data = frame({"a": X[:, 0], "b": X[:, 1]})
    target = (pd.Series if frame is pd.DataFrame else pl.Series)(y)
    got = cross_val_score(make_pipeline(ToyBayesianRidge()), data, target, cv=KFold(3),
                          scoring=neg_crps_scorer, error_score="raise")  # fmt: skip
    np.testing.assert_allclose(got, fold_scores(X, y), rtol=1e-12)


def test_search_through_pipeline_and_target_transformer_selects_the_right_spread() -> None:
    X, y = make_data()
    model = TransformedTargetRegressor(
        make_pipeline(StandardScaler(), ToyBayesianRidge()), transformer=StandardScaler()
    )
    grid = {"regressor__toybayesianridge__inflation": [0.3, 1.0, 3.0]}
    search = GridSearchCV(model, grid, scoring=neg_crps_scorer, cv=3, error_score="raise")
    search.fit(X, y)
    assert search.best_params_ == {"regressor__toybayesianridge__inflation": 1.0}
    # The score is in the units of y: rescaling y rescales it.
    scaled = clone(search).fit(X, 1000.0 * y)
    np.testing.assert_allclose(scaled.best_score_, 1000.0 * search.best_score_, rtol=1e-9)


def test_nested_search_in_two_processes_with_several_scores() -> None:
    X, y = make_data()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), ToyBayesianRidge()),
        {"toybayesianridge__inflation": [0.3, 1.0, 3.0]},
        scoring={"nll": neg_nll_scorer, "coverage": coverage_scorer, "r2": "r2"},
        refit="nll",
        cv=3,
        error_score="raise",
    )
    results = cross_validate(
        search, X, y, cv=2, scoring={"crps": neg_crps_scorer, "rmse": scoring.neg_rmse_scorer},
        n_jobs=2, return_estimator=True, error_score="raise",
    )  # fmt: skip
    (train, test), _ = KFold(2).split(X)
    expected = make_pipeline(StandardScaler(), ToyBayesianRidge()).fit(X[train], y[train])
    best = results["estimator"][0]
    assert best.best_params_ == {"toybayesianridge__inflation": 1.0}
    assert (
        best.cv_results_["mean_test_coverage"][0] < 0.6 < best.cv_results_["mean_test_coverage"][1]
    )
    np.testing.assert_allclose(
        results["test_crps"][0], neg_crps_scorer(expected, X[test], y[test]), rtol=1e-12
    )
    np.testing.assert_allclose(
        results["test_rmse"][0],
        -np.sqrt(np.mean((expected.predict(X[test]) - y[test]) ** 2)),
        rtol=1e-12,
    )


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("multimetric", [False, True])
def test_routed_weights_reach_the_scorer_that_asked(multimetric: bool) -> None:
    X, y = make_data()
    w = np.random.default_rng(1).uniform(size=len(y))
    scorer = neg_crps_scorer.set_score_request(sample_weight=True)
    unweighted = ToyBayesianRidge().set_fit_request(sample_weight=False)
    weighted = ToyBayesianRidge().set_fit_request(sample_weight=True)

    def evaluate(s: Any, params: dict[str, Any] | None, model: Any = unweighted) -> Any:
        arguments = {"scoring": {"s": s} if multimetric else s, "params": params}
        results = cross_validate(model, X, y, cv=KFold(3), error_score="raise", **arguments)
        return results["test_s" if multimetric else "test_score"]

    np.testing.assert_array_equal(evaluate(scorer, {"sample_weight": w}), fold_scores(X, y, w))
    # The shared scorer is unchanged: it neither takes the weights nor lets them pass unnoticed.
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        evaluate(neg_crps_scorer, {"sample_weight": w})
    refusing = neg_crps_scorer.set_score_request(sample_weight=False)
    np.testing.assert_array_equal(
        evaluate(refusing, {"sample_weight": w}, weighted), fold_scores(X, y, None, w)
    )
    alias = neg_crps_scorer.set_score_request(sample_weight="importance")
    np.testing.assert_array_equal(evaluate(alias, {"importance": w}), fold_scores(X, y, w))
    np.testing.assert_array_equal(evaluate(neg_crps_scorer, None), fold_scores(X, y))


@pytest.mark.usefixtures("routing")
def test_routed_weights_reach_fit_and_scorer_in_a_search() -> None:
    X, y = make_data()
    w = np.random.default_rng(1).uniform(size=len(y))
    model = ToyBayesianRidge().set_fit_request(sample_weight=True)
    scorer = neg_crps_scorer.set_score_request(sample_weight=True)
    search = GridSearchCV(model, {"inflation": [1.0]}, scoring=scorer, cv=KFold(3),
                          error_score="raise").fit(X, y, sample_weight=w)  # fmt: skip
    np.testing.assert_allclose(search.best_score_, fold_scores(X, y, w, w).mean(), rtol=1e-12)


def test_search_score_passes_weights_without_routing() -> None:
    X, y = make_data()
    w = np.random.default_rng(1).uniform(size=len(y))
    model = ToyBayesianRidge().fit(X, y)
    both = check_scoring(
        model, {"crps": neg_crps_scorer, "unweighted": make_dist_scorer(no_weights)}
    )
    scores = both(model, X, y, sample_weight=w)
    assert scores["crps"] == -crps(y, model.predict_dist(X), sample_weight=w)
    assert scores["unweighted"] == -no_weights(y, model.predict_dist(X))


def no_weights(y: Any, dist: Any) -> float:
    return float(np.mean((y - dist.mean()) ** 2))


def test_request_needs_routing_and_a_score_with_weights() -> None:
    with pytest.raises(RuntimeError, match="enable_metadata_routing=True"):
        neg_crps_scorer.set_score_request(sample_weight=True)
    with (
        config_context(enable_metadata_routing=True),
        pytest.raises(TypeError, match=r"no_weights.* takes no sample_weight"),
    ):
        make_dist_scorer(no_weights).set_score_request(sample_weight=True)


def test_scorers_have_the_names_of_their_scores() -> None:
    scorers = {k: v for k, v in vars(scoring).items() if isinstance(v, DistributionScorer)}
    assert len(scorers) == 11
    for name, scorer in scorers.items():
        sign = "" if scorer.greater_is_better else "neg_"
        assert name == f"{sign}{scorer.score_func.__name__}_scorer"


def test_pickle_and_clone_keep_the_score(routing: None) -> None:
    X, y = make_data()
    model = ToyBayesianRidge().fit(X, y)
    scorer = make_dist_scorer(interval_score, coverage=0.5).set_score_request(sample_weight="v")
    for copy in (pickle.loads(pickle.dumps(scorer)), clone(scorer, safe=False)):
        assert isinstance(copy, DistributionScorer)
        assert copy(model, X, y) == scorer(model, X, y)
        assert repr(copy) == repr(scorer) == "make_dist_scorer(interval_score, coverage=0.5)"
        assert copy.get_metadata_routing().score.requests == {"sample_weight": "v"}
    search = clone(GridSearchCV(model, {"alpha": [1.0]}, scoring=scorer))
    assert search.scoring.kwargs == {"coverage": 0.5}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("crps", {}), TypeError, "score_func must be callable, got str"),
        ((interval_score, {"cover": 0.5}), TypeError, "cover"),
        ((crps, {"multioutput": "raw_values"}), ValueError, "one number"),
    ],
)
def test_impossible_scorers_are_refused(
    arguments: tuple[Any, dict[str, Any]], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_dist_scorer(arguments[0], **arguments[1])


class EpochRegressor(CallbackSupportMixin, ToyBayesianRidge):
    """Fits in three epochs, on more rows in each, and tells the callbacks."""

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "EpochRegressor":
        context = self._init_callback_context(max_subtasks=3)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        for epoch in range(3):
            task = context.subcontext(task_name="epoch")
            task.call_on_fit_task_begin(estimator=self, X=X, y=y)
            super().fit(X[: 20 * (epoch + 1)], y[: 20 * (epoch + 1)])
            task.call_on_fit_task_end(
                estimator=self, X=X, y=y, reconstruction_attributes=lambda: {}
            )
        context.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes={})
        return self


def test_scoring_monitor_logs_every_epoch() -> None:
    X, y = make_data()
    monitor = ScoringMonitor(scoring={"crps": neg_crps_scorer})
    model = EpochRegressor()
    model.set_callbacks(monitor)
    model.fit(X, y)
    rows = [row["crps"] for row in monitor.get_logs(select="most_recent").data if "crps" in row]
    epochs = [ToyBayesianRidge().fit(X[:n], y[:n]) for n in (20, 40, 60)]
    expected = [-crps(y, model.predict_dist(X)) for model in epochs]
    # The first row is that of the whole fit.
    np.testing.assert_allclose(rows, [expected[-1], *expected], rtol=1e-12)
