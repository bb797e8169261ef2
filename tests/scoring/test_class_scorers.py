"""Scorers of classes: the columns of `predict_proba` are known by the classes of the estimator."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn import clone, config_context
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from toy_regressor import ToyBayesianRidge

from skgp.scoring import (
    DistributionScorer,
    expected_calibration_error,
    neg_expected_calibration_error_scorer,
    neg_rps_scorer,
    rps,
)

SCORERS = [
    (neg_rps_scorer, rps),
    (neg_expected_calibration_error_scorer, expected_calibration_error),
]
for_both = pytest.mark.parametrize(("scorer", "score"), SCORERS)


def make_grades(n: int = 120) -> tuple[Any, Any]:
    """Grades 0 to 4."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, size=(n, 1))
    return X, np.clip(np.round(X[:, 0] + 0.5 * rng.normal(size=n)), -2, 2).astype(int) + 2


@for_both
@pytest.mark.parametrize("names", [np.arange(5), np.array(["e", "b", "d", "a", "c"])])
def test_a_fold_may_lack_classes_on_either_side(scorer: Any, score: Any, names: Any) -> None:
    """Of those that the estimator has not seen the probability is zero."""
    X, grades = make_grades()
    y = names[grades]
    train = np.flatnonzero(y != names[3])[:80]
    test = np.setdiff1d(np.flatnonzero(y != names[0]), train)
    model = LogisticRegression().fit(X[train], y[train])
    assert len(model.classes_) == len(np.unique(y[test])) == 4
    p = np.zeros((len(test), 5))
    p[:, np.searchsorted(np.sort(names), model.classes_)] = model.predict_proba(X[test])
    expected = -score(y[test], p, labels=np.sort(names))
    assert scorer(model, X[test], y[test]) == pytest.approx(expected, rel=1e-12)
    found = cross_val_score(model, X, y, cv=[(train, test)], scoring=scorer, error_score="raise")
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@for_both
def test_a_rare_class_leaves_no_fold_without_a_score(scorer: Any, score: Any) -> None:
    X, y = make_grades()
    y[:3] = 5
    model = make_pipeline(StandardScaler(), LogisticRegression())
    search = GridSearchCV(model, {"logisticregression__C": [0.1, 1.0]}, scoring=scorer)
    with pytest.warns(UserWarning, match="least populated class"):
        search.fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    for rows in (slice(None), slice(5, 6)):
        expected = -score(y[rows], search.predict_proba(X[rows]), labels=search.classes_)
        assert scorer(search, X[rows], y[rows]) == pytest.approx(expected)


@for_both
def test_weights_are_routed_and_copies_score_alike(scorer: Any, score: Any) -> None:
    X, y = make_grades()
    weight = np.linspace(0.0, 1.0, len(y))
    model = LogisticRegression().fit(X, y)
    expected = -score(y, model.predict_proba(X), sample_weight=weight)
    for copy in (scorer, pickle.loads(pickle.dumps(scorer)), clone(scorer, safe=False)):
        assert copy(model, X, y, sample_weight=weight) == pytest.approx(expected, rel=1e-12)
        assert type(copy) is DistributionScorer
        made_by = "predict_func=class_probabilities"
        assert repr(copy) == f"DistributionScorer({score.__name__}, {made_by})"
    everything = [(np.arange(len(y)), np.arange(len(y)))]
    with config_context(enable_metadata_routing=True):
        found = cross_validate(
            model.set_fit_request(sample_weight=False), X, y, cv=everything,
            scoring={"s": scorer.set_score_request(sample_weight=True)},
            params={"sample_weight": weight},
        )  # fmt: skip
    np.testing.assert_allclose(found["test_s"], expected, rtol=1e-12)


@for_both
def test_regressors_are_refused(scorer: Any, score: Any) -> None:
    X, y = make_grades()
    with pytest.raises(TypeError, match=r"ToyBayesianRidge has no classes_.*neg_crps_scorer"):
        scorer(ToyBayesianRidge().fit(X, y), X, y)
