"""After training on several batches, the mean of a decoupled PPGPR settles at an optimum."""

import copy

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from skgp import DSPPRegressor, PPGPRRegressor
from skgp.core.layers.two_bases import DecoupledGP
from skgp.core.objectives.objective import PREDICTIVE, loss
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting import mean_weights, untrained_gp
from skgp.fitting.fit import scaled_table

pytestmark = pytest.mark.usefixtures("short_start")

FEW = {"batch_size": 50, "max_iter": 4, "random_state": 0, "n_inducing_mean": 30}


def _rows(n: int, seed: int = 0):
    """Noise that grows with one input; rows count once or twice."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * np.exp(0.5 * X[:, 1]) * rng.standard_normal(n)
    return X, y, rng.integers(1, 3, n).astype(float)


@pytest.fixture
def settled(monkeypatch):
    """Fits of which the trained model is kept, and what has been tried for it."""

    def fit(make=PPGPRRegressor, optima=None, **params):
        tried, found = [], mean_weights._optima if optima is None else optima

        def noted(model, table, beta_reg):
            before = copy.deepcopy(model)
            tried.append((before, table, beta_reg, found(model, table, beta_reg)))
            return tried[-1][-1]

        monkeypatch.setattr(untrained_gp, "share_of_first", lambda *given: 1.0)
        monkeypatch.setattr(mean_weights, "_optima", noted)
        if make is PPGPRRegressor:
            params = {**FEW, **params}
        X, y, weight = _rows(200)
        return make(**params).fit(X, y, sample_weight=weight), tried

    return fit


def _double(model, table):
    """The model and all rows in double precision."""
    table = scaled_table(table.rows, table, table.like.double())
    return copy.deepcopy(model).double().eval(), table.batch(torch.arange(len(table)))


def _basis(model, batch):
    """Whitened functions (n, M) of the mean's basis, by NumPy."""
    top = model.stack.top
    with torch.no_grad():
        x, Z = model.stack.features(batch.x), top.Z_mean[0]
        variance, scales = top.kernel.variance.item(), top.kernel.log_lengthscale[0].exp()
    x, Z = (points.numpy() / scales.numpy() for points in (x, Z.detach()))

    def kernel(a, b):
        r = np.sqrt(5.0) * np.linalg.norm(a[:, None] - b[None], axis=-1)
        return (1.0 + r + r**2 / 3.0) * np.exp(-r)

    root = np.linalg.cholesky(kernel(Z, Z) + top.jitter * np.eye(len(Z)))
    return np.sqrt(variance) * np.linalg.solve(root, kernel(Z, x)).T


def test_the_objective_has_no_gradient_at_the_first_optimum(settled) -> None:
    _, [(trained, table, beta_reg, optima)] = settled()
    model, batch = _double(trained, table)
    mu, slopes = model.stack.top.mean_posterior.mu, []
    for weights in (mu.detach().clone(), optima[0]):
        mu.data.copy_(weights)
        parts = PREDICTIVE, model.stack, model.likelihood, model.nodes(1), batch
        value = loss(*parts, beta_reg=beta_reg, n_data=table.n_data)
        slopes.append(torch.autograd.grad(value, mu)[0].abs().max().item())
    assert slopes[0] > 1e-3
    assert slopes[1] < 1e-6 * slopes[0]


@pytest.mark.parametrize("features", [None, lambda n_features: nn.Linear(n_features, 2)])
def test_optima_are_those_of_ridge_regressions(features, settled) -> None:
    _, [(trained, table, beta_reg, optima)] = settled(feature_extractor=features)
    model, batch = _double(trained, table)
    with torch.no_grad():
        latent = model.source.latents(model.nodes)(batch.x)
        var = (latent.f_var.flatten() + model.likelihood.noise_var).numpy()
        residual = batch.targets.y[:, 0].numpy() - model.stack.top.mean.item()
    A, weight = _basis(model, batch), table.weights
    typical = np.exp(np.average(np.log(var), weights=weight))
    assert len(optima) == 3
    for power, found in zip((1.0, 0.5, 0.0), optima, strict=True):
        of_rows = weight / (var**power * typical ** (1.0 - power))
        H = (A.T * of_rows) @ A + beta_reg * np.eye(A.shape[1])
        expected = np.linalg.solve(H, A.T @ (of_rows * residual))
        assert_allclose(found[0].numpy(), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("better", [0, 1, 2, None])
def test_held_out_rows_choose_the_weights(better, settled, monkeypatch) -> None:
    def scores(fold, recipe, model):
        """The better of three numbers that stand for weights, or what was trained."""
        weights = fold.held_out.weights
        if not isinstance(model.stack.top, DecoupledGP):
            return np.zeros((2, len(weights)))
        number = round(model.stack.top.mean_posterior.mu[0, 0].item())
        # Rows of weight two alone tell which is better, and the others tell the opposite.
        sign = np.where(weights == 2.0, 1.0, -1.0)
        is_best = number == 100 + better if better is not None else number < 100
        level = 2.0 if is_best else 1.0 if better is not None and number >= 100 else 0.0
        return np.stack([sign * level, np.zeros(len(weights))])

    def numbers(model, table, beta_reg):
        mu = model.stack.top.mean_posterior.mu
        return [torch.full_like(mu, 100.0 + k) for k in range(3)]

    monkeypatch.setattr("skgp.fitting.folds.Fold.scores_of_rows", scores)
    model, [(trained, *_)] = settled(optima=numbers, validation_fraction=0.5)
    found = model.model_.stack.top.mean_posterior.mu
    expected = trained.stack.top.mean_posterior.mu
    expected = torch.full_like(expected, 100.0 + better) if better is not None else expected
    assert_array_equal(found.detach().numpy(), expected.detach().double().numpy())


@pytest.mark.usefixtures("full_start")
def test_predictions_have_the_weights_that_were_found(settled) -> None:
    model, [(trained, *_, optima)] = settled()
    found = model.model_.stack.top.mean_posterior.mu.detach()
    candidates = [trained.stack.top.mean_posterior.mu.detach(), *optima]
    assert min((found - other).abs().max() for other in candidates) < 1e-6
    new, y, _ = _rows(50, seed=1)
    before = copy.deepcopy(model)
    before.model_.stack.top.mean_posterior.mu.data.copy_(candidates[0])
    assert model.predict_dist(new).logpdf(y).mean() > before.predict_dist(new).logpdf(y).mean()
    assert_allclose(model.predict_dist(new).var(), before.predict_dist(new).var())


def test_weights_without_an_optimum_stay(settled) -> None:
    def none(model, table, beta_reg):
        raise NotPositiveDefiniteError("no factor")

    model, tried = settled(optima=none)
    assert tried == []
    assert model.n_iter_ > 1


@pytest.mark.parametrize(
    ("make", "params"),
    [
        (PPGPRRegressor, {"covariance": "full"}),
        (PPGPRRegressor, {"likelihood": "student_t"}),
        (PPGPRRegressor, {"n_inducing": 20}),  # without held-out rows for two models
        (DSPPRegressor, {"batch_size": 50, "max_iter": 2, "random_state": 0}),
    ],
)
def test_other_models_stay_as_they_are_trained(make, params, settled) -> None:
    _, tried = settled(make, **params)
    assert tried == []
