"""Conditional variational autoencoders against NumPy loops and quadrature."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from oracles.models import normal, to_array
from torch import Tensor, nn

from skgp.core.baselines.cvae import ConditionalVAE, cvae_loss
from skgp.core.data import Batch, Targets
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.nodes.rules import Nodes, Sampled

D, P, L, SIZES = 3, 2, 2, (5, 4)


def make_network(rng: np.random.Generator, seed: int = 0) -> ConditionalVAE:
    """Networks in float64 without zeros."""
    network = ConditionalVAE(D, SIZES, P, L, seed).double()
    with torch.no_grad():
        network.decoder[-1].weight.copy_(normal(rng, P, SIZES[-1]))
        for parameter in network.parameters():
            if parameter.dim() == 1:
                parameter.copy_(0.3 * normal(rng, *parameter.shape))
    return network


def naive_network(network: nn.Module, inputs: Any) -> Any:
    """Outputs of one row, unit by unit."""
    layers = [m for m in network.modules() if isinstance(m, nn.Linear)]
    h = inputs
    for number, layer in enumerate(layers):
        weight, bias = to_array(layer.weight), to_array(layer.bias)
        h = np.array([weight[j] @ h + bias[j] for j in range(len(bias))])
        if number < len(layers) - 1:
            h = np.tanh(h)
    return h


def log_normal(y: float, mean: float, var: float) -> float:
    return -0.5 * (math.log(2.0 * math.pi * var) + (y - mean) ** 2 / var)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_is_that_of_a_loop(rng: np.random.Generator, masked: bool, weighted: bool) -> None:
    network, likelihood = make_network(rng), Gaussian(P, 0.4, 1e-4).double()
    n, n_nodes, beta = 7, 3, 0.7
    x, xi, observed = normal(rng, n, D), normal(rng, n_nodes, n, L), np.ones((n, P))
    if masked:
        observed[::2, 1] = 0.0
        observed[3] = 0.0
    y = normal(rng, n, P) * torch.from_numpy(observed)
    weight = rng.uniform(0.5, 1.5, n) if weighted else None
    batch = Batch(
        x,
        Targets(y, torch.from_numpy(observed) if masked else None),
        None if weight is None else torch.from_numpy(weight),
    )
    nodes = Nodes((xi,), torch.full((n_nodes,), -math.log(n_nodes), dtype=torch.float64))
    value = cvae_loss(network, likelihood, nodes, batch, beta_reg=beta, weight_decay=0.02)
    total, noise = 0.0, to_array(likelihood.noise_var)
    for b in range(n):
        code = naive_network(network.encoder, np.concatenate([to_array(x)[b], to_array(y)[b]]))
        m, s = code[:L], np.exp(code[L:])
        bound = -beta * sum(0.5 * (s**2 + m**2 - 1.0 - np.log(s**2)))
        for q in range(n_nodes):
            z = m + s * to_array(xi)[q, b]
            f = naive_network(network.decoder, np.concatenate([to_array(x)[b], z]))
            terms = [log_normal(float(y[b, p]), f[p], noise[p]) for p in range(P) if observed[b, p]]
            bound += sum(terms) / n_nodes
        total += bound * (1.0 if weight is None else weight[b])
    penalty = 0.5 * 0.02 * sum(np.square(to_array(p)).sum() for p in network.parameters())
    assert value.item() == pytest.approx(penalty - total / n, rel=1e-12)


def test_gradient_of_the_loss(rng: np.random.Generator) -> None:
    network, likelihood = make_network(rng), Gaussian(P, 0.4, 1e-4).double()
    batch = Batch(normal(rng, 7, D), Targets(normal(rng, 7, P), None), None)
    nodes = Nodes((normal(rng, 2, 7, L),), torch.full((2,), -math.log(2.0), dtype=torch.float64))

    def loss(*_: Tensor) -> Tensor:
        return cvae_loss(network, likelihood, nodes, batch, beta_reg=0.7, weight_decay=0.02)

    assert torch.autograd.gradcheck(loss, [*network.parameters(), *likelihood.parameters()])


def test_the_loss_is_a_bound_on_the_density(rng: np.random.Generator) -> None:
    """E_q over many draws lies below log p(y | x) by quadrature over z, for any encoder."""
    network = ConditionalVAE(D, SIZES, P, 1, seed=0).double()
    with torch.no_grad():
        network.decoder[-1].weight.copy_(normal(rng, P, SIZES[-1]))
    likelihood = Gaussian(P, 0.4, 1e-4).double()
    batch = Batch(normal(rng, 6, D), Targets(normal(rng, 6, P), None), None)
    nodes = Sampled([1], 2000, 1, seed=0).double()(6)
    bound = -cvae_loss(network, likelihood, nodes, batch, beta_reg=1.0, weight_decay=0.0).item()
    z, omega = np.polynomial.hermite_e.hermegauss(60)
    f = network(batch.x, torch.from_numpy(z).reshape(-1, 1, 1))
    noise = likelihood.noise_var
    log_prob = torch.distributions.Normal(f, noise.sqrt()).log_prob(batch.targets.y).sum(-1)
    log_omega = torch.from_numpy(np.log(omega / omega.sum())).unsqueeze(-1)
    evidence = torch.logsumexp(log_prob + log_omega, 0).mean().item()
    assert bound < evidence
    # The other way round it would not be one: without the divergence the value lies above.
    free = -cvae_loss(network, likelihood, nodes, batch, beta_reg=0.0, weight_decay=0.0).item()
    assert free > bound


def test_glorot_start(rng: np.random.Generator) -> None:
    """Uniform weights of variance 2 / (n_in + n_out), within five standard errors; no biases.

    The last layer of the decoder is zero.
    """
    network = ConditionalVAE(300, (200,), 100, 100, seed=0)
    *layers, top = (m for m in network.modules() if isinstance(m, nn.Linear))
    assert not top.weight.any()
    for layer in layers:
        weight = to_array(layer.weight)
        n_out, n_in = weight.shape
        # the relative variance of a uniform square is 4 / 5
        error = weight.var() * (n_in + n_out) / 2.0 - 1.0
        assert abs(error) < 5.0 * math.sqrt(0.8 / weight.size)
        assert not layer.bias.any()


def test_a_seed_fixes_the_weights() -> None:
    state = torch.get_rng_state()
    first, second, other = (ConditionalVAE(D, SIZES, P, L, seed) for seed in (3, 3, 4))
    for a, b, c in zip(first.parameters(), second.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not a.any() or not torch.equal(a, c)
    assert torch.equal(torch.get_rng_state(), state)
