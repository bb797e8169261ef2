"""Ensembles over folds of the estimators of this package, and scikit-learn's contract."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pytest
from sklearn import clone, config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from skgp import DSPPRegressor, ExactGPRegressor, PPGPRRegressor, SVGPClassifier, SVGPRegressor
from skgp.compose import CrossFittedClassifier, CrossFittedRegressor
from skgp.distributions import Bernoulli, Categorical
from skgp.scoring import neg_nll_scorer

pytestmark = pytest.mark.usefixtures("short_start")

SMALL: dict[str, Any] = {
    "n_inducing": 8,
    "max_iter": 10,
    "learning_rate_init": 0.1,
    "dtype": "float64",
    "random_state": 0,
}


def make_table(n: int = 60) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)


X, Y = make_table()
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.5, 0.5])]
SHUFFLED = StratifiedKFold(3, shuffle=True, random_state=1)
EXPECTED_FAILURES = {
    "check_regressors_no_decision_function": "it forbids predict_proba on regressors, the only "
    "method that Pipeline and GridSearchCV forward and that can return a distribution"
}


def _expected_failures(estimator: BaseEstimator) -> dict[str, str]:
    return EXPECTED_FAILURES if isinstance(estimator, CrossFittedRegressor) else {}


def _checks() -> Iterator[Any]:
    """All checks but that of the array API, which needs a process of its own."""
    short = {**SMALL, "max_iter": 2}
    mark = parametrize_with_checks(
        [
            # The first steps of Adam enlarge what rounding makes of weights and of copies, from
            # 2e-11 after one to 3e-7 after two of 0.1 on some processors: the check allows 1e-7.
            CrossFittedRegressor(SVGPRegressor(**{**short, "learning_rate_init": 1e-3}), cv=2),
            CrossFittedClassifier(SVGPClassifier(**SMALL), cv=2),
        ],
        expected_failed_checks=_expected_failures,
        xfail_strict=True,
    )
    for value in mark.args[1]:
        if "check_array_api_input" not in str(getattr(value, "values", value)[1]):
            yield value


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
def test_sklearn_checks(estimator: Any, check: Any, request: pytest.FixtureRequest) -> None:
    if isinstance(estimator, CrossFittedRegressor):  # a search that is cut short magnifies rounding
        request.getfixturevalue("full_start")
    check(estimator)


@pytest.mark.parametrize("cls", [SVGPRegressor, PPGPRRegressor, DSPPRegressor])
def test_members_stop_by_the_rows_they_never_see(cls: Any) -> None:
    """Fitted by hand, they are the same bit for bit."""
    member = cls(**SMALL)
    folds = [(np.arange(60)[k % 60 :: 3], np.arange(60)) for k in range(3)]
    splits = [(np.setdiff1d(everything, test), test) for test, everything in folds]
    model = CrossFittedRegressor(member, cv=splits).fit(X, Y)
    for (train, test), fitted in zip(splits, model.estimators_, strict=True):
        alone = clone(member).set_params(early_stopping=True)
        alone.fit(X[train], Y[train], X_val=X[test], y_val=Y[test])
        assert fitted.validation_scores_ == alone.validation_scores_
        expected = alone.predict_dist(X[test])
        np.testing.assert_array_equal(model.oof_dist_[test].mean(), expected.mean())
        np.testing.assert_allclose(model.oof_dist_[test].std(), expected.std(), rtol=1e-12)


def test_exact_members() -> None:
    model = CrossFittedRegressor(ExactGPRegressor(max_iter=5), cv=2, recalibrate=True).fit(X, Y)
    for member in model.estimators_:
        assert len(member.validation_scores_) == member.n_iter_
    noise = model.predict_dist(X).components().std ** 2
    noise -= model.predict_latent(X).components().std ** 2
    expected = [model.scale_**2 * member.noise_variance_ for member in model.estimators_]
    np.testing.assert_allclose(noise, np.broadcast_to(expected, (60, 2)), rtol=1e-6)


@pytest.mark.usefixtures("full_start")  # as in the processes
@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_processes_change_nothing(kind: str) -> None:
    regressor = CrossFittedRegressor(DSPPRegressor(**SMALL), cv=2, recalibrate=True)
    classifier = CrossFittedClassifier(SVGPClassifier(**SMALL), cv=2, recalibrate=True)
    model: Any
    model, y = (regressor, Y) if kind == "regressor" else (classifier, LABELS)
    one, two = model.fit(X, y).predict_proba(X), clone(model).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(np.asarray(one), np.asarray(two.predict_proba(X)))
    assert two.scale_ == model.scale_


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("is_pipeline", [False, True])
def test_callbacks_of_the_members_see_every_fit(n_jobs: int | None, is_pipeline: bool) -> None:
    monitor = ScoringMonitor(scoring="r2")
    member: Any = SVGPRegressor(**{**SMALL, "max_iter": 3}).set_callbacks(monitor)
    if is_pipeline:
        member = make_pipeline(StandardScaler(), member)
    model = CrossFittedRegressor(member, cv=3, n_jobs=n_jobs).fit(X, Y)
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert len(rows) == 3 * 3
    assert len({row["parent_task_id_path"] for row in rows}) == 3
    (train, _), *_ = model._splitter(grouped=False).split(X)
    score = model.estimators_[0].score(X[train], Y[train])
    assert any(row["r2"] == pytest.approx(score, rel=1e-9) for row in rows)


def test_progress_of_the_ensemble(capsys: pytest.CaptureFixture[str]) -> None:
    model = CrossFittedRegressor(SVGPRegressor(**SMALL), cv=3).set_callbacks(ProgressBar())
    model.fit(X, Y)
    out = capsys.readouterr().out
    assert "CrossFittedRegressor" in out
    assert "100%" in out


def test_search_over_the_weight_of_the_divergence() -> None:
    pipe = make_pipeline(StandardScaler(), CrossFittedRegressor(PPGPRRegressor(**SMALL), cv=2))
    grid = {"crossfittedregressor__estimator__beta_reg": [0.1, 1.0]}
    search = GridSearchCV(pipe, grid, cv=2, scoring=neg_nll_scorer).fit(X, Y)
    members = search.best_estimator_[-1].estimators_
    chosen = search.best_params_["crossfittedregressor__estimator__beta_reg"]
    assert [member.beta_reg for member in members] == [chosen, chosen]


def test_several_outputs_with_missing_entries() -> None:
    outputs = np.column_stack([Y, X[:, 1] - Y])
    outputs[::5, 0] = np.nan
    model = CrossFittedRegressor(SVGPRegressor(**SMALL), cv=2, recalibrate=True).fit(X, outputs)
    assert model.predict(X).shape == model.oof_dist_.shape == (60, 2)
    expected = np.mean([m.predict(X) for m in model.estimators_], axis=0)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_the_mean_of_the_members(n_classes: int) -> None:
    labels = LABELS if n_classes == 3 else np.where(Y > 0.0, "up", "down")
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=len(Y))
    member = SVGPClassifier(**SMALL)
    model = CrossFittedClassifier(member, cv=SHUFFLED).fit(X, labels, weight)
    total = np.zeros((len(X), n_classes))
    for train, test in SHUFFLED.split(X, labels):
        alone = clone(member).set_params(early_stopping=True)
        alone.fit(X[train], labels[train], weight[train], X_val=X[test], y_val=labels[test],
                  sample_weight_val=weight[test])  # fmt: skip
        total += alone.predict_proba(X) / 3.0
        np.testing.assert_allclose(model.oof_dist_[test], alone.predict_proba(X[test]))
    np.testing.assert_allclose(model.predict_proba(X), total, rtol=1e-10)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(total), rtol=1e-8)
    np.testing.assert_array_equal(model.predict(X), model.classes_[total.argmax(axis=1)])
    assert model.classes_.tolist() == np.unique(labels).tolist()
    assert type(model.predict_dist(X)) is (Bernoulli if n_classes == 2 else Categorical)


def test_temperature_acts_on_every_member() -> None:
    labels = np.random.default_rng(0).permutation(LABELS)
    labels[::3] = LABELS[::3]
    member = SVGPClassifier(**SMALL, likelihood="softmax")
    plain = CrossFittedClassifier(member, cv=SHUFFLED).fit(X, labels)
    model = CrossFittedClassifier(member, cv=SHUFFLED, recalibrate=True).fit(X, labels)
    assert not 0.9 < model.scale_ < 1.1

    def power(p: Any) -> Any:
        tempered = p ** (1.0 / model.scale_)
        return tempered / tempered.sum(axis=1, keepdims=True)

    expected = np.mean([power(m.predict_proba(X)) for m in plain.estimators_], axis=0)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-8)
    np.testing.assert_allclose(model.oof_dist_, power(np.asarray(plain.oof_dist_)), rtol=1e-8)
    better = model.oof_dist_.logpmf(labels).mean() - plain.oof_dist_.logpmf(labels).mean()
    assert better > 0.0


class Sure(ClassifierMixin, BaseEstimator):
    """Takes the sign of the first input for the class, with the log odds of `power` times it."""

    def __init__(self, power: float = 1.0) -> None:
        self.power = power

    def fit(self, X: Any, y: Any) -> Self:
        self.classes_ = np.unique(y)
        return self

    def predict_log_proba(self, X: Any) -> Any:
        odds = self.power * X[:, 0]
        return -np.logaddexp(0.0, np.column_stack([odds, -odds]))

    def predict_dist(self, X: Any) -> Bernoulli:
        return Bernoulli.of_columns(np.exp(self.predict_log_proba(X)), self.classes_)


class Silent(Sure):
    """Tells no log probabilities."""

    predict_log_proba = property()  # type: ignore[assignment]

    def predict_dist(self, X: Any) -> Bernoulli:
        return Bernoulli.of_columns(np.exp(Sure.predict_log_proba(self, X)), self.classes_)


@pytest.mark.parametrize("scale", [1.0, 0.25, 8.0])
@pytest.mark.parametrize("kind", [Sure, Silent])
def test_log_probabilities_are_finite_where_probabilities_round_to_zero(
    kind: Any, scale: float
) -> None:
    X_wide, labels = 1000.0 * X, np.where(X[:, 0] > 0.0, "up", "down")
    model = CrossFittedClassifier(make_pipeline(FunctionTransformer(), kind()), cv=SHUFFLED)
    model.fit(X_wide, labels)
    model.estimators_[0][-1].power, model.scale_ = 2.0, scale
    p, log_p = model.predict_proba(X_wide), model.predict_log_proba(X_wide)
    assert np.isfinite(log_p).all()
    seen = p > 1e-300
    np.testing.assert_allclose(log_p[seen], np.log(p[seen]), rtol=1e-9, atol=1e-15)
    if kind is Sure and scale == 1.0:
        assert (~seen).any()
        odds = np.abs(X_wide[:, 0])  # the less sure members
        expected = np.log(2.0 / 3.0) - odds[odds > 700.0]
        np.testing.assert_allclose(log_p.min(axis=1)[odds > 700.0], expected, rtol=1e-12)


def test_no_group_of_labels_is_on_both_sides() -> None:
    groups = np.arange(60) // 3
    model = CrossFittedClassifier(SVGPClassifier(**SMALL), cv=3)
    folds = model._splitter(grouped=True).split(X, LABELS, groups)
    model.fit(X, LABELS, groups=groups)
    for (train, test), member in zip(folds, model.estimators_, strict=True):
        assert not set(groups[train]) & set(groups[test])
        np.testing.assert_allclose(model.oof_dist_[test], member.predict_proba(X[test]))


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (CrossFittedRegressor(SVGPClassifier()), Y, "needs a regressor, and SVGPClassifier"),
        (CrossFittedClassifier(SVGPRegressor()), LABELS, "needs a classifier, and SVGPRegressor"),
        (CrossFittedClassifier(SVGPClassifier()), Y, "Unknown label type"),
        (CrossFittedClassifier(SVGPClassifier()), np.ones(60, int), "at least two classes"),
        (CrossFittedClassifier(SVGPClassifier(), cv=[(np.arange(1, 60), np.arange(1)),
                               (np.arange(1), np.arange(1, 60))]), LABELS,
         "has no row outside fold 1"),
    ],
)  # fmt: skip
def test_errors_name_the_remedy(model: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_a_fold_without_weight_is_named() -> None:
    weight, cv = (
        np.ones(60),
        [(np.arange(20, 60), np.arange(20)), (np.arange(20), np.arange(20, 60))],
    )
    weight[20:] = 0.0
    with pytest.raises(
        ValueError, match=r"^all rows that fold 1 of cv holds out have the sample_w"
    ):
        CrossFittedRegressor(SVGPRegressor(**SMALL), cv=cv).fit(X, Y, sample_weight=weight)


def test_a_threshold_belongs_around_the_ensemble() -> None:
    """Inside, the mean of the members' probabilities would leave it out."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    y = (X[:, 0] + 0.5 * rng.normal(size=60) > 0.0).astype(int)
    model = SVGPClassifier(**SMALL)
    with pytest.raises(ValueError, match="put it around CrossFittedClassifier"):
        CrossFittedClassifier(FixedThresholdClassifier(model, threshold=0.9), cv=2).fit(X, y)
    outside = FixedThresholdClassifier(CrossFittedClassifier(model, cv=2), threshold=0.9)
    p = outside.fit(X, y).predict_proba(X)[:, 1]
    np.testing.assert_array_equal(outside.predict(X), p >= 0.9)
    assert 0 < outside.predict(X).sum() < (p >= 0.5).sum()


def test_weights_of_the_score_are_requested_as_of_any_estimator() -> None:
    with config_context(enable_metadata_routing=True):
        member = SVGPRegressor(**SMALL).set_fit_request(sample_weight=False)
        model, weight = CrossFittedRegressor(member, cv=2), np.linspace(0.1, 3.0, len(Y))
        with pytest.raises(ValueError, match=r"CrossFittedRegressor\.score"):
            cross_val_score(model, X, Y, cv=2, params={"sample_weight": weight})
        model.set_score_request(sample_weight=True)
        scores = cross_val_score(model, X, Y, cv=2, params={"sample_weight": weight})
        for (train, test), score in zip(KFold(2).split(X), scores, strict=True):
            alone = clone(model).fit(X[train], Y[train])
            assert score == pytest.approx(alone.score(X[test], Y[test], weight[test]))
