"""`predict_dist` and the scorers of regressors that are not ours."""

from copy import deepcopy
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import ARDRegression, BayesianRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgp
from skgp.distributions import NormalMixture
from skgp.plotting import PITDisplay
from skgp.scoring import neg_crps_scorer, neg_nll_scorer


@pytest.fixture(scope="module")
def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, X @ [1.0, 2.0, 0.0] + 0.5 * rng.normal(size=60)


@pytest.mark.parametrize(
    "model", [BayesianRidge(), GaussianProcessRegressor(alpha=0.1)], ids=lambda m: type(m).__name__
)
def test_normal_of_return_std(model: Any, rows: tuple[Any, Any]) -> None:
    X, y = rows
    pipe = make_pipeline(StandardScaler(), model).fit(X, y)
    dist = skgp.predict_dist(pipe, X)
    mean, std = pipe.predict(X, return_std=True)
    np.testing.assert_allclose(dist.logpdf(y), norm.logpdf(y, mean, std))
    expected = norm.logpdf(y, mean, std).mean()
    assert neg_nll_scorer(pipe, X, y) == pytest.approx(expected)


def test_search_over_a_foreign_regressor_and_display(rows: tuple[Any, Any]) -> None:
    X, y = rows
    search = GridSearchCV(BayesianRidge(), {"alpha_1": [1e-6, 1.0]}, scoring=neg_nll_scorer, cv=2)
    assert np.isfinite(cross_val_score(search, X, y, scoring=neg_nll_scorer, cv=2)).all()
    assert PITDisplay.from_estimator(search.fit(X, y), X, y).ax_.has_data()


def test_mixture_of_bagged_members_on_their_columns(rows: tuple[Any, Any]) -> None:
    X, y = rows
    bag = BaggingRegressor(BayesianRidge(), n_estimators=3, max_features=2, random_state=0)
    bag.fit(X, y)
    density = np.zeros(len(y))
    for member, columns in zip(bag.estimators_, bag.estimators_features_, strict=True):
        density += norm.pdf(y, *member.predict(X[:, columns], return_std=True)) / 3
    dist = skgp.predict_dist(bag, X)
    np.testing.assert_allclose(dist.pdf(y), density)
    np.testing.assert_allclose(dist.mean(), bag.predict(X))


def test_bagged_members_see_the_columns_that_they_know(rows: tuple[Any, Any]) -> None:
    X, y = pd.DataFrame(rows[0], columns=["a", "b", "c"]), rows[1]
    bag = BaggingRegressor(BayesianRidge(), n_estimators=2, max_features=2, random_state=0)
    bag.fit(X, y)
    np.testing.assert_allclose(skgp.predict_dist(bag, X).mean(), bag.predict(X))
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        skgp.predict_dist(bag, X[["b", "a", "c"]])
    with pytest.raises(ValueError, match="6 features, but BaggingRegressor is expecting 3"):
        skgp.predict_dist(bag.fit(*rows), np.hstack([rows[0], rows[0]]))


def test_mixture_of_voters(rows: tuple[Any, Any]) -> None:
    X, y = rows
    voters = [("ridge", BayesianRidge()), ("ard", ARDRegression())]
    vote = VotingRegressor(voters).fit(X, y)
    dist = skgp.predict_dist(vote, X)
    density = [norm.pdf(y, *member.predict(X, return_std=True)) for member in vote.estimators_]
    np.testing.assert_allclose(dist.pdf(y), np.mean(density, axis=0))
    weighted = VotingRegressor(voters, weights=[1, 2]).fit(X, y)
    with pytest.raises(TypeError, match="weights=None"):
        skgp.predict_dist(weighted, X)


def test_normal_of_ngboost(rows: tuple[Any, Any]) -> None:
    ngboost = pytest.importorskip("ngboost")
    X, y = rows
    model = ngboost.NGBRegressor(n_estimators=5, verbose=False, random_state=0).fit(X, y)
    dist, theirs = skgp.predict_dist(model, X), model.pred_dist(X)
    np.testing.assert_allclose(dist.logpdf(y), theirs.logpdf(y))
    other = ngboost.NGBRegressor(Dist=ngboost.distns.Exponential, n_estimators=2, verbose=False)
    with pytest.raises(TypeError, match="not a Normal"):
        skgp.predict_dist(other.fit(X, np.exp(y)), X)


def test_regressor_of_means_alone_is_refused(rows: tuple[Any, Any]) -> None:
    forest = RandomForestRegressor(2).fit(*rows)
    with pytest.raises(TypeError, match="RandomForestRegressor offers no predictive distribution"):
        skgp.predict_dist(forest, rows[0])
    each = MultiOutputRegressor(BayesianRidge()).fit(rows[0], rows[0])
    with pytest.raises(TypeError, match=r"^MultiOutputRegressor .* a y of several columns"):
        skgp.predict_dist(each, rows[0])


SPARSE = {"n_inducing": 10, "max_iter": 2, "random_state": 0}


class Quantiles(RegressorMixin, BaseEstimator):
    """Predicts quantiles as a forest does, those of distributions that it is given."""

    def __init__(self, dist: Any, columns: int | None = None) -> None:
        self.dist = dist
        self.columns = columns

    def fit(self, X: Any, y: Any) -> "Quantiles":
        self.fitted_ = True
        return self

    def predict(self, X: Any, quantiles: Any = None, interpolation: str = "linear") -> Any:
        if quantiles is None:
            return self.dist.ppf(0.5)
        return self.dist.ppf(quantiles)[:, : self.columns]


class BoostedUncertainty(RegressorMixin, BaseEstimator):
    """Predicts mean and variance as CatBoost does with its loss of that name."""

    def __init__(self, loss_function: str = "RMSEWithUncertainty") -> None:
        self.loss_function = loss_function

    def fit(self, X: Any, y: Any) -> "BoostedUncertainty":
        self.fitted_ = True
        return self

    def predict(self, X: Any, prediction_type: str | None = None) -> Any:
        assert prediction_type == "RMSEWithUncertainty"
        return np.column_stack([X[:, 0], np.exp(X[:, 1])])


def test_distribution_of_the_final_estimator_of_a_stack(rows: tuple[Any, Any]) -> None:
    X, y = rows
    members = [("ours", skgp.SVGPRegressor(**SPARSE)), ("forest", RandomForestRegressor(5))]
    stack = StackingRegressor(members, BayesianRidge(), cv=2, passthrough=True).fit(X, y)
    means = np.column_stack([*(member.predict(X) for member in stack.estimators_), X])
    mean, std = stack.final_estimator_.predict(means, return_std=True)
    np.testing.assert_allclose(skgp.predict_dist(stack, X).logpdf(y), norm.logpdf(y, mean, std))
    ours = StackingRegressor([("ridge", BayesianRidge())], skgp.SVGPRegressor(**SPARSE), cv=2)
    final = ours.fit(X, y).final_estimator_
    expected = final.predict_dist(ours.estimators_[0].predict(X)[:, np.newaxis]).crps(y)
    assert neg_crps_scorer(ours, X, y) == pytest.approx(-expected.mean())


def test_a_stack_without_a_distribution_says_what_to_set(rows: tuple[Any, Any]) -> None:
    stack = StackingRegressor([("ridge", BayesianRidge())], cv=2).fit(*rows)
    with pytest.raises(TypeError, match=r"RidgeCV offers no .* Set final_estimator to"):
        skgp.predict_dist(stack, rows[0])


@pytest.mark.parametrize(
    "truth",
    [
        NormalMixture.normal([3.0, -1.0], [2.0, 0.1]),
        NormalMixture(np.log([0.4, 0.6]), [[-3.0, 3.0], [100.0, 101.0]], 0.5),
    ],
    ids=["normal", "two peaks"],
)
def test_quantiles_give_back_the_distribution_that_they_are_of(truth: NormalMixture) -> None:
    dist = skgp.predict_dist(Quantiles(truth), np.zeros((2, 1)))
    levels = np.linspace(0.02, 0.98, 49)
    np.testing.assert_allclose(dist.cdf(truth.ppf(levels)), [levels, levels], atol=6e-3)
    # Of 99 levels as many lie below a gap as is nearest to its level: half of one is missing.
    np.testing.assert_allclose(dist.mean(), truth.mean(), atol=0.5 / 99 * 6.0)
    np.testing.assert_allclose(dist.std(), truth.std(), rtol=1e-2)
    y = truth.rvs(400, random_state=0)
    expected = [truth.crps(column).mean() for column in y.T]
    assert np.mean([dist.crps(c).mean() for c in y.T]) == pytest.approx(np.mean(expected), rel=2e-3)


def test_equal_quantiles_are_narrow_peaks() -> None:
    class Atoms:
        def ppf(self, q: Any) -> Any:
            return np.stack([np.where(np.asarray(q) < 0.5, 1.0, 2.0), np.full(np.shape(q), 7.0)])

    dist = skgp.predict_dist(Quantiles(Atoms()), np.zeros((2, 1)))
    np.testing.assert_allclose(dist.mean(), [1.505, 7.0], atol=1e-3)
    np.testing.assert_allclose(dist[0].cdf(np.array([[0.9, 1.1]])), [[0.0, 49 / 99]], atol=1e-9)
    assert dist.crps([1.0, 7.0])[1] < 1e-6


def test_quantiles_of_another_shape_are_refused() -> None:
    model = Quantiles(NormalMixture.normal([0.0], 1.0), columns=5)
    with pytest.raises(TypeError, match=r"Quantiles offers .* quantiles of shape \(1, 5\)"):
        skgp.predict_dist(model, np.zeros((1, 1)))


def test_mean_and_variance_of_boosting_with_uncertainty(rows: tuple[Any, Any]) -> None:
    X, y = rows
    dist = skgp.predict_dist(BoostedUncertainty().fit(X, y), X)
    np.testing.assert_allclose(dist.logpdf(y), norm.logpdf(y, X[:, 0], np.exp(0.5 * X[:, 1])))
    with pytest.raises(TypeError, match="offers no predictive distribution"):
        skgp.predict_dist(BoostedUncertainty("RMSE").fit(X, y), X)


def test_catboost(rows: tuple[Any, Any]) -> None:
    catboost = pytest.importorskip("catboost")
    X, y = rows
    quiet = {"iterations": 5, "verbose": False, "allow_writing_files": False, "thread_count": 1}
    model = catboost.CatBoostRegressor(loss_function="RMSEWithUncertainty", **quiet).fit(X, y)
    mean, variance = model.predict(X, prediction_type="RMSEWithUncertainty").T
    expected = norm.logpdf(y, mean, np.sqrt(variance)).mean()
    assert neg_nll_scorer(model, X, y) == pytest.approx(expected)
    with pytest.raises(TypeError, match="CatBoostRegressor offers no predictive distribution"):
        skgp.predict_dist(catboost.CatBoostRegressor(**quiet).fit(X, y), X)


def test_quantile_forest(rows: tuple[Any, Any]) -> None:
    quantile_forest = pytest.importorskip("quantile_forest")
    X, y = rows
    forest = quantile_forest.RandomForestQuantileRegressor(20, min_samples_leaf=5, random_state=0)
    dist = skgp.predict_dist(forest.fit(X, y), X)
    levels = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    probability = dist.cdf(forest.predict(X, quantiles=levels.tolist()))
    # A forest's distribution has atoms, at which F jumps over the level.
    np.testing.assert_allclose(np.median(probability, axis=0), levels, atol=0.01)
    scores = cross_val_score(forest, X, y, scoring=neg_crps_scorer, cv=2)
    assert (scores > -y.std()).all()


@pytest.mark.parametrize("kind", [BaggingRegressor, VotingRegressor])
def test_members_that_were_fitted_in_other_processes(kind: Any, rows: tuple[Any, Any]) -> None:
    """Their functions are copies, which a mixture has to take for one."""
    X, y = rows

    def func(y: Any) -> Any:
        return np.sinh(y)

    def inverse_func(z: Any) -> Any:
        return np.arcsinh(z)

    member = TransformedTargetRegressor(BayesianRidge(), func=func, inverse_func=inverse_func)
    model = kind([("a", member), ("b", member)]) if kind is VotingRegressor else kind(member, 3)
    model.set_params(**({} if kind is VotingRegressor else {"random_state": 0}))
    here = skgp.predict_dist(model.fit(X, y), X[:4])
    functions = [func, inverse_func]
    copies = [FunctionType(function.__code__, function.__globals__) for function in functions]
    known = dict(zip(map(id, functions), copies, strict=True))
    model.estimators_ = [model.estimators_[0], *deepcopy(model.estimators_[1:], known)]
    np.testing.assert_array_equal(skgp.predict_dist(model, X[:4]).mean(), here.mean())


def test_counts_go_through_the_identity_alone() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1))
    y = rng.poisson(3.0, size=40)
    counts = skgp.SVGPRegressor(likelihood="poisson", n_inducing=8, max_iter=3, random_state=0)
    plain = TransformedTargetRegressor(counts).fit(X, y)
    expected = counts.fit(X, y).predict_dist(X)
    np.testing.assert_array_equal(skgp.predict_dist(plain, X).mean(), expected.mean())
    shifted = TransformedTargetRegressor(counts, func=lambda y: y + 1, inverse_func=lambda z: z - 1)
    with pytest.raises(TypeError, match="takes y as it is, so leave the transformer out"):
        skgp.predict_dist(shifted.fit(X, y), X)
