"""Whitened posteriors: square roots and divergences."""

import math

import numpy as np
import pytest
import torch
from gpytorch.distributions import Delta
from oracles.models import (
    COVARIANCES,
    dense_gps,
    normal,
    random_layer,
    random_posterior,
    to_array,
)
from oracles.sparse import kl, kl_normal, prior_covariance
from scipy.stats import multivariate_normal
from torch.distributions import kl_divergence

from skgp.core.layers.divergences import kullback_leibler
from skgp.core.layers.posteriors import (
    Covariance,
    DeltaPosterior,
    DiagonalPosterior,
    FullPosterior,
    make_posterior,
)


def dense_covariance(root: torch.Tensor | None, w: int) -> np.ndarray:
    assert root is not None
    factor = root[w] if root.dim() == 3 else torch.diag(root[w])
    return to_array(factor @ factor.mT)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_whitened_divergence_against_the_textbook(
    rng: np.random.Generator, covariance: Covariance
) -> None:
    """KL(N(m, S) || N(0, I)), summed over the GPs."""
    posterior = random_posterior(rng, covariance, 3, 4)
    root = posterior.moments()[1]
    expected = sum(
        kl_normal(to_array(posterior.mu[w]), dense_covariance(root, w), np.zeros(4), np.eye(4))
        for w in range(3)
    )
    np.testing.assert_allclose(kullback_leibler(*posterior.moments()).item(), expected, rtol=1e-13)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_divergence_is_the_same_in_the_unwhitened_variables(
    rng: np.random.Generator, covariance: Covariance
) -> None:
    """KL(q(u) || p(u)) with u = c + L v equals KL(q(v) || N(0, I))."""
    layer = random_layer(rng, covariance, name="matern32")
    expected = sum(kl(gp) for gp in dense_gps(layer))
    np.testing.assert_allclose(layer.kl(layer.factors()).item(), expected, rtol=1e-9)


def test_divergence_of_a_point_is_minus_the_log_density_of_the_whitened_variable(
    rng: np.random.Generator,
) -> None:
    """-log N(v; 0, I) = -log N(u; c, K) - log|K| / 2."""
    layer = random_layer(rng, "delta", name="matern32")
    expected = 0.0
    for gp in dense_gps(layer):
        K = prior_covariance(gp)
        expected -= multivariate_normal(np.full(len(gp.m), gp.c), K).logpdf(gp.m)
        expected -= 0.5 * np.linalg.slogdet(K)[1]
    np.testing.assert_allclose(layer.kl(layer.factors()).item(), expected, rtol=1e-9)


def test_divergence_of_a_point_equals_gpytorch(rng: np.random.Generator) -> None:
    mu = normal(rng, 1, 6)
    standard = torch.distributions.Independent(
        torch.distributions.Normal(torch.zeros(6).double(), torch.ones(6).double()), 1
    )
    expected = -standard.log_prob(Delta(mu[0], event_dim=1).mean)
    np.testing.assert_allclose(kullback_leibler(mu, None).item(), expected.item(), rtol=1e-13)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_divergence_against_torch_distributions(
    rng: np.random.Generator, covariance: Covariance
) -> None:
    posterior = random_posterior(rng, covariance, 1, 4)
    S = torch.from_numpy(dense_covariance(posterior.moments()[1], 0))
    q = torch.distributions.MultivariateNormal(posterior.mu[0], S)
    p = torch.distributions.MultivariateNormal(
        torch.zeros(4, dtype=torch.float64), torch.eye(4, dtype=torch.float64)
    )
    np.testing.assert_allclose(
        kullback_leibler(*posterior.moments()).item(), kl_divergence(q, p).item(), rtol=1e-12
    )


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_initial_posterior_is_its_mean_and_variance(
    rng: np.random.Generator, covariance: Covariance
) -> None:
    mu = normal(rng, 2, 4)
    posterior = make_posterior(covariance, mu, 0.01)
    np.testing.assert_array_equal(to_array(posterior.mu), mu.numpy())
    for w in range(2):
        np.testing.assert_allclose(
            dense_covariance(posterior.moments()[1], w), 0.01 * np.eye(4), rtol=1e-13
        )
    expected = 2 * 0.5 * 4 * (0.01 - 1.0 - math.log(0.01)) + 0.5 * float(mu.square().sum())
    np.testing.assert_allclose(kullback_leibler(*posterior.moments()).item(), expected, rtol=1e-13)


def test_posterior_equal_to_the_prior_has_no_divergence() -> None:
    zero = torch.zeros(2, 3, dtype=torch.float64)
    for covariance in ("full", "diagonal"):
        posterior = make_posterior(covariance, zero.clone(), 1.0)
        assert kullback_leibler(*posterior.moments()).item() == 0.0


def random_precision(rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """b and H of N(H^-1 b, H^-1) for two GPs."""
    B = normal(rng, 2, 4, 4)
    return normal(rng, 2, 4), B @ B.mT + torch.eye(4, dtype=torch.float64)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_start_takes_the_mean_and_if_full_the_covariance(
    rng: np.random.Generator, covariance: Covariance
) -> None:
    """N(H^-1 b, H^-1) itself, or its mean at least."""
    b, H = random_precision(rng)
    posterior = make_posterior(covariance, torch.zeros(2, 4, dtype=torch.float64), 0.5)
    posterior.start(b, H)
    for w in range(2):
        S = np.linalg.inv(to_array(H[w]))
        np.testing.assert_allclose(to_array(posterior.mu[w]), S @ to_array(b[w]), rtol=1e-10)
        if covariance == "full":
            np.testing.assert_allclose(dense_covariance(posterior.moments()[1], w), S, rtol=1e-9)


def test_diagonal_start_is_the_closest_diagonal_normal(rng: np.random.Generator) -> None:
    """KL(q || N(H^-1 b, H^-1)) grows in every direction away from the start."""
    b, H = random_precision(rng)
    posterior = make_posterior("diagonal", torch.zeros(2, 4, dtype=torch.float64), 1.0)
    posterior.start(b, H)
    for w in range(2):
        S0 = np.linalg.inv(to_array(H[w]))
        m0 = S0 @ to_array(b[w])
        m, s = to_array(posterior.mu[w]), to_array(posterior.moments()[1][w])
        least = kl_normal(m, np.diag(s**2), m0, S0)
        for i in range(4):
            for step in (1e-3, -1e-3):
                unit = step * np.eye(4)[i]
                assert kl_normal(m + unit, np.diag(s**2), m0, S0) > least
                assert kl_normal(m, np.diag((s * np.exp(unit)) ** 2), m0, S0) > least


def test_full_square_root_is_lower_with_a_positive_diagonal(rng: np.random.Generator) -> None:
    """Numbers above the diagonal of the parameter, and on it, play no part."""
    posterior = random_posterior(rng, "full", 1, 4)
    assert isinstance(posterior, FullPosterior)
    before, divergence = (
        to_array(posterior.moments()[1]),
        kullback_leibler(*posterior.moments()).item(),
    )
    with torch.no_grad():
        posterior.lower += torch.ones(4, 4).double().triu()
    np.testing.assert_array_equal(to_array(posterior.moments()[1]), before)
    assert kullback_leibler(*posterior.moments()).item() == divergence
    assert np.all(np.triu(before[0], 1) == 0.0)
    assert np.all(np.diag(before[0]) > 0.0)


def test_a_point_has_no_square_root(rng: np.random.Generator) -> None:
    assert make_posterior("delta", normal(rng, 2, 3), 0.5).moments()[1] is None


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_make_posterior_builds_the_named_kind(covariance: Covariance) -> None:
    kinds = {"full": FullPosterior, "diagonal": DiagonalPosterior, "delta": DeltaPosterior}
    mu = torch.zeros(1, 2)
    assert type(make_posterior(covariance, mu, 1.0)) is kinds[covariance]


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_gradient_of_the_divergence(rng: np.random.Generator, covariance: Covariance) -> None:
    """dKL/dm = m; a step along the gradient lowers the divergence as finite differences say."""
    posterior = random_posterior(rng, covariance, 2, 3)
    kullback_leibler(*posterior.moments()).backward()
    np.testing.assert_allclose(to_array(posterior.mu.grad), to_array(posterior.mu), rtol=1e-14)
    for parameter in posterior.parameters():
        direction = normal(rng, *parameter.shape)
        step = 1e-5
        values = []
        for sign in (1.0, -1.0):
            with torch.no_grad():
                parameter += sign * step * direction
                values.append(kullback_leibler(*posterior.moments()).item())
                parameter -= sign * step * direction
        slope = (values[0] - values[1]) / (2.0 * step)
        np.testing.assert_allclose(
            (parameter.grad * direction).sum().item(), slope, rtol=1e-7, atol=1e-8
        )


@pytest.mark.usefixtures("two_threads")
def test_large_posteriors_of_several_gps_start_where_they_should(rng: np.random.Generator) -> None:
    """LU factors of a batch of more than 150 rows are wrong with two threads (pytorch #142815)."""
    root = rng.standard_normal((4, 300, 300))
    precision = np.eye(300) + root @ root.transpose(0, 2, 1) / 300
    information = rng.standard_normal((4, 300))
    posterior = FullPosterior(torch.zeros(4, 300, dtype=torch.float64), 1.0)
    posterior.start(torch.from_numpy(information), torch.from_numpy(precision))
    covariance = np.linalg.inv(precision)
    mean = np.einsum("wij,wj->wi", covariance, information)
    np.testing.assert_allclose(to_array(posterior.mu), mean, rtol=0, atol=1e-9)
    for w in range(4):
        found = dense_covariance(posterior.moments()[1], w)
        np.testing.assert_allclose(found, covariance[w], rtol=0, atol=1e-9)
