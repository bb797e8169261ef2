"""Initial values from the collapsed bound, against dense algebra and the uncollapsed bound."""

import copy
import math

import numpy as np
import pytest
import scipy.optimize
import torch
from scipy.stats import multivariate_normal

from skgp.core.data import Batch, Targets
from skgp.core.kernels.stationary import Stationary
from skgp.core.layers.posteriors import DeltaPosterior, DiagonalPosterior, FullPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.layers.two_bases import DecoupledGP
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.marginal.collapsed import collapsed_bound
from skgp.core.marginal.starts import (
    bound_per_row,
    start_covariates,
    start_hyperparameters,
    start_posterior,
    start_slope,
)
from skgp.core.nodes.rules import trivial
from skgp.core.objectives.objective import ELBO, loss
from skgp.core.stacks.stack import GPStack

JITTER = 1e-8


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def problem(rng):
    """Kernel, inducing inputs, rows, targets of two GPs and integer weights."""
    x = torch.from_numpy(rng.uniform(-2, 2, (12, 2)))
    y = torch.stack([torch.sin(2 * x[:, 0]), x[:, 1] ** 2]) + 0.1 * torch.from_numpy(
        rng.standard_normal((2, 12))
    )
    kernel = Stationary("matern52", 2, 2, 1.3).double()
    with torch.no_grad():
        kernel.log_variance.copy_(torch.tensor([0.4, -0.3]))
    Z = torch.from_numpy(rng.uniform(-2, 2, (2, 5, 2)))
    weight = torch.from_numpy(rng.integers(1, 4, 12).astype(float))
    return kernel, Z, x, y, weight


def dense_bound(kernel, Z, x, y, noise_var):
    """log N(y; 0, Qff + noise) - tr(Kff - Qff) / (2 noise), GP by GP."""
    bounds = []
    for w in range(len(y)):
        variance = kernel.variance[w].item()
        K = variance * kernel.Kuu(Z)[w].detach().numpy()
        K += JITTER * variance * np.eye(len(K))
        Kuf = variance * kernel.Kuf(Z, x)[w].detach().numpy()
        Q = Kuf.T @ np.linalg.solve(K, Kuf)
        density = multivariate_normal(cov=Q + noise_var[w].item() * np.eye(len(Q)))
        trace = variance * len(Q) - np.trace(Q)
        bounds.append(density.logpdf(y[w].numpy()) - 0.5 * trace / noise_var[w].item())
    return np.array(bounds)


def test_collapsed_bound_equals_dense_algebra(problem):
    kernel, Z, x, y, _ = problem
    noise_var = torch.tensor([0.05, 0.2], dtype=torch.float64)
    bound = collapsed_bound(kernel, Z, x, y, torch.ones(12).double(), noise_var, JITTER)
    np.testing.assert_allclose(bound.detach(), dense_bound(kernel, Z, x, y, noise_var), rtol=1e-9)


def test_collapsed_bound_counts_a_row_as_often_as_its_weight(problem):
    kernel, Z, x, y, weight = problem
    noise_var = torch.tensor([0.05, 0.2], dtype=torch.float64)
    rows = torch.repeat_interleave(torch.arange(12), weight.long())
    bound = collapsed_bound(kernel, Z, x, y, weight, noise_var, JITTER)
    expected = dense_bound(kernel, Z, x[rows], y[:, rows], noise_var)
    np.testing.assert_allclose(bound.detach(), expected, rtol=1e-9)


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("of_each_gp", [False, True])
def test_gradients_of_the_collapsed_bound_equal_those_of_dense_algebra(
    problem, is_shared, of_each_gp
):
    """Autograd through log N(y; 0, Qff + noise / weight), and the powers of a normal density."""
    kernel, Z, x, y, weight = problem
    if of_each_gp:
        weight = torch.stack([weight, 1.0 / (1.0 + weight.flip(0))])
    if is_shared:
        kernel = Stationary("matern52", 1, 2, 1.3).double()
        Z = Z[:1]
    Z, y = Z.clone().requires_grad_(), y.clone().requires_grad_()
    log_noise = torch.tensor([-3.0, -1.5], dtype=torch.float64, requires_grad=True)
    inputs = [Z, y, log_noise, *kernel.parameters()]

    def dense() -> torch.Tensor:
        noise, variance = log_noise.exp()[:, None], kernel.variance[:, None, None]
        K = kernel.Kuu(Z) + JITTER * torch.eye(5).double()
        Kuf = kernel.Kuf(Z, x)
        Q = variance * Kuf.mT @ torch.linalg.solve(K, Kuf)
        covariance = Q + torch.diag_embed(noise / weight)
        density = torch.distributions.MultivariateNormal(torch.zeros_like(y), covariance)
        rest = variance.squeeze(-1) - Q.diagonal(dim1=-2, dim2=-1)
        powers = (weight - 1.0) * (2.0 * math.pi * noise).log() + weight.log()
        return density.log_prob(y) - 0.5 * (weight * rest / noise + powers).sum(-1)

    bound = collapsed_bound(kernel, Z, x, y, weight, log_noise.exp(), JITTER)
    expected = dense()
    np.testing.assert_allclose(bound.detach(), expected.detach(), rtol=1e-6)
    share = torch.tensor([1.0, 0.3], dtype=torch.float64)  # GPs count differently
    gradients = torch.autograd.grad(bound @ share, inputs)
    for ours, theirs in zip(gradients, torch.autograd.grad(expected @ share, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_target_without_weight_is_as_if_it_were_not_there(problem, is_shared):
    """Each of two GPs starts as one that has only its own targets."""
    kernel, Z, x, y, weight = problem
    weights = torch.stack([weight, weight])
    weights[0, :5] = weights[1, 9:] = 0.0
    noise_var = torch.tensor([0.05, 0.2], dtype=torch.float64)

    def layer_of(gps: slice) -> SparseGP:
        own = Stationary("matern52", 1 if is_shared else len(Z[gps]), 2, 1.3).double()
        if not is_shared:
            with torch.no_grad():
                own.log_variance.copy_(kernel.log_variance[gps])
        n_gps = len(Z[gps])
        Z_own = Z[:1] if is_shared else Z[gps]
        posterior = FullPosterior(torch.zeros(n_gps, 5).double(), 0.3)
        return SparseGP(own, Z_own.clone(), posterior, JITTER, n_gps if is_shared else None)

    both = layer_of(slice(None))
    start_posterior(both, x, y, weights, noise_var, 1.5)
    bounds = bound_per_row(both, x, y, weights, noise_var)
    for w in range(2):
        kept, gps = weights[w] > 0, slice(w, w + 1)
        rows = x[kept], y[gps, kept], weight[kept]
        alone = layer_of(gps)
        start_posterior(alone, *rows, noise_var[gps], 1.5)
        np.testing.assert_allclose(
            both.posterior.mu[gps].detach(), alone.posterior.mu.detach(), rtol=1e-9
        )
        np.testing.assert_allclose(
            both.posterior.lower[gps].detach(), alone.posterior.lower.detach(), atol=1e-9
        )
        expected = bound_per_row(alone, *rows, noise_var[gps])
        np.testing.assert_allclose(bounds[gps], expected, rtol=1e-9)


@pytest.mark.parametrize("refined", [False, True])
def test_hyperparameters_of_gps_with_their_own_targets_start_as_those_of_each_alone(rng, refined):
    """The second GP has half of the targets; where they are missing they stand at zero."""
    x = torch.from_numpy(rng.uniform(-3, 3, (60, 2)))
    noise = 0.1 * torch.from_numpy(rng.standard_normal((2, 60)))
    y = torch.stack([torch.sin(2 * x[:, 0]), torch.cos(x[:, 1])]) + noise
    weight = torch.ones(2, 60).double()
    weight[1, ::2] = 0.0
    y = y * weight

    def start(gps: slice, rows: torch.Tensor, weight: torch.Tensor) -> tuple:
        n_gps = len(y[gps])
        kernel = Stationary("rbf", n_gps, 2, 1.0).double()
        Z = x[1::3].expand(n_gps, -1, -1).clone()
        layer = SparseGP(kernel, Z, DeltaPosterior(torch.zeros(n_gps, 20)), 1e-6)
        y_rows = y[gps][:, rows]
        noise_var = start_hyperparameters(layer, x[rows], y_rows, weight, 0.1, refined=refined)
        return noise_var, kernel.lengthscale.detach()

    both = start(slice(None), torch.arange(60), weight)
    for w in range(2):
        kept = weight[w].nonzero()[:, 0]
        alone = start(slice(w, w + 1), kept, weight[w, kept])
        for ours, theirs in zip(both, alone, strict=True):
            # The steps are the same; a search line, where there is one, is that of both.
            np.testing.assert_allclose(ours[w], theirs[0], rtol=0.02 if refined else 1e-6)


def test_posterior_starts_where_the_evidence_bound_equals_the_collapsed_one(problem):
    """A subsample in which every row stands for `weight` rows of the table."""
    kernel, Z, x, y, weight = problem
    noise_var = torch.tensor([0.05, 0.2], dtype=torch.float64)
    layer = SparseGP(kernel, Z, FullPosterior(torch.zeros(2, 5).double(), 0.3), JITTER).double()
    n_data = float(weight.sum())
    start_posterior(layer, x, y, weight / 2.0, noise_var, 2.0)
    likelihood = Gaussian(2, 0.1, 1e-9).double()
    likelihood.start(noise_var)
    batch = Batch(x, Targets(y.mT, None), weight * 12 / n_data)
    value = loss(ELBO, GPStack([layer]), likelihood, trivial(x), batch, beta_reg=1.0, n_data=n_data)
    bound = collapsed_bound(kernel, Z, x, y, weight, noise_var, JITTER).sum()
    assert value.item() == pytest.approx(-bound.item() / n_data, rel=1e-7)


def test_decoupled_mean_starts_at_the_mean_of_the_sparse_posterior(problem):
    kernel, Z, x, y, weight = problem
    noise_var = torch.tensor([0.05, 0.2], dtype=torch.float64)
    zeros = torch.zeros(2, 5).double()
    sparse = SparseGP(kernel, Z, FullPosterior(zeros.clone(), 0.3), JITTER)
    decoupled = DecoupledGP(
        kernel,
        Z.clone(),
        Z[:, :2].clone(),
        DeltaPosterior(zeros.clone()),
        DiagonalPosterior(zeros[:, :2].clone(), 0.3),
        JITTER,
    )
    means = []
    for layer in (sparse, decoupled):
        start_posterior(layer, x, y, weight, noise_var, 1.0)
        means.append(layer.moments(x.unsqueeze(0), layer.factors()).f_mean.detach())
    np.testing.assert_allclose(means[1], means[0], rtol=1e-6, atol=1e-8)
    assert (decoupled.posterior.mu == 0).all()


def test_hyperparameters_start_where_the_bound_is_higher_and_the_noise_right(rng):
    x = torch.from_numpy(rng.uniform(-3, 3, (400, 2)))
    y = (torch.sin(2 * x[:, 0]) + 0.2 * torch.from_numpy(rng.standard_normal(400))).unsqueeze(0)
    kernel = Stationary("rbf", 1, 2, math.sqrt(2)).double()
    layer = SparseGP(kernel, x[None, :40].clone(), DeltaPosterior(torch.zeros(1, 40)), 1e-6)
    weight = torch.ones(400).double()

    def bound(noise_var):
        return collapsed_bound(kernel, layer.Z, x, y, weight, noise_var, 1e-6).item()

    before = bound(torch.tensor([0.135]).double())
    noise_var = start_hyperparameters(layer, x, y, weight, 0.135)
    assert bound(noise_var) > before + 50.0
    assert noise_var.sqrt().item() == pytest.approx(0.2, rel=0.15)
    # The second input does not matter, and its lengthscale says so.
    assert kernel.lengthscale[0, 1] > 3 * kernel.lengthscale[0, 0]


@pytest.mark.parametrize("is_of_all_rows", [False, True])
def test_hyperparameters_of_few_rows_start_at_an_optimum(rng, is_of_all_rows):
    """SciPy finds that of the bound and half of the squares of moves from a short descent.

    If all inputs are inducing inputs, hyperbolic secants around kernel and noise as they were. The
    bound, without jitter, is the log marginal likelihood there.
    """
    x = torch.from_numpy(rng.uniform(-3, 3, (80, 2)))
    y = (torch.sin(2 * x[:, 0]) + 0.1 * torch.from_numpy(rng.standard_normal(80))).unsqueeze(0)
    kernel = Stationary("matern52", 1, 2, math.sqrt(2)).double()
    Z, weight = x[None, :: 1 if is_of_all_rows else 2].clone(), torch.ones(80).double()
    jitter = 1e-12 if is_of_all_rows else 1e-6
    layer = SparseGP(kernel, Z, DeltaPosterior(torch.zeros(1, Z.shape[1])), jitter)
    initial = copy.deepcopy(layer)
    noise_var = start_hyperparameters(layer, x, y, weight, 0.135, refined=True)
    coarse_var = start_hyperparameters(initial, x, y, weight, 0.135)
    expected = np.array([0.5 * math.log(2), 0.5 * math.log(2), 0.0, math.log(0.135)])
    if not is_of_all_rows:
        coarse = [*initial.kernel.parameters(), coarse_var.log()]
        expected = np.concatenate([value.detach().numpy().ravel() for value in coarse])

    other = Stationary("matern52", 1, 2, 1.0).double()
    log_noise = torch.tensor([-3.0]).double().requires_grad_()
    parameters = [*other.parameters(), log_noise]

    def loss(values):
        with torch.no_grad():
            for parameter, part in zip(parameters, np.split(values, [2, 3]), strict=True):
                parameter.copy_(torch.from_numpy(part).reshape(parameter.shape))
        bound = collapsed_bound(other, Z, x, y, weight, log_noise.exp(), jitter).sum()
        gradients = torch.autograd.grad(-bound, parameters)
        moves = values - expected
        prior = np.log(np.cosh(moves)) if is_of_all_rows else 0.5 * moves**2
        slope = np.tanh(moves) if is_of_all_rows else moves
        value = -bound.item() + prior.sum()
        return value, np.concatenate([g.numpy().ravel() for g in gradients]) + slope

    def found(of, var):
        values = [*of.kernel.parameters(), var.log()]
        return loss(np.concatenate([v.detach().numpy().ravel() for v in values]))[0]

    lowest = scipy.optimize.minimize(loss, expected, jac=True, method="L-BFGS-B").fun
    assert found(initial, coarse_var) > lowest + 5.0
    assert found(layer, noise_var) == pytest.approx(lowest, abs=1e-3)


def test_fixed_hyperparameters_start_where_they_are_to_the_last_bit(rng):
    """The rounding of a refined start is not for them."""
    x = torch.from_numpy(rng.uniform(-3, 3, (30, 2)))
    kernel = Stationary("rbf", 1, 2, 1.23456789).double()
    kernel.requires_grad_(False)
    before = [parameter.clone() for parameter in kernel.parameters()]
    layer = SparseGP(kernel, x[None, ::3].clone(), DeltaPosterior(torch.zeros(1, 10)), 1e-6)
    y, weight = torch.sin(x[:, :1]).mT, torch.ones(30).double()
    start_hyperparameters(layer, x, y, weight, 0.135, refined=True)
    for parameter, value in zip(kernel.parameters(), before, strict=True):
        assert torch.equal(parameter, value)


def test_hyperparameters_of_constant_targets_stay_in_bounds(rng):
    x = torch.from_numpy(rng.uniform(-3, 3, (50, 2)))
    kernel = Stationary("rbf", 1, 2, 1.0).double()
    layer = SparseGP(kernel, x[None, :20].clone(), DeltaPosterior(torch.zeros(1, 20)), 1e-4)
    noise_var = start_hyperparameters(
        layer, x, torch.zeros(1, 50).double(), torch.ones(50).double(), 0.1
    )
    assert 1e-4 <= noise_var.item() < 0.04
    assert all(bool(torch.isfinite(p).all()) for p in kernel.parameters())


@pytest.mark.parametrize("n_inputs", [1, 3])
def test_slope_is_the_identity_where_the_widths_agree(rng, n_inputs):
    x = torch.from_numpy(rng.standard_normal((20, n_inputs)))
    np.testing.assert_array_equal(
        start_slope(x, torch.ones(20).double(), n_inputs, seeded(0)), np.eye(n_inputs)
    )


def test_slope_starts_with_the_leading_principal_directions(rng):
    """Right singular vectors of the centred inputs, the strongest first; signs are free."""
    x = rng.standard_normal((50, 4)) @ rng.standard_normal((4, 4)) + [100.0, 0.0, 0.0, -30.0]
    slope = start_slope(torch.from_numpy(x), torch.ones(50).double(), 2, seeded(0)).numpy()
    directions = np.linalg.svd(x - x.mean(0))[2]
    assert slope.shape == (4, 2)
    np.testing.assert_allclose(np.abs(directions[:2] @ slope), np.eye(2), rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_inputs", [1, 2])
def test_slope_goes_on_with_random_unit_vectors_where_outputs_exceed_inputs(rng, n_inputs):
    x = torch.from_numpy(rng.standard_normal((20, n_inputs)) @ np.diag([3.0, 1.0][:n_inputs]))
    weight = torch.ones(20).double()
    first, again, other = (
        start_slope(x, weight, n_inputs + 3, seeded(seed)).numpy() for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(np.linalg.norm(first, axis=0), 1.0, rtol=1e-12)
    directions = np.linalg.svd(x.numpy() - x.numpy().mean(0))[2]
    together = np.abs(directions @ first[:, :n_inputs])
    np.testing.assert_allclose(together, np.eye(n_inputs), rtol=0, atol=1e-10)
    if n_inputs > 1:  # one input leaves no choice but the sign
        assert len(np.unique(first[0])) == n_inputs + 3
        assert (first[:, n_inputs:] != other[:, n_inputs:]).all()


def test_slope_counts_a_row_as_often_as_its_weight(rng):
    x = torch.from_numpy(rng.standard_normal((12, 4)))
    weight = torch.from_numpy(rng.integers(1, 6, 12).astype(float))
    repeated = torch.repeat_interleave(x, weight.long(), 0)
    expected = start_slope(repeated, torch.ones(len(repeated)).double(), 2, seeded(0))
    np.testing.assert_allclose(start_slope(x, weight, 2, seeded(0)), expected, rtol=0, atol=1e-12)
    assert not np.allclose(
        start_slope(x, torch.ones(12).double(), 2, seeded(0)), expected, atol=1e-3
    )


# ---------------------------------------------------------------- latent covariates


@pytest.mark.parametrize("n_covariates", [1, 2, 3])
def test_covariates_start_as_standardised_residuals(n_covariates: int) -> None:
    """Of a regression on weighted rows; uncorrelated, the one of the largest variance first."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((400, 3))
    X -= X.mean(0)
    noise = rng.standard_normal((400, 2)) @ np.array([[1.5, 0.6], [0.0, 0.4]])
    Y = X @ rng.standard_normal((3, 2)) + noise
    Y -= Y.mean(0)
    weight = rng.uniform(0.5, 2.0, 400)
    generator = torch.Generator().manual_seed(0)
    tensors = torch.tensor(X), torch.tensor(Y), torch.tensor(weight)
    weights = start_covariates(*tensors, n_covariates, generator).numpy()
    assert weights.shape == (n_covariates, 5)
    root = np.sqrt(weight)[:, None]
    slope = np.linalg.lstsq(root * X, root * Y, rcond=None)[0]
    residual = Y - X @ slope
    w = np.hstack([X, Y]) @ weights.T
    cov = (weight[:, None] * residual).T @ residual / weight.sum()
    _, directions = np.linalg.eigh(cov)
    for c in range(min(n_covariates, 2)):
        expected = residual @ directions[:, -1 - c]
        expected /= np.sqrt(np.average(expected**2, weights=weight))
        np.testing.assert_allclose(np.abs(w[:, c]), np.abs(expected), rtol=0, atol=0.02)
    known = w[:, :2]
    gram = (weight[:, None] * known).T @ known / weight.sum()
    np.testing.assert_allclose(gram, np.eye(len(gram)), rtol=0, atol=0.01)


def test_covariates_start_beside_a_row_at_the_ends_of_the_inputs() -> None:
    """All columns of one row at 1e9, where inputs are cut off: float64 sees one direction only."""
    X = torch.tensor(np.random.default_rng(0).standard_normal((40, 3)))
    Y = X[:, :1].sin()
    X[3] = 1e9
    weights = start_covariates(X, Y, torch.ones(40).double(), 1, torch.Generator())
    assert torch.isfinite(weights).all()
    assert (X @ weights[:, :3].mT).abs().max() < 1e3


def test_residuals_of_targets_that_are_linear_are_not_magnified() -> None:
    X = torch.tensor(np.random.default_rng(0).standard_normal((50, 2)))
    weights = start_covariates(X, X[:, :1], torch.ones(50).double(), 1, torch.Generator())
    w = torch.cat([X, X[:, :1]], 1) @ weights.mT
    assert w.abs().max() < 0.1


def test_gps_that_share_a_kernel_start_as_gps_with_equal_kernels(problem):
    """The steps on the hyper-parameters differ, for a shared kernel sees the sum of the bounds."""
    _, Z, x, y, weight = problem
    layers = []
    for n_kernels in (1, 2):
        kernel = Stationary("rbf", n_kernels, 2, 1.3).double()
        posterior = FullPosterior(torch.zeros(2, 5, dtype=torch.float64), 0.1)
        Z0 = Z[:1].expand(n_kernels, -1, -1).clone()
        n_sharing = 2 if n_kernels == 1 else None
        layers.append(SparseGP(kernel, Z0, posterior, JITTER, n_sharing).double())
    noise_var = torch.tensor([0.05, 0.2], dtype=torch.float64)
    for layer in layers:
        start_posterior(layer, x, y, weight, noise_var, 1.3)
    moments = [layer.moments(x.unsqueeze(0), layer.factors()) for layer in layers]
    for name in ("f_mean", "f_var"):
        shared, separate = (getattr(latent, name).detach() for latent in moments)
        np.testing.assert_allclose(shared, separate, atol=1e-10)
    fitted = start_hyperparameters(layers[0], x, y, weight, 0.1)
    assert fitted.shape == (2,)
    bounds = [
        collapsed_bound(kernel, Z[:1], x, y, weight, noise, JITTER).sum()
        for kernel, noise in (
            (layers[0].kernel, fitted),
            (Stationary("rbf", 1, 2, 1.3).double(), torch.full_like(fitted, 0.1)),
        )
    ]
    assert bounds[0] > bounds[1] + 1.0


def test_posterior_of_rows_that_nearly_coincide_starts_small_however_much_they_weigh() -> None:
    """Two rows 1e-5 apart with opposite targets: to meet both takes whitened values of 1e5."""
    x = torch.tensor([[0.0], [1e-5]], dtype=torch.float64)
    y = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    noise_var = torch.tensor([0.1], dtype=torch.float64)
    sizes = []
    for weight in (1e2, 1e4, 1e12):
        kernel = Stationary("rbf", 1, 1, 1.0).double()
        posterior = FullPosterior(torch.zeros(1, 2).double(), 0.3)
        layer = SparseGP(kernel, x[None].clone(), posterior, 1e-12).double()
        start_posterior(layer, x, y, torch.ones(2).double(), noise_var, weight)
        sizes.append(layer.posterior.mu.abs().max().item())
    assert sizes[0] < sizes[1] == sizes[2] < 10.0


def test_a_refined_start_finds_that_there_is_no_noise(rng):
    """Down to a millionth of the variance of the targets."""
    x = torch.from_numpy(rng.uniform(-1.0, 1.0, (80, 1)))
    kernel = Stationary("rbf", 1, 1, 1.0).double()
    posterior = FullPosterior(torch.zeros(1, 80, dtype=torch.float64), 1.0)
    layer = SparseGP(kernel, x.clone().unsqueeze(0), posterior, 1e-8).double()
    weight = torch.ones(80, dtype=torch.float64)
    noise_var = start_hyperparameters(layer, x, torch.sin(2.0 * x).mT, weight, 0.1, refined=True)
    assert 1e-6 <= noise_var.item() < 1e-5
