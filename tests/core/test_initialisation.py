"""Initial values against the exact GP and the optimal q(u)."""

import numpy as np
import pytest
import torch
from oracles import exact
from oracles.models import (
    COVARIANCES,
    dense_bases,
    dense_gps,
    normal,
    random_decoupled,
    random_layer,
    to_array,
)
from oracles.sparse import DenseGP, kl_normal, nystrom, optimal_posterior, prior_covariance

from skgp.core.initialisation import collapsed_bound, start_hyperparameters, start_posterior
from skgp.core.layers import DecoupledGP, SparseGP
from skgp.core.variational import Covariance, make_posterior

REPEATS = torch.tensor([1.0, 3.0, 1.0, 2.0, 1.0, 1.0, 2.0], dtype=torch.float64)


def centred(layer: SparseGP | DecoupledGP) -> None:
    with torch.no_grad():
        layer.mean.zero_()


def whitened_optimum(
    gp: DenseGP, X: np.ndarray, y: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Optimal q(v), v = L^-1 u, from that of u."""
    m, S = optimal_posterior(gp, X, y, noise)
    L_inv = np.linalg.inv(np.linalg.cholesky(prior_covariance(gp)))
    return L_inv @ m, L_inv @ S @ L_inv.T


@pytest.mark.parametrize("weighted", [False, True])
def test_collapsed_bound_against_dense_algebra(rng: np.random.Generator, weighted: bool) -> None:
    """log N(y; 0, Qff + s2 I) - tr(Kff - Qff) / (2 s2), where a row of weight k stands k times."""
    layer = random_layer(rng, name="matern32")
    centred(layer)
    x, y = normal(rng, 7, 3), normal(rng, 2, 7)
    noise = torch.tensor([0.2, 0.5], dtype=torch.float64)
    weight = REPEATS if weighted else torch.ones(7, dtype=torch.float64)
    bound = collapsed_bound(layer.kernel, layer.Z, x, y, weight, noise, layer.jitter)
    repeats = weight.int().numpy()
    X = np.repeat(to_array(x), repeats, axis=0)
    for w, gp in enumerate(dense_gps(layer)):
        s2 = noise[w].item()
        Q = nystrom(gp, X)
        expected = exact.log_marginal_likelihood(Q, np.repeat(to_array(y[w]), repeats), s2)
        expected -= 0.5 * np.trace(gp.k(X, X) - Q) / s2
        np.testing.assert_allclose(bound[w].item(), expected, rtol=1e-9)


def test_collapsed_bound_at_the_data_is_the_log_marginal_likelihood(
    rng: np.random.Generator,
) -> None:
    layer = random_layer(rng, name="matern32", n_gps=1, n_inducing=8, jitter=1e-13)
    centred(layer)
    x, y = layer.Z[0].detach(), normal(rng, 1, 8)
    noise, weight = torch.tensor([0.2]).double(), torch.ones(8).double()
    bound = collapsed_bound(layer.kernel, layer.Z, x, y, weight, noise, layer.jitter)
    (gp,) = dense_gps(layer)
    K = gp.k(to_array(x), to_array(x))
    expected = exact.log_marginal_likelihood(K, to_array(y[0]), noise.item())
    np.testing.assert_allclose(bound.item(), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kind", [*COVARIANCES, "decoupled"])
def test_posterior_starts_at_the_optimum_of_its_mean(
    rng: np.random.Generator, kind: Covariance
) -> None:
    """A subsample of weight 11 for 33 rows: its noise counts for a third."""
    layer: SparseGP | DecoupledGP
    layer = random_decoupled(rng) if kind == "decoupled" else random_layer(rng, kind)
    centred(layer)
    x, y = normal(rng, 7, 3), normal(rng, 2, 7)
    noise = torch.tensor([0.2, 0.5], dtype=torch.float64)
    before = None if kind == "delta" else to_array(layer.posterior.sqrt())
    start_posterior(layer, x, y, REPEATS, noise, 33.0)
    if isinstance(layer, DecoupledGP):
        gps, mu = dense_bases(layer)[0], layer.mean_posterior.mu
    else:
        gps, mu = dense_gps(layer), layer.posterior.mu
    for w, gp in enumerate(gps):
        s2 = noise[w].item() / 3.0 / to_array(REPEATS)
        m, S = whitened_optimum(gp, to_array(x), to_array(y[w]), s2)
        np.testing.assert_allclose(to_array(mu[w]), m, rtol=0, atol=1e-8)
        if kind == "full":
            root = to_array(layer.posterior.sqrt()[w])
            np.testing.assert_allclose(root @ root.T, S, rtol=0, atol=1e-8)
        if kind == "diagonal":
            precision = np.diag(np.linalg.inv(S))
            scale = to_array(layer.posterior.sqrt()[w])
            np.testing.assert_allclose(scale**-2, precision, rtol=1e-7)
    if isinstance(layer, DecoupledGP):
        np.testing.assert_array_equal(to_array(layer.posterior.sqrt()), before)
        np.testing.assert_array_equal(to_array(layer.posterior.mu), 0.0)


def test_diagonal_start_is_the_closest_diagonal_normal(rng: np.random.Generator) -> None:
    """KL(q || N(H^-1 b, H^-1)) grows in every direction away from the start."""
    B = normal(rng, 4, 4)
    H, b = B @ B.mT + torch.eye(4), normal(rng, 4)
    posterior = make_posterior("diagonal", torch.zeros(1, 4, dtype=torch.float64), 1.0)
    posterior.start(b.unsqueeze(0), H.unsqueeze(0))
    S0 = np.linalg.inv(H.numpy())

    def divergence(m: np.ndarray, scale: np.ndarray) -> float:
        return kl_normal(m, np.diag(scale**2), S0 @ b.numpy(), S0)

    m, scale = to_array(posterior.mu[0]), to_array(posterior.sqrt()[0])
    least = divergence(m, scale)
    for i in range(4):
        for step in (1e-3, -1e-3):
            unit = step * np.eye(4)[i]
            assert divergence(m + unit, scale) > least
            assert divergence(m, scale * np.exp(unit)) > least


def test_hyper_parameters_climb_the_bound_and_nothing_else_moves(
    rng: np.random.Generator,
) -> None:
    layer = random_layer(rng, n_gps=1, n_features=1, n_inducing=8)
    centred(layer)
    x = torch.linspace(-2.0, 2.0, 30, dtype=torch.float64).unsqueeze(-1)
    y = torch.sin(2.0 * x).mT + 0.1 * normal(rng, 1, 30)
    weight = torch.ones(30, dtype=torch.float64)
    frozen = {
        name: to_array(p) for name, p in layer.named_parameters() if not name.startswith("kernel.")
    }

    def bound(noise: torch.Tensor) -> float:
        with torch.no_grad():
            return collapsed_bound(layer.kernel, layer.Z, x, y, weight, noise, layer.jitter).item()

    before = bound(torch.tensor([0.5], dtype=torch.float64))
    noise = start_hyperparameters(layer, x, y, weight, 0.5)
    assert bound(noise) > before + 10.0
    assert 0.001 < noise.item() < 0.1
    for name, value in frozen.items():
        np.testing.assert_array_equal(to_array(layer.get_parameter(name)), value)
