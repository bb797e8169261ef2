"""Terms of the Gaussian likelihood against quadrature and dense algebra."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from oracles import likelihoods as oracle
from oracles.models import normal, random_likelihood, to_array
from oracles.objectives import Term, terms
from oracles.sparse import Moments
from scipy.stats import multivariate_normal
from torch import Tensor

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.exceptions import NotPositiveDefiniteError

MASK = torch.tensor([[1, 1, 1], [1, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=torch.float64)

TERMS: list[tuple[Callable[[Gaussian, Latent, Targets], Tensor], Term]] = [
    (Gaussian.expected_log_prob, oracle.expected_log_prob),
    (Gaussian.log_marginal, oracle.log_marginal),
    (Gaussian.vfitc_bound, oracle.vfitc_bound),
    *(
        (
            lambda lik, latent, targets, g=g: lik.gamma_expectation(latent, targets, g),
            lambda *args, g=g: oracle.gamma_expectation(*args, g),
        )
        for g in (1.01, 1.1, 1.7, 0.8)
    ),
]
IDS = ["elbo", "predictive", "vfitc", "gamma-1.01", "gamma-1.1", "gamma-1.7", "gamma-0.8"]


def random_latent(rng: np.random.Generator, *shape: int) -> Latent:
    """Moments of the size of the noise, where quadrature is accurate."""
    v_prior, v_q = (0.05 + 0.3 * normal(rng, *shape).abs() for _ in range(2))
    return Latent(normal(rng, *shape), v_prior, v_q)


def loops(latent: Latent) -> Moments:
    return Moments(*(to_array(part) for part in latent))


@pytest.mark.parametrize(("term", "naive"), TERMS, ids=IDS)
@pytest.mark.parametrize("mask", [None, MASK], ids=["complete", "masked"])
def test_terms_against_quadrature(
    rng: np.random.Generator,
    term: Callable[[Gaussian, Latent, Targets], Tensor],
    naive: Term,
    mask: Tensor | None,
) -> None:
    """Each output by one-dimensional quadrature, each missing one left out."""
    likelihood = random_likelihood(rng, 3)
    latent, y = random_latent(rng, 2, 4, 3), normal(rng, 4, 3)
    value = term(likelihood, latent, Targets(y, mask))
    noise = to_array(likelihood.noise_var)
    observed = None if mask is None else to_array(mask)
    expected = terms(naive, loops(latent), to_array(y), observed, noise)
    np.testing.assert_allclose(to_array(value), expected, rtol=0, atol=1e-9)


def test_gamma_expectation_tends_to_the_elbo_linearly(rng: np.random.Generator) -> None:
    """gamma -> 1: the gap to E_q log p shrinks in proportion to gamma - 1."""
    likelihood = random_likelihood(rng, 1)
    latent, targets = random_latent(rng, 1, 6, 1), Targets(normal(rng, 6, 1), None)
    limit = likelihood.expected_log_prob(latent, targets)
    gaps = [
        to_array(likelihood.gamma_expectation(latent, targets, 1.0 + step) - limit)
        for step in (1e-3, 1e-4, 1e-6)
    ]
    np.testing.assert_allclose(gaps[1], 0.1 * gaps[0], rtol=1e-2)
    np.testing.assert_allclose(gaps[2], 0.0, rtol=0, atol=1e-4)
    assert np.all(np.abs(gaps[0]) > 1e-5)


def test_gamma_expectation_is_finite_where_the_latent_variance_vanishes(
    rng: np.random.Generator,
) -> None:
    likelihood = random_likelihood(rng, 1)
    mean, y = normal(rng, 1, 4, 1), normal(rng, 4, 1)
    zero = torch.zeros_like(mean)
    value = likelihood.gamma_expectation(Latent(mean, zero, zero), Targets(y, None), 1.05)
    noise = likelihood.noise_var.item()
    for b in range(4):
        expected = oracle.gamma_expectation(y[b].item(), mean[0, b].item(), 0.0, 0.0, noise, 1.05)
        np.testing.assert_allclose(value[0, b].item(), expected, rtol=1e-9)


def test_an_outlier_pulls_less_under_gamma_than_under_the_elbo(rng: np.random.Generator) -> None:
    """The slope in the mean dies out for a residual of twenty standard deviations."""
    likelihood = random_likelihood(rng, 1)
    mean = torch.zeros(1, 1, 1, dtype=torch.float64, requires_grad=True)
    latent = Latent(mean, torch.zeros_like(mean) + 0.01, torch.zeros_like(mean))
    targets = Targets(20.0 * likelihood.noise_var.detach().sqrt().reshape(1, 1), None)
    robust = likelihood.gamma_expectation(latent, targets, 1.1)
    (slope,) = torch.autograd.grad(robust.sum(), mean)
    (elbo_slope,) = torch.autograd.grad(likelihood.expected_log_prob(latent, targets).sum(), mean)
    assert 0.0 < slope.item() < 1e-6 * elbo_slope.item()


@pytest.mark.parametrize("noise_floor", [1e-4, 0.1])
@pytest.mark.parametrize("noise_var", [0.05, 0.5])
def test_noise_starts_where_asked_and_never_below_its_floor(
    noise_var: float, noise_floor: float
) -> None:
    likelihood = Gaussian(2, noise_var, noise_floor)
    noise = to_array(likelihood.noise_var)
    expected = noise_var if noise_var > 1.1 * noise_floor else 1.1 * noise_floor
    np.testing.assert_allclose(noise, expected, rtol=1e-5)
    with torch.no_grad():
        likelihood.log_excess_noise.fill_(-60.0)
    np.testing.assert_allclose(to_array(likelihood.noise_var), noise_floor, rtol=1e-6)


def test_start_sets_each_noise_variance(rng: np.random.Generator) -> None:
    """Values at or below the floor land a tenth of the floor above it."""
    likelihood = Gaussian(3, 0.5, 0.1).double()
    likelihood.start(torch.tensor([0.3, 0.05, 2.0], dtype=torch.float64))
    np.testing.assert_allclose(to_array(likelihood.noise_var), [0.3, 0.11, 2.0], rtol=1e-13)


def test_density_at_an_exact_fit_is_bounded_by_the_floor() -> None:
    """log p <= -log(2 pi floor) / 2 per output, whatever the noise parameter does."""
    likelihood = Gaussian(1, 0.5, 1e-3).double()
    with torch.no_grad():
        likelihood.log_excess_noise.fill_(-1e3)
    zero = torch.zeros(1, 1, 1, dtype=torch.float64)
    value = likelihood.log_marginal(Latent(zero, zero, zero), Targets(zero[0], None))
    np.testing.assert_allclose(value.item(), -0.5 * math.log(2.0 * math.pi * 1e-3), rtol=1e-12)


def coregionalised(rng: np.random.Generator) -> tuple[Gaussian, Latent, Tensor]:
    """Two latent functions, three outputs, three nodes, four rows."""
    likelihood = random_likelihood(rng, 3, normal(rng, 3, 2))
    return likelihood, random_latent(rng, 3, 4, 2), normal(rng, 4, 3)


def dense_output(likelihood: Gaussian, latent: Latent, q: int, b: int) -> tuple[np.ndarray, ...]:
    """Mean M f and covariance M diag(v) M^T, without noise, by loops."""
    M = to_array(likelihood.mixing)
    f, v = to_array(latent.f_mean)[q, b], to_array(latent.f_var)[q, b]
    mean, cov = np.zeros(3), np.zeros((3, 3))
    for p in range(3):
        for w in range(2):
            mean[p] += M[p, w] * f[w]
            for r in range(3):
                cov[p, r] += M[p, w] * v[w] * M[r, w]
    return mean, cov


def test_coregionalised_predictive_against_loops(rng: np.random.Generator) -> None:
    """y ~ N(M f_mean, M diag(f_var) M^T + diag(noise)) (Deep Sigma Point Processes, Eqn 24)."""
    likelihood, latent, _ = coregionalised(rng)
    predictive = likelihood.predictive(latent)
    noise = to_array(likelihood.noise_var)
    for q in range(3):
        for b in range(4):
            mean, cov = dense_output(likelihood, latent, q, b)
            cov = cov + np.diag(noise)
            np.testing.assert_allclose(to_array(predictive.mean[q, b]), mean, rtol=1e-12)
            np.testing.assert_allclose(to_array(predictive.cov[q, b]), cov, rtol=0, atol=1e-13)
            np.testing.assert_allclose(to_array(predictive.var[q, b]), np.diag(cov), rtol=1e-12)


@pytest.mark.parametrize("mask", [None, MASK], ids=["complete", "masked"])
def test_coregionalised_log_marginal_is_the_joint_density(
    rng: np.random.Generator, mask: Tensor | None
) -> None:
    """log N(y; mean, cov) of the observed outputs; a row without any counts zero."""
    likelihood, latent, y = coregionalised(rng)
    value = likelihood.log_marginal(latent, Targets(y, mask))
    noise = np.diag(to_array(likelihood.noise_var))
    for q in range(3):
        for b in range(4):
            keep = np.ones(3, bool) if mask is None else to_array(mask)[b] == 1.0
            mean, cov = dense_output(likelihood, latent, q, b)
            cov = (cov + noise)[np.ix_(keep, keep)]
            expected = 0.0
            if np.any(keep):
                density = multivariate_normal(mean[keep], cov)
                expected = density.logpdf(to_array(y[b])[keep])
            np.testing.assert_allclose(value[q, b].item(), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("mask", [None, MASK], ids=["complete", "masked"])
def test_coregionalised_expected_log_prob_against_dense_algebra(
    rng: np.random.Generator, mask: Tensor | None
) -> None:
    """E log N(y; A^T f, N) = log N(y; A^T m, N) - tr(N^-1 A^T diag(v) A) / 2."""
    likelihood, latent, y = coregionalised(rng)
    value = likelihood.expected_log_prob(latent, Targets(y, mask))
    noise = np.diag(to_array(likelihood.noise_var))
    for q in range(3):
        for b in range(4):
            keep = np.ones(3, bool) if mask is None else to_array(mask)[b] == 1.0
            mean, cov = dense_output(likelihood, latent, q, b)
            expected = 0.0
            if np.any(keep):
                N = noise[np.ix_(keep, keep)]
                expected = multivariate_normal(mean[keep], N).logpdf(to_array(y[b])[keep])
                expected -= 0.5 * np.trace(np.linalg.inv(N) @ cov[np.ix_(keep, keep)])
            np.testing.assert_allclose(value[q, b].item(), expected, rtol=1e-11, atol=1e-12)


def test_coregionalised_expected_log_prob_by_quadrature_over_both_latents(
    rng: np.random.Generator,
) -> None:
    """Two-dimensional Gauss-Hermite of the joint density: no use of the closed form."""
    likelihood, latent, y = coregionalised(rng)
    value = likelihood.expected_log_prob(latent, Targets(y, None))
    z, weight = np.polynomial.hermite_e.hermegauss(8)
    weight = weight / weight.sum()
    M, noise = to_array(likelihood.mixing), np.diag(to_array(likelihood.noise_var))
    m, v = to_array(latent.f_mean)[0, 0], to_array(latent.f_var)[0, 0]
    expected = 0.0
    for i in range(8):
        for j in range(8):
            f = m + np.sqrt(v) * np.array([z[i], z[j]])
            density = multivariate_normal(M @ f, noise)
            expected += weight[i] * weight[j] * density.logpdf(to_array(y[0]))
    np.testing.assert_allclose(value[0, 0].item(), expected, rtol=1e-11)


@pytest.mark.parametrize("mask", [None, MASK], ids=["complete", "masked"])
def test_coregionalised_vfitc_keeps_the_covariance_of_what_the_inducing_inputs_leave(
    rng: np.random.Generator, mask: Tensor | None
) -> None:
    """log N(y; M m, C) - tr(C^-1 M diag(v_q) M^T) / 2 with C = M diag(v_prior) M^T + noise."""
    likelihood, latent, y = coregionalised(rng)
    value = likelihood.vfitc_bound(latent, Targets(y, mask))
    noise = np.diag(to_array(likelihood.noise_var))
    certain = torch.zeros_like(latent.v_q)
    for q in range(3):
        for b in range(4):
            keep = np.ones(3, bool) if mask is None else to_array(mask)[b] == 1.0
            mean, left = dense_output(likelihood, latent._replace(v_q=certain), q, b)
            _, of_q = dense_output(likelihood, latent._replace(v_prior=certain), q, b)
            expected = 0.0
            if np.any(keep):
                C = (left + noise)[np.ix_(keep, keep)]
                expected = multivariate_normal(mean[keep], C).logpdf(to_array(y[b])[keep])
                expected -= 0.5 * np.trace(np.linalg.inv(C) @ of_q[np.ix_(keep, keep)])
            np.testing.assert_allclose(value[q, b].item(), expected, rtol=1e-11, atol=1e-12)


def test_vfitc_is_the_predictive_term_where_q_is_certain(rng: np.random.Generator) -> None:
    """Objective and prediction belong to one model, for mixed outputs too."""
    likelihood, latent, y = coregionalised(rng)
    certain = latent._replace(v_q=torch.zeros_like(latent.v_q))
    value = likelihood.vfitc_bound(certain, Targets(y, MASK))
    torch.testing.assert_close(value, likelihood.log_marginal(certain, Targets(y, MASK)))


def test_joint_density_without_a_covariance_is_an_error_that_a_fit_heals_from(
    rng: np.random.Generator,
) -> None:
    """A diverging fit must show as an error of the project, not as one of torch."""
    likelihood, latent, y = coregionalised(rng)
    broken = latent._replace(v_q=latent.v_q * math.nan)
    with pytest.raises(NotPositiveDefiniteError, match=r"noise_floor|learning_rate_init"):
        likelihood.log_marginal(broken, Targets(y, None))


@pytest.mark.parametrize("method", ["vfitc_bound", "expected_log_prob", "log_marginal"])
def test_identity_mixing_is_no_mixing(rng: np.random.Generator, method: str) -> None:
    plain = random_likelihood(rng, 3)
    mixed = Gaussian(3, 0.3, 1e-4, torch.eye(3, dtype=torch.float64)).double()
    with torch.no_grad():
        mixed.log_excess_noise.copy_(plain.log_excess_noise)
    latent, targets = random_latent(rng, 2, 4, 3), Targets(normal(rng, 4, 3), MASK)
    values = [to_array(getattr(lik, method)(latent, targets)) for lik in (plain, mixed)]
    np.testing.assert_allclose(values[0], values[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("mixed", [False, True])
def test_value_of_a_missing_output_plays_no_part(rng: np.random.Generator, mixed: bool) -> None:
    likelihood = random_likelihood(rng, 3, normal(rng, 3, 3) if mixed else None)
    latent, y = random_latent(rng, 2, 4, 3), normal(rng, 4, 3)
    for method in (likelihood.log_marginal, likelihood.expected_log_prob, likelihood.vfitc_bound):
        before = to_array(method(latent, Targets(y, MASK)))
        after = to_array(method(latent, Targets(torch.where(MASK == 1.0, y, 7.0), MASK)))
        np.testing.assert_array_equal(before, after)


def test_noiseless_is_the_predictive_less_its_noise(rng: np.random.Generator) -> None:
    plain, latent = random_likelihood(rng, 2), random_latent(rng, 2, 4, 2)
    noisy, clean = plain.predictive(latent), plain.noiseless(latent)
    noise = to_array(plain.noise_var)
    assert noisy.cov is None
    assert clean.cov is None
    np.testing.assert_array_equal(to_array(clean.mean), to_array(noisy.mean))
    np.testing.assert_allclose(
        to_array(noisy.var) - to_array(clean.var), np.broadcast_to(noise, (2, 4, 2)), rtol=1e-12
    )


def test_noiseless_is_the_predictive_less_its_noise_with_mixing(rng: np.random.Generator) -> None:
    likelihood, latent, _ = coregionalised(rng)
    noisy, clean = likelihood.predictive(latent), likelihood.noiseless(latent)
    noise = np.diag(to_array(likelihood.noise_var))
    difference = to_array(noisy.cov) - to_array(clean.cov)
    np.testing.assert_allclose(
        difference, np.broadcast_to(noise, difference.shape), rtol=0, atol=1e-13
    )
    diagonal = to_array(clean.cov.diagonal(dim1=-2, dim2=-1))
    np.testing.assert_allclose(to_array(clean.var), diagonal, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(to_array(clean.mean), to_array(noisy.mean))


def test_noiseless_variance_stays_positive_where_f_is_certain() -> None:
    zero = torch.zeros(1, 2, 1, dtype=torch.float64)
    clean = Gaussian(1, 0.3, 1e-4).double().noiseless(Latent(zero, zero, zero))
    assert torch.all(clean.var > 0.0)
    assert torch.all(clean.var < 1e-15)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize(
    "method", ["expected_log_prob", "log_marginal", "vfitc_bound", "gamma_expectation"]
)
def test_gradient_of_the_terms(rng: np.random.Generator, method: str, mixed: bool) -> None:
    """Finite differences in the moments, with masks."""
    likelihood = random_likelihood(rng, 3, normal(rng, 3, 3) if mixed else None)
    latent, y = random_latent(rng, 1, 4, 3), normal(rng, 4, 3)
    extra = (1.2,) if method == "gamma_expectation" else ()

    def term(*parts: Tensor) -> Tensor:
        value: Tensor = getattr(likelihood, method)(Latent(*parts), Targets(y, MASK), *extra)
        return value

    assert torch.autograd.gradcheck(term, [part.requires_grad_() for part in latent])
