"""Local posteriors: divergences by torch and by sampling, the network by loops, rows of a table."""

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from oracles.models import normal, to_array
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from skgp.core.stacks.row_posterior import Amortized, Free, RowMoments

Array = npt.NDArray[np.float64]
STANDARD = Normal(torch.zeros((), dtype=torch.float64), 1.0)


@pytest.fixture
def local(rng: np.random.Generator) -> RowMoments:
    return RowMoments(normal(rng, 4, 3), 0.5 * normal(rng, 4, 3))


def as_normal(local: RowMoments) -> Normal:
    return Normal(local.mean, local.log_std.exp())


# ------------------------------------------------------------------ moments of the rows


def test_divergence_is_that_of_torch(local: RowMoments) -> None:
    expected = kl_divergence(as_normal(local), STANDARD).sum(-1)
    np.testing.assert_allclose(to_array(local.kl()), to_array(expected), rtol=1e-13)


def test_divergence_of_the_prior_from_itself_is_zero() -> None:
    zero = torch.zeros(2, 3, dtype=torch.float64)
    np.testing.assert_array_equal(to_array(RowMoments(zero, zero).kl()), 0.0)


def test_draws_are_the_moments_at_standard_normal_numbers(
    rng: np.random.Generator, local: RowMoments
) -> None:
    epsilon = normal(rng, 2, 5, 4, 3)
    w = to_array(local.draw(epsilon))
    for s, k, b, c in np.ndindex(*w.shape):
        mean, log_std = local.mean[b, c].item(), local.log_std[b, c].item()
        expected = mean + math.exp(log_std) * epsilon[s, k, b, c].item()
        assert math.isclose(w[s, k, b, c], expected, rel_tol=1e-13)


def test_log_ratio_is_the_difference_of_log_densities(
    rng: np.random.Generator, local: RowMoments
) -> None:
    epsilon = normal(rng, 2, 5, 4, 3)
    w = local.draw(epsilon)
    expected = (STANDARD.log_prob(w) - as_normal(local).log_prob(w)).sum(-1)
    actual = to_array(local.log_ratio(w, epsilon))
    np.testing.assert_allclose(actual, to_array(expected), rtol=0, atol=1e-12)


def test_log_ratio_is_minus_the_divergence_on_average(
    rng: np.random.Generator, local: RowMoments
) -> None:
    """Over 20,000 draws, within 4 standard errors."""
    epsilon = normal(rng, 20_000, 4, 3)
    ratio = to_array(local.log_ratio(local.draw(epsilon), epsilon))
    error = ratio.std(0) / math.sqrt(len(ratio))
    assert error.max() < 0.03
    assert (np.abs(ratio.mean(0) + to_array(local.kl())) < 4.0 * error).all()


# ------------------------------------------------------------------ network


def network(n_evidence: int, n_covariates: int) -> Amortized:
    generator = torch.Generator().manual_seed(3)
    skip = torch.randn(n_covariates, n_evidence, generator=generator)
    return Amortized(skip, generator).double()


def naive_network(weights: list[Array], biases: list[Array], row: Array) -> Array:
    """tanh units one by one; a layer as wide as what it sees adds what it sees."""
    h = row
    for W, b in zip(weights[:-1], biases[:-1], strict=True):
        units = np.array([math.tanh(w @ h + c) for w, c in zip(W, b, strict=True)])
        h = units + h if len(units) == len(h) else units
    return weights[-1] @ h + biases[-1]


@pytest.mark.parametrize("n_evidence", [3, 10])
@pytest.mark.parametrize("n_covariates", [1, 2, 5])
def test_network_against_loops(
    rng: np.random.Generator, n_evidence: int, n_covariates: int
) -> None:
    """Evidence of 10 numbers is as wide as the first layer and is passed on, 3 are not.

    Five covariates make the output as wide as the last hidden layer: it is linear all the same.
    """
    net = network(n_evidence, n_covariates)
    with torch.no_grad():
        for parameter in (*net.weights, *net.biases):
            parameter.add_(0.5 * normal(rng, *parameter.shape))
    x = normal(rng, 6, n_evidence)
    local = net(x, None)
    weights, biases = [to_array(w) for w in net.weights], [to_array(b) for b in net.biases]
    assert [w.shape[0] for w in weights] == [10, 10, 2 * n_covariates]
    for b in range(6):
        expected = naive_network(weights, biases, to_array(x[b]))
        expected[:n_covariates] += to_array(net.skip) @ to_array(x[b])
        actual = np.concatenate([to_array(local.mean[b]), to_array(local.log_std[b])])
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-13)


def test_network_starts_at_its_linear_skip(rng: np.random.Generator) -> None:
    """log_std is -2 where the evidence is zero."""
    net, x = network(4, 2), normal(rng, 5, 4)
    expected = to_array(x) @ to_array(net.skip).T
    np.testing.assert_allclose(to_array(net(x, None).mean), expected, rtol=1e-13)
    uncertain = net(torch.zeros(1, 4, dtype=torch.float64), None)
    np.testing.assert_array_equal(to_array(uncertain.log_std), -2.0)


def test_network_in_other_units_is_the_same_network(rng: np.random.Generator) -> None:
    skip, unit = normal(rng, 2, 4), torch.tensor([1.0, 1e8, 1e-3, 30.0]).double()
    x = normal(rng, 5, 4)
    local, scaled = (
        Amortized(weights, torch.Generator().manual_seed(0), units).double()(known, None)
        for weights, units, known in ((skip, None, x), (skip / unit, unit, x * unit))
    )
    for one, other in zip(local, scaled, strict=True):
        np.testing.assert_allclose(to_array(one), to_array(other), rtol=1e-12)


def test_weights_start_with_the_variance_of_glorot() -> None:
    """2 / (n_in + n_out), but zero where the last layer gives means."""
    n_seeds = 200
    skip = torch.zeros(2, 4)
    drawn = [Amortized(skip, torch.Generator().manual_seed(seed)) for seed in range(n_seeds)]
    for layer, total in enumerate([14, 20, 14]):
        rows = slice(2, None) if total == 14 and layer else slice(None)
        weights = np.concatenate([to_array(net.weights[layer])[rows].ravel() for net in drawn])
        variance = 2.0 / total
        error = variance * math.sqrt(2.0 / weights.size)
        assert abs((weights**2).mean() - variance) < 4.5 * error
        fourth = (weights**4).mean() / variance**2
        assert abs(fourth - 3.0) < 4.5 * math.sqrt(96.0 / weights.size)


def test_network_looks_at_the_evidence_and_not_at_the_numbers_of_rows(
    rng: np.random.Generator,
) -> None:
    net, x = network(3, 2), normal(rng, 5, 3)
    first, second = net(x, torch.arange(5)), net(x, torch.arange(5).flip(0))
    np.testing.assert_array_equal(to_array(first.mean), to_array(second.mean))
    alone = net(x[2:3], None)
    np.testing.assert_allclose(to_array(alone.mean[0]), to_array(first.mean[2]), rtol=1e-12)


def test_gradient_of_the_network(rng: np.random.Generator) -> None:
    net, x = network(3, 2), normal(rng, 4, 3)
    parameters = dict(net.named_parameters())

    def value(*values: Tensor) -> Tensor:
        pairs = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(net, pairs, (x, None)).kl()

    inputs = [p.detach().clone().requires_grad_() for p in parameters.values()]
    assert torch.autograd.gradcheck(value, inputs, eps=1e-6, atol=1e-6, rtol=1e-4)


# ------------------------------------------------------------------ parameters of each row


def test_free_moments_are_those_of_the_rows_of_the_batch(rng: np.random.Generator) -> None:
    free = Free(torch.randn(7, 2, generator=torch.Generator().manual_seed(0))).double()
    np.testing.assert_array_equal(to_array(free.log_std), -2.0)
    with torch.no_grad():
        free.log_std.copy_(normal(rng, 7, 2))
    rows = torch.tensor([5, 0, 3])
    local = free(normal(rng, 3, 4), rows)
    for place, row in enumerate([5, 0, 3]):
        np.testing.assert_array_equal(to_array(local.mean[place]), to_array(free.mean[row]))
        np.testing.assert_array_equal(to_array(local.log_std[place]), to_array(free.log_std[row]))


def test_gradient_reaches_the_rows_of_the_batch_alone(rng: np.random.Generator) -> None:
    """d KL / d mean is the mean, d KL / d log_std is exp(2 log_std) - 1."""
    free = Free(torch.randn(7, 2, generator=torch.Generator().manual_seed(0))).double()
    rows = torch.tensor([5, 0, 3])
    free(normal(rng, 3, 4), rows).kl().sum().backward()
    assert free.mean.grad is not None
    assert free.log_std.grad is not None
    mean, log_std = np.zeros((7, 2)), np.zeros((7, 2))
    mean[rows] = to_array(free.mean)[rows]
    log_std[rows] = math.exp(-4.0) - 1.0
    np.testing.assert_allclose(to_array(free.mean.grad), mean, rtol=1e-13)
    np.testing.assert_allclose(to_array(free.log_std.grad), log_std, rtol=1e-13)
