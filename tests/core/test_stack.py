"""Stacks of layers against a composition by loops."""

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.priors import GammaPrior
from oracles.deep import dense_stack, nodes_of, random_stack, stack_moments
from oracles.models import dense_gps, normal, random_layer, random_posterior, to_array
from oracles.sparse import layer_moments

from skgp.core.kernels.gpytorch_kernel import GPyTorchKernel
from skgp.core.layers.sparse import SparseGP
from skgp.core.nodes.rules import Nodes, trivial
from skgp.core.stacks.stack import FEEDFORWARD, Connection, GPStack
from skgp.recipes.hidden import TOPOLOGIES


@pytest.mark.parametrize("rows", [5, 1], ids=["node-per-row", "shared-node"])
def test_two_layers_against_a_composition_by_loops(rng: np.random.Generator, rows: int) -> None:
    """h = mean + sqrt(v_prior + v_q) xi for each node, then the moments of the top layer at h."""
    hidden = random_layer(rng, "diagonal", n_gps=3)
    top = random_layer(rng, "full", n_gps=2)
    x, xi = normal(rng, 5, 3), normal(rng, 4, rows, 3)
    nodes = Nodes((xi,), torch.full((4,), -np.log(4.0), dtype=torch.float64))
    stack = GPStack([hidden, top])
    latent = stack(x, nodes, stack.factors())

    below = layer_moments(dense_gps(hidden), to_array(x))
    for q in range(4):
        h = np.empty((5, 3))
        for b in range(5):
            for w in range(3):
                variance = below.v_prior[b, w] + below.v_q[b, w]
                h[b, w] = below.f_mean[b, w] + np.sqrt(variance) * xi[q, b % rows, w].item()
        expected = layer_moments(dense_gps(top), h)
        for ours, theirs in zip(latent, expected, strict=True):
            np.testing.assert_allclose(to_array(ours[q]), theirs, rtol=0, atol=1e-9)


def test_three_layers_take_their_nodes_in_order(rng: np.random.Generator) -> None:
    """Widths 3, 1, 2: the second set of nodes belongs to the second hidden layer."""
    layers = [
        random_layer(rng, n_gps=3),
        random_layer(rng, n_gps=1),
        random_layer(rng, n_features=1),
    ]
    xi = (normal(rng, 2, 1, 3), normal(rng, 2, 1, 1))
    x = normal(rng, 4, 3)
    stack = GPStack(layers)
    latent = stack(x, Nodes(xi, torch.zeros(2, dtype=torch.float64)), stack.factors())
    for q in range(2):
        h = to_array(x)
        for layer, nodes in zip(layers[:2], xi, strict=True):
            below = layer_moments(dense_gps(layer), h)
            h = below.f_mean + np.sqrt(below.v_prior + below.v_q) * to_array(nodes[q])
        expected = layer_moments(dense_gps(layers[2]), h)
        np.testing.assert_allclose(to_array(latent.f_mean[q]), expected.f_mean, rtol=0, atol=1e-9)


def test_one_layer_is_the_layer_itself(rng: np.random.Generator) -> None:
    layer = random_layer(rng)
    stack = GPStack([layer])
    x = normal(rng, 5, 3)
    latent = stack(x, trivial(x), stack.factors())
    expected = layer_moments(dense_gps(layer), to_array(x))
    for ours, theirs in zip(latent, expected, strict=True):
        np.testing.assert_allclose(to_array(ours[0]), theirs, rtol=0, atol=1e-9)


def test_a_missing_or_spare_set_of_nodes_is_an_error(rng: np.random.Generator) -> None:
    stack = GPStack([random_layer(rng, n_gps=3), random_layer(rng)])
    x = normal(rng, 4, 3)
    with pytest.raises(ValueError, match="shorter"):
        stack(x, trivial(x), stack.factors())
    two = Nodes((normal(rng, 1, 1, 3),) * 2, torch.zeros(1, dtype=torch.float64))
    with pytest.raises(ValueError, match="longer"):
        stack(x, two, stack.factors())


def test_slope_stays_finite_where_a_hidden_layer_is_certain(rng: np.random.Generator) -> None:
    """At an inducing input of a point posterior the variance is zero, and sqrt has a pole there."""
    hidden = random_layer(rng, "delta", name="rbf", n_gps=3, n_inducing=1, jitter=1e-30)
    stack = GPStack([hidden, random_layer(rng)])
    x = hidden.Z[0].detach().clone()
    with torch.no_grad():
        hidden.Z.copy_(x.expand_as(hidden.Z))
    latent = stack(x, Nodes((normal(rng, 2, 1, 3),), torch.zeros(2).double()), stack.factors())
    assert hidden.moments(x.unsqueeze(0), hidden.factors()).f_var.max().item() < 1e-15
    latent.f_mean.sum().backward()
    for name, parameter in hidden.named_parameters():
        assert torch.all(torch.isfinite(parameter.grad)), name


def test_divergence_is_the_sum_over_layers(rng: np.random.Generator) -> None:
    layers = [random_layer(rng, "full", n_gps=3), random_layer(rng, "diagonal")]
    expected = sum(layer.kl(layer.factors()).item() for layer in layers)
    stack = GPStack(layers)
    np.testing.assert_allclose(stack.kl(stack.factors()).item(), expected, rtol=1e-14)


def test_log_prior_is_the_sum_over_layers(rng: np.random.Generator) -> None:
    """A layer without priors adds nothing."""
    base = gpytorch.kernels.RBFKernel(lengthscale_prior=GammaPrior(3.0, 6.0)).double()
    general = SparseGP(
        GPyTorchKernel(base, 2), normal(rng, 2, 4, 3), random_posterior(rng, "full", 2, 4), 1e-6
    ).double()
    one = general.kernel.log_prior().item()
    assert one != 0.0
    assert float(GPStack([random_layer(rng)]).log_prior()) == 0.0
    stack = GPStack([general, random_layer(rng), general])
    np.testing.assert_allclose(stack.log_prior().item(), 2.0 * one, rtol=1e-14)


def test_bottom_and_top_are_the_outer_layers_and_factors_come_in_order(
    rng: np.random.Generator,
) -> None:
    layers = [random_layer(rng, n_gps=3), random_layer(rng)]
    stack = GPStack(layers)
    assert stack.top is layers[1]
    assert stack.bottom is layers[0]
    for layer, factors in zip(layers, stack.factors(), strict=True):
        np.testing.assert_array_equal(to_array(factors.L_inv), to_array(layer.factors().L_inv))


CONNECTIONS = {
    **{name: [FEEDFORWARD, middle, FEEDFORWARD] for name, middle in TOPOLOGIES.items()},
    "concatenate": [FEEDFORWARD, Connection(kernel="both"), Connection(kernel="both")],
}


@pytest.mark.parametrize("rows", [4, 1], ids=["node-per-row", "shared-node"])
@pytest.mark.parametrize("name", CONNECTIONS)
def test_three_connected_layers_against_a_composition_by_loops(
    rng: np.random.Generator, name: str, rows: int
) -> None:
    """Topologies of the deep sigma point paper (appendix A.4) with widths 2, 3 and two outputs."""
    stack = random_stack(
        rng, [2, 3, 2], connections=CONNECTIONS[name], linear=name != "concatenate"
    )
    x, xi = normal(rng, 4, 3), (normal(rng, 3, rows, 2), normal(rng, 3, rows, 3))
    latent = stack(x, Nodes(xi, torch.zeros(3, dtype=torch.float64)), stack.factors())
    expected = stack_moments(dense_stack(stack), to_array(x), nodes_of(xi))
    for ours, theirs in zip(latent, expected, strict=True):
        np.testing.assert_allclose(to_array(ours), theirs, rtol=0, atol=1e-9)


def test_connections_that_skip_a_layer_see_the_features(rng: np.random.Generator) -> None:
    """Behind a deep kernel "inputs" are the features, not the raw inputs."""
    stack = random_stack(rng, [2, 1], connections=CONNECTIONS["concatenate"][:2])
    weight = normal(rng, 3, 3)
    stack.features = torch.nn.Linear(3, 3, bias=False).double()
    with torch.no_grad():
        stack.features.weight.copy_(weight)
    x, xi = normal(rng, 4, 3), (normal(rng, 2, 1, 2),)
    latent = stack(x, Nodes(xi, torch.zeros(2, dtype=torch.float64)), stack.factors())
    expected = stack_moments(dense_stack(stack), to_array(x @ weight.mT), nodes_of(xi))
    np.testing.assert_allclose(to_array(latent.f_mean), expected.f_mean, rtol=0, atol=1e-9)


def test_gradients_pass_through_connections(rng: np.random.Generator) -> None:
    """Finite differences in the inputs and the nodes; inputs that skip layers count each time."""
    stack = random_stack(rng, [2, 2, 1], connections=CONNECTIONS["skip-all"], name="rbf")
    form = normal(rng, 2, 3, 1)

    def value(x: torch.Tensor, *xi: torch.Tensor) -> torch.Tensor:
        nodes = Nodes(xi, torch.zeros(2, dtype=torch.float64))
        latent = stack(x, nodes, stack.factors())
        return (form * (latent.f_mean + latent.f_var)).sum()

    inputs = [normal(rng, 3, 3), normal(rng, 2, 1, 2), normal(rng, 2, 1, 2)]
    assert torch.autograd.gradcheck(value, [v.requires_grad_() for v in inputs])
