"""The tests of the core refuse wrong shapes: of arguments, of results and of fields."""

import itertools

import numpy as np
import pytest
import torch
from contracts import CONTRACTS
from jaxtyping import TypeCheckError
from oracles.models import normal, random_layer, random_likelihood
from shapes import checked, checked_methods, family, real

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.nodes.rules import Nodes
from skgp.core.objectives.objective import ELBO, PREDICTIVE
from skgp.core.stacks.stack import GPStack

Q, B, W = 3, 4, 2


def moments(rng: np.random.Generator, *shape: int) -> Latent:
    mean = normal(rng, *shape)
    return Latent(mean, torch.ones_like(mean), torch.ones_like(mean))


def unchanged(x: torch.Tensor) -> torch.Tensor:
    return x


@pytest.mark.parametrize("axes", ["B W", "W B", "W"])
def test_result_has_the_axes_of_the_argument(rng: np.random.Generator, axes: str) -> None:
    function = checked(unchanged, {"x": real("B W"), "return": real(axes)})
    if axes == "B W":
        assert function(normal(rng, B, W)).shape == (B, W)
        return
    with pytest.raises(TypeCheckError, match="return value"):
        function(normal(rng, B, W))


def test_layer_whose_mean_is_transposed(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = random_layer(rng, "full", n_gps=W, n_inducing=5)
    x = normal(rng, 1, B, 3)
    assert layer.moments(x, layer.factors()).f_mean.shape == (1, B, W)
    moments_of = type(layer).chunk_moments

    def transposed(*args):
        mean, explained, q = moments_of(*args)
        return mean.mT, explained, q

    monkeypatch.setattr(type(layer), "chunk_moments", transposed)
    with pytest.raises(TypeCheckError, match="unit_moments"):
        layer.moments(x, layer.factors())


@pytest.mark.parametrize("field", Latent._fields)
def test_field_with_axes_in_another_order(rng: np.random.Generator, field: str) -> None:
    likelihood = random_likelihood(rng, W)
    latent, targets = moments(rng, Q, B, W), Targets(normal(rng, B, W), None)
    assert likelihood.log_marginal(latent, targets).shape == (Q, B)
    swapped = latent._replace(**{field: getattr(latent, field).transpose(0, 1)})
    with pytest.raises(TypeCheckError, match="parameter 'latent'"):
        likelihood.log_marginal(swapped, targets)


def test_fields_of_two_arguments_have_rows_in_common(rng: np.random.Generator) -> None:
    likelihood, latent = random_likelihood(rng, W), moments(rng, Q, B, W)
    for y, mask in [(B + 1, None), (B, 1), (1, None)]:  # the last two would be broadcast
        targets = Targets(normal(rng, y, W), None if mask is None else normal(rng, mask, W))
        with pytest.raises(TypeCheckError, match="parameter 'targets'"):
            likelihood.expected_log_prob(latent, targets)


@pytest.mark.parametrize("objective", [ELBO, PREDICTIVE], ids=["elbo", "predictive"])
def test_reduction_needs_a_weight_for_each_node(rng: np.random.Generator, objective) -> None:
    terms, log_omega = normal(rng, Q, B), torch.full((Q,), 1.0 / Q).double().log()
    assert objective.reduce(terms, log_omega).shape == (B,)
    for wrong in (log_omega[:1], log_omega[:, None]):  # both would be broadcast by one of the two
        with pytest.raises(TypeCheckError, match="parameter 'log_omega'"):
            objective.reduce(terms, wrong)


@pytest.mark.parametrize("n_second", [Q, 1, Q + 1])
def test_hidden_layers_have_as_many_nodes_as_weights(
    rng: np.random.Generator, n_second: int
) -> None:
    layers = [random_layer(rng, "full", n_gps=W, n_inducing=5, n_features=n) for n in (3, W, W)]
    stack, x = GPStack(layers), normal(rng, B, 3)
    xi = normal(rng, Q, 1, W), normal(rng, n_second, 1, W)
    nodes = Nodes(xi, torch.zeros(Q).double())
    if n_second == Q:
        assert stack(x, nodes, stack.factors()).f_mean.shape == (Q, B, W)
        return
    with pytest.raises(TypeCheckError, match="parameter 'nodes'"):
        stack(x, nodes, stack.factors())


def test_contract_of_nothing() -> None:
    with pytest.raises(TypeError, match="has no parameters"):
        checked(unchanged, {"y": real("B")})
    with pytest.raises(TypeError, match="Latent has no method"):
        list(checked_methods({Latent: {"mean": {}}}))


def test_methods_of_all_subclasses_are_checked() -> None:
    for base, methods in CONTRACTS.items():
        for cls, name in itertools.product(family(base), methods):
            method = vars(cls).get(name)
            function = method.fget if isinstance(method, property) else method
            assert function is None or hasattr(function, "__wrapped__"), f"{cls}.{name}"
