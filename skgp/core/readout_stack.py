"""Stacks whose latent functions a readout turns into outputs."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from skgp.core.layers import Latent, Layer
from skgp.core.nodes import Nodes
from skgp.core.readout import Readout
from skgp.core.stack import GPStack, Stack


class ReadoutStack(Stack):
    """Layers and a readout: latent functions of the likelihood are the noiseless outputs.

    The nodes are those of the hidden layers and, after them, standard normals (Q, B or 1, n_noise)
    of the readout's units. Without the latter the units are integrated out in closed form.

    Parameters
    ----------
    layers : GPStack
        Below the readout.
    readout : Readout
    mixing_layer : Layer or None
        GPs over the features of x that are entries of the mixing matrix.
    n_annealing : int
        Training steps over which the weight of all divergences rises to one.
    """

    step: Tensor

    def __init__(
        self,
        layers: GPStack,
        readout: Readout,
        mixing_layer: Layer | None,
        n_annealing: int,
    ) -> None:
        super().__init__(layers.features)
        self.below = layers
        self.readout = readout
        self.mixing_layer = mixing_layer
        self.n_annealing = n_annealing
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    @property
    def top(self) -> Layer:
        return self.below.top

    def forward(self, x: Tensor, nodes: Nodes, factors: Sequence[Any]) -> Latent:
        """Moments of the noiseless outputs, (Q, B, P), at a batch x (B, D).

        In evaluation mode the mean over the nodes is made that of all q, in closed form.
        """
        own = len(self.below.layers)
        hidden = nodes._replace(xi=nodes.xi[: own - 1])
        latent = self.below(x, hidden, factors[:own])
        if self.mixing_layer is not None:
            h = self.features(x).unsqueeze(0)
            latent = _joined(latent, self.mixing_layer.moments(h, factors[own]))
        if len(nodes.xi) < own:
            return self.readout.moments(latent, x)
        drawn = self.readout.sample(latent, x, nodes.xi[-1])
        if self.training:
            return drawn
        # A finite number of nodes would leave their own error in the mean of a prediction.
        omega = nodes.log_omega.exp()[:, None, None]
        exact = self.readout.mean(latent, x).expand_as(drawn.f_mean)
        error = (omega * (drawn.f_mean - exact)).sum(0)
        return drawn._replace(f_mean=drawn.f_mean - error)

    def kl(self, factors: Sequence[Any]) -> Tensor:
        # A point's share is minus the log density of its prior, as that of a point q(u).
        total = super().kl(factors) + self.readout.kl() - self.readout.log_prior()
        if not self.training or int(self.step) >= self.n_annealing:
            return total
        self.step += 1
        return total * (self.step.float() / self.n_annealing).to(total)

    @property
    def layers(self) -> list[Layer]:
        """The GP layers: from the inputs upwards, and then that of the mixing matrix, if any."""
        layers = cast(list[Layer], list(self.below.layers))
        return layers if self.mixing_layer is None else [*layers, self.mixing_layer]

    def _layers(self) -> list[Layer]:
        return self.layers


def _joined(first: Latent, second: Latent) -> Latent:
    """Latent functions of two layers; those that share a kernel may share a variance too."""
    expanded = (part.expand_as(second.f_mean) for part in second)
    return Latent(*(torch.cat(pair, -1) for pair in zip(first, expanded, strict=True)))
