"""Regressors of several batches and not too many inputs, whose predictions mix two models."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgp import DSPPRegressor, PPGPRRegressor
from skgp.files import load, save
from skgp.fitting import residual_noise, untrained_gp
from skgp.fitting.folds import Fold
from skgp.fitting.model import Layers
from skgp.fitting.stacking import StackedLayers

pytestmark = pytest.mark.usefixtures("short_start")

BOTH = [PPGPRRegressor, DSPPRegressor]
FEW = {
    "batch_size": 50,
    "max_iter": 5,
    "random_state": 0,
    "normalize_X": False,
    "normalize_y": False,
}


def _skewed(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(3.0 * X[:, 0]) + 0.3 * (rng.exponential(size=n) - 1.0)


@pytest.fixture
def fitted(monkeypatch):
    """Fits with a share of the trained model that is given."""

    def fit(make, share, n=200, **params):
        monkeypatch.setattr(untrained_gp, "share_of_first", lambda *given: share)
        return make(**{**FEW, **params}).fit(*_skewed(n))

    return fit


@pytest.mark.parametrize("make", BOTH)
def test_densities_are_mixed(make, fitted) -> None:
    trained, untrained, both = (fitted(make, share) for share in (1.0, 0.0, 0.3))
    new, y = _skewed(50, seed=1)
    expected = 0.3 * trained.predict_dist(new).pdf(y) + 0.7 * untrained.predict_dist(new).pdf(y)
    assert_allclose(both.predict_dist(new).pdf(y), expected, rtol=1e-6)
    assert_array_equal(both.stacking_weights_, [0.3, 0.7])
    assert both.loss_curve_ == trained.loss_curve_
    assert untrained.n_iter_ == 1 < both.n_iter_


@pytest.mark.parametrize("make", BOTH)
def test_the_share_is_that_of_held_out_rows(make, monkeypatch) -> None:
    seen = []

    def noted(first, second, weights, n_more) -> float:
        seen.append((len(first), len(second), weights.sum(), n_more))
        return 1.0

    monkeypatch.setattr(untrained_gp, "share_of_first", noted)
    make(**FEW).fit(*_skewed(200))
    assert seen == [(20, 20, 20.0, 4.0)]


def test_the_noise_is_not_normal(fitted, monkeypatch) -> None:
    new, y = _skewed(500, seed=1)
    many = {"n": 500, "batch_size": 200, "validation_fraction": 0.2, "max_iter": 2}
    model = fitted(PPGPRRegressor, 0.0, **many)
    assert model.model_.source.noise is not None
    monkeypatch.setattr(residual_noise, "_OPTIMISM", np.inf)
    normal = fitted(PPGPRRegressor, 0.0, **many)
    assert normal.model_.source.noise is None
    gain = model.predict_dist(new).logpdf(y) - normal.predict_dist(new).logpdf(y)
    assert gain.mean() > 0.1
    # Four nats more, of the hundred rows that were held out.
    monkeypatch.setattr(residual_noise, "_OPTIMISM", 3.0)
    more = fitted(PPGPRRegressor, 0.0, **many)
    assert more.best_validation_score_ - model.best_validation_score_ == pytest.approx(0.04)


def test_coverage_is_that_of_the_trained_model(fitted, monkeypatch) -> None:
    """A GP of all rows knows the targets of those that were held out."""
    judged, coverage = [], Fold.coverage

    def noted(fold, model):
        judged.append(model)
        return coverage(fold, model)

    monkeypatch.setattr(Fold, "coverage", noted)
    model = fitted(DSPPRegressor, 0.3)
    assert type(model.model_.source) is StackedLayers
    assert type(judged[-1].source) is Layers
    assert judged[-1].stack.top.Z.shape == model.model_.stack.top.Z.shape


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_with_more_inputs_another_model_has_to_gain(share, monkeypatch) -> None:
    seen = []

    def noted(*given) -> float:
        seen.append(given)
        return share

    def kept(few: int, least: float) -> float:
        monkeypatch.setattr(untrained_gp, "_FEW_INPUTS", few)
        monkeypatch.setattr(untrained_gp, "_LEAST_GAIN", least)
        X, y = _skewed(200)
        model = PPGPRRegressor(**FEW).fit(X, y, sample_weight=1.0 + (X[:, 1] > 0.0))
        return model.stacking_weights_[0]

    monkeypatch.setattr(untrained_gp, "share_of_first", noted)
    assert kept(200, np.inf) == share
    trained, untrained, weights, _ = seen[-1]
    gains = np.log(share * np.exp(trained) + (1.0 - share) * np.exp(untrained)) - trained
    gain = np.average(gains, weights=weights)
    assert kept(199, gain - 1e-9) == share
    assert kept(199, gain + 1e-9) == 1.0


def test_the_noise_of_more_inputs_is_not_normal(fitted, monkeypatch) -> None:
    monkeypatch.setattr(residual_noise, "_OPTIMISM", -1e6)
    monkeypatch.setattr(untrained_gp, "_FEW_INPUTS", 199)
    model = fitted(PPGPRRegressor, 0.3)
    assert_array_equal(model.stacking_weights_, [0.3, 0.7])
    assert model.model_.source.other.source.noise is not None


def test_files_and_streams(fitted, tmp_path) -> None:
    model, (X, y) = fitted(PPGPRRegressor, 0.3), _skewed(50, seed=1)
    save(model, tmp_path / "model.skgp")
    again = load(tmp_path / "model.skgp")
    assert_array_equal(again.predict_dist(X).logpdf(y), model.predict_dist(X).logpdf(y))
    model.partial_fit(X, y)
    assert_array_equal(model.stacking_weights_, [1.0, 0.0])
