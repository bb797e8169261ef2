"""Stacks whose latent functions a readout turns into outputs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from skgp.core.layers.layer import Latent, Layer
from skgp.core.nodes.rules import Nodes
from skgp.core.stacks.readout import Readout
from skgp.core.stacks.stack import GPStack, Stack


class ReadoutStack(Stack):
    """Layers and a readout: latent functions of the likelihood are the noiseless outputs.

    The layers are those below the readout and then that of the mixing matrix, if any. The units are
    drawn at the nodes, or integrated out in closed form if those have none for them.

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

    @property
    def layers(self) -> list[Layer]:
        below = self.below.layers
        return below if self.mixing_layer is None else [*below, self.mixing_layer]

    @property
    def top(self) -> Layer:
        return self.below.top

    def forward(self, x: Tensor, nodes: Nodes, factors: Sequence[Any]) -> Latent:
        """Moments of the noiseless outputs, (Q, B, P), at a batch x (B, D).

        In evaluation mode the mean over the nodes is made that of all q, in closed form.
        """
        own = len(self.below.layers)
        latent = self.below(x, nodes, factors[:own])
        if self.mixing_layer is not None:
            h = self.features(x).unsqueeze(0)
            latent = _joined(latent, self.mixing_layer.moments(h, factors[own]))
        if nodes.units is None:
            return self.readout.moments(latent, x)
        drawn = self.readout.sample(latent, x, nodes.units)
        if self.training:
            return drawn
        # m_q <- m_q - sum_q' omega_q' (m_q' - m) with the mean m over all values of the units: a
        # finite number of nodes would leave its error in the mean of a prediction.
        omega = nodes.log_omega.exp()[:, None, None]
        exact = self.readout.mean(latent, x).expand_as(drawn.f_mean)
        error = (omega * (drawn.f_mean - exact)).sum(0)
        return drawn._replace(f_mean=drawn.f_mean - error)

    def kl(self, factors: Sequence[Any]) -> Tensor:
        return self.layers_kl(factors) + self.readout.divergence()

    def divergence_share(self, step: int) -> float:
        return 1.0 if step >= self.n_annealing else (step + 1) / self.n_annealing


def _joined(first: Latent, second: Latent) -> Latent:
    """Latent functions of two layers; those that share a kernel may share a variance too."""
    pairs = zip(
        *([part.expand_as(of.f_mean) for part in of] for of in (first, second)), strict=True
    )
    return Latent(*(torch.cat(pair, -1) for pair in pairs))
