"""Mixtures of a trained model and an untrained GP, as held-out rows prefer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest

from skgp import DSPPRegressor, PPGPRRegressor
from skgp.files import load, save
from skgp.fitting import cross_validation
from skgp.fitting.model import Layers
from skgp.fitting.stacking import StackedLayers, mixed_scores, share_of_first
from skgp.recipes.laplace import LaplaceLayers
from skgp.scoring import noise_fraction

BOTH = [PPGPRRegressor, DSPPRegressor]


def _rows(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(n)


@pytest.fixture
def fitted(monkeypatch):
    """Fits with a share of the trained model that is given."""

    def fit(make, share, **params):
        monkeypatch.setattr(cross_validation, "share_of_first", lambda *given: share)
        return make(max_iter=20, random_state=0, **params).fit(*_rows(60))

    return fit


def _score(share, first, second, weights, n_more):
    mixed = np.log(share * np.exp(first) + (1.0 - share) * np.exp(second))
    return weights @ mixed + n_more * np.log(1.0 - share)


def test_scores_of_a_mixture(rng) -> None:
    first, second = rng.normal(-1.0, 1.0, (2, 2, 9))
    first[1] -= 5.0  # the worse CRPS
    density, crps = mixed_scores(first, second, 0.3)
    assert_allclose(density, np.log(0.3 * np.exp(first[0]) + 0.7 * np.exp(second[0])))
    assert_array_equal(crps, second[1])
    assert_array_equal(mixed_scores(first, second, 1.0), first)
    assert_array_equal(mixed_scores(first, second, 0.0), second)


@pytest.mark.parametrize("n_more", [0.0, 4.0])
def test_the_share_is_that_of_the_best_mixture_and_some_rows_more(n_more, rng):
    first, second = rng.normal(-1.0, 1.0, (2, 80))
    weights = rng.integers(1, 4, 80).astype(float)
    grid = np.arange(0.01, 1.0, 0.01)
    best = grid[np.argmax([_score(share, first, second, weights, n_more) for share in grid])]
    assert 0.2 < best < 0.8
    assert share_of_first(first, second, weights, n_more) == pytest.approx(best, abs=0.011)
    copies = weights.astype(int)
    repeated = share_of_first(
        first.repeat(copies), second.repeat(copies), np.ones(copies.sum()), n_more
    )
    assert share_of_first(first, second, weights, n_more) == repeated


@pytest.mark.parametrize(("lead", "share"), [(-2.0, 0.0), (2.0, 1.0)])
def test_a_model_with_next_to_no_share_is_left_out(lead, share, rng):
    first = rng.normal(-1.0, 1.0, 200)
    assert share_of_first(first + lead, first, np.ones(200), 4.0) == share


@pytest.mark.parametrize("make", [BOTH[0], pytest.param(BOTH[1], marks=pytest.mark.slow)])
def test_densities_are_mixed_and_all_predictions_agree(make, fitted):
    trained, untrained, both = (fitted(make, share) for share in (1.0, 0.0, 0.3))
    kinds = [type(model.model_.source) for model in (trained, untrained, both)]
    assert kinds == [Layers, LaplaceLayers, StackedLayers]
    shares = [model.stacking_weights_[0] for model in (trained, untrained, both)]
    assert shares == [1.0, 0.0, 0.3]
    assert_allclose(both.stacking_weights_.sum(), 1.0)
    new, y = _rows(9, seed=1)
    of_both = both.predict_dist(new).pdf(y)
    expected = 0.3 * trained.predict_dist(new).pdf(y) + 0.7 * untrained.predict_dist(new).pdf(y)
    assert_allclose(of_both, expected, rtol=1e-8)
    mean, std = both.predict(new, return_std=True)
    again, cov = both.predict(new, return_cov=True)
    assert_allclose(again, mean, rtol=1e-9)
    assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-9)
    drawn, dist = both.sample_y(new[:1], 1000, random_state=0)[0], both.predict_dist(new[:1])
    assert kstest(drawn, lambda values: dist.cdf(values[None])[0]).pvalue > 1e-3
    noises = 0.3 * trained.noise_variance_ + 0.7 * untrained.noise_variance_
    assert both.noise_variance_ == pytest.approx(noises)
    assert (0.0 < noise_fraction(dist, both.noise_variance_)).all()
    latent = both.predict_latent(new)
    functions = both.sample_functions(400)(new)
    assert_allclose(functions.mean(1), latent.mean(), atol=5.0 * latent.std().max() / 400**0.5)
    assert_allclose(functions.std(1), latent.std(), rtol=0.2)


@pytest.mark.parametrize("make", BOTH)
def test_files_keep_both(make, fitted, tmp_path):
    model = fitted(make, 0.3)
    save(model, tmp_path / "model.skgp")
    X, y = _rows(9, seed=1)
    again = load(tmp_path / "model.skgp")
    assert_array_equal(again.predict_dist(X).logpdf(y), model.predict_dist(X).logpdf(y))
    assert_array_equal(again.stacking_weights_, [0.3, 0.7])


def test_training_goes_on_without_the_other_one(fitted):
    X, y = _rows(60)
    trained, both = (fitted(PPGPRRegressor, share, warm_start=True) for share in (1.0, 0.3))
    for model in (trained, both):
        model.set_params(max_iter=2, early_stopping=False).fit(X, y)
        assert type(model.model_.source) is Layers
        assert_array_equal(model.stacking_weights_, [1.0, 0.0])
    assert_allclose(both.predict(X), trained.predict(X), rtol=1e-9)


def test_where_noise_is_not_normal_one_model_has_all(monkeypatch):
    for is_ahead, n_inducing in ((True, 60), (False, 60)):
        monkeypatch.setattr(cross_validation, "is_ahead", lambda *given, found=is_ahead: found)
        model = PPGPRRegressor(likelihood="student_t", max_iter=3, random_state=0).fit(*_rows(60))
        assert type(model.model_.source) is Layers
        assert model.model_.stack.top.Z.shape[-2] == n_inducing
        assert (len(model.validation_scores_) == 1) is not is_ahead
        assert_array_equal(model.stacking_weights_, [is_ahead, not is_ahead])
