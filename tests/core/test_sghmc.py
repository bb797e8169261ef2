"""Sampled parameters against known normals, gradient descent with momentum, and the exact GP.

Many chains run side by side as coordinates of one, so that standard errors are those of independent
draws.
"""

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracles.models import normal, random_kernel, to_array
from torch import Tensor, nn

from skgp.core.data import Batch, Targets
from skgp.core.layers.posteriors import DeltaPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.nodes.rules import trivial
from skgp.core.objectives.objective import ELBO, loss
from skgp.core.stacks.stack import GPStack
from skgp.core.training.markov_chain import Chain
from skgp.core.training.optimizers import Adam
from skgp.core.training.sghmc import SGHMC

ALPHA = 0.2


def closure_of(energy: Callable[[], Tensor], parameters: list[nn.Parameter]) -> Any:
    def closure() -> Tensor:
        for parameter in parameters:
            parameter.grad = None
        value = energy()
        value.backward()
        return value

    return closure


def make_sampler(
    v: nn.Parameter, *, n_kept: int = 1, thinning: int = 1, **kwargs: Any
) -> tuple[SGHMC, nn.Parameter]:
    """A sampler of v alone, and the parameter that its other optimiser would move."""
    other = nn.Parameter(torch.zeros(1, dtype=v.dtype))
    options = {"step_size": 0.3, "friction": ALPHA, "n_burn_in": 0} | kwargs
    chain = Chain(v.detach().flatten(), n_kept, thinning, seed=0)
    return SGHMC([v], chain, Adam([other], 0.1), 1.0, **options), other


def moments_after(
    precision: Tensor, mean: Tensor, n_chains: int, n_steps: int, **options: Any
) -> tuple[Any, Any]:
    """Mean and covariance over chains of their last positions, for N(mean, precision^-1)."""
    v = nn.Parameter(torch.zeros(n_chains, len(mean), dtype=torch.float64))
    sampler, _ = make_sampler(v, **options)

    def energy() -> Tensor:
        return 0.5 * ((v - mean) @ precision * (v - mean)).sum()

    for _ in range(n_steps):
        sampler.step(closure_of(energy, [v]), 0.0)
    return to_array(v).mean(0), np.cov(to_array(v).T)


def assert_moments(actual: tuple[Any, Any], mean: Any, covariance: Any, n: int) -> None:
    """Within five standard errors."""
    variance = np.diag(covariance)
    assert (np.abs(actual[0] - mean) < 5.0 * np.sqrt(variance / n)).all()
    error = np.sqrt((np.outer(variance, variance) + covariance**2) / n)
    assert (np.abs(actual[1] - covariance) < 5.0 * error).all()


PRECISION = torch.tensor([[2.0, 1.2], [1.2, 3.0]], dtype=torch.float64)
MEAN = torch.tensor([0.7, -1.5], dtype=torch.float64)


def test_a_normal_target_has_its_moments_but_for_the_length_of_the_steps() -> None:
    """With h = eps^2 the steps themselves have the covariance (P (1 - h P / (2 (2 - alpha))))^-1.

    From the recursion v'' = (2 - alpha - h P) v' - (1 - alpha) v + noise in each eigendirection.
    """
    n, step_size = 20_000, 0.6
    actual = moments_after(PRECISION, MEAN, n, 200, step_size=step_size)
    P = to_array(PRECISION)
    shortened = P - step_size**2 * P @ P / (2.0 * (2.0 - ALPHA))
    assert_moments(actual, to_array(MEAN), np.linalg.inv(shortened), n)


def test_small_steps_sample_the_target() -> None:
    n = 5000
    actual = moments_after(PRECISION, MEAN, n, 600, step_size=0.1)
    assert_moments(actual, to_array(MEAN), np.linalg.inv(to_array(PRECISION)), n)


def test_scaled_steps_sample_the_target() -> None:
    """Directions of very different curvature, of which burn-in learns the scales."""
    precision = torch.diag(torch.tensor([1.0, 1e4], dtype=torch.float64))
    precision[0, 1] = precision[1, 0] = 60.0
    n = 5000
    actual = moments_after(precision, MEAN, n, 1500, step_size=0.05, n_burn_in=500)
    assert_moments(actual, to_array(MEAN), np.linalg.inv(to_array(precision)), n)


def test_noise_in_the_gradients_counts_as_noise() -> None:
    """Its part of the variance is taken off; without that the target would be hotter by 45%."""
    n, step_size, noise_std = 20_000, 0.055, 60.0
    generator = torch.Generator().manual_seed(0)
    v = nn.Parameter(torch.zeros(n, 1, dtype=torch.float64))
    sampler, _ = make_sampler(v, step_size=step_size, n_burn_in=500)

    def energy() -> Tensor:
        xi = torch.randn(v.shape, generator=generator, dtype=v.dtype)
        return (0.5 * 100.0 * v.square() + noise_std * xi * v).sum()

    for _ in range(1000):
        sampler.step(closure_of(energy, [v]), 0.0)
    # eps^4 B / V against 2 eps^2 alpha V^-1/2, for V = B + 100
    added = step_size**2 * noise_std**2 / (2.0 * ALPHA * math.sqrt(noise_std**2 + 100.0))
    assert 0.4 < added < 0.5
    assert to_array(v).var() * 100.0 == pytest.approx(1.0, rel=0.05)


def test_without_noise_it_is_gradient_descent_with_momentum(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        torch, "randn", lambda shape, **kwargs: torch.zeros(shape, dtype=torch.float64)
    )
    v = nn.Parameter(normal(rng, 5))
    w = nn.Parameter(v.detach().clone())
    sampler, _ = make_sampler(v)
    descent = torch.optim.SGD([w], lr=0.3**2, momentum=1.0 - ALPHA)
    for _ in range(20):
        value = sampler.step(closure_of(lambda: torch.cosh(v).sum(), [v]), 0.0)
        desired = closure_of(lambda: torch.cosh(w).sum(), [w])()
        assert value == pytest.approx(desired.item(), rel=1e-12)
        descent.step()
        np.testing.assert_allclose(to_array(v), to_array(w), rtol=1e-12)


def test_exact_posterior_of_a_gp(rng: np.random.Generator) -> None:
    """Z = X: over independent chains f at new inputs has the exact mean and variance."""
    n, n_chains, noise = 6, 3000, 0.2
    x, x_new = normal(rng, n, 1), normal(rng, 4, 1)
    y = normal(rng, n)
    one = random_kernel(rng, "matern52", 1, 1)
    kernel = random_kernel(rng, "matern52", n_chains, 1)
    with torch.no_grad():
        kernel.log_lengthscale.copy_(one.log_lengthscale.expand(n_chains, -1))
        kernel.log_variance.copy_(one.log_variance.expand(n_chains))
    posterior = DeltaPosterior(torch.zeros(n_chains, n, dtype=torch.float64))
    layer = SparseGP(kernel, x.expand(n_chains, -1, -1).clone(), posterior, 1e-10).double()
    stack, likelihood = GPStack([layer]), Gaussian(n_chains, noise, 1e-6).double()
    targets = Targets(y.unsqueeze(-1).expand(-1, n_chains), None)
    nodes = trivial(x)
    for parameter in [*stack.parameters(), *likelihood.parameters()]:
        parameter.requires_grad_(parameter is posterior.mu)
    v = posterior.mu
    chain = Chain(v.detach().flatten(), 1, 1, seed=0)
    sampler = SGHMC(
        [v], chain, Adam([nn.Parameter(torch.zeros(1))], 0.1), float(n),
        step_size=0.1, friction=ALPHA, n_burn_in=200,
    )  # fmt: skip

    def energy() -> Tensor:
        return loss(ELBO, stack, likelihood, nodes, Batch(x, targets, None), beta_reg=1.0, n_data=n)

    for _ in range(500):
        sampler.step(closure_of(energy, [v]), 0.0)
    latent = stack(x_new, nodes, stack.factors())
    f, v_prior = to_array(latent.f_mean)[0], to_array(latent.v_prior)[0]
    variance = float(kernel.variance[0].detach())
    rows = torch.cat([x, x_new])
    K = variance * to_array(one.Kuf(rows.unsqueeze(0), rows))[0]
    gain = np.linalg.solve(K[:n, :n] + noise * np.eye(n), K[:n, n:]).T
    mean, cov = gain @ to_array(y), K[n:, n:] - gain @ K[:n, n:]
    exact = np.diag(cov)
    assert (np.abs(f.mean(1) - mean) < 5.0 * np.sqrt(exact / n_chains)).all()
    sampled = f.var(1) + v_prior.mean(1)
    assert (np.abs(sampled - exact) < 5.0 * exact * math.sqrt(2.0 / n_chains)).all()


def test_others_step_at_positions_kept() -> None:
    """Each gradient of the others is one at a position of the window, and v comes back."""
    v = nn.Parameter(torch.zeros(2, dtype=torch.float64))
    sampler, other = make_sampler(v, n_kept=3, thinning=2)
    seen = []

    def energy() -> Tensor:
        seen.append(v.detach().clone())
        return 0.5 * v.square().sum() + (other - v.sum()).square().sum()

    chain = sampler._chain
    for number in range(1, 12):
        seen.clear()
        sampler.step(closure_of(energy, [v, other]), 1.0)
        assert len(seen) == 2
        assert chain.n_filled == min(number // 2, 3)
        if number > 1:
            kept = chain.kept[: chain.n_filled]
            assert (kept == seen[1]).all(-1).any()
        if number % 2 == 0:
            assert torch.equal(chain.kept[(number // 2 - 1) % 3], v.detach())
    assert other.item() != 0.0
    before = other.item()
    seen.clear()
    sampler.step(closure_of(energy, [v, other]), 0.0)
    assert len(seen) == 1
    assert other.item() == before


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))],
    ids=["deepcopy", "pickle"],
)
def test_a_copy_goes_on_as_the_original(copied: Any) -> None:
    chain = Chain(torch.zeros(3), 2, 1, seed=0)
    v = nn.Parameter(torch.zeros(3))
    options = {"step_size": 0.1, "friction": ALPHA, "n_burn_in": 5}
    pairs = [(v, chain), copied((v, chain))]

    def run(v: nn.Parameter, chain: Chain, n_steps: int) -> Any:
        sampler = SGHMC([v], chain, Adam([nn.Parameter(torch.zeros(1))], 0.1), 1.0, **options)
        for _ in range(n_steps):
            sampler.step(closure_of(lambda: v.cosh().sum(), [v]), 0.0)
        return to_array(v)

    np.testing.assert_array_equal(run(*pairs[0], 8), run(*pairs[1], 8))
    state = copy.deepcopy(chain.state_dict()), v.detach().clone()
    onwards = run(v, chain, 4)
    chain.load_state_dict(state[0])  # a rollback
    with torch.no_grad():
        v.copy_(state[1])
    np.testing.assert_array_equal(run(v, chain, 4), onwards)
    other = Chain(torch.zeros(3), 2, 1, seed=1)
    assert (run(nn.Parameter(torch.zeros(3)), other, 8) != run(*copied((v, chain)), 1)).all()


def test_running_means_are_those_of_a_loop(rng: np.random.Generator) -> None:
    chain = Chain(torch.zeros(2, dtype=torch.float64), 1, 1, seed=0)
    mean, square, noise, tau, last = np.zeros(2), np.ones(2), np.zeros(2), np.ones(2), np.zeros(2)
    for _ in range(10):
        gradient = normal(rng, 2)
        chain.adapt(gradient)
        g = to_array(gradient)
        for k in range(2):
            r = 1.0 / (tau[k] + 1.0)
            mean[k] = (1.0 - r) * mean[k] + r * g[k]
            square[k] = (1.0 - r) * square[k] + r * g[k] ** 2
            noise[k] = (1.0 - r) * noise[k] + r * 0.5 * (g[k] - last[k]) ** 2
            tau[k] = 1.0 + tau[k] * (1.0 - mean[k] ** 2 / square[k])
        last = g
    for name, values in {"mean": mean, "square": square, "noise": noise, "tau": tau}.items():
        np.testing.assert_allclose(to_array(getattr(chain, name)), values, rtol=1e-12)


def test_shorter_steps_are_those_of_a_sampler_that_starts_with_them() -> None:
    def run(step_size: float, rate: float, factor: float | None) -> Any:
        v, other = (nn.Parameter(torch.zeros(3, dtype=torch.float64)) for _ in range(2))
        chain = Chain(v.detach(), 2, 1, seed=0)
        options = {"step_size": step_size, "friction": ALPHA, "n_burn_in": 2}
        sampler = SGHMC([v], chain, Adam([other], rate), 1.0, **options)
        if factor is not None:
            sampler.shorten(factor)
        for _ in range(5):
            sampler.step(closure_of(lambda: (v + other - 1.0).cosh().sum(), [v, other]), 1.0)
        return np.concatenate([to_array(v), to_array(other)])

    np.testing.assert_allclose(run(0.3, 0.1, 0.5), run(0.15, 0.05, None), rtol=1e-12)
    assert (run(0.3, 0.1, 0.5) != run(0.3, 0.1, None)).all()
