"""Exact GPs at draws of their hyper-parameters, beside naive formulas and quadrature."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from skgp.core.kernels.stationary import Stationary
from skgp.core.layers.posteriors import DeltaPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal.laplace import laplace_gps, nth
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.exceptions import NotPositiveDefiniteError

FLOOR = 1e-3


def _covariance(a: np.ndarray, b: np.ndarray, theta: np.ndarray) -> np.ndarray:
    lengthscale, variance = np.exp(theta[:-2]), np.exp(theta[-2])
    r = math.sqrt(5.0) * np.linalg.norm((a[:, None] - b[None]) / lengthscale, axis=-1)
    return variance * (1.0 + r + r**2 / 3.0) * np.exp(-r)


def _log_marginal(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    C = _covariance(x, x, theta) + (FLOOR + np.exp(theta[-1])) * np.eye(len(x))
    return float(multivariate_normal(np.full(len(x), 0.2), C).logpdf(y))


def _second_differences(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    step, n = 1e-3, len(theta)
    hessian, e = np.empty((n, n)), 1e-3 * np.eye(n)
    for i, j in product(range(n), range(n)):
        corners = [
            a * b * _log_marginal(theta + a * e[i] + b * e[j], x, y)
            for a, b in product((1, -1), (1, -1))
        ]
        hessian[i, j] = sum(corners) / (4.0 * step**2)
    return hessian


def _predicted(theta: np.ndarray, x: np.ndarray, y: np.ndarray, new: np.ndarray):
    """Mean and variance of f, and the noise variance."""
    noise = FLOOR + np.exp(theta[-1])
    C, k = _covariance(x, x, theta) + noise * np.eye(len(x)), _covariance(x, new, theta)
    variance = np.exp(theta[-2]) - (k * np.linalg.solve(C, k)).sum(0)
    return 0.2 + k.T @ np.linalg.solve(C, y - 0.2), variance, noise


def _layer(theta: np.ndarray) -> SparseGP:
    kernel = Stationary("matern52", 1, len(theta) - 2, 1.0).double()
    posterior = DeltaPosterior(torch.zeros(1, 1))
    layer = SparseGP(kernel, torch.zeros(1, 1, len(theta) - 2), posterior, 0.0).double()
    with torch.no_grad():
        kernel.log_lengthscale.copy_(torch.from_numpy(theta[None, :-2]))
        kernel.log_variance.fill_(theta[-2])
        layer.mean.fill_(0.2)
    return layer


def _drawn(theta: np.ndarray, x: np.ndarray, y: np.ndarray, copies: np.ndarray, n_draws: int):
    rows = ObservedRows(*(torch.from_numpy(part) for part in (x, y[None], copies.astype(float))))
    noise_var = torch.tensor([math.exp(theta[-1]) + FLOOR], dtype=torch.float64)
    return laplace_gps(_layer(theta), rows, noise_var, FLOOR, n_draws)


def _thetas(gps) -> np.ndarray:
    """Hyper-parameters (K, H) of the draws."""
    kernel, noise_var = gps.kernel, gps.noise_var
    parts = kernel.log_lengthscale, kernel.log_variance[:, None], (noise_var - FLOOR).log()[:, None]
    return torch.cat(parts, 1).numpy()


@pytest.fixture
def rows(rng):
    """Inputs, targets and numbers of copies; nothing depends on the last column."""
    x = np.column_stack([rng.uniform(-2.0, 2.0, 14), np.zeros(14)])
    y = np.sin(2.0 * x[:, 0]) + 0.2 * rng.standard_normal(14)
    return x, y, np.array([1, 2] * 7)


THETA = np.array([0.1, 0.4, -0.2, -3.0])


def test_draws_have_the_covariance_of_the_inverse_hessian(rows):
    x, y, copies = rows
    found = _thetas(_drawn(THETA, x, y, copies, 20_000))
    assert_allclose(found.mean(0), THETA, atol=1e-12)  # each with its reflection
    hessian = -_second_differences(THETA, np.repeat(x, copies, 0), np.repeat(y, copies))
    values, vectors = np.linalg.eigh(hessian)
    assert values.min() < 1.0 < values.max()
    expected = vectors / np.maximum(values, 1.0) @ vectors.T
    # Standard errors of 10,000 draws are at most a hundredth of the standard deviations' products.
    scale = np.sqrt(np.diag(expected))
    assert_allclose(
        np.cov(found.T) / np.outer(scale, scale), expected / np.outer(scale, scale), atol=0.05
    )
    assert found[:, 1].std() == pytest.approx(1.0, abs=0.03)  # a lengthscale that does not matter


def test_each_draw_is_a_gp_of_all_rows(rows):
    x, y, copies = rows
    gps = _drawn(THETA, x, y, copies, 6)
    new = np.array([[0.3, 0.0], [5.0, 1.0]])
    h = torch.from_numpy(new)[None]
    latent = gps.moments(h, gps.factors())
    for k, theta in enumerate(_thetas(gps)):
        mean, variance, _ = _predicted(theta, np.repeat(x, copies, 0), np.repeat(y, copies), new)
        assert_allclose(latent.f_mean[0, :, k], mean, rtol=1e-9)
        assert_allclose(latent.f_var[0, :, k], variance, rtol=1e-8)
        alone = nth(gps, k)
        of_one = alone.moments(h, alone.factors())
        assert_allclose(of_one.f_mean[0, :, 0], mean, rtol=1e-9)
        assert_allclose(of_one.f_var[0, :, 0], variance, rtol=1e-8)


def test_a_curvature_that_is_not_finite_is_no_matrix(rows):
    x, y, copies = rows
    with pytest.raises(NotPositiveDefiniteError, match="finite curvature"):
        _drawn(THETA, x, np.where(y == y[0], np.nan, y), copies, 2)


def test_their_mixture_is_close_to_the_integral_over_hyper_parameters(rng):
    """By quadrature under priors that are flat on logarithmic scales."""
    x = rng.uniform(-2.0, 2.0, (25, 1))
    y = 0.2 + np.sin(2.0 * x[:, 0]) + 0.3 * rng.standard_normal(25)
    axes = [np.linspace(low, high, 18) for low, high in ((-2.0, 2.0), (-3.5, 4.0), (-4.5, -0.5))]
    grid = np.array(list(product(*axes)))
    log_weight = np.array([_log_marginal(theta, x, y) for theta in grid])
    log_weight -= logsumexp(log_weight)
    mode = grid[log_weight.argmax()]
    gps = _drawn(mode, x, y, np.ones(25), 400)
    new, y_new = rng.uniform(-2.0, 2.0, (40, 1)), np.linspace(-2.0, 2.0, 40)

    def log_density(thetas: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
        parts = [_predicted(theta, x, y, new) for theta in thetas]
        densities = [norm(m, np.sqrt(v + noise)).logpdf(y_new) for m, v, noise in parts]
        return logsumexp(np.array(densities) + log_weights[:, None], axis=0)

    likely = log_weight > log_weight.max() - 12.0
    integral = log_density(grid[likely], log_weight[likely])
    of_draws = log_density(_thetas(gps), np.full(400, -math.log(400)))
    of_mode = log_density(mode[None], np.zeros(1))
    error, of_plug_in = (np.abs(part - integral).mean() for part in (of_draws, of_mode))
    assert error < 0.3 * of_plug_in
