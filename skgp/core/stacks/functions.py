"""The functions of a stack: those of its hidden layers, at nodes or drawn, and whole draws."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from skgp.core.layers.functions import N_FEATURES, LayerFunctions
from skgp.core.layers.layer import Layer
from skgp.core.nodes.rules import NodeRule
from skgp.core.nodes.sigma_points import Quadrature
from skgp.core.stacks.stack import GPStack

# From inputs of kernel and mean, (Q or 1, N, _), to Q values of the functions, (Q, N, W).
Functions = Callable[[Tensor, Tensor], Tensor]


class NodeFunctions:
    """The functions mean(x) + std(x) xi of a layer, at Q nodes xi (Q, 1, W)."""

    def __init__(self, layer: Layer, factors: Any, xi: Tensor) -> None:
        self.layer = copy.deepcopy(layer).requires_grad_(False)
        self.factors = type(factors)(*(None if f is None else f.detach() for f in factors))
        self.xi = xi.detach()

    def __call__(self, x: Tensor, x_mean: Tensor) -> Tensor:
        return self.layer.moments(x, self.factors, x_mean).draw(self.xi)


class HiddenFunctions:
    """Q functions of all hidden layers of a stack together, from its inputs to its top layer.

    Parameters
    ----------
    stack : GPStack
    of_layers : sequence of Functions
        One for each hidden layer.
    """

    def __init__(self, stack: GPStack, of_layers: Sequence[Functions]) -> None:
        self.features = copy.deepcopy(stack.features).requires_grad_(False)
        self.connections = stack.connections
        self.of_layers = list(of_layers)

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What kernel and mean of the top layer see of x (N, D), (Q or 1, N, _) each."""
        h = inputs = self.features(x).unsqueeze(0)
        *hidden, top = self.connections
        for functions, connection in zip(self.of_layers, hidden, strict=True):
            h = functions(*connection.inputs(h, inputs))
        return top.inputs(h, inputs)


def hidden_mixture(
    stack: GPStack, factors: Sequence[Any], rule: NodeRule, generator: torch.Generator
) -> tuple[HiddenFunctions, Tensor]:
    """The hidden functions that a prediction averages over, and their weights (Q,).

    Sigma points define Q functions themselves. Elsewhere they are drawn from the posterior, one for
    each node of a prediction: such nodes stand for draws at one row.
    """
    nodes = rule(1)
    layers = list(zip(stack.layers[:-1], factors[:-1], strict=True))
    n_nodes = len(nodes.log_omega)
    if isinstance(rule, Quadrature):
        pairs = zip(layers, nodes.xi, strict=True)
        at_nodes = [NodeFunctions(layer, f, xi) for (layer, f), xi in pairs]
        return HiddenFunctions(stack, at_nodes), nodes.log_omega.exp()
    drawn = [LayerFunctions(layer, f, n_nodes, generator) for layer, f in layers]
    return HiddenFunctions(stack, drawn), torch.full_like(nodes.log_omega, 1.0 / n_nodes)


class StackFunctions:
    """S draws of the functions of a stack's top layer.

    Draws of one layer are the inputs of the next one. With sigma points the hidden functions are
    those of a node, drawn by its weight.

    Parameters
    ----------
    stack : GPStack
    factors : sequence or None
        Of all layers; None for draws from the prior.
    rule : NodeRule
    n_samples : int
    generator : torch.Generator
    n_features : int
        Number of frequencies of each draw of each GP.
    """

    def __init__(
        self,
        stack: GPStack,
        factors: Sequence[Any] | None,
        rule: NodeRule,
        n_samples: int,
        generator: torch.Generator,
        n_features: int = N_FEATURES,
    ) -> None:
        *hidden, top = stack.layers
        *of_hidden, of_top = [None] * (len(hidden) + 1) if factors is None else factors
        layers = zip(hidden, of_hidden, strict=True)
        functions: list[Functions]
        if isinstance(rule, Quadrature) and factors is not None:
            nodes = rule(1)
            weights = nodes.log_omega.detach().cpu().exp()
            drawn = torch.multinomial(weights, n_samples, replacement=True, generator=generator)
            pairs = zip(layers, nodes.xi, strict=True)
            functions = [
                NodeFunctions(layer, f, xi[drawn.to(xi.device)]) for (layer, f), xi in pairs
            ]
        else:
            draw = n_samples, generator, n_features
            functions = [LayerFunctions(layer, f, *draw) for layer, f in layers]
        self.hidden = HiddenFunctions(stack, functions)
        self.top = LayerFunctions(top, of_top, n_samples, generator, n_features)

    def __call__(self, x: Tensor) -> Tensor:
        """Values (S, N, W) at x (N, D)."""
        return self.top(*self.hidden(x))
