"""A stack of layers: from a batch and its nodes to the latent moments of the top layer."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from skgp.core.layers import Latent, Layer
from skgp.core.nodes import Nodes


class GPStack(nn.Module):
    """Layers of sparse GPs, the last of which carries the latent functions of the likelihood.

    Parameters
    ----------
    layers : sequence of Layer
        From the inputs upwards.
    features : Module, optional
        From inputs (B, D) to features (B, F), in front of the first layer (deep kernel).
    """

    def __init__(self, layers: Sequence[Layer], features: nn.Module | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.features = nn.Identity() if features is None else features

    @property
    def bottom(self) -> Layer:
        """The layer that the inputs enter."""
        return self._layers()[0]

    @property
    def top(self) -> Layer:
        """The layer that the likelihood sees."""
        return self._layers()[-1]

    def factors(self) -> list[Any]:
        """Factors of every layer: what a step or a prediction call computes once."""
        return [layer.factors() for layer in self._layers()]

    def forward(self, x: Tensor, nodes: Nodes, factors: Sequence[Any]) -> Latent:
        """Latent moments (Q, B, W) at a batch x (B, D).

        Hidden layers propagate by h = mean + sqrt(var) * xi, whatever the nodes are.
        """
        h = self.features(x).unsqueeze(0)
        *hidden, top = zip(self._layers(), factors, strict=True)
        for (layer, layer_factors), xi in zip(hidden, nodes.xi, strict=True):
            latent = layer.moments(h, layer_factors)
            # The floor keeps the slope of the root finite where a layer is certain.
            deviation = latent.f_var.clamp_min(torch.finfo(h.dtype).eps).sqrt()
            h = latent.f_mean + deviation * xi
        return top[0].moments(h, top[1])

    def kl(self, factors: Sequence[Any]) -> Tensor:
        """Sum of the layers' divergences, in nats."""
        parts = zip(self._layers(), factors, strict=True)
        return torch.stack([layer.kl(layer_factors) for layer, layer_factors in parts]).sum()

    def log_prior(self) -> Tensor | float:
        """Log density of all hyper-parameters under their priors."""
        return sum((layer.kernel.log_prior() for layer in self._layers()), start=0.0)

    def _layers(self) -> list[Layer]:
        return list(self.layers)  # type: ignore[arg-type]
