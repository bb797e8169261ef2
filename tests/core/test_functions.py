"""Covariances over rows, and draws of functions, against dense algebra and their exact moments."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from gpytorch.kernels import RQKernel
from oracles.kernels import covariance as textbook
from oracles.models import (
    COVARIANCES,
    dense_bases,
    dense_gps,
    dense_orthogonal,
    normal,
    random_decoupled,
    random_kernel,
    random_layer,
    random_orthogonal,
    random_posterior,
    to_array,
)
from oracles.sparse import DenseGP, posterior_covariance
from scipy.stats import kstest
from torch import Tensor, nn

from skgp.core.kernels.gpytorch_kernel import GPyTorchKernel
from skgp.core.layers.functions import LayerFunctions, PriorFunctions
from skgp.core.layers.layer import Layer
from skgp.core.layers.posteriors import Covariance
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal.exact import ExactGP
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.nodes.rules import Sampled
from skgp.core.nodes.sigma_points import LearnedNodes
from skgp.core.numerics.conjugate_gradients import ConjugateGradients
from skgp.core.numerics.draws import make_generator
from skgp.core.numerics.linalg import correlated
from skgp.core.stacks.functions import StackFunctions, hidden_mixture
from skgp.core.stacks.stack import Connection, GPStack

Array = npt.NDArray[np.float64]

NAMES = ["rbf", "matern12", "matern32", "matern52"]
N_DRAWS = 12_000
N_FEATURES = 24  # few: moments over draws, each with its own frequencies, do not depend on them
STANDARD_ERRORS = 5.0
JITTER = 0.3  # large, so that a draw without its noise has another covariance
CHOLESKY = ConjugateGradients(seed=0, min_rows=10_000)
ITERATIVE = ConjugateGradients(seed=0, min_rows=0, tolerance=1e-5, rank=5)


def shared_layer(rng: np.random.Generator) -> SparseGP:
    kernel, posterior = random_kernel(rng, "rbf", 1, 3), random_posterior(rng, "full", 2, 5)
    return SparseGP(kernel, normal(rng, 1, 5, 3), posterior, JITTER, n_sharing=2).double()


def exact_layer(rng: np.random.Generator, solver: ConjugateGradients = CHOLESKY) -> ExactGP:
    """Two GPs over weighted rows with known noise, of which the second has not observed all."""
    gp = ExactGP(random_kernel(rng, "matern32", 2, 3), normal(rng, 9, 3), JITTER, solver).double()
    mask = torch.ones(2, 9).double()
    mask[1, :4] = 0.0
    weight = torch.from_numpy(rng.uniform(0.5, 2.0, 9))
    noise = mask * torch.linspace(0.0, 4.0, 9)
    rows = ObservedRows(normal(rng, 9, 3), normal(rng, 2, 9), weight, mask, noise)
    with torch.no_grad():
        gp.mean.copy_(normal(rng, 2))
    gp.condition(rows, torch.tensor([0.1, 0.3]).double())
    return gp


LAYERS = {
    **{name: lambda rng, name=name: random_layer(rng, name, jitter=JITTER) for name in COVARIANCES},
    "decoupled": lambda rng: random_decoupled(rng, jitter=JITTER),
    "orthogonal": lambda rng: random_orthogonal(rng, jitter=JITTER),
    "shared": shared_layer,
    "exact": exact_layer,
    "iterative": lambda rng: exact_layer(rng, ITERATIVE),
}


def assert_moments(draws: Array, mean: Array, cov: Array, kurtosis: float = 1.0) -> None:
    """Draws (S, ...) of normals have this mean (...) and covariance (..., N, N), last axis N.

    `kurtosis` widens the standard errors of covariances, for mixtures.
    """
    var = np.diagonal(cov, axis1=-2, axis2=-1)
    error = np.sqrt(var / len(draws))
    assert (np.abs(draws.mean(0) - mean) < STANDARD_ERRORS * error).all()
    centred = draws - mean
    sampled = np.einsum("s...i,s...j->...ij", centred, centred) / len(draws)
    error = np.sqrt((var[..., None] * var[..., None, :] + np.square(cov)) / len(draws))
    assert (np.abs(sampled - cov) < STANDARD_ERRORS * kurtosis * error).all()


def draws_of(layer: Layer, x: Tensor, n_features: int = N_FEATURES) -> Array:
    """Values (S, W, N) at x (N, D)."""
    generator = make_generator(0, "test")
    functions = LayerFunctions(layer, layer.factors(), N_DRAWS, generator, n_features)
    with torch.no_grad():
        return to_array(functions(x[None], x[None]).mT)


# ------------------------------------------------------------------ covariances


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_covariance_of_a_sparse_layer(rng: np.random.Generator, covariance: Covariance) -> None:
    layer, x = random_layer(rng, covariance, jitter=JITTER), normal(rng, 6, 3)
    expected = [posterior_covariance(gp, to_array(x)) for gp in dense_gps(layer)]
    actual = to_array(layer.covariance(x[None], layer.factors()))[:, 0]
    np.testing.assert_allclose(actual, expected, atol=1e-11)


def test_covariance_of_two_bases_is_that_of_the_variance(rng: np.random.Generator) -> None:
    x = normal(rng, 6, 3)
    decoupled = random_decoupled(rng, jitter=JITTER)
    orthogonal = random_orthogonal(rng, jitter=JITTER)
    bases = [
        DenseGP(gp.k, gp.c, gp.beta, gp.m, gp.S, gp.jitter) for gp in dense_orthogonal(orthogonal)
    ]
    for layer, gps in [(decoupled, dense_bases(decoupled)[1]), (orthogonal, bases)]:
        expected = [posterior_covariance(gp, to_array(x)) for gp in gps]
        actual = to_array(layer.covariance(x[None], layer.factors()))[:, 0]
        np.testing.assert_allclose(actual, expected, atol=1e-11)


@pytest.mark.parametrize("name", LAYERS)
def test_diagonal_of_the_covariance_is_the_variance(rng: np.random.Generator, name: str) -> None:
    layer, x = LAYERS[name](rng), normal(rng, 6, 3)
    factors = layer.factors()
    diagonal = layer.covariance(x[None], factors)[:, 0].diagonal(dim1=-2, dim2=-1)
    expected = layer.moments(x[None], factors).f_var[0].mT
    tol = 1e-4 if name == "iterative" else 1e-11
    np.testing.assert_allclose(to_array(diagonal), to_array(expected), atol=tol)


def test_without_targets_the_covariance_is_that_of_the_prior(rng: np.random.Generator) -> None:
    kernel, x = random_kernel(rng, "matern52", 1, 2), normal(rng, 4, 2)
    gp = ExactGP(kernel, normal(rng, 6, 2), 1e-8, CHOLESKY).double()
    prior = textbook(
        "matern52",
        *[to_array(x)] * 2,
        to_array(kernel.lengthscale[0]),
        kernel.variance.item(),
    )
    nothing = ObservedRows(normal(rng, 6, 2), normal(rng, 1, 6), torch.zeros(6).double())
    gp.condition(nothing, torch.tensor([0.1]).double())
    np.testing.assert_allclose(
        to_array(gp.covariance(x[None], gp.factors()))[0, 0], prior, rtol=1e-12
    )
    assert_moments(draws_of(gp, x)[:, 0], np.zeros(4), prior)


# ------------------------------------------------------------------ draws of one layer


@pytest.mark.parametrize("name", NAMES)
def test_waves_have_the_correlations_of_the_kernel(rng: np.random.Generator, name: str) -> None:
    """k(x, x') = variance E cos(w^T (x - x')), here with 10^6 frequencies."""
    kernel, n = random_kernel(rng, name, 2, 3), 10**6
    frequencies = kernel.draw_frequencies((1, 2, n, 3), make_generator(0, "test"))
    w, weight = (to_array(part)[0] for part in frequencies)
    assert (weight <= 2.0 + 1e-9).all()
    for distance in (0.1, 0.7, 2.0):
        step = rng.normal(size=(1, 3))
        step *= distance / np.linalg.norm(step)
        for gp in range(2):
            waves = weight[gp] * np.cos(w[gp] @ step[0])
            expected = textbook(name, 0.0 * step, step, to_array(kernel.lengthscale[gp])).item()
            assert abs(waves.mean() - expected) < 4.5 * waves.std() / np.sqrt(n)


@pytest.mark.parametrize("name", NAMES[1:])
def test_every_draw_has_the_spread_that_near_rows_leave(
    rng: np.random.Generator, name: str
) -> None:
    """Not only the mean over draws: what rows without noise leave unexplained is of short waves."""
    kernel = random_kernel(rng, name, 1, 3)
    with torch.no_grad():
        kernel.log_lengthscale.fill_(np.log(5.0))
    X = normal(rng, 60, 3)
    gp = ExactGP(kernel, X, 1e-12, CHOLESKY).double()
    rows = ObservedRows(X, normal(rng, 1, 60), torch.ones(60).double())
    gp.condition(rows, torch.tensor([1e-8]).double())
    x, factors = 0.5 * normal(rng, 80, 3), gp.factors()
    with torch.no_grad():
        mean = gp.moments(x[None], factors).f_mean[0, :, 0]
        cov = gp.covariance(x[None], factors)[0, 0]
        f = LayerFunctions(gp, factors, 400, make_generator(0, "test"))(x[None], x[None])[..., 0]
    values = rng.multivariate_normal(to_array(mean), to_array(cov), 400)
    drawn, expected = (
        np.sqrt(np.square((v - to_array(mean)) / to_array(cov.diagonal().sqrt())).mean(-1))
        for v in (to_array(f), values)
    )
    quantiles = [0.1, 0.5, 0.9]
    assert np.quantile(drawn, quantiles) == pytest.approx(
        np.quantile(expected, quantiles), rel=0.15
    )


@pytest.mark.parametrize("name", LAYERS)
def test_draws_have_the_moments_of_the_layer(rng: np.random.Generator, name: str) -> None:
    layer, x = LAYERS[name](rng), normal(rng, 4, 3)
    factors = layer.factors()
    with torch.no_grad():
        mean = layer.moments(x[None], factors).f_mean[0].mT
        cov = layer.covariance(x[None], factors)[:, 0]
    assert_moments(draws_of(layer, x), to_array(mean), to_array(cov))


def test_values_at_a_point_are_normal(rng: np.random.Generator) -> None:
    """Given its frequencies a draw has normal weights: even one of a single wave."""
    g = PriorFunctions(random_layer(rng, n_gps=1), 100_000, make_generator(0, "test"), 1)
    assert kstest(to_array(g(normal(rng, 1, 1, 1, 3))).ravel(), "norm").pvalue > 0.01


def test_linear_mean_sees_its_own_inputs(rng: np.random.Generator) -> None:
    layer, x, x_mean = random_layer(rng), normal(rng, 1, 4, 3), normal(rng, 1, 4, 2)
    generator = make_generator(0, "test")
    flat = LayerFunctions(layer, layer.factors(), 3, generator, 8)(x, x_mean)
    layer.slope = nn.Parameter(normal(rng, 2, 2))
    generator = make_generator(0, "test")
    functions = LayerFunctions(layer, layer.factors(), 3, generator, 8)
    rise = functions(x, x_mean) - flat
    np.testing.assert_allclose(to_array(rise), to_array(x_mean @ layer.slope).repeat(3, 0))


def test_rows_in_blocks(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = random_layer(rng), normal(rng, 3, 1, 7, 3)
    prior = PriorFunctions(layer, 3, make_generator(0, "test"), 16)
    whole = to_array(prior(x))
    for block in (1, 70, 400):
        monkeypatch.setattr("skgp.core.layers.functions._BLOCK", block)
        np.testing.assert_allclose(to_array(prior(x)), whole, rtol=1e-12)


def test_unknown_spectral_density(rng: np.random.Generator) -> None:
    layer = SparseGP(
        GPyTorchKernel(RQKernel(), 1).double(),
        normal(rng, 1, 5, 3),
        random_posterior(rng, "full", 1, 5),
        JITTER,
    ).double()
    with pytest.raises(NotImplementedError, match="the gpytorch kernel RQKernel is not known"):
        draws_of(layer, normal(rng, 4, 3))


# ------------------------------------------------------------------ stacks


def make_stack(rng: np.random.Generator) -> GPStack:
    """A hidden layer of two functions with a slope, and a top layer that sees x too."""
    hidden = random_layer(rng, n_gps=2, n_features=1, jitter=JITTER)
    hidden.slope = nn.Parameter(normal(rng, 1, 2))
    top = random_layer(rng, n_gps=1, n_features=3, jitter=JITTER)
    return GPStack([hidden, top], None, [Connection(), Connection(kernel="both")])


def joint_draw(layer: Layer, x: Tensor, x_mean: Tensor, n: int, rng: np.random.Generator) -> Tensor:
    """Draws (S, N, W) at x (N, D), by a Cholesky factor over the rows."""
    factors = layer.factors()
    mean = layer.moments(x[None], factors, x_mean[None]).f_mean
    z = normal(rng, len(layer.mean), len(x), n)
    return mean + correlated(layer.covariance(x[None], factors)[:, 0], z).permute(2, 1, 0)


@torch.no_grad()
def test_draws_of_a_deep_stack(rng: np.random.Generator) -> None:
    """Layer by layer, as Cholesky factors over the rows draw them too."""
    stack, x, n = make_stack(rng), normal(rng, 3, 1), 1000
    rule = Sampled([2], 1, 8, seed=0)
    of_stack = StackFunctions(
        stack, stack.factors(), rule, n, make_generator(0, "test"), N_FEATURES
    )
    actual = to_array(of_stack(x))[..., 0]
    hidden = joint_draw(stack.layers[0], x, x, n, rng)
    tops = [joint_draw(stack.top, torch.cat([h, x], -1), h, 1, rng) for h in hidden]
    expected = to_array(torch.cat(tops))[..., 0]
    error = np.sqrt((actual.var(0) + expected.var(0)) / n)
    assert (np.abs(actual.mean(0) - expected.mean(0)) < STANDARD_ERRORS * error).all()
    centred = actual - expected.mean(0), expected - expected.mean(0)
    products = [np.einsum("si,sj->sij", part, part) for part in centred]
    error = np.sqrt(sum(part.var(0) for part in products) / n)
    difference = np.abs(products[0].mean(0) - products[1].mean(0))
    assert (difference < STANDARD_ERRORS * error).all()


@torch.no_grad()
def test_draws_at_sigma_points(rng: np.random.Generator) -> None:
    """A mixture over the nodes, by their weights, of the top layer at the hidden functions."""
    stack, x = make_stack(rng), normal(rng, 3, 1)
    rule = LearnedNodes([2], 4, seed=0)
    rule.logits.copy_(torch.tensor([0.0, 3.0, -1.0, 1.0]))  # far from equal
    stack.top.kernel.log_lengthscale.add_(1.0)
    stack.top.posterior.mu.mul_(4.0)  # nodes whose means differ
    factors = stack.factors()
    hidden, weights = hidden_mixture(stack, factors, rule, make_generator(0, "none"))
    h, _ = hidden(x)
    for q, xi in enumerate(rule(1).xi[0]):
        latent = stack.layers[0].moments(x[None], factors[0])
        at_node = latent.f_mean + latent.f_var.sqrt() * xi
        np.testing.assert_allclose(to_array(h[q, :, :2]), to_array(at_node[0]), rtol=1e-10)
    w = to_array(weights)
    means = to_array(stack(x, rule(1), factors).f_mean)[..., 0]
    covs = np.stack([to_array(stack.top.covariance(at[None], factors[1]))[0, 0] for at in h])
    mean = w @ means
    spread = np.einsum("q,qi,qj->ij", w, means - mean, means - mean)
    draws = StackFunctions(stack, factors, rule, N_DRAWS, make_generator(0, "test"), N_FEATURES)(x)
    cov = np.einsum("q,qij->ij", w, covs) + spread
    assert_moments(to_array(draws)[..., 0], mean, cov, kurtosis=1.5)


@torch.no_grad()
def test_prior_draws_know_no_posterior(rng: np.random.Generator) -> None:
    stack, x = make_stack(rng), normal(rng, 3, 1)
    rule = LearnedNodes([2], 4, seed=0)
    before = StackFunctions(stack, None, rule, 5, make_generator(0, "test"))(x)
    for layer in stack.layers:
        layer.posterior.mu.add_(1.0)
    after = StackFunctions(stack, None, rule, 5, make_generator(0, "test"))(x)
    np.testing.assert_array_equal(to_array(after), to_array(before))
    layer, flat = random_layer(rng, n_gps=1), normal(rng, 4, 3)
    functions = LayerFunctions(layer, None, N_DRAWS, make_generator(0, "test"), N_FEATURES)
    kernel = layer.kernel
    prior = textbook(
        "matern52", *[to_array(flat)] * 2, to_array(kernel.lengthscale[0]), kernel.variance.item()
    )
    values = to_array(functions(flat[None], flat[None]))[..., 0]
    assert_moments(values, np.full(4, layer.mean.item()), prior)
