"""Untrained GPs whose noise has the density of held-out residuals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, norm

from skgp import DSPPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.core.layers.noise import MixtureNoise
from skgp.files import load, save
from skgp.fitting import cross_validation, residual_noise
from skgp.fitting.model import Layers
from skgp.recipes import sizes
from skgp.recipes.laplace import LaplaceLayers
from skgp.scoring import nll, noise_fraction

pytestmark = pytest.mark.usefixtures("short_start")

BOTH = [PPGPRRegressor, DSPPRegressor]
FEW = {"max_iter": 2, "random_state": 0}
JUMP = 0.7


def _rows(n: int, seed: int = 0):
    """A smooth function, and noise that has two peaks."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    return X, np.sin(3.0 * X[:, 0]) + rng.choice([-JUMP, JUMP], n) + 0.1 * rng.standard_normal(n)


def _true_density(X, y):
    f = np.sin(3.0 * X[:, 0])
    return 0.5 * (norm.pdf(y, f - JUMP, 0.1) + norm.pdf(y, f + JUMP, 0.1))


@pytest.fixture
def fitted(monkeypatch):
    """Fits with a share of the trained model that is given."""

    def fit(make, share, **params):
        monkeypatch.setattr(cross_validation, "share_of_first", lambda *given: share)
        return make(**{**FEW, **params}).fit(*_rows(200))

    return fit


@pytest.mark.usefixtures("full_start")
@pytest.mark.parametrize("make", BOTH)
def test_two_peaks_are_found(make) -> None:
    new, y = _rows(1000, seed=1)
    model = make(**FEW).fit(*_rows(300))
    dist = model.predict_dist(new)
    truth = -np.log(_true_density(new, y)).mean()
    normal = SVGPRegressor(random_state=0).fit(*_rows(300)).predict_dist(new)
    assert nll(y, dist) - truth < 0.5 * (nll(y, normal) - truth)
    assert_allclose(model.noise_variance_, JUMP**2 + 0.01, rtol=0.15)
    lower, upper = dist.interval(0.9)
    assert np.mean((lower <= y) & (y <= upper)) == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("kind", [LaplaceLayers, Layers])
@pytest.mark.parametrize("make", BOTH)
def test_all_predictions_agree(make, kind, fitted, monkeypatch) -> None:
    if kind is Layers:
        monkeypatch.setattr(sizes, "_MOST_UNCERTAIN", 0)
    model, new = fitted(make, 0.0), _rows(6, seed=1)[0]
    module = model.model_
    assert type(module.source) is kind
    assert module.source.noise is not None
    dist = model.predict_dist(new)
    mean, std = model.predict(new, return_std=True)
    assert_allclose(mean, dist.mean(), rtol=1e-9)
    assert_allclose(std, dist.std(), rtol=1e-9)
    latent = model.predict_latent(new)
    assert_allclose(latent.mean(), mean, rtol=1e-9)
    assert_allclose(latent.var() + model.noise_variance_, dist.var(), rtol=1e-9)
    _, cov = model.predict(new, return_cov=True)
    assert_allclose(np.diag(cov), dist.var(), rtol=1e-9)
    assert_array_equal(noise_fraction(dist, model.noise_variance_) < 1.0, True)
    joint = model.sample_y(new, 2000, random_state=0)  # (n, S)
    for drawn, row in zip(joint, new, strict=True):
        of_row = model.predict_dist(row[None])
        assert kstest(drawn, lambda y, of_row=of_row: of_row.cdf(y[None])[0]).pvalue > 1e-3
    # Rows that are far apart have noise of their own: which peak one is at says nothing.
    assert_allclose(np.cov(joint)[np.triu_indices(6, 1)], cov[np.triu_indices(6, 1)], atol=0.06)
    functions = model.sample_functions(400)(new)
    assert_allclose(functions.mean(1), latent.mean(), atol=5.0 * latent.std().max() / 20.0)


@pytest.mark.parametrize(
    "make", [PPGPRRegressor, pytest.param(DSPPRegressor, marks=pytest.mark.slow)]
)
def test_a_mixture_with_a_trained_model_keeps_it(make, fitted) -> None:
    trained, untrained, both = (fitted(make, share) for share in (1.0, 0.0, 0.3))
    new, y = _rows(9, seed=1)
    expected = 0.3 * trained.predict_dist(new).pdf(y) + 0.7 * untrained.predict_dist(new).pdf(y)
    assert_allclose(both.predict_dist(new).pdf(y), expected, rtol=1e-8)
    noises = 0.3 * trained.noise_variance_ + 0.7 * untrained.noise_variance_
    assert both.noise_variance_ == pytest.approx(noises)
    drawn, dist = both.sample_y(new[:1], 2000, random_state=0)[0], both.predict_dist(new[:1])
    assert kstest(drawn, lambda values: dist.cdf(values[None])[0]).pvalue > 1e-3


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_files_keep_it(share, fitted, tmp_path) -> None:
    model, (new, y) = fitted(PPGPRRegressor, share), _rows(9, seed=1)
    save(model, tmp_path / "model.skgp")
    again = load(tmp_path / "model.skgp")
    assert_array_equal(again.predict_dist(new).logpdf(y), model.predict_dist(new).logpdf(y))


def test_scores_are_less_what_normal_noise_is_expected_to_gain(fitted, monkeypatch) -> None:
    found = fitted(PPGPRRegressor, 0.0)
    monkeypatch.setattr(residual_noise, "_OPTIMISM", 17.0)
    less = fitted(PPGPRRegressor, 0.0)
    difference = found.best_validation_score_ - less.best_validation_score_
    assert difference == pytest.approx(10.0 / 200)
    X, y = _rows(9, seed=1)
    assert_array_equal(less.predict_dist(X).logpdf(y), found.predict_dist(X).logpdf(y))
    monkeypatch.setattr(residual_noise, "_OPTIMISM", np.inf)
    assert fitted(PPGPRRegressor, 0.0).model_.source.noise is None


def test_no_noise_is_below_the_floor(fitted, monkeypatch) -> None:
    """Whose variance all of it has then, so that no predictive variance is below it."""
    narrow = MixtureNoise((0.2, 0.3, 0.5), (0.0, 0.1, -0.06), (0.02, 0.01, 0.01))
    monkeypatch.setattr(residual_noise, "noise_of_residuals", lambda *given: narrow)
    monkeypatch.setattr(residual_noise, "_OPTIMISM", -1e6)
    model = fitted(PPGPRRegressor, 0.0, noise_floor=0.3)
    unit = np.var(_rows(200)[1])
    assert_allclose(model.noise_variance_, 0.33 * unit, rtol=1e-6)
    dist, latent = (
        predict(_rows(9, seed=1)[0]) for predict in (model.predict_dist, model.predict_latent)
    )
    assert_allclose(dist.var() - latent.var(), model.noise_variance_, rtol=1e-6)


def test_normal_noise_stays(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (200, 2))
    monkeypatch.setattr(cross_validation, "share_of_first", lambda *given: 0.0)
    model = PPGPRRegressor(**FEW).fit(X, np.sin(3.0 * X[:, 0]) + 0.3 * rng.standard_normal(200))
    assert model.model_.source.noise is None


@pytest.mark.parametrize(("most", "is_found"), [(np.inf, True), (1e-3, False)])
def test_residuals_of_an_uncertain_function_say_nothing(most, is_found, fitted, monkeypatch):
    monkeypatch.setattr(residual_noise, "_MOST_F_VAR", most)
    assert (fitted(PPGPRRegressor, 0.0).model_.source.noise is not None) is is_found


def test_copies_are_weights(monkeypatch) -> None:
    X, y = _rows(250)
    weight = np.random.default_rng(0).choice([1, 2], 250, p=[0.96, 0.04])
    monkeypatch.setattr(cross_validation, "share_of_first", lambda *given: 0.0)
    weighted = PPGPRRegressor(**FEW).fit(X, y, sample_weight=weight)
    repeated = PPGPRRegressor(**FEW).fit(X.repeat(weight, 0), y.repeat(weight))
    assert weighted.model_.source.noise is not None
    of_both = (model.predict_dist(X[:9]).logpdf(y[:9]) for model in (weighted, repeated))
    assert_allclose(*of_both, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [LaplaceLayers, Layers])
def test_a_stream_goes_on_with_normal_noise_of_its_variance(kind, fitted, monkeypatch) -> None:
    if kind is Layers:
        monkeypatch.setattr(sizes, "_MOST_UNCERTAIN", 0)
    model = fitted(PPGPRRegressor, 0.0)
    assert type(model.model_.source) is kind
    before = model.noise_variance_
    model.partial_fit(*_rows(50, seed=2))
    assert model.model_.source.noise is None
    assert_allclose(model.noise_variance_, before, rtol=0.2)
