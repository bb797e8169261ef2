"""A probabilistic linear mean is a linear kernel beside the stationary one."""

import gpytorch
import numpy as np
import pytest
from oracles.kernels import covariance
from oracles.models import to_array

from skgp import DGPRegressor, ExactGPRegressor, SVGPRegressor

FAR = 1e5  # where a stationary kernel knows nothing of the rows, and a slope is all there is


def linear_and_matern(ard_num_dims=None):
    """Cov(x^T w + g(x)) with w ~ N(0, v I): the two parts of the kernel."""
    kernels = gpytorch.kernels
    matern = kernels.MaternKernel(nu=2.5, ard_num_dims=ard_num_dims)
    return kernels.LinearKernel() + kernels.ScaleKernel(matern)


def parts(kernel):
    """Variance of the slopes, and lengthscale and variance of the Matern kernel."""
    linear, scaled = kernel.kernels
    matern = scaled.base_kernel.lengthscale, scaled.outputscale
    return linear.variance.item(), to_array(matern[0]).ravel(), matern[1].item()


@pytest.mark.parametrize("cls", [ExactGPRegressor, SVGPRegressor])
def test_equals_bayesian_linear_regression_of_what_a_gp_leaves(cls, rng):
    """Rasmussen and Williams (2006), Eqns 2.41 and 2.42, with h(x) = x and a finite prior."""
    X, X_new = rng.uniform(-1.0, 1.0, (60, 2)), rng.uniform(-4.0, 4.0, (20, 2))
    y = X @ [2.0, -1.0] + np.sin(4.0 * X[:, 0]) + 0.1 * rng.standard_normal(60)
    units = {"normalize_X": False, "normalize_y": False, "prior_mean": "zero"}
    if cls is ExactGPRegressor:
        del units["prior_mean"]
    model = cls(kernel=linear_and_matern(2), jitter=1e-10, random_state=0, **units).fit(X, y)

    layer, noise = model.stack_.top, model.model_.likelihood.noise_var.item()
    v, lengthscale, variance = parts(layer.kernel.kernels[0])
    g = [covariance("matern52", A, X, lengthscale, variance) for A in (X, X_new)]
    C_inv = np.linalg.inv(g[0] + noise * np.eye(60))
    S = np.linalg.inv(np.eye(2) / v + X.T @ C_inv @ X)  # posterior covariance of the slopes
    residual = y - layer.mean.item()
    w = S @ X.T @ C_inv @ residual
    R = X_new - g[1] @ C_inv @ X
    mean = layer.mean.item() + X_new @ w + g[1] @ C_inv @ (residual - X @ w)
    var = variance - np.einsum("ij,jk,ik->i", g[1], C_inv, g[1])
    var += np.einsum("ij,jk,ik->i", R, S, R) + noise

    dist = model.predict_dist(X_new)
    np.testing.assert_allclose(dist.mean(), mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dist.std(), np.sqrt(var), rtol=1e-4)


def test_slopes_of_hidden_layers_have_a_posterior(rng):
    """Around the fixed linear mean: far away f(x) = x^T (slope + w), and u knows of w ~ N(0, v I).

    Given u = Z w + g(Z) of the covariance K, w has the mean v Z^T K^-1 u.
    """
    X = rng.uniform(-1.0, 1.0, (80, 2))
    y = np.sin(3.0 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(80)
    kernel = [linear_and_matern(2), "matern52"]
    settings = {"n_inducing": 12, "max_iter": 60, "random_state": 0, "dtype": "float64"}
    model = DGPRegressor(kernel=kernel, hidden_mean="identity", jitter=1e-10, **settings)
    layer = model.fit(X, y).stack_.layers[0]
    direction = np.array([0.6, -0.8])
    x = layer.Z.new_tensor(FAR * direction)[None, None]
    moments = layer.moments(x, layer.factors())
    for i in range(len(layer.mean)):
        v, lengthscale, variance = parts(layer.kernel.kernels[i])
        Z, slope = to_array(layer.Z[i]), to_array(layer.slope)[:, i]
        K = v * Z @ Z.T + covariance("matern52", Z, Z, lengthscale, variance)
        L = np.linalg.cholesky(K)
        mu, root = (to_array(part)[i] for part in layer.posterior.moments())
        m, S = L @ mu, L @ root @ root.T @ L.T  # of u
        A = v * np.linalg.solve(K, Z).T
        mean, cov = slope + A @ m, v * np.eye(2) - A @ (K - S) @ A.T
        assert moments.f_mean[0, 0, i].item() / FAR == pytest.approx(direction @ mean, rel=1e-4)
        spread = direction @ cov @ direction
        assert moments.f_var[0, 0, i].item() / FAR**2 == pytest.approx(spread, rel=1e-4)
        assert spread > 0.0
    assert model.score(X, y) > 0.8
