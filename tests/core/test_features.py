"""Networks of deep kernels: structure, seeds, standardised starts, refusals."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from skgp.core.networks.features import (
    DKL_SIZES,
    check_batch,
    dense_network,
    half_squared_norm,
    make_features,
    start_features,
)


def parameter_count(n_features: int, sizes: list[int]) -> int:
    """Weights and biases of every layer; scale and shift of every batch norm but the last."""
    widths = [n_features, *sizes]
    dense = sum((a + 1) * b for a, b in pairwise(widths))
    return dense + 2 * sum(sizes[:-1])


def inputs(n: int, n_features: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, n_features, generator=generator).double()


@pytest.mark.parametrize("sizes", [[3], [12, 3], [7, 5, 2]])
def test_structure_of_a_dense_network(sizes: list[int]) -> None:
    """Linear, batch norm, ReLU for each hidden layer; linear and a bare batch norm at the end."""
    network = dense_network(4, sizes)
    kinds = [nn.Linear, nn.BatchNorm1d, nn.ReLU] * (len(sizes) - 1) + [nn.Linear, nn.BatchNorm1d]
    assert [type(layer) for layer in network] == kinds
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    assert [layer.in_features for layer in linear] == [4, *sizes[:-1]]
    assert [layer.out_features for layer in linear] == sizes
    norms = [layer for layer in network if isinstance(layer, nn.BatchNorm1d)]
    assert [norm.affine for norm in norms] == [True] * (len(sizes) - 1) + [False]
    assert sum(p.numel() for p in network.parameters()) == parameter_count(4, sizes)
    assert network(inputs(6).float()).shape == (6, sizes[-1])


def test_dkl_is_the_network_of_the_paper() -> None:
    network = make_features("dkl", 9, 0)
    assert DKL_SIZES == (1000, 1000, 500, 50, 20)
    widths = [layer.out_features for layer in network if isinstance(layer, nn.Linear)]
    assert widths == [1000, 1000, 500, 50, 20]
    count = sum(p.numel() for p in network.parameters())
    assert count == parameter_count(9, list(DKL_SIZES)) == 1_542_670


def factory(n_features: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_features, 2), nn.Tanh())


@pytest.mark.parametrize("extractor", [[5, 2], factory], ids=["sizes", "factory"])
def test_weights_come_from_the_seed_alone(extractor: object) -> None:
    state = torch.get_rng_state()
    first, same, other = (
        torch.nn.utils.parameters_to_vector(make_features(extractor, 3, seed).parameters())
        for seed in (5, 5, 6)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_the_callers_generator_plays_no_part() -> None:
    with torch.random.fork_rng(devices=[]):
        weights = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            weights.append(make_features([4], 3, 0)[0].weight)
    assert torch.equal(*weights)


def test_a_factory_gets_the_number_of_inputs() -> None:
    seen: list[int] = []

    def spy(n_features: int) -> nn.Module:
        seen.append(n_features)
        return factory(n_features)

    assert make_features(spy, 7, 0)[0].in_features == 7
    assert seen == [7]


def test_start_standardises_the_features_and_sets_running_statistics() -> None:
    """In prediction the features of the rows have mean 0 and variance 1 (n - 1) / n."""
    x = inputs(200) * 3.0 + 1.0
    network = make_features([3], 4, 0).double()
    h = start_features(network, x)
    np.testing.assert_allclose(h.mean(0), np.zeros(3), rtol=0, atol=1e-12)
    np.testing.assert_allclose(h.var(0, correction=1), np.ones(3), rtol=1e-4)
    linear, norm = network
    values = (x @ linear.weight.T + linear.bias).detach()
    np.testing.assert_allclose(norm.running_mean, values.mean(0), rtol=0, atol=1e-12)
    np.testing.assert_allclose(norm.running_var, values.var(0), rtol=1e-12)
    assert network.training
    assert norm.momentum == nn.BatchNorm1d(3).momentum
    deep = make_features([12, 3], 4, 0).double()
    h = start_features(deep, x)
    np.testing.assert_allclose(h.mean(0), np.zeros(3), rtol=0, atol=0.01)
    np.testing.assert_allclose(h.var(0), np.ones(3), rtol=0, atol=0.01)
    torch.testing.assert_close(deep.eval()(x), h)
    assert not h.requires_grad


def test_half_the_squared_norm_has_the_parameters_as_its_gradient() -> None:
    network = make_features([6, 2], 4, 0).double()
    penalty = half_squared_norm(network)
    expected = sum(0.5 * float(np.sum(p.detach().numpy() ** 2)) for p in network.parameters())
    np.testing.assert_allclose(penalty.item(), expected, rtol=1e-13)
    penalty.backward()
    for parameter in network.parameters():
        assert torch.equal(parameter.grad, parameter)
    assert half_squared_norm(nn.Identity()) == 0.0


# -------------------------------------------------------------------- refusals


def test_a_factory_has_to_return_a_module() -> None:
    with pytest.raises(TypeError, match=r"feature_extractor must return a torch.nn.Module .*list"):
        make_features(lambda n: [n], 3, 0)


@pytest.mark.parametrize("make", [lambda: None, lambda n, m: None, nn.Linear])
def test_a_factory_has_to_take_the_number_of_inputs(make: Any) -> None:
    with pytest.raises(TypeError, match="feature_extractor must take one argument, the number of"):
        make_features(make, 3, 0)


def test_a_module_is_no_factory() -> None:
    with pytest.raises(TypeError, match=r"feature_extractor must be a function .* got a module"):
        make_features(nn.Linear(3, 2), 3, 0)


def test_an_error_of_the_factory_is_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        make_features(lambda n: nn.Linear(n // 0, 1), 3, 0)


def test_modules_that_cannot_be_copied() -> None:
    module = nn.Linear(3, 2)
    module.product = module.weight * 2.0  # no leaf of a graph
    with pytest.raises(
        ValueError, match="feature_extractor returns a module that cannot be copied"
    ):
        make_features(lambda n: module, 3, 0)


def test_a_factory_may_return_the_same_module_again() -> None:
    module = nn.Linear(3, 2)
    first, second = (make_features(lambda n: module, 3, seed) for seed in (0, 1))
    assert len({id(m.weight) for m in (module, first, second)}) == 3
    assert torch.equal(first.weight, module.weight)


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


class Nothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :0]


class Rounded(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.float()


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Linear(5, 2), r"module that fails for inputs of shape \(6, 4\)"),
        (Pair(), r"turns inputs of shape .* into tuple: it must return a matrix"),
        (Nothing(), r"into \(6, 0\): it must return a matrix"),
        (Rounded(), r"turns inputs of torch\.float64 into torch\.float32"),
    ],
)
def test_modules_that_make_no_features(module: nn.Module, message: str) -> None:
    with pytest.raises(ValueError, match=f"^feature_extractor .*{message}"):
        start_features(module.double(), inputs(6))


@pytest.mark.parametrize(
    ("module", "shape"),
    [(nn.Flatten(0), r"\(20,\)"), (nn.Unflatten(1, (2, 2)), r"\(5, 2, 2\)")],
    ids=["vector", "cube"],
)
def test_features_have_to_be_a_matrix(module: nn.Module, shape: str) -> None:
    with pytest.raises(ValueError, match=rf"feature_extractor turns .*\(5, 4\) into {shape}"):
        start_features(module, inputs(5))


class Halves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[::2]


def test_features_have_to_have_a_row_for_each_input() -> None:
    with pytest.raises(ValueError, match="one row for each input row"):
        start_features(Halves(), inputs(6))


def test_a_batch_norm_in_training_refuses_a_single_row() -> None:
    network = make_features([3], 4, 0).double()
    for refuse in (lambda: check_batch(network, 1), lambda: start_features(network, inputs(1))):
        with pytest.raises(ValueError, match=r"feature_extractor.*n_samples=1.*larger batches"):
            refuse()
    check_batch(network, 2)
    check_batch(network.eval(), 1)
    plain = factory(4).double()
    check_batch(plain, 1)
    assert start_features(plain, inputs(1)).shape == (1, 2)


def test_deep_kernel_starts_near_the_identity() -> None:
    """x (1 + g(x)) with two tanh layers of 50, unit by unit; other seeds, other weights."""
    network = make_features("deep-kernel", 4, 3).double()
    x = inputs(6)
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    assert [layer.out_features for layer in layers] == [50, 50, 4]
    g = x
    for number, layer in enumerate(layers):
        g = g @ layer.weight.T + layer.bias
        g = g if number == 2 else g.tanh()
    np.testing.assert_allclose(
        network(x).detach().numpy(), (x * (1.0 + g)).detach().numpy(), rtol=1e-12
    )
    assert 1e-3 < g.abs().max().item() < 0.5
    other = make_features("deep-kernel", 4, 4).double()
    assert not torch.equal(other(x), network(x))
