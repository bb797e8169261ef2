"""A stack of layers: from a batch and its nodes to the latent moments of the top layer."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from skgp.core.layers.layer import Latent, Layer
from skgp.core.nodes.rules import Nodes

LayerInput = Literal["below", "inputs", "both"]


class Connection(NamedTuple):
    """What a layer sees: the layer below it (Q, B, W), the stack's inputs (1, B, D), or both.

    Attributes
    ----------
    kernel, mean : {"below", "inputs", "both"}
        Sources of the kernel and of a linear prior mean.
    """

    kernel: LayerInput = "below"
    mean: LayerInput = "below"

    def inputs(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs of the kernel and of the mean, from the layer below and the stack's inputs."""
        return _select(self.kernel, h, x), _select(self.mean, h, x)


FEEDFORWARD: Final = Connection()


def _select(source: LayerInput, h: Tensor, x: Tensor) -> Tensor:
    if source == "below":
        return h
    return x if source == "inputs" else torch.cat([h, x.expand(len(h), -1, -1)], -1)


class _Unchanged(nn.Identity):
    """Stands for the lack of a feature extractor: a user's own may be `Identity`."""


class Stack(nn.Module, ABC):
    """Abstract base: GP layers. The likelihood sees the functions of the last one.

    Parameters
    ----------
    features : Module or None
        From inputs (B, D) to features (B, F), in front of the first layer (deep kernel).
    """

    def __init__(self, features: nn.Module | None) -> None:
        super().__init__()
        self.features = _Unchanged() if features is None else features

    @property
    def has_features(self) -> bool:
        """Whether the first layer sees features in the place of the inputs."""
        return not isinstance(self.features, _Unchanged)

    @property
    @abstractmethod
    def layers(self) -> list[Layer]:
        """All GP layers, from the inputs upwards."""

    @property
    def networks(self) -> list[nn.Module]:
        """Features and neural prior means, whose weights `weight_decay` penalises."""
        means = (getattr(layer, "mean_network", None) for layer in self.layers)
        return [self.features, *(network for network in means if network is not None)]

    @property
    def bottom(self) -> Layer:
        """The layer that the inputs enter."""
        return self.layers[0]

    @property
    @abstractmethod
    def top(self) -> Layer:
        """The layer whose functions the likelihood, or a readout in front of it, sees."""

    def known_factors(self) -> list[Any]:
        """Factors of every layer for a prediction, which layers may have kept from the last one."""
        factors = []
        for layer in self.layers:
            factors.append(layer.known_factors())
        return factors

    def factors(self) -> list[Any]:
        """Factors of every layer: what a training step computes once."""
        factors = []
        for layer in self.layers:
            factors.append(layer.factors())
        return factors

    @abstractmethod
    def forward(self, x: Tensor, nodes: Nodes, factors: Sequence[Any]) -> Latent:
        """Latent moments (Q, B, W) at a batch x (B, D); without hidden layers (1, B, W)."""

    @abstractmethod
    def kl(self, factors: Sequence[Any]) -> Tensor:
        """Divergence of all that has a posterior common to the rows, in nats."""

    def divergence_share(self, step: int) -> float:
        """Share of the weight of `kl` that counts in a training step."""
        return 1.0

    def layers_kl(self, factors: Sequence[Any]) -> Tensor:
        """Sum of the layers' divergences, in nats."""
        parts = zip(self.layers, factors, strict=True)
        return torch.stack([layer.kl(layer_factors) for layer, layer_factors in parts]).sum()

    def log_prior(self) -> Tensor | float:
        """Log density of all hyper-parameters under their priors."""
        return sum((layer.kernel.log_prior() for layer in self.layers), start=0.0)


class GPStack(Stack):
    """Layers of sparse GPs, each of which sees the one below it.

    Parameters
    ----------
    layers : sequence of Layer
    features : Module, optional
    connections : sequence of Connection, optional
        What each layer sees; the layer below it if None.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        features: nn.Module | None = None,
        connections: Sequence[Connection] | None = None,
    ) -> None:
        super().__init__(features)
        self.gp_layers = nn.ModuleList(layers)
        self.connections = [FEEDFORWARD] * len(layers) if connections is None else connections

    @property
    def layers(self) -> list[Layer]:
        return cast(list[Layer], list(self.gp_layers))

    @property
    def top(self) -> Layer:
        return self.layers[-1]

    def forward(self, x: Tensor, nodes: Nodes, factors: Sequence[Any]) -> Latent:
        """Latent moments (Q, B, W) at a batch x (B, D).

        Hidden layers propagate by h = mean + sqrt(var) * xi, whatever the nodes are.
        """
        h = inputs = self.features(x).unsqueeze(0)
        *hidden, top = zip(self.layers, factors, self.connections, strict=True)
        for (layer, layer_factors, connection), xi in zip(hidden, nodes.xi, strict=True):
            h, h_mean = connection.inputs(h, inputs)
            h = layer.moments(h, layer_factors, h_mean).draw(xi)
        layer, layer_factors, connection = top
        h, h_mean = connection.inputs(h, inputs)
        return layer.moments(h, layer_factors, h_mean)

    def kl(self, factors: Sequence[Any]) -> Tensor:
        return self.layers_kl(factors)
