"""Ensembles over folds against loops over the folds."""

import pickle
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
import pytest
from sklearn import clone, config_context
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics import r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, StandardScaler
from toy_regressor import ForeignRegressor, ToyBayesianRidge, make_data

from skgp import SVGPClassifier, SVGPRegressor, predict_dist
from skgp.compose import (
    CrossFittedClassifier,
    CrossFittedRegressor,
    cross_val_predict_dist,
    predict_latent,
)
from skgp.compose._recalibration import best_scale, stretched
from skgp.distributions import NormalMixture
from skgp.scoring import neg_nll_scorer

SHUFFLED = KFold(4, shuffle=True, random_state=1)
X, Y = make_data()
W = np.random.default_rng(1).uniform(0.5, 2.0, size=len(Y))
GROUPS = np.random.default_rng(2).integers(0, 9, size=len(Y))
X_NEW = make_data(seed=5)[0]


class Stopper(ToyBayesianRidge):
    """Remembers what it could stop by."""

    def __init__(
        self, alpha: float = 1.0, inflation: float = 1.0, early_stopping: bool = False
    ) -> None:
        super().__init__(alpha, inflation)
        self.early_stopping = early_stopping

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        super().fit(X, y, sample_weight)
        self.held_out_ = X_val, y_val, sample_weight_val
        return self

    def predict_latent(self, X: Any) -> NormalMixture:
        dist = self.predict_dist(X)
        return NormalMixture.normal(dist.mean(), 0.5 * dist.std())


def twin(members: Sequence[Any], X: Any, scale: float = 1.0) -> tuple[Any, Any]:
    """Mean and variance of the equal mixture of normals, by the law of total variance."""
    mean = np.array([predict_dist(m, X).mean() for m in members])
    std = scale * np.array([predict_dist(m, X).std() for m in members])
    return mean.mean(axis=0), (std**2).mean(axis=0) + mean.var(axis=0)


def by_hand(y: Any, weight: Any = None, splits: Any = None) -> list[tuple[Any, Any]]:
    """Fitted members and the rows held out from each."""
    found = []
    for train, test in splits or SHUFFLED.split(X):
        w = None if weight is None else weight[train]
        found.append((ToyBayesianRidge().fit(X[train], y[train], w), test))
    return found


def assert_is_by_hand(model: Any, y: Any, weight: Any = None, splits: Any = None) -> None:
    """Members, out-of-fold distributions and mixture are those of a loop."""
    expected = by_hand(y, weight, splits)
    assert len(model.estimators_) == len(expected)
    for (member, test), fitted in zip(expected, model.estimators_, strict=True):
        np.testing.assert_allclose(fitted.coef_, member.coef_, rtol=1e-12)
        dist = member.predict_dist(X[test])
        np.testing.assert_allclose(model.oof_dist_[test].mean(), dist.mean(), rtol=1e-12)
        np.testing.assert_allclose(model.oof_dist_[test].std(), dist.std(), rtol=1e-12)
    mean, var = twin([member for member, _ in expected], X_NEW)
    np.testing.assert_allclose(model.predict_dist(X_NEW).mean(), mean, rtol=1e-12)
    np.testing.assert_allclose(model.predict_dist(X_NEW).var(), var, rtol=1e-10)


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("n_outputs", [None, 2])
def test_mixture_of_members_that_each_leave_out_a_fold(
    n_jobs: int | None, n_outputs: int | None
) -> None:
    _, y = make_data(n_outputs=n_outputs)
    if n_outputs:
        y[::7, 1] = np.nan
    model = CrossFittedRegressor(ToyBayesianRidge(), cv=SHUFFLED, n_jobs=n_jobs).fit(X, y)
    assert_is_by_hand(model, y)
    assert model.scale_ == 1.0
    assert model.oof_dist_.shape == y.shape


def test_sample_weights_reach_the_members_and_their_held_out_rows() -> None:
    model = CrossFittedRegressor(Stopper(), cv=SHUFFLED).fit(X, Y, W)
    assert_is_by_hand(model, Y, W)
    for (_, test), member in zip(SHUFFLED.split(X), model.estimators_, strict=True):
        assert member.early_stopping
        for held_out, expected in zip(member.held_out_, (X, Y, W), strict=True):
            np.testing.assert_array_equal(held_out, expected[test])
    assert not model.estimator.early_stopping
    assert not hasattr(model.estimator, "held_out_")


def test_held_out_rows_go_through_the_steps_of_a_pipeline() -> None:
    for member in (make_pipeline(StandardScaler(), "passthrough", Stopper()),
                   make_pipeline(Stopper())):  # fmt: skip
        model = CrossFittedRegressor(member, cv=SHUFFLED).fit(X, Y)
        for (train, test), pipe in zip(SHUFFLED.split(X), model.estimators_, strict=True):
            alone = clone(member).fit(X[train], Y[train])
            expected = alone[:-1].transform(X[test]) if len(alone) > 1 else X[test]
            np.testing.assert_allclose(pipe[-1].held_out_[0], expected, rtol=1e-12)
            np.testing.assert_array_equal(pipe[-1].held_out_[1], Y[test])
            np.testing.assert_allclose(pipe.predict(X_NEW), alone.predict(X_NEW), rtol=1e-12)


def test_memory_of_a_pipeline(tmp_path: Any) -> None:
    steps = StandardScaler(), FunctionTransformer(), Stopper()  # the first one is cached
    member = make_pipeline(*steps, memory=str(tmp_path))
    model = CrossFittedRegressor(member, cv=SHUFFLED).fit(X, Y)
    plain = CrossFittedRegressor(make_pipeline(*steps), cv=SHUFFLED).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X_NEW), plain.predict(X_NEW))


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_recalibration_scales_every_member(n_outputs: int | None) -> None:
    _, y = make_data(n_outputs=n_outputs)
    if n_outputs:
        y[::7, 1] = np.nan
    narrow = ToyBayesianRidge(inflation=0.2)
    plain = CrossFittedRegressor(narrow, cv=SHUFFLED).fit(X, y, W)
    model = CrossFittedRegressor(narrow, cv=SHUFFLED, recalibrate=True).fit(X, y, W)
    z = ((y - plain.oof_dist_.mean()) / plain.oof_dist_.std()).reshape(len(y), -1)
    w = np.where(np.isnan(z), 0.0, W[:, None])
    assert model.scale_ == pytest.approx(np.sqrt(np.nansum(w * z**2) / w.sum()), rel=1e-9)
    assert model.scale_ > 4.0
    expected = stretched(plain.oof_dist_, model.scale_)
    np.testing.assert_allclose(model.oof_dist_.std(), expected.std(), rtol=1e-12)
    mean, var = twin(plain.estimators_, X_NEW, model.scale_)
    np.testing.assert_allclose(model.predict(X_NEW), mean, rtol=1e-12)
    np.testing.assert_allclose(model.predict_dist(X_NEW).var(), var, rtol=1e-10)


def test_masked_targets_are_recalibrated_like_missing_ones() -> None:
    _, y = make_data(n_outputs=2)
    missing = np.where(y > 8.0, np.nan, y)
    masked = np.ma.masked_array(y, y > 8.0)
    dist = CrossFittedRegressor(ToyBayesianRidge(), cv=SHUFFLED).fit(X, missing).oof_dist_
    model = CrossFittedRegressor(ToyBayesianRidge())
    assert model._best_scale(dist, masked, W) == best_scale(dist, missing, W)


def test_methods_are_those_of_the_distribution() -> None:
    model = CrossFittedRegressor(Stopper(), cv=SHUFFLED, recalibrate=True).fit(X, Y)
    dist = model.predict_dist(X_NEW)
    np.testing.assert_array_equal(model.predict_proba(X_NEW).std(), dist.std())
    np.testing.assert_array_equal(model.predict(X_NEW, return_std=True), [dist.mean(), dist.std()])
    np.testing.assert_array_equal(model.predict_quantiles(X_NEW, [0.2, 0.9]), dist.ppf([0.2, 0.9]))
    np.testing.assert_array_equal(model.predict_interval(X_NEW, 0.5), dist.interval(0.5))
    assert predict_dist(model, X_NEW).components().mean.shape == (len(X_NEW), 4)
    with pytest.raises(RuntimeError, match="At most one"):
        model.predict(X_NEW, return_std=True, return_cov=True)


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_covariance_over_rows_is_that_of_the_mixture(n_outputs: int | None) -> None:
    _, y = make_data(n_outputs=n_outputs)
    gp = GaussianProcessRegressor(RBF() + WhiteKernel(), optimizer=None, normalize_y=True)
    member = make_pipeline(StandardScaler(), gp)
    model = CrossFittedRegressor(ToyBayesianRidge(), cv=SHUFFLED).fit(X, y)
    model.estimators_ = [clone(member).fit(X[i::3], y[i::3]) for i in range(3)]
    model.scale_ = 2.0
    parts = [m.predict(X_NEW, return_cov=True) for m in model.estimators_]
    means, covs = (np.stack(part) for part in zip(*parts, strict=True))
    shape = (len(X_NEW),) * 2 + y.shape[1:]
    expected = np.zeros(shape)
    for i, j in np.ndindex(shape[:2]):
        between = (means[:, i] * means[:, j]).mean(0) - means[:, i].mean(0) * means[:, j].mean(0)
        expected[i, j] = 4.0 * covs[:, i, j].mean(0) + between
    actual = model._joint_covariance(X_NEW)
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def test_members_without_a_covariance_over_rows() -> None:
    model = CrossFittedRegressor(ToyBayesianRidge(), cv=SHUFFLED).fit(X, Y)
    with pytest.raises(NotImplementedError, match=r"ToyBayesianRidge .*predict_dist\(X\).cov\(\)"):
        model.predict(X_NEW, return_cov=True)
    gp = GaussianProcessRegressor(optimizer=None)
    scaled = TransformedTargetRegressor(gp, transformer=PowerTransformer()).fit(X, Y)
    model.estimators_ = [scaled]
    with pytest.raises(NotImplementedError, match="TransformedTargetRegressor does not have"):
        model._joint_covariance(X_NEW)


def test_function_keeps_its_share_of_the_variance() -> None:
    model = CrossFittedRegressor(Stopper(inflation=0.3), cv=SHUFFLED, recalibrate=True).fit(X, Y)
    _, std, _ = predict_latent(model, X_NEW).components()[1:]
    np.testing.assert_allclose(std, 0.5 * model.predict_dist(X_NEW).components().std, rtol=1e-12)
    foreign = CrossFittedRegressor(ToyBayesianRidge(), cv=SHUFFLED).fit(X, Y)
    with pytest.raises(TypeError, match="ToyBayesianRidge offers no distribution of its function"):
        foreign.predict_latent(X_NEW)


@pytest.mark.parametrize("cv", [3, GroupKFold(3)])
def test_no_group_is_on_both_sides(cv: Any) -> None:
    model = CrossFittedRegressor(Stopper(), cv=cv).fit(X, Y, groups=GROUPS)
    for member in model.estimators_:
        inside = np.isin(Y, member.held_out_[1])
        assert not set(GROUPS[inside]) & set(GROUPS[~inside])


def test_integer_shuffles_and_is_the_same_in_each_fit() -> None:
    order = np.argsort(Y)
    model = CrossFittedRegressor(Stopper(), cv=3).fit(X[order], Y[order])
    for member in model.estimators_:
        assert np.ptp(member.held_out_[1]) > 0.6 * np.ptp(Y)  # unshuffled: at most 0.5
    again = clone(model).fit(X[order], Y[order])
    np.testing.assert_array_equal(again.predict(X_NEW), model.predict(X_NEW))


def test_metadata_routing() -> None:
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            CrossFittedRegressor(Stopper(), cv=SHUFFLED).fit(X, Y, W)
        model = CrossFittedRegressor(Stopper().set_fit_request(sample_weight=True), cv=SHUFFLED)
        assert_is_by_hand(clone(model).fit(X, Y, W), Y, W)
        model.set_params(cv=GroupKFold(3)).fit(X, Y, groups=GROUPS)
        assert_is_by_hand(model, Y, splits=list(GroupKFold(3).split(X, groups=GROUPS)))
        model.set_params(cv=3).fit(X, Y, W, groups=GROUPS)
        inside = np.isin(Y, model.estimators_[0].held_out_[1])
        assert not set(GROUPS[inside]) & set(GROUPS[~inside])
        scores = cross_val_score(model, X, Y, cv=GroupKFold(2), params={"groups": GROUPS})
        assert np.isfinite(scores).all()


def test_an_iterator_of_splits_is_read_once() -> None:
    with config_context(enable_metadata_routing=True):
        member = Stopper().set_fit_request(sample_weight=True)
        model = CrossFittedRegressor(member, cv=SHUFFLED.split(X)).fit(X, Y, W)
        assert_is_by_hand(model, Y, W)


@pytest.mark.parametrize(("of_scaler", "of_member"), [(True, False), (False, True), (True, True)])
def test_steps_of_a_pipeline_have_the_weights_that_they_request(
    of_scaler: bool, of_member: bool
) -> None:
    """Fitted by hand, the pipeline has the same steps."""
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=of_scaler)
        pipeline = make_pipeline(scaler, Stopper().set_fit_request(sample_weight=of_member))
        model = CrossFittedRegressor(pipeline, cv=SHUFFLED).fit(X, Y, W)
        for (train, test), fitted in zip(SHUFFLED.split(X), model.estimators_, strict=True):
            alone = clone(pipeline).fit(X[train], Y[train], sample_weight=W[train])
            np.testing.assert_array_equal(fitted[0].mean_, alone[0].mean_)
            np.testing.assert_array_equal(fitted[1].coef_, alone[1].coef_)
            weight = fitted[1].held_out_[2]
            assert np.array_equal(weight, W[test]) if of_member else weight is None


def test_the_last_step_of_a_pipeline_need_not_take_routed_weights() -> None:
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(scaler, Unweighted())
        model = CrossFittedRegressor(pipeline, cv=SHUFFLED).fit(X, Y, W)
        train = next(SHUFFLED.split(X))[0]
        expected = np.average(X[train], axis=0, weights=W[train])
        np.testing.assert_allclose(model.estimators_[0][0].mean_, expected)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            CrossFittedRegressor(make_pipeline(StandardScaler(), Stopper()), cv=3).fit(X, Y, W)


def test_frames_keep_their_names() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = CrossFittedRegressor(ToyBayesianRidge(), cv=SHUFFLED).fit(frame, pd.Series(Y))
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.n_features_in_ == 2
    assert_is_by_hand(pickle.loads(pickle.dumps(model.fit(X, Y))), Y)
    assert not hasattr(model, "feature_names_in_")


def test_search_over_the_parameters_of_the_members() -> None:
    model = CrossFittedRegressor(ToyBayesianRidge(), cv=3)
    grid = {"estimator__inflation": [0.1, 1.0, 10.0]}
    search = GridSearchCV(make_pipeline(StandardScaler(), model), {"crossfittedregressor__" + k: v
                          for k, v in grid.items()}, scoring=neg_nll_scorer).fit(X, Y)  # fmt: skip
    assert search.best_params_ == {"crossfittedregressor__estimator__inflation": 1.0}
    assert predict_dist(search, X).components().mean.shape == (len(X), 3)


def test_foreign_members_and_out_of_fold_rows() -> None:
    model = CrossFittedRegressor(ForeignRegressor(), cv=SHUFFLED).fit(X, Y)
    expected = cross_val_predict_dist(ForeignRegressor(), X, Y, cv=SHUFFLED)
    np.testing.assert_array_equal(model.oof_dist_.mean(), expected.mean())


def test_target_transformers() -> None:
    y = np.exp(0.1 * Y)
    log = TransformedTargetRegressor(ToyBayesianRidge(), func=np.log1p, inverse_func=np.expm1)
    model = CrossFittedRegressor(log, cv=SHUFFLED).fit(X, y)
    inner = CrossFittedRegressor(ToyBayesianRidge(), cv=SHUFFLED).fit(X, np.log1p(y))
    np.testing.assert_allclose(
        model.predict_quantiles(X_NEW, 0.8), np.expm1(inner.predict_quantiles(X_NEW, 0.8))
    )
    with pytest.raises(TypeError, match="affine target transformer"):
        model.set_params(recalibrate=True).fit(X, y)
    learned = TransformedTargetRegressor(
        ToyBayesianRidge(), transformer=PowerTransformer(), check_inverse=False
    )
    with pytest.raises(ValueError, match="func and inverse_func"):
        CrossFittedRegressor(learned, cv=SHUFFLED).fit(X, y)


BOUNDS = np.column_stack([Y, np.where(Y > np.median(Y), np.inf, Y)])
LOGARITHMS = {"func": np.log, "inverse_func": np.exp}


@pytest.mark.parametrize(
    ("member", "y", "error", "message"),
    [
        (SVGPRegressor(likelihood="poisson"), Y, TypeError, "counts of likelihood='poisson'"),
        (SVGPRegressor(likelihood="censored"), BOUNDS, ValueError, "y holds bounds"),
        (TransformedTargetRegressor(Stopper(), **LOGARITHMS), Y, TypeError, "not affine"),
        (TransformedTargetRegressor(Stopper(), transformer=FunctionTransformer(**LOGARITHMS)),
         np.column_stack([Y, Y]), TypeError, "not affine"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_what_cannot_be_recalibrated_is_refused_before_the_fits(
    in_pipeline: bool, member: Any, y: Any, error: Any, message: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(type(member), "fit", lambda *args, **kwargs: pytest.fail("was fitted"))
    model = make_pipeline(StandardScaler(), member) if in_pipeline else member
    with pytest.raises(error, match=f"recalibrate=True .*{message}.*: keep it off"):
        CrossFittedRegressor(model, cv=3, recalibrate=True).fit(X, y)


def test_functions_that_are_affine_are_recalibrated() -> None:
    double = TransformedTargetRegressor(
        Stopper(), func=lambda y: y / 2.0, inverse_func=lambda z: 2.0 * z
    )
    scales = [
        CrossFittedRegressor(member, cv=SHUFFLED, recalibrate=True).fit(X, Y).scale_
        for member in (TransformedTargetRegressor(double, transformer=StandardScaler()), double)
    ]
    assert all(0.5 < scale < 2.0 for scale in scales)


def test_functions_of_the_session_are_those_of_all_members() -> None:
    y = np.exp(0.1 * Y)
    model = TransformedTargetRegressor(
        ToyBayesianRidge(), func=lambda v: np.log1p(v), inverse_func=lambda v: np.expm1(v)
    )
    alone, together = (
        CrossFittedRegressor(model, cv=SHUFFLED, n_jobs=n_jobs).fit(X, y) for n_jobs in (None, 2)
    )
    np.testing.assert_array_equal(together.oof_dist_.mean(), alone.oof_dist_.mean())
    np.testing.assert_array_equal(together.predict(X_NEW), alone.predict(X_NEW))


class Failing(Stopper):
    """Fails where the first row is missing."""

    def fit(self, X: Any, y: Any, *args: Any, **kwargs: Any) -> Self:
        if Y[0] not in y:
            raise RuntimeError("no first row")
        return super().fit(X, y, *args, **kwargs)


def test_failing_member_leaves_everything_as_it_was() -> None:
    model = CrossFittedRegressor(Failing(), cv=SHUFFLED)
    before = dict(vars(model))
    with pytest.raises(RuntimeError, match="no first row"):
        model.fit(X, Y)
    assert vars(model) == before
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.set_params(estimator=Stopper()).fit(X, Y)
    before = dict(vars(model.set_params(estimator=Failing())))
    with pytest.raises(RuntimeError, match="no first row"):
        model.fit(pd.DataFrame(X, columns=["a", "b"]), Y)
    assert vars(model) == before
    assert_is_by_hand(model, Y)


class Unweighted(ToyBayesianRidge):
    def fit(self, X: Any, y: Any) -> Self:
        return super().fit(X, y)


@pytest.mark.parametrize(
    ("member", "params", "arguments", "message"),
    [
        (ToyBayesianRidge(), {"cv": RepeatedKFold(n_repeats=2)}, {}, "partition"),
        (ToyBayesianRidge(), {"cv": "five"}, {}, "cv"),
        (ToyBayesianRidge(), {"n_jobs": 0.5}, {}, "n_jobs"),
        (Unweighted(), {}, {"sample_weight": W}, "Unweighted takes no sample_weight"),
        (make_pipeline(FunctionTransformer(), Unweighted()), {}, {"sample_weight": W},
         "takes no sample_weight"),
        (ToyBayesianRidge(), {}, {"sample_weight": -W}, "sample_weight"),
        (ToyBayesianRidge(), {}, {"y": None}, "y is None"),
        (ToyBayesianRidge(), {}, {"y": Y[:-1]}, "inconsistent numbers of samples"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(member: Any, params: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CrossFittedRegressor(member, **params).fit(**{"X": X, "y": Y, **arguments})


def test_masked_weights_and_labels_are_refused() -> None:
    mask = np.arange(len(Y)) < 5
    weight = np.ma.masked_array(np.ones(len(Y)), mask)
    with pytest.raises(ValueError, match="sample_weight is a masked array with 5 masked entries"):
        CrossFittedRegressor(ToyBayesianRidge(), cv=3).fit(X, Y, sample_weight=weight)
    labels = np.ma.masked_array(np.arange(len(Y)) % 2, mask)
    with pytest.raises(ValueError, match="y is a masked array with 5 masked entries"):
        CrossFittedClassifier(SVGPClassifier(max_iter=1), cv=3).fit(X, labels)


def test_columns_of_targets_keep_their_order_in_a_score() -> None:
    targets = pd.DataFrame({"a": Y, "b": 100.0 - Y})
    model = CrossFittedRegressor(SVGPRegressor(max_iter=2, random_state=0), cv=3).fit(X, targets)
    desired = r2_score(targets, model.predict(X))
    assert model.score(X, targets) == pytest.approx(desired)
    with pytest.raises(ValueError, match=r"y has the columns \['b', 'a'\]"):
        model.score(X, targets[["b", "a"]])


def test_searches_by_the_score_of_targets_that_are_partly_missing() -> None:
    targets = make_data(n_outputs=2)[1]
    targets[::7, 1] = np.nan
    model = CrossFittedRegressor(ToyBayesianRidge(), cv=3)
    mean, seen = clone(model).fit(X, targets).predict(X), ~np.isnan(targets[:, 1])
    expected = [
        r2_score(targets[rows, k], mean[rows, k]) for k, rows in enumerate((seen | True, seen))
    ]
    assert model.fit(X, targets).score(X, targets) == pytest.approx(np.mean(expected))
    search = GridSearchCV(model, {"estimator__alpha": [1.0, 1e4]}, cv=3).fit(X, targets)
    assert search.best_params_ == {"estimator__alpha": 1.0}


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_ordered_classes_that_are_not_sorted_are_refused(in_pipeline: bool) -> None:
    """As by the members alone: their numbers would have another order."""
    codes = np.arange(len(Y)) % 3
    y = pd.Categorical.from_codes(codes, ["low", "mid", "high"], ordered=True)
    member = SVGPClassifier(likelihood="ordinal", max_iter=1, random_state=0)
    model = make_pipeline(StandardScaler(), member) if in_pipeline else member
    with pytest.raises(ValueError, match="y has ordered categories, low < mid < high"):
        CrossFittedClassifier(model, cv=3).fit(X, y)
    CrossFittedClassifier(SVGPClassifier(max_iter=1, random_state=0), cv=3).fit(X, y)


def test_counts_whose_folds_have_dispersions_of_their_own() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (60, 1))
    y = rng.negative_binomial(3, 3.0 / (3.0 + np.exp(1.0 + np.sin(X[:, 0]))))
    model = SVGPRegressor(likelihood="negative_binomial", n_inducing=5, max_iter=3, random_state=0)
    folds = KFold(2)
    fitted = CrossFittedRegressor(model, cv=folds).fit(X, y)
    parts = [member.predict_dist(X) for member in fitted.estimators_]
    expected = np.empty(len(y))
    for (_, test), part in zip(folds.split(X), parts, strict=True):
        expected[test] = part.logpdf(y)[test]
    np.testing.assert_allclose(fitted.oof_dist_.logpdf(y), expected, rtol=1e-6)
    mean = np.mean([part.pdf(y) for part in parts], axis=0)
    np.testing.assert_allclose(fitted.predict_dist(X).pdf(y), mean, rtol=1e-6)
    assert cross_val_predict_dist(model, X, y, cv=folds).shape == y.shape
