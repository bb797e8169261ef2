"""PPGPR whose mean is a network: moments, the objective's gradient, starts and draws."""

import numpy as np
import pytest
import torch
from oracles.kernels import covariance
from oracles.models import to_array
from oracles.readouts import network

from skgp import PPGPRRegressor
from skgp.core.data import Batch, Targets
from skgp.core.objectives.objective import PREDICTIVE
from skgp.recipes.losses import FULL, stack_loss

COMMON = {"prior_mean": "network", "early_stopping": False, "random_state": 0}
ALONE = {**COMMON, "n_inducing_mean": 0, "n_inducing": 12, "input_warping": False}


@pytest.fixture
def table(rng):
    X = rng.uniform(-2.0, 2.0, (150, 2))
    y = 10.0 + np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * np.exp(X[:, 0]) * rng.standard_normal(150)
    return X, y


def moments(model, X):
    """Mean of f from the network alone, and its variance from the inducing inputs alone."""
    layer = model.stack_.top
    x = model.model_.x_scale.apply(X)
    mean = np.array([network(layer.mean_network, row)[0] for row in x]) + layer.mean.item()
    Z, variance = to_array(layer.Z[0]), layer.kernel.variance.item()
    lengthscale = to_array(layer.kernel.lengthscale[0])
    K, k = (covariance("matern52", A, Z, lengthscale, variance) for A in (Z, x))
    K = K + layer.jitter * variance * np.eye(len(Z))
    scale = np.exp(to_array(layer.posterior.log_scale[0]))
    A = np.linalg.solve(np.linalg.cholesky(K), k.T)
    return mean, variance - (A**2).sum(0) + ((scale[:, None] * A) ** 2).sum(0)


def test_inducing_inputs_serve_the_variance_alone(table, rng):
    """Predictions in the units of y, by NumPy."""
    model = PPGPRRegressor(**ALONE, max_iter=30).fit(*table)
    X = rng.uniform(-2.0, 2.0, (20, 2))
    mean, var = moments(model, X)
    unit = np.std(table[1])
    dist = model.predict_dist(X)
    np.testing.assert_allclose(dist.mean(), table[1].mean() + unit * mean, rtol=1e-6)
    noise = model.model_.likelihood.noise_var.item()
    np.testing.assert_allclose(dist.std(), unit * np.sqrt(var + noise), rtol=1e-5)


def test_gradient_of_the_objective_in_the_network(table):
    """-log N(y; m, v + s^2) has the slope -(y - m) / (v + s^2) in m; all weights decay."""
    X, y = table
    model = PPGPRRegressor(**ALONE, max_iter=5).fit(X, y)
    fitted = model.model_
    x, targets = fitted.x_scale.apply(X), fitted.y_scale.apply(y.reshape(-1, 1))
    batch = Batch(torch.from_numpy(x), Targets(torch.from_numpy(targets), None), None)
    loss = stack_loss(PREDICTIVE, FULL, 0.3, fitted, batch, 0, 150.0)
    last = fitted.stack.top.mean_network[-1].bias
    (slope,) = torch.autograd.grad(loss, last)
    mean, var = moments(model, X)
    errors = (targets[:, 0] - mean) / (var + fitted.likelihood.noise_var.item())
    assert slope.item() == pytest.approx(-errors.mean() + 0.3 * last.item(), rel=1e-6)


def test_it_learns_mean_and_variance(table):
    X, y = table
    model = PPGPRRegressor(**ALONE, max_iter=400).fit(X, y)
    assert model.score(X, y) > 0.8
    std = model.predict(np.array([[-1.5, 0.0], [1.5, 0.0]]), return_std=True)[1]
    assert std[1] > 2.0 * std[0]


def test_the_fit_of_a_basis_starts_from_what_the_network_leaves(table):
    """The first loss is about that of a constant mean, whatever the weights are."""
    parts = {"covariance": "full", "max_iter": 1}
    of_network = PPGPRRegressor(**COMMON, **parts).fit(*table).loss_curve_[0]
    of_constant = PPGPRRegressor(early_stopping=False, random_state=0, **parts).fit(*table)
    assert of_network == pytest.approx(of_constant.loss_curve_[0], abs=0.05)


def test_functions_drawn_have_the_network_as_their_mean(table, rng):
    """In four standard errors of 2,000 draws."""
    model = PPGPRRegressor(**ALONE, max_iter=100).fit(*table)
    X = rng.uniform(-2.0, 2.0, (5, 2))
    draws = model.sample_functions(2000, random_state=1)(X)
    error = draws.std(1) / np.sqrt(2000.0)
    assert (abs(draws.mean(1) - model.predict(X)) < 4.0 * error).all()
