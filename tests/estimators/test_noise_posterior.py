"""Posteriors of untrained GPs that go with their fitted noise."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skgp import DSPPRegressor, PPGPRRegressor
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting import cross_validation, residual_noise
from skgp.fitting.model import Layers
from skgp.recipes import sizes
from skgp.recipes.laplace import LaplaceLayers

pytestmark = pytest.mark.usefixtures("short_start")

BOTH = [PPGPRRegressor, DSPPRegressor]
FEW = {"max_iter": 2, "random_state": 0}


def _function(X):
    return np.sin(3.0 * X[:, 0])


def _rows(n: int, seed: int = 0):
    """One row in ten is wrong."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    wrong = 3.0 * rng.standard_normal(n) * (rng.random(n) < 0.1)
    return X, _function(X) + 0.1 * rng.standard_normal(n) + wrong


@pytest.fixture
def fitted(monkeypatch):
    """Fits of which the untrained GP is kept."""
    monkeypatch.setattr(cross_validation, "share_of_first", lambda *given: 0.0)

    def fit(make=PPGPRRegressor, **params):
        return make(**{**FEW, **params}).fit(*_rows(150))

    return fit


@pytest.fixture
def normal(fitted, monkeypatch):
    """Such a fit whose posterior is that of normal noise."""
    with monkeypatch.context() as patch:
        patch.setattr(residual_noise, "_MOST_ROUNDS", 1)
        return fitted()


def _conditioned(gps, rows, noise_var, x):
    """Means and variances (K, n) of f by dense algebra, given rows of normal noise."""
    with torch.no_grad():
        K, Kuf = gps.kernel.Kuu(rows.x.expand(len(noise_var), -1, -1)), gps.kernel.Kuf(rows.x, x)
        variance, mean = gps.kernel.variance.numpy(), gps.mean.numpy()
    K, Kuf = (variance[:, None, None] * part.numpy() for part in (K, Kuf))
    noise = noise_var.numpy()[:, None] / rows.weight.numpy()
    gain = np.linalg.solve(K + noise[:, :, None] * np.eye(len(rows.x)), Kuf)
    found = mean[:, None] + np.einsum("kfn,kf->kn", gain, rows.y.numpy() - mean[:, None])
    return found, variance[:, None] - (gain * Kuf).sum(1)


@pytest.mark.parametrize("kind", [LaplaceLayers, Layers])
def test_it_is_that_of_equivalent_rows(kind, fitted, monkeypatch) -> None:
    if kind is Layers:
        monkeypatch.setattr(sizes, "_MOST_UNCERTAIN", 0)
    seen, find = [], residual_noise.equivalent_rows

    def noted(layer, rows, noise_var, noise):
        seen.append((find(layer, rows, noise_var, noise), noise_var.clone()))
        return seen[-1][0]

    monkeypatch.setattr(residual_noise, "equivalent_rows", noted)
    model, (new, _) = fitted(), _rows(9, seed=1)
    module = model.model_
    assert type(module.source) is kind
    rows, noise_var = seen[-1]
    gps = module.stack.top
    if kind is LaplaceLayers:
        gps, noise_var = module.source.gps, module.source.gps.noise_var
    means, variances = _conditioned(gps, rows, noise_var, module.stack.features(module.scaled(new)))
    mean = means.mean(0)
    var = (variances + means**2).mean(0) - mean**2
    latent, scale = model.predict_latent(new), module.y_scale
    assert_allclose((latent.mean() - scale.offset) / scale.unit, mean, rtol=0, atol=1e-4)
    assert_allclose(latent.var() / scale.unit**2, var, rtol=1e-3, atol=1e-6)
    if kind is LaplaceLayers:
        assert np.ptp(noise_var.numpy()) > 0.01 * noise_var.mean()  # each draw keeps its own
        return
    with torch.no_grad():  # after another prior mean the same algebra holds
        gps.mean.fill_(0.5)
    module.source.condition(rows, noise_var)
    expected, _ = _conditioned(gps, rows, noise_var, module.stack.features(module.scaled(new)))
    found = module.latent_moments()(module.scaled(new))[0, :, 0].detach()
    assert np.abs(expected[0] - mean).max() > 1e-3
    assert_allclose(found, expected[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize("make", BOTH)
def test_wrong_rows_hardly_move_the_function(make, fitted, monkeypatch) -> None:
    X, y = _rows(500, seed=1)
    errors, densities = [], []
    for rounds in (1, 3):
        monkeypatch.setattr(residual_noise, "_MOST_ROUNDS", rounds)
        model = fitted(make)
        errors.append(np.sqrt(np.mean((model.predict(X) - _function(X)) ** 2)))
        densities.append(model.predict_dist(X).logpdf(y).mean())
    assert errors[1] < 0.6 * errors[0]
    assert densities[1] > densities[0] + 0.2


def test_many_rows_keep_that_of_normal_noise(fitted, normal, monkeypatch) -> None:
    monkeypatch.setattr(residual_noise, "_MOST_ROWS", 119)
    _assert_same(fitted(), normal)


def test_so_do_rows_without_a_factor(fitted, normal, monkeypatch) -> None:
    find = residual_noise.equivalent_rows

    def fails(layer, rows, *given):
        if len(rows.x) >= least:
            raise NotPositiveDefiniteError("no factor")
        return find(layer, rows, *given)

    monkeypatch.setattr(residual_noise, "equivalent_rows", fails)
    least = 0
    _assert_same(fitted(), normal)
    least = 150  # all rows, but not those of a fold
    X, _ = _rows(9, seed=1)
    assert_allclose(fitted().predict(X), normal.predict(X), rtol=1e-9)


def test_so_do_rows_that_held_out_rows_do_not_prefer(fitted, normal, monkeypatch) -> None:
    monkeypatch.setattr(
        residual_noise, "equivalent_rows", lambda layer, rows, *_: rows._replace(y=-rows.y)
    )
    _assert_same(fitted(), normal)


def _assert_same(model, other) -> None:
    X, y = _rows(9, seed=1)
    assert model.model_.source.noise is not None
    assert_array_equal(model.predict_dist(X).logpdf(y), other.predict_dist(X).logpdf(y))
