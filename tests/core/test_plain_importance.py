"""Plain importance weighting: the bound that draws the top layer too (paper, Eqns 5 to 7)."""

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from oracles.latent import random_latent_stack
from oracles.models import dense_gps, normal, random_likelihood, to_array
from oracles.sparse import layer_moments, posterior_covariance
from scipy.special import logsumexp
from scipy.stats import norm

from skgp.core.data import Batch, Targets
from skgp.core.layers.sparse import SparseGP
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.objectives.importance import latent_loss
from skgp.core.objectives.objective import Objective, importance_weighted, plainly_weighted
from skgp.core.stacks.latent_stack import LatentStack

Array = npt.NDArray[np.float64]
N_DRAWS = 20_000


def batch_of(rng: np.random.Generator, n_rows: int, n_outputs: int = 1) -> Batch:
    targets = Targets(normal(rng, n_rows, n_outputs), None)
    return Batch(normal(rng, n_rows, 2), targets, None, torch.arange(n_rows))


def loss(
    objective: Objective, stack: LatentStack, likelihood: Gaussian, batch: Batch, n_samples: int
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    parts = objective, stack, likelihood, batch, generator
    return latent_loss(*parts, n_samples=n_samples, beta_reg=0.0, n_data=1.0)


def draws(
    objective: Objective, stack: LatentStack, likelihood: Gaussian, batch: Batch
) -> tuple[float, float]:
    """Mean and standard error of the bound over draws, per row."""
    with torch.no_grad():
        generator = torch.Generator().manual_seed(1)
        values = [
            -latent_loss(
                objective, stack, likelihood, batch, generator, n_samples=N_DRAWS // 100,
                beta_reg=0.0, n_data=1.0,
            ).item()
            for _ in range(100)
        ]  # fmt: skip
    return float(np.mean(values)), float(np.std(values, ddof=1)) / 10.0


@pytest.mark.parametrize("n_importance", [3])
def test_one_function_serves_all_covariates_of_a_row(
    rng: np.random.Generator, n_importance: int
) -> None:
    """E log 1/K sum_k p(y | f(x, w_k)) p(w_k) / q(w_k), w and f drawn by NumPy, f jointly."""
    stack, likelihood = random_latent_stack(rng, "LV-GP"), random_likelihood(rng, 1)
    batch = batch_of(rng, 1)
    x, y = to_array(batch.x)[0], batch.targets.y.item()
    assert isinstance(stack.top, SparseGP)
    (gp,) = dense_gps(stack.top)
    posterior = stack.hidden[0].posterior
    centre, spread = posterior.mean[0].item(), math.exp(posterior.log_std[0].item())
    deviation = math.sqrt(likelihood.noise_var.item())
    expected = np.empty(N_DRAWS // 8)
    for n in range(len(expected)):
        w = centre + spread * rng.standard_normal(n_importance)
        seen = np.column_stack([np.tile(x, (n_importance, 1)), w])
        root = np.linalg.cholesky(posterior_covariance(gp, seen) + 1e-10 * np.eye(n_importance))
        f = layer_moments([gp], seen).f_mean[:, 0] + root @ rng.standard_normal(n_importance)
        ratio = norm.logpdf(w) - norm.logpdf(w, centre, spread)
        terms = norm.logpdf(y, f, deviation) + ratio
        expected[n] = logsumexp(terms) - math.log(n_importance)
    mean, error = draws(plainly_weighted(n_importance), stack, likelihood, batch)
    theirs = expected.std(ddof=1) / math.sqrt(len(expected))
    assert abs(mean - expected.mean()) < 4.0 * math.hypot(error, theirs)


@pytest.mark.parametrize("architecture", ["LV-GP", "LV-GP-GP", "GP-LV-GP"])
def test_with_one_weight_only_the_noise_of_the_estimate_differs(
    rng: np.random.Generator, architecture: str
) -> None:
    """E_f log p(y | f) is the closed form's, of rows and outputs whose variances differ."""
    stack = random_latent_stack(rng, architecture, n_latents=2)
    likelihood, batch = random_likelihood(rng, 2), batch_of(rng, 2, 2)
    with torch.no_grad():
        stack.top.kernel.log_variance.copy_(torch.tensor([-3.0, 1.0]))
        likelihood.log_excess_noise.copy_(torch.tensor([-2.0, 0.0]))
        batch.x[1] += 30.0  # far from the inducing inputs
    batch = batch._replace(weight=torch.tensor([1.9, 0.1]).double())
    (closed, its), (drawn, error) = (
        draws(objective, stack, likelihood, batch)
        for objective in (importance_weighted(1), plainly_weighted(1))
    )
    assert abs(closed - drawn) < 4.0 * math.hypot(error, its)
    assert error > its


def test_drawing_the_functions_makes_the_bound_tighter(rng: np.random.Generator) -> None:
    """log-sum-exp is convex: its mean over f is not below its value at the mean terms (Eqn 11)."""
    stack, likelihood = random_latent_stack(rng, "LV-GP-GP"), random_likelihood(rng, 1)
    batch = batch_of(rng, 1)
    (closed, its), (drawn, error) = (
        draws(objective, stack, likelihood, batch)
        for objective in (importance_weighted(5), plainly_weighted(5))
    )
    assert drawn - closed > 4.0 * math.hypot(error, its)


def test_gradient_by_finite_differences(rng: np.random.Generator) -> None:
    """At given draws, along a direction in all parameters."""
    stack, likelihood = random_latent_stack(rng, "LV-GP-GP"), random_likelihood(rng, 1)
    batch = batch_of(rng, 4)
    parameters = [*stack.parameters(), *likelihood.parameters()]
    directions = [normal(rng, *p.shape) for p in parameters]
    value = loss(plainly_weighted(3), stack, likelihood, batch, 2)
    slopes = torch.autograd.grad(value, parameters, allow_unused=True)
    slope = sum((g * d).sum() for g, d in zip(slopes, directions, strict=True) if g is not None)
    step, ends = 1e-6, []
    with torch.no_grad():
        for sign in (1.0, -2.0):
            for p, d in zip(parameters, directions, strict=True):
                p.add_(sign * step * d)
            ends.append(loss(plainly_weighted(3), stack, likelihood, batch, 2).item())
    assert slope.item() == pytest.approx((ends[0] - ends[1]) / (2.0 * step), rel=1e-4)
