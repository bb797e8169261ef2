"""Noise of hidden layers: a part of the kernel, against dense algebra."""

import numpy as np
import pytest
import torch
from oracles.models import normal, random_kernel, random_posterior, to_array

from skgp.core.kernels.noisy import NoisyKernel
from skgp.core.layers.sparse import SparseGP
from skgp.core.nodes.rules import Sampled
from skgp.core.stacks.stack import GPStack

D, W, M, B, Q, JITTER = 3, 2, 5, 4, 6, 1e-3


def make_layer(
    rng: np.random.Generator, noise_var: float | None, n_inputs: int, is_shared: bool = False
) -> SparseGP:
    """W random GPs; with a noise None they are the plain ones of the same numbers."""
    n_kernels = 1 if is_shared else W
    plain = random_kernel(rng, "rbf", n_kernels, n_inputs)
    kernel = plain if noise_var is None else NoisyKernel(plain, noise_var)
    posterior, Z = random_posterior(rng, "full", W, M), normal(rng, n_kernels, M, n_inputs)
    layer = SparseGP(kernel, Z, posterior, JITTER, W if is_shared else None).double()
    with torch.no_grad():
        layer.mean.copy_(normal(rng, W))
    return layer


def dense_moments(
    layer: SparseGP, noise_var: float, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (B, W) with K = k(Z, Z) + s^2 I and k(x, x) + s^2, row by row."""
    variance, scale, Z = (
        to_array(part)[[0] * W if len(part) == 1 else slice(None)]
        for part in (layer.kernel.variance, layer.kernel.lengthscale, layer.Z)
    )
    mu, root = (to_array(part) for part in layer.posterior.moments())
    mean, var = np.empty((2, len(x), W))
    for w in range(W):

        def k(a: np.ndarray, b: np.ndarray, w: int = w) -> np.ndarray:
            difference = (a[:, None] - b[None]) / scale[w]
            return variance[w] * np.exp(-0.5 * (difference**2).sum(-1))

        diagonal = noise_var + JITTER * (variance[w] + noise_var)
        L = np.linalg.cholesky(k(Z[w], Z[w]) + diagonal * np.eye(M))
        A = np.linalg.solve(L, k(Z[w], x))
        mean[:, w] = to_array(layer.mean)[w] + A.T @ mu[w]
        var[:, w] = variance[w] + noise_var - (A**2).sum(0) + ((root[w].T @ A) ** 2).sum(0)
    return mean, var


@pytest.mark.parametrize("is_shared", [False, True])
def test_sampled_hidden_values_against_dense_algebra(
    is_shared: bool, rng: np.random.Generator
) -> None:
    """Doubly stochastic paper, Eqns 7, 8, 15: noise in the hidden layer, none in the top one."""
    hidden, top = make_layer(rng, 0.07, D, is_shared), make_layer(rng, None, W)
    x = normal(rng, B, D)
    nodes = Sampled([W], Q, Q, 0)(B, 0)
    stack = GPStack([hidden, top])
    latent = stack(x, nodes, stack.factors())
    mean, var = dense_moments(hidden, 0.07, to_array(x))
    for q in range(Q):
        h = mean + np.sqrt(var) * to_array(nodes.xi[0][q])
        expected = dense_moments(top, 0.0, h)
        for ours, desired in zip((latent.f_mean, latent.f_var), expected, strict=True):
            np.testing.assert_allclose(to_array(ours[q]), desired, rtol=1e-6, atol=1e-8)


def test_covariance_over_rows_has_the_noise_on_its_diagonal() -> None:
    noisy, plain = (make_layer(np.random.default_rng(0), s2, D) for s2 in (0.3, None))
    x = normal(np.random.default_rng(1), 1, B, D)
    cov = noisy.covariance(x, noisy.factors())
    latent = noisy.moments(x, noisy.factors())
    diagonal = cov.diagonal(dim1=-2, dim2=-1)[:, 0].T
    np.testing.assert_allclose(to_array(diagonal), to_array(latent.f_var[0]), rtol=1e-10)
    prior = noisy.kernel.Kff(x) - plain.kernel.Kff(x)
    ratio = 0.3 / to_array(plain.kernel.variance)
    np.testing.assert_allclose(to_array(prior[:, 0]), ratio[:, None, None] * np.eye(B), atol=1e-6)


@pytest.mark.parametrize("is_shared", [False, True])
def test_without_noise_it_is_the_plain_layer_to_the_bit(is_shared: bool) -> None:
    noisy, plain = (make_layer(np.random.default_rng(0), s2, D, is_shared) for s2 in (0.3, None))
    noisy.kernel.log_noise.data.fill_(-torch.inf)
    x = normal(np.random.default_rng(1), 1, B, D)
    for a, b in zip(*(at.moments(x, at.factors()) for at in (noisy, plain)), strict=True):
        np.testing.assert_array_equal(to_array(a), to_array(b.expand_as(a)))


def test_gradient_of_the_noise(rng: np.random.Generator) -> None:
    layer, x = make_layer(rng, 0.07, D), normal(rng, 1, B, D)
    log_noise = layer.kernel.log_noise

    def value(step: float = 0.0) -> torch.Tensor:
        with torch.no_grad():
            log_noise.add_(step)
        latent = layer.moments(x, layer.factors())
        return (latent.f_mean.square() + latent.f_var).sum() + layer.kl(layer.factors())

    (slope,) = torch.autograd.grad(value(), log_noise)
    with torch.no_grad():
        above, below = value(1e-5), value(-2e-5)
    assert slope.item() == pytest.approx(((above - below) / 2e-5).item(), rel=1e-6)
