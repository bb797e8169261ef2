"""Deep stacks as a whole: densities by loops, Monte Carlo limits, missing outputs, gradients."""

import math

import numpy as np
import pytest
import torch
from oracles.deep import (
    dense_stack,
    nodes_of,
    random_stack,
    stack_mixture,
    stack_moments,
)
from oracles.likelihoods import expected_log_prob
from oracles.models import normal, random_likelihood, to_array
from oracles.objectives import average, terms
from torch import Tensor, nn

from skgp.core.data import Batch, Targets
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.nodes.choice import make_quadrature
from skgp.core.nodes.rules import Nodes, Sampled
from skgp.core.nodes.sigma_points import LearnedNodes, Quadrature
from skgp.core.objectives.objective import ELBO, PREDICTIVE, VFITC, Objective, gamma_robust, loss
from skgp.core.stacks.stack import FEEDFORWARD, GPStack
from skgp.fitting.model import Layers, Model
from skgp.recipes.hidden import TOPOLOGIES


def log_density(
    stack: GPStack, likelihood: Gaussian, nodes: Nodes, x: Tensor, targets: Targets
) -> Tensor:
    latent = stack(x, nodes, stack.factors())
    return PREDICTIVE.reduce(PREDICTIVE.term(likelihood, latent, targets), nodes.log_omega)


def moved(rule: Quadrature, rng: np.random.Generator) -> Quadrature:
    """The rule somewhere else than where it starts."""
    with torch.no_grad():
        for parameter in rule.parameters():
            parameter.add_(0.3 * normal(rng, *parameter.shape))
    return rule


@pytest.mark.parametrize(
    ("n_latents", "n_outputs", "mixed"),
    [(1, 1, False), (2, 2, False), (2, 3, True)],
    ids=["one", "independent", "mixed"],
)
@pytest.mark.parametrize("n_layers", [2, 3])
@pytest.mark.parametrize("quadrature", ["qr3", "qr1", "gauss-hermite"])
def test_log_density_of_a_deep_sigma_point_process_against_loops(
    rng: np.random.Generator,
    quadrature: str,
    n_layers: int,
    n_latents: int,
    n_outputs: int,
    mixed: bool,
) -> None:
    """log sum_s omega_s N(y; M f_mean(h_s), M f_var(h_s) M^T + noise) (Eqns 18 and 24)."""
    widths = [2, 1][: n_layers - 1]
    stack = random_stack(rng, [*widths, n_latents])
    likelihood = random_likelihood(
        rng, n_outputs, normal(rng, n_outputs, n_latents) if mixed else None
    )
    nodes = moved(make_quadrature(quadrature, widths, 3, 0), rng)(5)
    x, y = normal(rng, 5, 3), normal(rng, 5, n_outputs)
    actual = log_density(stack, likelihood, nodes, x, Targets(y, None))
    naive = stack_mixture(
        stack, likelihood, to_array(x), nodes_of(nodes.xi), to_array(nodes.log_omega.exp())
    )
    np.testing.assert_allclose(to_array(actual), naive.log_density(to_array(y)), rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_layers", [2, 3])
def test_bound_of_a_deep_gp_against_loops(rng: np.random.Generator, n_layers: int) -> None:
    """E log p(y | f) with draws of its own for each row and each node (Eqns 12 to 15)."""
    widths = [2, 1][: n_layers - 1]
    stack = random_stack(rng, [*widths, 1], covariance="full")
    likelihood = random_likelihood(rng, 1)
    nodes = Sampled(widths, 4, 8, 0)(5, 0)
    assert nodes.xi[0].shape == (4, 5, 2)
    x, y = normal(rng, 5, 3), normal(rng, 5, 1)
    latent = stack(x, nodes, stack.factors())
    actual = ELBO.reduce(ELBO.term(likelihood, latent, Targets(y, None)), nodes.log_omega)
    naive = stack_moments(dense_stack(stack), to_array(x), nodes_of(nodes.xi))
    values = terms(expected_log_prob, naive, to_array(y), None, to_array(likelihood.noise_var))
    expected = [average(values[:, b], np.full(4, 0.25)) for b in range(5)]
    np.testing.assert_allclose(to_array(actual), expected, rtol=0, atol=1e-8)


def test_gauss_hermite_nodes_converge_to_the_deep_gp(rng: np.random.Generator) -> None:
    """200,000 Monte Carlo samples of the hidden layer: density, mean and variance of y.

    The difference is at most 4.5 standard errors of the Monte Carlo side; 24 sites per function
    are converged, 3 are not.
    """
    stack = random_stack(rng, [2, 1], name="rbf")
    likelihood = random_likelihood(rng, 1)
    x, y = normal(rng, 3, 3), normal(rng, 3, 1)
    n = 200_000
    noise = likelihood.noise_var.item()

    @torch.no_grad()
    def components(nodes: Nodes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Density at y, mean and variance of y given the hidden values, each (Q, 3)."""
        latent = stack(x, nodes, stack.factors())
        density = PREDICTIVE.term(likelihood, latent, Targets(y, None)).exp()
        return density.numpy(), latent.f_mean[..., 0].numpy(), latent.f_var[..., 0].numpy() + noise

    def of_grid(n_sites: int) -> np.ndarray:
        nodes = make_quadrature("gauss-hermite", [2], n_sites, 0)(1)
        density, mean, var = components(nodes)
        omega = nodes.log_omega.exp().numpy()
        return np.stack([omega @ density, omega @ mean, omega @ (mean**2 + var)])

    draws = normal(rng, n, 1, 2)
    density, mean, var = components(Nodes((draws,), torch.full((n,), -math.log(n)).double()))
    samples = np.stack([density, mean, mean**2 + var])
    expected, error = samples.mean(1), samples.std(1) / math.sqrt(n)

    fine = of_grid(24)
    np.testing.assert_allclose(of_grid(20), fine, rtol=0, atol=0.2 * error.min())
    assert (np.abs(fine - expected) < 4.5 * error).all()
    assert (np.abs(of_grid(2) - expected) > 10.0 * error).any()
    # the variance of y from the raw moments, with the error of mean^2 by the delta method
    variance = fine[2] - fine[1] ** 2
    influence = samples[2] - 2.0 * expected[1] * samples[1]
    error_of_variance = influence.std(0) / math.sqrt(n)
    difference = variance - (expected[2] - expected[1] ** 2)
    assert (np.abs(difference) < 4.5 * error_of_variance).all()


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_sobol_nodes_of_a_prediction_approach_the_deep_gp(
    rng: np.random.Generator, n_outputs: int
) -> None:
    """512 fixed nodes against Gauss-Hermite with 24 sites: closer than Monte Carlo would be."""
    stack = random_stack(rng, [2, n_outputs], name="rbf")
    likelihood = random_likelihood(rng, n_outputs)
    x, y = normal(rng, 6, 3), normal(rng, 6, n_outputs)
    values = [
        to_array(log_density(stack, likelihood, nodes, x, Targets(y, None)))
        for nodes in (
            Sampled([2], 1, 512, 0)(6),
            make_quadrature("gauss-hermite", [2], 24, 0)(6),
        )
    ]
    np.testing.assert_allclose(values[0], values[1], rtol=0, atol=0.02)


OBJECTIVES = {"elbo": ELBO, "predictive": PREDICTIVE, "vfitc": VFITC, "gamma": gamma_robust(1.05)}


@pytest.mark.parametrize("mixed", [False, True], ids=["independent", "mixed"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_masking_an_output_is_dropping_it(rng: np.random.Generator, name: str, mixed: bool) -> None:
    """Row by row: the observed outputs alone, by a likelihood that has no others."""
    objective: Objective = OBJECTIVES[name]
    mixing = normal(rng, 3, 3) if mixed else None
    stack = random_stack(rng, [2, 3])
    likelihood = random_likelihood(rng, 3, mixing)
    nodes = moved(LearnedNodes([2], 4, 0), rng)(4)
    x, y = normal(rng, 4, 3), normal(rng, 4, 3)
    mask = torch.tensor([[1, 1, 1], [0, 1, 1], [1, 0, 1], [0, 0, 1]]).double()
    latent = stack(x, nodes, stack.factors())
    targets = Targets(y * mask, mask)
    actual = objective.reduce(objective.term(likelihood, latent, targets), nodes.log_omega)
    for row in range(4):
        kept = mask[row].bool()
        alone = Gaussian(int(kept.sum()), 0.3, 1e-4, None if mixing is None else mixing[kept])
        alone = alone.double()
        with torch.no_grad():
            alone.log_excess_noise.copy_(likelihood.log_excess_noise[kept])
        one = stack(x[row : row + 1], nodes, stack.factors())
        if mixing is None:
            one = type(one)(*(part[..., kept] for part in one))
        term = objective.term(alone, one, Targets(y[row : row + 1, kept], None))
        expected = objective.reduce(term, nodes.log_omega)
        np.testing.assert_allclose(actual[row].item(), expected.item(), rtol=0, atol=1e-12)


def test_a_hidden_layer_without_variance_leaves_no_trace_of_the_nodes(
    rng: np.random.Generator,
) -> None:
    """Where h is certain every node sees the same h, so all rules and weights agree."""
    stack = random_stack(rng, [2, 1], linear=True, covariance="delta")
    with torch.no_grad():
        stack.layers[0].kernel.log_variance.fill_(-60.0)
    x = normal(rng, 5, 3)
    h = x @ stack.layers[0].slope + stack.layers[0].mean
    expected = stack.layers[1].moments(h.unsqueeze(0), stack.layers[1].factors())
    for quadrature in ("qr3", "gauss-hermite"):
        latent = stack(x, make_quadrature(quadrature, [2], 3, 0)(5), stack.factors())
        for ours, theirs in zip(latent, expected, strict=True):
            actual = to_array(ours)
            np.testing.assert_allclose(
                actual, np.broadcast_to(to_array(theirs), actual.shape), rtol=0, atol=1e-6
            )


class WholeLoss(nn.Module):
    """The training loss as a function of all parameters, the draws of a deep GP being fixed."""

    def __init__(self, model: Model, objective: Objective, batch: Batch) -> None:
        super().__init__()
        self.model, self.objective, self.batch = model, objective, batch

    def forward(self) -> Tensor:
        nodes = self.model.nodes(len(self.batch.x))
        parts = self.objective, self.model.stack, self.model.likelihood, nodes, self.batch
        return loss(*parts, beta_reg=0.4, n_data=20.0)


@pytest.mark.parametrize("family", ["dgp", "dgp-predictive", "dgp-gamma", "dspp-qr1", "dspp-qr3"])
def test_gradient_of_the_whole_loss(rng: np.random.Generator, family: str) -> None:
    """Finite differences in each parameter: kernels, inducing inputs, q, slopes, nodes, noise."""
    connections = [FEEDFORWARD, TOPOLOGIES["skip-all"], FEEDFORWARD]
    widths = [2, 1]
    stack = random_stack(rng, [*widths, 2], n_inducing=3, n_features=2, connections=connections)
    likelihood = random_likelihood(rng, 2, normal(rng, 2, 2))
    sampled = family.startswith("dgp")
    rule: nn.Module
    if sampled:
        rule = Sampled(widths, 2, 3, 0)
    else:
        rule = moved(make_quadrature(family[5:], widths, 2, 0), rng)
    objective = {"dgp": ELBO, "dgp-gamma": gamma_robust(1.1)}.get(family, PREDICTIVE)
    mask = torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]]).double()
    y = normal(rng, 3, 2) * mask
    batch = Batch(normal(rng, 3, 2), Targets(y, mask), torch.tensor([0.5, 2.0, 1.0]).double())
    module = WholeLoss(Model(Layers(stack), likelihood, rule), objective, batch)
    parameters = dict(module.named_parameters())
    assert sum(".slope" in name for name in parameters) == 2
    assert any(".nodes." in name for name in parameters) != sampled

    def value(*values: Tensor) -> Tensor:
        pairs = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(module, pairs, ())

    inputs = [p.detach().clone().requires_grad_() for p in parameters.values()]
    assert torch.autograd.gradcheck(value, inputs, eps=1e-6, atol=1e-6, rtol=1e-4)


def test_loss_of_a_deep_model_counts_the_divergence_of_every_layer(
    rng: np.random.Generator,
) -> None:
    """-(mean log density) + beta sum KL / n, each divergence that of its layer alone."""
    stack = random_stack(rng, [2, 1, 1])
    likelihood = random_likelihood(rng, 1)
    nodes = LearnedNodes([2, 1], 3, 0)(4)
    x, y = normal(rng, 4, 3), normal(rng, 4, 1)
    batch = Batch(x, Targets(y, None), None)
    value = loss(PREDICTIVE, stack, likelihood, nodes, batch, beta_reg=0.7, n_data=30.0)
    divergences = [layer.kl(layer.factors()).item() for layer in stack.layers]
    fit = log_density(stack, likelihood, nodes, x, batch.targets).mean().item()
    np.testing.assert_allclose(value.item(), -fit + 0.7 * sum(divergences) / 30.0, rtol=1e-12)
