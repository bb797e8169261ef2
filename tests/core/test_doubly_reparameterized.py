"""Doubly reparameterised gradients of the importance-weighted bound: mean, variance and limits."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from oracles.latent import random_latent_stack
from oracles.models import normal, random_likelihood, to_array

from skgp.core.data import Batch, Targets
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.objectives.importance import latent_loss
from skgp.core.objectives.objective import importance_weighted
from skgp.core.stacks.latent_stack import LatentCovariates, LatentStack

Array = npt.NDArray[np.float64]


def batch_of(rng: np.random.Generator, n_rows: int = 2) -> Batch:
    targets = Targets(normal(rng, n_rows, 1), None)
    return Batch(normal(rng, n_rows, 2), targets, None, torch.arange(n_rows))


def of_covariates(stack: LatentStack) -> set[str]:
    """Names of the parameters of q(w)."""
    modules = {i for i, block in enumerate(stack.hidden) if isinstance(block, LatentCovariates)}
    return {
        name
        for name, _ in stack.named_parameters()
        if name.startswith("hidden") and int(name.split(".")[1]) in modules
    }


def gradients(
    stack: LatentStack,
    likelihood: Gaussian,
    batch: Batch,
    *,
    doubly: bool,
    n_importance: int = 4,
    n_samples: int = 1,
    seed: int = 0,
) -> tuple[float, dict[str, Array]]:
    """The loss and its gradient, by name."""
    stack.zero_grad()
    objective = importance_weighted(n_importance, doubly_reparameterized=doubly)
    generator = torch.Generator().manual_seed(seed)
    parts = objective, stack, likelihood, batch, generator
    loss = latent_loss(*parts, n_samples=n_samples, beta_reg=0.5, n_data=9.0)
    loss.backward()
    found = {n: to_array(p.grad) for n, p in stack.named_parameters() if p.grad is not None}
    return loss.item(), found


@pytest.mark.parametrize("n_importance", [1, 6])
def test_vanishes_where_q_is_the_posterior(rng: np.random.Generator, n_importance: int) -> None:
    """Of covariates that no function sees the posterior is the prior, for every draw."""
    stack = random_latent_stack(rng, "LV-GP")
    with torch.no_grad():
        stack.top.kernel.log_lengthscale[:, -1] = 30.0
        for name, parameter in stack.named_parameters():
            if name in of_covariates(stack):
                parameter.zero_()
    parts = stack, random_likelihood(rng, 1), batch_of(rng)
    for doubly in (False, True):
        found = gradients(*parts, doubly=doubly, n_importance=n_importance)[1]
        largest = max(np.abs(found[name]).max() for name in of_covariates(stack))
        assert largest < 1e-12 if doubly else largest > 1e-2


@pytest.mark.parametrize("architecture", ["LV-GP", "GP-LV-GP", "LV-GP-GP", "LV-GP-LV-GP"])
def test_only_the_gradient_of_q_differs(rng: np.random.Generator, architecture: str) -> None:
    """The value is the same, and so is the gradient in the parameters that q(w) does not have."""
    stack = random_latent_stack(rng, architecture)
    parts = stack, random_likelihood(rng, 1), batch_of(rng)
    usual, doubly = (gradients(*parts, doubly=d, n_samples=2) for d in (False, True))
    np.testing.assert_allclose(doubly[0], usual[0], rtol=1e-12)
    own = of_covariates(stack)
    assert own
    assert own < set(usual[1])
    for name in set(usual[1]) - own:
        np.testing.assert_allclose(doubly[1][name], usual[1][name], rtol=1e-6, atol=1e-9)
    for name in own:
        assert np.abs(doubly[1][name] - usual[1][name]).max() > 1e-3


@pytest.mark.parametrize("architecture", ["LV-GP", "LV-GP-GP"])
def test_has_the_mean_of_the_usual_gradient(rng: np.random.Generator, architecture: str) -> None:
    compare_means(random_latent_stack(rng, architecture), rng, n_draws=40, n_samples=300)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["LV-GP-GP", "LV-GP-LV-GP", "LV-GP-GP-GP"])
def test_has_the_mean_of_the_usual_gradient_with_many_draws(
    rng: np.random.Generator, architecture: str
) -> None:
    compare_means(random_latent_stack(rng, architecture), rng, n_draws=200, n_samples=1000)


def compare_means(
    stack: LatentStack, rng: np.random.Generator, *, n_draws: int, n_samples: int
) -> None:
    """Differences between the means over draws, in standard errors."""
    parts = stack, random_likelihood(rng, 1), batch_of(rng)
    draws: list[list[dict[str, Array]]] = [
        [
            gradients(*parts, doubly=doubly, n_samples=n_samples, seed=2 * i + doubly)[1]
            for i in range(n_draws)
        ]
        for doubly in (False, True)
    ]
    for name in of_covariates(stack):
        usual, doubly = (np.stack([g[name][:2] for g in of_one]) for of_one in draws)
        error = np.sqrt((usual.var(0, ddof=1) + doubly.var(0, ddof=1)) / n_draws)
        z = (doubly.mean(0) - usual.mean(0)) / error
        assert np.abs(z).max() < 4.0, name


def test_has_less_noise_for_many_covariates(rng: np.random.Generator) -> None:
    """The ratio of noise to signal falls with K, where that of the usual gradient rises."""
    stack = random_latent_stack(rng, "LV-GP")
    with torch.no_grad():
        for name, parameter in stack.named_parameters():
            if name in of_covariates(stack):
                parameter.fill_(0.3)  # wider than the posterior: ratios have a variance
    parts = stack, random_likelihood(rng, 1), batch_of(rng, 1)
    ratios = {
        (doubly, n_importance): noise_to_signal(parts, doubly=doubly, n_importance=n_importance)
        for doubly in (False, True)
        for n_importance in (4, 200)
    }
    assert ratios[True, 200] < 0.5 * ratios[True, 4]
    assert ratios[False, 200] > ratios[False, 4]
    assert ratios[True, 200] < 0.1 * ratios[False, 200]


def noise_to_signal(
    parts: tuple[LatentStack, Gaussian, Batch], *, doubly: bool, n_importance: int
) -> float:
    """Standard deviation over mean of the gradient in the mean of q(w) of the first row."""
    name = next(n for n in of_covariates(parts[0]) if n.endswith("mean"))
    found = [
        gradients(*parts, doubly=doubly, n_importance=n_importance, seed=seed)[1][name][0, 0]
        for seed in range(100)
    ]
    return float(np.std(found) / abs(np.mean(found)))
