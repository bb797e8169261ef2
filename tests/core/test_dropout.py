"""Networks with dropout against NumPy loops, and their masks against the law of their draws."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from oracles.models import normal, to_array
from torch import Tensor, nn

from skgp.core.baselines.dropout import DropoutNetwork, dropout_loss
from skgp.core.data import Batch, Targets
from skgp.core.layers.layer import certain
from skgp.core.likelihoods.gaussian import Gaussian

D, P, SIZES = 3, 2, (5, 4)


def make_network(
    rng: np.random.Generator, *, dropout: float = 0.3, n_samples: int = 6, seed: int = 0
) -> DropoutNetwork:
    """A network in float64 whose last layer is not zero."""
    network = DropoutNetwork(D, SIZES, P, dropout, n_samples, seed).double()
    with torch.no_grad():
        network.weights[-1].copy_(normal(rng, P, SIZES[-1]))
        network.biases[-1].copy_(normal(rng, P))
    return network


def naive_pass(network: DropoutNetwork, x: Any, kept: Any) -> Any:
    """Output (P,) of one row (D,), unit by unit."""
    h, offset = x, 0
    parameters = [
        (to_array(w), to_array(b)) for w, b in zip(network.weights, network.biases, strict=True)
    ]
    for weight, bias in parameters[:-1]:
        units = np.zeros(len(bias))
        for j in range(len(bias)):
            if kept[offset + j]:
                units[j] = max(0.0, weight[j] @ h + bias[j]) / (1.0 - network.dropout)
        h, offset = units, offset + len(bias)
    weight, bias = parameters[-1]
    return weight @ h + bias


def log_normal(y: float, mean: float, var: float) -> float:
    return -0.5 * (math.log(2.0 * math.pi * var) + (y - mean) ** 2 / var)


def test_passes_are_those_of_a_loop_with_the_same_masks(rng: np.random.Generator) -> None:
    network, x = make_network(rng), normal(rng, 7, D)
    outputs = to_array(network(x, network.kept))
    assert outputs.shape == (6, 7, P)
    for s, kept in enumerate(to_array(network.kept)[:, 0]):
        for b, row in enumerate(to_array(x)):
            np.testing.assert_allclose(outputs[s, b], naive_pass(network, row, kept), rtol=1e-12)
    assert len({tuple(outputs[s, 0]) for s in range(6)}) > 1


def test_the_mixture_of_the_passes_is_that_of_a_loop(rng: np.random.Generator) -> None:
    network, likelihood = make_network(rng), Gaussian(P, 0.4, 1e-4).double()
    x = normal(rng, 7, D)
    predictive = likelihood.predictive(certain(network(x, network.kept)))
    noise = to_array(likelihood.noise_var)
    assert predictive.cov is None
    assert predictive.var.shape == (6, 7, P)
    for s, kept in enumerate(to_array(network.kept)[:, 0]):
        for b, row in enumerate(to_array(x)):
            mean = to_array(predictive.mean)[s, b]
            np.testing.assert_allclose(mean, naive_pass(network, row, kept), rtol=1e-12)
            np.testing.assert_allclose(to_array(predictive.var)[s, b], noise, rtol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_is_that_of_a_loop(rng: np.random.Generator, masked: bool, weighted: bool) -> None:
    network, likelihood = make_network(rng), Gaussian(P, 0.4, 1e-4).double()
    x, y = normal(rng, 7, D), normal(rng, 7, P)
    observed = np.ones((7, P))
    if masked:
        observed[::2, 1] = 0.0
        observed[3] = 0.0
    weight = rng.uniform(0.5, 1.5, 7) if weighted else None
    batch = Batch(
        x,
        Targets(y, torch.from_numpy(observed) if masked else None),
        None if weight is None else torch.from_numpy(weight),
    )
    drawn = network.draw(7, 0)
    kept = to_array(drawn)[0]
    value = dropout_loss(network, likelihood, batch, drawn, weight_decay=0.02)
    total = 0.0
    for b in range(7):
        f = naive_pass(network, to_array(x)[b], kept[b])
        terms = [
            log_normal(float(y[b, p]), f[p], float(likelihood.noise_var[p].detach()))
            for p in range(P)
            if observed[b, p]
        ]
        total += sum(terms) * (1.0 if weight is None else weight[b])
    penalty = 0.5 * 0.02 * sum(np.square(to_array(p)).sum() for p in network.parameters())
    assert value.item() == pytest.approx(penalty - total / 7, rel=1e-12)


def test_gradient_of_the_loss(rng: np.random.Generator) -> None:
    network, likelihood = make_network(rng), Gaussian(P, 0.4, 1e-4).double()
    batch = Batch(normal(rng, 7, D), Targets(normal(rng, 7, P), None), None)
    kept = network.draw(7, 0)
    parameters = [*network.parameters(), *likelihood.parameters()]

    def loss(*_: Tensor) -> Tensor:
        return dropout_loss(network, likelihood, batch, kept, weight_decay=0.02)

    assert torch.autograd.gradcheck(loss, parameters)


def test_without_dropout_all_passes_are_the_plain_network(rng: np.random.Generator) -> None:
    network, x = make_network(rng, dropout=0.0), normal(rng, 7, D)
    outputs = network(x, network.kept)
    desired = to_array(_plain(network)(x))
    for actual in to_array(outputs):
        np.testing.assert_allclose(actual, desired, rtol=1e-12)


def test_training_without_dropout_is_that_of_the_plain_network(rng: np.random.Generator) -> None:
    """The same steps of gradient descent on torch's own layers and loss."""
    network, likelihood = make_network(rng, dropout=0.0), Gaussian(P, 0.4, 1e-4).double()
    plain = _plain(network)
    log_excess = likelihood.log_excess_noise.detach().clone().requires_grad_()
    batch = Batch(normal(rng, 30, D), Targets(normal(rng, 30, P), None), None)
    nll = nn.GaussianNLLLoss(full=True, reduction="sum")
    parameters = [*plain.parameters(), log_excess]
    optimizers = [
        torch.optim.SGD([*network.parameters(), *likelihood.parameters()], 0.1),
        torch.optim.SGD(parameters, 0.1, weight_decay=0.0),
    ]
    for step in range(10):
        variance = (1e-4 + log_excess.exp()).expand(30, -1)
        penalty = sum(p.square().sum() for p in plain.parameters())
        losses = [
            dropout_loss(network, likelihood, batch, network.draw(30, step), weight_decay=0.02),
            nll(plain(batch.x), batch.targets.y, variance) / 30 + 0.01 * penalty,
        ]
        for optimizer, value in zip(optimizers, losses, strict=True):
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    actual, desired = network(batch.x, network.kept)[0], plain(batch.x)
    np.testing.assert_allclose(to_array(actual), to_array(desired), rtol=1e-9)
    noise = to_array(likelihood.noise_var)
    np.testing.assert_allclose(noise, 1e-4 + np.exp(to_array(log_excess)), rtol=1e-9)


def _plain(network: DropoutNetwork) -> nn.Sequential:
    """The network in torch's own layers."""
    layers: list[nn.Module] = []
    for weight, bias in zip(network.weights, network.biases, strict=True):
        linear = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        linear.load_state_dict({"weight": weight.detach(), "bias": bias.detach()})
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_masks_have_mean_one_and_are_independent(dropout: float) -> None:
    """Masks z / (1 - p): mean 1, variance p / (1 - p), within five standard errors.

    A network of one hidden layer whose units are all one before dropout, and whose output is their
    mean, shows the mean mask of a pass.
    """
    n, width = 400, 50
    network = DropoutNetwork(1, (width,), 1, dropout, n, seed=0).double()
    with torch.no_grad():
        for parameter, value in zip(
            network.parameters(), (0.0, 1.0 / width, 1.0, 0.0), strict=True
        ):
            parameter.fill_(value)
    for kept in (network.kept, network.draw(n, 0).movedim(0, 1)):
        means = to_array(network(torch.zeros(1, 1).double(), kept)).ravel()
        variance = dropout / (1.0 - dropout) / width  # of the mean of independent masks
        assert abs(means.mean() - 1.0) < 5.0 * math.sqrt(variance / n)
        assert abs(means.var() / variance - 1.0) < 5.0 * math.sqrt(2.0 / n)
        assert set(np.unique(to_array(kept.double()))) == {0.0, 1.0}


def test_training_leaves_the_masks_of_the_passes(rng: np.random.Generator) -> None:
    network, likelihood = make_network(rng), Gaussian(P, 0.4, 1e-4).double()
    batch = Batch(normal(rng, 7, D), Targets(normal(rng, 7, P), None), None)
    kept, before = network.kept.clone(), network(batch.x, network.kept)
    losses = {
        dropout_loss(network, likelihood, batch, network.draw(7, step), weight_decay=0.0).item()
        for step in range(5)
    }
    assert len(losses) == 5  # each step has masks of its own
    assert torch.equal(network.kept, kept)
    assert torch.equal(network(batch.x, network.kept), before)


def test_a_seed_fixes_weights_and_masks(rng: np.random.Generator) -> None:
    state = torch.get_rng_state()
    first, second, other = (DropoutNetwork(D, SIZES, P, 0.3, 6, seed) for seed in (3, 3, 4))
    for a, b, c in zip(first.parameters(), second.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not a.any() or not torch.equal(a, c)
    assert torch.equal(first.kept, second.kept)
    assert not torch.equal(first.kept, other.kept)
    for step in range(3):
        assert torch.equal(draw := first.draw(9, step), second.draw(9, step))
        assert not torch.equal(draw, other.draw(9, step))
        assert not torch.equal(draw, first.draw(9, step + 1))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda network: pickle.loads(pickle.dumps(network))],
    ids=["deepcopy", "pickle"],
)
def test_draws_are_a_function_of_the_step(rng: np.random.Generator, copied: Any) -> None:
    """Of a copy too, and however often one asks for them."""
    network = make_network(rng)
    first = [network.draw(9, step) for step in range(3)]
    again = copied(network)
    assert torch.equal(again.kept, network.kept)
    for step in (2, 0, 1):
        assert torch.equal(network.draw(9, step), first[step])
        assert torch.equal(again.draw(9, step), first[step])


def test_precision_leaves_the_masks(rng: np.random.Generator) -> None:
    """They are bits, which no change of dtype rounds."""
    double = make_network(rng)
    single = copy.deepcopy(double).float()
    assert torch.equal(single.double().kept, double.kept)
    assert torch.equal(single.draw(9, 1), double.draw(9, 1))


def test_a_new_network_is_zero() -> None:
    network = DropoutNetwork(D, SIZES, P, 0.3, 6, seed=0)
    assert not network(torch.randn(7, D, generator=torch.Generator()), network.kept).any()
