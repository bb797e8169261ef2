"""Regressors of censored targets: fits, predictions, scores, searches, files, refusals."""

import pickle
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgp import DGPRegressor, DSPPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.compose import CrossFittedRegressor
from skgp.distributions import NormalMixture
from skgp.files import load, save
from skgp.scoring import coverage, crps, neg_nll_scorer, nll, rmse

pytestmark = pytest.mark.usefixtures("short_start")

N, N_NEW = 250, 150
INF = np.inf
FAMILIES: dict[str, Any] = {
    "svgp": lambda **p: SVGPRegressor(n_inducing=20, max_iter=80, random_state=0, **p),
    "ppgpr": lambda **p: PPGPRRegressor(
        n_inducing=20, max_iter=60, early_stopping=False, random_state=0, **p
    ),
    "dgp": lambda **p: DGPRegressor(
        n_inducing=15, max_iter=100, n_samples=3, n_prediction_samples=8, random_state=0, **p
    ),
    "dspp": lambda **p: DSPPRegressor(
        n_inducing=15, max_iter=40, n_sites=4, early_stopping=False, random_state=0, **p
    ),
}


def make_rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (N + N_NEW, 2))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    return X, 50 + 10 * (f + 0.2 * rng.standard_normal(len(f)))


def censored(y: Any, X: Any) -> Any:
    """The upper third by a bound of each row's own, the lowest tenth, and some to whole tens."""
    rng = np.random.default_rng(2)
    limit = np.quantile(y, 0.75) - rng.exponential(2.0, len(y))
    bounds = np.column_stack([y, y])
    bounds[::5] = np.column_stack([np.floor(y / 10), np.floor(y / 10) + 1])[::5] * 10
    bounds[y > limit] = np.column_stack([limit, np.full(len(y), INF)])[y > limit]
    low = np.quantile(y, 0.1)
    bounds[y < low] = [-INF, low]
    return bounds


def tiny(**params: Any) -> SVGPRegressor:
    """Exact enough for comparisons."""
    settings = {"n_inducing": 10, "max_iter": 5, "dtype": "float64", "random_state": 0}
    return SVGPRegressor(**{**settings, "likelihood": "censored", **params})


@pytest.fixture
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the loss was still falling")
        yield


@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=() if name == "svgp" else pytest.mark.slow) for name in FAMILIES],
)
@pytest.mark.usefixtures("quiet")
def test_better_than_dropping_rows_and_than_bounds_as_values(family: str, tmp_path: Any) -> None:
    X, y = make_rows()
    bounds = censored(y, X)[:N]
    model = FAMILIES[family](likelihood="censored").fit(X[:N], bounds)
    X_new, y_new = X[N:], y[N:]
    dist = model.predict_dist(X_new)
    assert type(dist) is NormalMixture
    exact = bounds[:, 0] == bounds[:, 1]
    dropped = FAMILIES[family]().fit(X[:N][exact], bounds[exact, 0])
    values = np.where(np.isfinite(bounds).all(1), bounds.mean(1), 0.0)
    values = np.where(np.isinf(bounds[:, 1]), bounds[:, 0], values)
    values = np.where(np.isinf(bounds[:, 0]), bounds[:, 1], values)
    with warnings.catch_warnings():  # of a fit that is as bad as it is meant to be
        warnings.simplefilter("ignore")
        substituted = FAMILIES[family]().fit(X[:N], values)
    score = nll(y_new, dist)
    assert score < nll(y_new, dropped.predict_dist(X_new)) - 0.1
    assert score < nll(y_new, substituted.predict_dist(X_new)) - 0.1
    assert crps(y_new, dist) < crps(y_new, dropped.predict_dist(X_new))
    assert 0.8 < coverage(y_new, dist) < 0.97
    assert np.sqrt(model.noise_variance_) == pytest.approx(2.0, rel=0.4)
    assert model.predict(X_new, return_cov=True)[1].shape == (N_NEW, N_NEW)
    draws = model.sample_functions(100)(X_new)
    latent = model.predict_latent(X_new)
    assert abs((draws.mean(1) - latent.mean()) / latent.std()).max() < 1.0
    save(model, tmp_path / "model.skgp")
    for copy in (pickle.loads(pickle.dumps(model)), load(tmp_path / "model.skgp")):
        np.testing.assert_array_equal(copy.predict_dist(X_new).logpdf(y_new), dist.logpdf(y_new))


def test_without_censoring_it_is_the_normal() -> None:
    X, y = make_rows()
    X, y = X[:60], y[:60]
    normal = tiny(likelihood="normal", max_iter=30).fit(X, y)
    single = tiny(max_iter=30).fit(X, y)
    double = tiny(max_iter=30).fit(X, np.column_stack([y, y]))
    # Their rows come in another order, so sums are rounded otherwise.
    np.testing.assert_allclose(single.predict(X), normal.predict(X), rtol=1e-8)
    assert single.noise_variance_ == pytest.approx(normal.noise_variance_, rel=1e-6)
    np.testing.assert_array_equal(single.predict(X), double.predict(X))
    assert single.score(X, y) == pytest.approx(normal.score(X, y))


def test_units() -> None:
    """Of y: predictions follow."""
    X, y = make_rows()
    X, bounds = X[:80], censored(y, X)[:80]
    model, other = tiny().fit(X, bounds), tiny().fit(X, 1e3 * bounds - 7.0)
    np.testing.assert_allclose(other.predict(X), 1e3 * model.predict(X) - 7.0, rtol=1e-8)
    # Left and right are alike.
    mirrored = tiny().fit(X, -bounds[:, ::-1])
    np.testing.assert_allclose(mirrored.predict(X), -model.predict(X), rtol=1e-5)


def test_validation_score_is_the_log_likelihood_of_bounds() -> None:
    X, y = make_rows()
    bounds = censored(y, X)
    held_out = bounds[N:]
    model = tiny(max_iter=3).fit(X[:N], bounds[:N], X_val=X[N:], y_val=held_out)
    dist = model.predict_dist(X[N:])
    assert model.validation_scores_[-1] == pytest.approx(-nll(held_out, dist), abs=1e-6)


def test_weights_and_rows_that_say_nothing() -> None:
    X, y = make_rows()
    X, bounds = X[:40], censored(y, X)[:40]
    weight = np.ones(40)
    weight[:4] = 0.0
    weighted = tiny().fit(X, bounds, sample_weight=weight)
    dropped = tiny().fit(X[4:], bounds[4:])
    np.testing.assert_allclose(weighted.predict(X), dropped.predict(X), rtol=1e-9)
    weight[:4] = 2.0
    twice = tiny().fit(X, bounds, sample_weight=weight)
    repeated = tiny().fit(np.concatenate([X, X[:4]]), np.concatenate([bounds, bounds[:4]]))
    np.testing.assert_allclose(twice.predict(X), repeated.predict(X), rtol=1e-4)
    unknown = bounds.copy()
    unknown[:4] = [-INF, INF]
    assert np.isfinite(tiny().fit(X, unknown).predict(X)).all()


@pytest.mark.usefixtures("quiet")
def test_pipelines_searches_and_streams() -> None:
    X, y = make_rows()
    few = slice(N, None)
    bounds = pd.DataFrame(censored(y, X)[few], columns=["lower", "upper"])
    X, y = X[few], y[few]
    pipeline = make_pipeline(StandardScaler(), tiny())
    scores = cross_val_score(pipeline, X, bounds, cv=3, scoring=neg_nll_scorer)
    assert np.isfinite(scores).all()
    search = GridSearchCV(
        pipeline, {"svgpregressor__n_inducing": [2, 20]}, cv=2, scoring=neg_nll_scorer
    )
    search.fit(X, bounds)
    assert search.best_params_ == {"svgpregressor__n_inducing": 20}
    with pytest.raises(ValueError, match="neg_nll_scorer"):
        pipeline.fit(X, bounds).score(X, bounds)
    model = tiny(n_inducing=20)
    for rows in np.array_split(np.arange(100), 5):
        model.partial_fit(X[rows], bounds.iloc[rows])
    assert nll(y[100:], model.predict_dist(X[100:])) < stats.norm(y.mean(), y.std()).entropy()
    early = tiny(early_stopping=True, max_iter=30).fit(X, bounds)
    assert np.isfinite(early.validation_scores_).all()


@pytest.mark.slow
def test_predictive_objective_finds_its_epochs() -> None:
    X, y = make_rows()
    bounds = censored(y, X)[:100]
    model = PPGPRRegressor(n_inducing=10, likelihood="censored", random_state=0)
    model.fit(X[:100], bounds)
    assert nll(bounds, model.predict_dist(X[:100])) < nll(
        bounds, NormalMixture.normal(np.full(100, y.mean()), np.full(100, y.std()))
    )


def test_other_scores_refuse_bounds() -> None:
    X, y = make_rows()
    bounds = censored(y, X)[:40]
    dist = tiny().fit(X[:40], bounds).predict_dist(X[:40])
    for score in (crps, rmse, coverage):
        with pytest.raises(ValueError, match="only nll is a proper score"):
            score(bounds, dist)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([2.0, 1.0], r"y has the bounds \[2.0, 1.0\] in row 3"),
        ([INF, INF], r"y has the bounds \[inf, inf\] in row 3"),
        ([-INF, -INF], r"y has the bounds \[-inf, -inf\] in row 3"),
        ([np.nan, 1.0], "y contains NaN in row 3: a bound that nobody knows is -inf"),
        ([1e200, INF], "y holds numbers as large as"),
    ],
)
def test_wrong_bounds_are_refused(wrong: list[float], message: str) -> None:
    X, y = make_rows()
    bounds = censored(y, X)
    bounds[3] = wrong
    with pytest.raises(ValueError, match=message):
        tiny().fit(X, bounds)
    with pytest.raises(ValueError, match=message.replace("y ", "y_val ", 1)):
        tiny().fit(X[5:], bounds[5:], X_val=X, y_val=bounds)
    with pytest.raises(ValueError, match=message):
        tiny().partial_fit(X, bounds)


def test_wrong_shapes_and_tables_are_refused() -> None:
    X, y = make_rows()
    bounds = censored(y, X)
    with pytest.raises(ValueError, match=re.escape("needs (n, 2), lower and upper bounds")):
        tiny().fit(X, np.column_stack([bounds, y]))
    with pytest.raises(ValueError, match="infinity"):
        tiny().fit(X, bounds[:, 1])
    bounds[:, 1] = INF
    bounds[:, 0] = np.minimum(y, 1.0)
    with pytest.raises(
        ValueError, match=r"every row of column\(s\) \[1\]: add rows whose bound is finite"
    ):
        tiny().fit(X, bounds)


def test_cross_fitting() -> None:
    X, y = make_rows()
    X, bounds = X[:60], censored(y, X)[:60]
    model = CrossFittedRegressor(tiny(), cv=3).fit(X, bounds)
    assert np.isfinite(nll(bounds, model.predict_dist(X)))
    with pytest.raises(ValueError, match="recalibrate=True needs targets, and y holds bounds"):
        CrossFittedRegressor(tiny(), cv=3, recalibrate=True).fit(X, bounds)


def test_the_function_has_a_covariance_over_rows() -> None:
    """Its noise is normal before bounds are taken, so that f is as of a model of normal noise."""
    X, y = make_rows()
    model = FAMILIES["svgp"](likelihood="censored").fit(X[:60], censored(y, X)[:60])
    mean, cov = model.posterior().mean_and_cov(torch.from_numpy(X[60:65]))
    latent = model.predict_latent(X[60:65])
    np.testing.assert_allclose(mean, latent.mean(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(cov.diagonal(), latent.var(), rtol=1e-4, atol=1e-6)
