"""Renyi divergences of q(v) against quadrature along the axes of its covariance, and limits."""

import math

import numpy as np
import pytest
import torch
from oracles.models import (
    normal,
    random_decoupled,
    random_layer,
    random_orthogonal,
    random_posterior,
    to_array,
)
from scipy.integrate import quad

from skgp.core.layers.divergences import kullback_leibler, renyi
from skgp.core.layers.posteriors import Covariance
from skgp.core.layers.sparse import SparseLayer
from skgp.core.objectives.objective import renyi_divergence
from skgp.core.stacks.stack import GPStack
from skgp.exceptions import NotPositiveDefiniteError

ORDERS = [0.01, 0.5, 0.99, 1.2, 1.8]


def by_quadrature(mean: float, variance: float, order: float) -> float:
    """log int N(v; m, s)^a N(v; 0, 1)^(1 - a) dv / (a - 1)."""

    def integrand(v: float) -> float:
        log_q = -0.5 * (math.log(2.0 * math.pi * variance) + (v - mean) ** 2 / variance)
        log_p = -0.5 * (math.log(2.0 * math.pi) + v**2)
        return math.exp(order * log_q + (1.0 - order) * log_p)

    value, _ = quad(integrand, -40.0, 40.0, points=[0.0, mean], epsabs=0.0, epsrel=1e-12, limit=500)
    return math.log(value) / (order - 1.0)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("order", ORDERS)
def test_against_quadrature(rng: np.random.Generator, covariance: Covariance, order: float) -> None:
    """In the eigenbasis of S both densities are products, and the divergence is a sum."""
    mu, sqrt = random_posterior(rng, covariance, 2, 3).moments()
    assert sqrt is not None
    expected = 0.0
    for m, root in zip(to_array(mu), to_array(sqrt), strict=True):
        factor = root if root.ndim == 2 else np.diag(root)
        variances, axes = np.linalg.eigh(factor @ factor.T)
        expected += sum(map(by_quadrature, axes.T @ m, variances, [order] * 3))
    np.testing.assert_allclose(renyi(mu, sqrt, order=order).item(), expected, rtol=1e-8)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("order", [1.0 - 1e-6, 1.0, 1.0 + 1e-6])
def test_tends_to_the_kl_divergence(
    rng: np.random.Generator, covariance: Covariance, order: float
) -> None:
    moments = random_posterior(rng, covariance, 2, 3).moments()
    expected = kullback_leibler(*moments).item()
    np.testing.assert_allclose(renyi(*moments, order=order).item(), expected, rtol=1e-5)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("order", [0.5, 1.2])
def test_gradient(rng: np.random.Generator, covariance: Covariance, order: float) -> None:
    moments = [m.detach() for m in random_posterior(rng, covariance, 2, 3).moments()]
    inputs = [m.requires_grad_() for m in moments]

    def value(mu: torch.Tensor, root: torch.Tensor) -> torch.Tensor:
        return renyi(mu, root.tril() if covariance == "full" else root, order=order)

    assert torch.autograd.gradcheck(value, inputs)


def test_a_point_is_the_limit_of_narrow_posteriors(rng: np.random.Generator) -> None:
    """Differences between means are those of minus the log prior density, at every order."""
    mu, other = normal(rng, 2, 3), normal(rng, 2, 3)
    narrow = torch.full_like(mu, 1e-5)
    for order in ORDERS:
        expected = renyi(mu, narrow, order=order) - renyi(other, narrow, order=order)
        found = renyi(mu, None, order=order) - renyi(other, None, order=order)
        np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-7)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_refused_where_the_integral_diverges(covariance: Covariance) -> None:
    """int q^2 / p is finite for variances below two."""
    below, above = (math.sqrt(v) * torch.ones(1, 2, dtype=torch.float64) for v in (1.99, 2.0))
    below[0, 0] = above[0, 0] = 0.5
    if covariance == "full":
        below, above = torch.diag_embed(below), torch.diag_embed(above * 1.0001)
    mu = torch.zeros(1, 2, dtype=torch.float64)
    assert renyi(mu, below, order=2.0).isfinite()
    with pytest.raises(NotPositiveDefiniteError, match=r"order 2 is infinite.* lower the order"):
        renyi(mu, above, order=2.0)
    assert renyi(mu, above, order=0.9).isfinite()


@pytest.mark.parametrize("kind", ["sparse", "decoupled", "orthogonal"])
def test_divergence_of_a_stack_is_that_of_all_parts(rng: np.random.Generator, kind: str) -> None:
    """Independent parts are one normal, of block-diagonal covariance."""
    order = 0.7
    layer: SparseLayer
    if kind == "decoupled":
        layer = random_decoupled(rng)
        weights = layer.mean_posterior.mu
        further = kullback_leibler(weights, None)
        expected = further + renyi(*layer.posterior.moments(), order=order)
    elif kind == "orthogonal":
        layer = random_orthogonal(rng)
        mu, sqrt = layer.posterior.moments()
        eye = torch.eye(layer.orthogonal_mu.shape[-1], dtype=mu.dtype)
        joint = [torch.block_diag(eye, root) for root in sqrt]
        joint_mu = torch.cat([layer.orthogonal_mu, mu], -1)
        expected = renyi(joint_mu, torch.stack(joint), order=order)
    else:
        layer = random_layer(rng, "full", n_gps=2, n_inducing=4)
        expected = renyi(*layer.posterior.moments(), order=order)
    stack = GPStack([layer])
    found = renyi_divergence(stack, stack.factors(), order=order)
    np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-12)
