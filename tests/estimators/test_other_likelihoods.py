"""Regressors with other likelihoods than the normal one: fits, predictions, files, refusals."""

import itertools
import pickle
import re
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgp import DGPRegressor, DSPPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.distributions import CountMixture, NormalMixture
from skgp.files import load, save
from skgp.recipes import outputs
from skgp.scoring import crps, neg_nll_scorer, nll

pytestmark = pytest.mark.usefixtures("short_start")

N, N_NEW = 250, 150
FAMILIES: dict[str, Any] = {
    "svgp": lambda **p: SVGPRegressor(n_inducing=20, max_iter=150, random_state=0, **p),
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
LIKELIHOODS = ("student_t", "heteroscedastic", "poisson", "negative_binomial")
COUNTS = LIKELIHOODS[2:]


def make_rows(likelihood: str) -> tuple[Any, Any]:
    """Rows whose targets have that distribution about one smooth function."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (N + N_NEW, 2))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    if likelihood == "student_t":
        return X, 50 + 10 * (f + 0.1 * rng.standard_t(2.5, len(f)))
    if likelihood == "heteroscedastic":
        return X, 50 + 10 * (f + np.exp(X[:, 0] - 2) * rng.standard_normal(len(f)))
    rate = np.exp(1 + f)
    if likelihood == "poisson":
        return X, rng.poisson(rate)
    return X, rng.negative_binomial(1.5, 1.5 / (1.5 + rate))


def fitted(family: str, likelihood: str, **params: Any) -> tuple[Any, Any, Any]:
    X, y = make_rows(likelihood)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the loss was still falling")
        model = FAMILIES[family](likelihood=likelihood, **params).fit(X[:N], y[:N])
    return model, X[N:], y[N:]


QUICK = {("svgp", "student_t"), ("svgp", "poisson")}
PAIRS = [
    pytest.param(*pair, marks=() if pair in QUICK else pytest.mark.slow)
    for pair in itertools.product(FAMILIES, LIKELIHOODS)
]


@pytest.mark.parametrize(("family", "likelihood"), PAIRS)
def test_better_than_the_normal_and_calibrated(family: str, likelihood: str, tmp_path: Any) -> None:
    model, X, y = fitted(family, likelihood)
    dist = model.predict_dist(X)
    assert type(dist) is (CountMixture if likelihood in COUNTS else NormalMixture)
    normal = FAMILIES[family]().fit(*(part[:N] for part in make_rows(likelihood)))
    assert nll(y, dist) < nll(y, normal.predict_dist(X)) - 0.01
    assert crps(y, dist) < 1.05 * crps(y, normal.predict_dist(X))
    lower, upper = model.predict_interval(X, 0.8)
    inside = ((y >= lower) & (y <= upper)).mean()
    assert 0.7 < inside < (0.97 if likelihood in COUNTS else 0.9)
    # Parts of predictions are those of the distribution.
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, dist.mean())
    np.testing.assert_array_equal(std, dist.std())
    np.testing.assert_array_equal(model.predict_quantiles(X, [0.1, 0.9])[:, 1], dist.ppf(0.9))
    with pytest.raises(NotImplementedError, match="covariance over rows"):
        model.predict(X, return_cov=True)
    assert model.sample_y(X, 3).shape == (N_NEW, 3)
    assert model.predict_latent(X).shape == (N_NEW,)
    # Files and pickles.
    save(model, tmp_path / "model.skgp")
    for copy in (pickle.loads(pickle.dumps(model)), load(tmp_path / "model.skgp")):
        np.testing.assert_array_equal(copy.predict_dist(X).logpdf(y), dist.logpdf(y))


@pytest.mark.usefixtures("full_start")
def test_what_is_learned_is_in_the_units_of_y() -> None:
    model, _, _ = fitted("svgp", "student_t")
    learned = model.likelihood_parameters_
    assert 2.5 <= learned["dof"] < 6.0
    assert learned["scale"] == pytest.approx(1.0, rel=0.3)
    expected = learned["scale"] ** 2 * learned["dof"] / (learned["dof"] - 2)
    assert model.noise_variance_ == pytest.approx(expected)


def test_dispersion_is_learned() -> None:
    model, X, _ = fitted("svgp", "negative_binomial")
    assert model.likelihood_parameters_["dispersion"] == pytest.approx(1 / 1.5, rel=0.4)
    with pytest.raises(AttributeError, match="NegativeBinomial"):
        model.noise_variance_  # noqa: B018
    log_rate = model.predict_latent(X)
    np.testing.assert_allclose(np.exp(log_rate.mean() + log_rate.var() / 2), model.predict(X))


def test_normal_says_nothing_more() -> None:
    X, y = make_rows("student_t")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SVGPRegressor(n_inducing=5, max_iter=2).fit(X, y)
    assert model.likelihood_parameters_ == {}


@pytest.mark.parametrize("likelihood", COUNTS)
@pytest.mark.parametrize("wrong", [-1.0, 2.5, 1e8])
def test_targets_that_are_no_counts_are_refused(likelihood: str, wrong: float) -> None:
    X, y = make_rows(likelihood)
    y = y.astype(float)
    y[3] = wrong
    model = FAMILIES["svgp"](likelihood=likelihood)
    with pytest.raises(
        ValueError, match=rf"y holds {re.escape(f'{wrong:g}')}, and a likelihood of counts"
    ):
        model.fit(X, y)
    with pytest.raises(ValueError, match="y_val holds"):
        model.fit(X[5:], y[5:], X_val=X, y_val=y)
    with pytest.raises(ValueError, match="y holds"):
        model.partial_fit(X, y)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_several_outputs_are_refused(likelihood: str) -> None:
    X, y = make_rows(likelihood)
    with pytest.raises(ValueError, match="is for one output, and y has 2"):
        FAMILIES["svgp"](likelihood=likelihood).fit(X, np.column_stack([y, y]))


@pytest.mark.parametrize(
    "params", [{"gamma": 1.03}, {"n_latents": 1}, {"optimizer": "natgrad"}], ids=str
)
def test_parameters_of_the_normal_are_refused(params: Any) -> None:
    X, y = make_rows("poisson")
    with pytest.raises(ValueError, match="is for likelihood='normal'"):
        SVGPRegressor(likelihood="poisson", **params).fit(X, y)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_weights_and_missing_targets(likelihood: str) -> None:
    """A row of weight zero, or without a target, is none; one of weight two is two."""
    X, y = make_rows(likelihood)
    X, y = X[:40], y[:40].astype(float)
    params = {"likelihood": likelihood, "n_inducing": 10, "max_iter": 5, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weight = np.ones(40)
        weight[:4] = 0.0
        weighted = SVGPRegressor(**params).fit(X, y, sample_weight=weight)
        dropped = SVGPRegressor(**params).fit(X[4:], y[4:])
        np.testing.assert_allclose(weighted.predict(X), dropped.predict(X), rtol=1e-9)
        missing = y.copy()[:, None]
        missing[:4] = np.nan
        model = SVGPRegressor(**params).fit(X, missing)
        assert np.isfinite(model.predict(X)).all()
        weight[:4] = 2.0
        twice = SVGPRegressor(**params).fit(X, y, sample_weight=weight)
        assert abs(twice.predict(X) - dropped.predict(X)).max() > 1e-6


@pytest.mark.parametrize("likelihood", ["student_t", "poisson"])
def test_streams_and_searches(likelihood: str) -> None:
    X, y = make_rows(likelihood)
    model = FAMILIES["svgp"](likelihood=likelihood)
    for rows in np.array_split(np.arange(N), 3):
        model.partial_fit(X[rows], y[rows])
    assert np.isfinite(nll(y[N:], model.predict_dist(X[N:])))
    pipeline = make_pipeline(
        StandardScaler(), SVGPRegressor(likelihood=likelihood, n_inducing=10, max_iter=5)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = cross_val_score(pipeline, X, y, cv=2, scoring=neg_nll_scorer)
    assert np.isfinite(scores).all()


def test_what_the_likelihood_makes_impossible_is_said_so() -> None:
    X, y = make_rows("poisson")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = {"n_inducing": 5, "max_iter": 2}
        model = SVGPRegressor(likelihood="poisson", **params).fit(X[:40], y[:40])
    with pytest.raises(NotImplementedError, match="SVGPRegressor with the Poisson likelihood does"):
        model.predict(X, return_cov=True)
    for method in (model.sample_functions, model.sample_prior_functions):
        with pytest.raises(NotImplementedError, match="the Poisson likelihood stands between"):
            method()


@pytest.mark.parametrize("family", ["svgp", "ppgpr"])
def test_targets_that_repeat_are_not_without_noise(family: str) -> None:
    """Grades, which often lie on the mean of their neighbours: the noise started at 1e-16 there."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (200, 1)).astype(float)
    y = np.round(X[:, 0] + 0.3 * rng.standard_normal(200))
    model = FAMILIES[family](likelihood="heteroscedastic").fit(X, y)
    std = model.predict(np.arange(5.0)[:, np.newaxis], return_std=True)[1]
    empirical = np.array([y[X[:, 0] == x].std() for x in range(5)])
    np.testing.assert_array_less(std, 4.0 * empirical + 0.2)


def test_noise_starts_at_the_distance_from_the_mean_of_ten_other_rows() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-2.0, 2.0, (30, 2)), rng.standard_normal(30)
    like = torch.ones(30, dtype=torch.float64)
    ours = outputs._log_noise(torch.from_numpy(x), torch.from_numpy(y)[:, None], like, 1e-12)
    for i in range(30):
        others = [j for j in np.argsort(np.linalg.norm(x - x[i], axis=1)) if j != i][:10]
        expected = 2.0 * np.log(abs(y[i] - y[others].mean())) - outputs._LOG_CHI_SQUARED
        assert ours[0, i].item() == pytest.approx(expected, rel=1e-9)


def test_the_noise_of_weighted_rows_starts_as_that_of_their_copies() -> None:
    """The nearest neighbours of a copy are its copies, around whose mean there is no noise."""
    rng = np.random.default_rng(0)
    X, n_copies = rng.uniform(-3.0, 3.0, (40, 1)), rng.integers(0, 5, 40)
    y = np.sin(X[:, 0]) + (0.05 + 0.4 * (X[:, 0] > 0.0)) * rng.standard_normal(40)
    copies = np.repeat(np.arange(40), n_copies)
    weighted, repeated = (
        SVGPRegressor(likelihood="heteroscedastic", n_inducing=15, max_iter=1, random_state=0)
        for _ in range(2)
    )
    weighted.fit(X, y, n_copies.astype(float))
    repeated.fit(X[copies], y[copies])
    assert weighted.loss_curve_ == pytest.approx(repeated.loss_curve_, rel=1e-6)
    for a, b in zip(
        weighted.predict(X, return_std=True), repeated.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
