"""`predict_dist` and the scorers of regressors that are not ours."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor, VotingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import ARDRegression, BayesianRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgp
from skgp.plotting import PITDisplay
from skgp.scoring import neg_nll_scorer


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
