"""A continuous mixture of nodes: densities by loops, its two limits, moments, gradients."""

import math

import numpy as np
import pytest
import torch
from oracles.deep import random_stack, stack_mixture
from oracles.models import normal, random_likelihood, to_array
from torch import Tensor

from skgp.core.data import Batch, Targets
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.nodes.continuous import ContinuousNodes
from skgp.core.nodes.rules import NodeRule, Sampled
from skgp.core.nodes.sigma_points import LearnedNodes
from skgp.core.numerics.draws import make_generator, make_seed, sobol_normals
from skgp.core.objectives.objective import PREDICTIVE, loss
from skgp.core.stacks.stack import GPStack

STEP = 7
Array = np.ndarray


def moved(
    rng: np.random.Generator,
    widths: list[int],
    n_sites: int = 3,
    n_draws: int = 1,
    n_fixed: int = 4,
) -> ContinuousNodes:
    """A rule somewhere else than where it starts."""
    rule = ContinuousNodes(widths, n_sites, 5, n_draws, n_fixed)
    with torch.no_grad():
        for parameter in rule.parameters():
            parameter.add_(0.4 * normal(rng, *parameter.shape))
    return rule


def placed(rule: ContinuousNodes, z: Array) -> tuple[list[Array], list[float]]:
    """Nodes c_s + t_s z and their weights, K of each component one after the other, by loops."""
    centres, spreads = to_array(rule.centres), np.exp(to_array(rule.log_spreads))
    omega = np.exp(to_array(rule.logits))
    n_sites, n_each = len(omega), len(z) // len(omega)
    xi, weights = [], []
    for s in range(n_sites):
        for k in range(n_each):
            xi.append(centres[s] + spreads[s] * z[s * n_each + k])
            weights.append(omega[s] / omega.sum() / n_each)
    return xi, weights


def training_loss(
    stack: GPStack, likelihood: Gaussian, rule: NodeRule, batch: Batch, step: int | None
) -> Tensor:
    nodes = rule(len(batch.x), step)
    return loss(PREDICTIVE, stack, likelihood, nodes, batch, beta_reg=0.3, n_data=20.0)


def some_batch(rng: np.random.Generator) -> Batch:
    return Batch(normal(rng, 4, 3), Targets(normal(rng, 4, 1), None), None)


@pytest.mark.parametrize("step", [None, STEP], ids=["prediction", "training"])
@pytest.mark.parametrize("widths", [[2], [2, 1]])
def test_log_density_against_loops_over_the_nodes_of_each_component(
    rng: np.random.Generator, widths: list[int], step: int | None
) -> None:
    """log sum_s omega_s / K sum_k N(y; f_mean(h_sk), f_var(h_sk) + noise)."""
    stack, likelihood = random_stack(rng, [*widths, 1]), random_likelihood(rng, 1)
    rule = moved(rng, widths, n_draws=2)
    batch, C = some_batch(rng), sum(widths)
    if step is None:  # the same for all rows
        z = to_array(sobol_normals(12, C, make_seed(5, "fixed")))[:, None]
    else:
        generator = make_generator(5, "step", step)
        z = to_array(torch.randn(6, 4, C, generator=generator, dtype=torch.float64))
    xi, weights = placed(rule, z)
    of_layers = np.split(np.stack(xi), np.cumsum(widths)[:-1], -1)
    naive = stack_mixture(stack, likelihood, to_array(batch.x), of_layers, np.array(weights))
    nodes = rule(4, step)
    latent = stack(batch.x, nodes, stack.factors())
    terms = PREDICTIVE.term(likelihood, latent, batch.targets)
    np.testing.assert_allclose(
        to_array(PREDICTIVE.reduce(terms, nodes.log_omega)),
        naive.log_density(to_array(batch.targets.y)),
        rtol=0,
        atol=1e-9,
    )


@pytest.mark.parametrize("step", [None, STEP], ids=["prediction", "training"])
def test_without_spread_it_is_qr3(rng: np.random.Generator, step: int | None) -> None:
    """Loss and gradients: of centres as of nodes, of weights, and of all that is in the stack."""
    stack, likelihood = random_stack(rng, [2, 1]), random_likelihood(rng, 1)
    rule, qr3 = moved(rng, [2], n_draws=2), LearnedNodes([2], 3, 0)
    with torch.no_grad():
        rule.log_spreads.fill_(-math.inf)
        qr3.xi.copy_(rule.centres)
        qr3.logits.copy_(rule.logits)
    batch = some_batch(rng)
    others = [*stack.parameters(), *likelihood.parameters()]

    def parts(nodes: NodeRule, *own: Tensor) -> list[Array]:
        value = training_loss(stack, likelihood, nodes, batch, step)
        gradients = torch.autograd.grad(value, [*own, *others])
        return [to_array(part) for part in (value, *gradients)]

    ours, theirs = parts(rule, rule.centres, rule.logits), parts(qr3, qr3.xi, qr3.logits)
    assert np.abs(ours[1]).min() > 1e-6
    for actual, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("step", [None, STEP], ids=["prediction", "training"])
def test_one_component_starts_as_a_sampled_deep_gp(
    rng: np.random.Generator, step: int | None
) -> None:
    """Centre zero and unit spread, with the same draws: loss and gradients of the stack."""
    stack, likelihood = random_stack(rng, [2, 1, 1]), random_likelihood(rng, 1)
    rule, sampled = ContinuousNodes([2, 1], 1, 5, 6, 8), Sampled([2, 1], 6, 8, 5)
    batch = some_batch(rng)
    parameters = [*stack.parameters(), *likelihood.parameters()]
    values = [training_loss(stack, likelihood, nodes, batch, step) for nodes in (rule, sampled)]
    np.testing.assert_allclose(values[0].item(), values[1].item(), rtol=1e-13)
    gradients = [torch.autograd.grad(value, parameters) for value in values]
    for actual, expected in zip(*gradients, strict=True):
        np.testing.assert_allclose(to_array(actual), to_array(expected), rtol=1e-9, atol=1e-12)


def moments(rule: ContinuousNodes) -> tuple[Array, Array]:
    """Mean (C,) and raw second moments (C, C) of the nodes of a prediction."""
    xi, omega = to_array(rule.points()), to_array(rule.log_weights().exp())
    return omega @ xi, xi.T @ (omega[:, None] * xi)


def test_moments_of_fixed_nodes_approach_those_of_the_mixture(rng: np.random.Generator) -> None:
    """sum omega c and sum omega (diag(t^2) + c c^T): 64 times the nodes, a tenth of the error."""
    errors = []
    for n_fixed in (16, 1024):
        rule = moved(np.random.default_rng(0), [2, 1], n_fixed=n_fixed)
        c, t = to_array(rule.centres), np.exp(to_array(rule.log_spreads))
        omega = np.exp(to_array(rule.logits))
        omega = omega / omega.sum()
        mean = sum(w * centre for w, centre in zip(omega, c, strict=True))
        second = sum(
            w * (np.diag(spread**2) + np.outer(centre, centre))
            for w, centre, spread in zip(omega, c, t, strict=True)
        )
        actual = moments(rule)
        errors.append(max(np.abs(actual[0] - mean).max(), np.abs(actual[1] - second).max()))
    assert errors[0] < 0.2
    assert errors[1] < 0.1 * errors[0]


@pytest.mark.parametrize(("n_sites", "widths"), [(10, [3]), (3, [2, 1]), (1, [2])])
def test_mixture_starts_with_the_moments_of_a_standard_normal(
    n_sites: int, widths: list[int]
) -> None:
    """Means and variances by the closed form; covariances where matched nodes have none."""
    rule = ContinuousNodes(widths, n_sites, 0)
    c, t = to_array(rule.centres), np.exp(to_array(rule.log_spreads))
    np.testing.assert_allclose(c.mean(0), 0.0, atol=1e-12)
    second = c.T @ c / n_sites + np.diag((t**2).mean(0))
    np.testing.assert_allclose(np.diag(second), 1.0, rtol=1e-12)
    if n_sites > sum(widths):
        np.testing.assert_allclose(second, np.eye(sum(widths)), atol=1e-12)


def test_gradients_of_a_step_by_finite_differences(rng: np.random.Generator) -> None:
    """Of the loss in centres, log spreads and weights; the draws of a step stay as they are."""
    stack, likelihood = random_stack(rng, [2, 1]), random_likelihood(rng, 1)
    rule, batch = moved(rng, [2], n_draws=2), some_batch(rng)
    parameters = dict(rule.named_parameters())
    assert set(parameters) == {"centres", "log_spreads", "logits"}
    for step in (None, STEP):

        def value(*values: Tensor, step: int | None = step) -> Tensor:
            pairs = dict(zip(parameters, values, strict=True))
            nodes = torch.func.functional_call(rule, pairs, (4, step))
            return loss(PREDICTIVE, stack, likelihood, nodes, batch, beta_reg=0.3, n_data=20.0)

        inputs = [p.detach().clone().requires_grad_() for p in parameters.values()]
        assert torch.autograd.gradcheck(value, inputs, eps=1e-6, atol=1e-7, rtol=1e-5)


def test_the_log_of_a_mean_of_draws_is_low(rng: np.random.Generator) -> None:
    """Jensen: the expected log density grows with the draws of a component, and stays below.

    Means over 300 steps, 2,048 fixed nodes in the place of the integral; differences of more than
    five standard errors.
    """
    stack, likelihood = random_stack(rng, [2, 1]), random_likelihood(rng, 1)
    rules = [moved(np.random.default_rng(1), [2], 2, n, 1024) for n in (1, 8)]
    batch = some_batch(rng)
    with torch.no_grad():
        exact = -training_loss(stack, likelihood, rules[0], batch, None).item()
        few, many = (
            np.array([-training_loss(stack, likelihood, r, batch, n).item() for n in range(300)])
            for r in rules
        )
    error = few.std() / math.sqrt(len(few))
    assert few.mean() < exact - 5.0 * error
    assert few.mean() + 5.0 * error < many.mean() < exact
