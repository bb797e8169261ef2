"""Stacks whose latent functions a readout turns into outputs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from skgp.core.layers.layer import JointLatent, Latent, Layer, total_moments
from skgp.core.nodes.rules import Nodes
from skgp.core.stacks.readout import Readout
from skgp.core.stacks.stack import GPStack, Stack


class ReadoutStack(Stack):
    """Layers and a readout: latent functions of the likelihood are the noiseless outputs.

    The layers are those below the readout and then that of the mixing matrix, if any. The nodes say
    what is drawn, units or mixing matrix; the other factor, or both, are integrated out.

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

        In evaluation mode the mean over the nodes is made that of all q, in closed form, and the
        variances too where the outputs are linear in the latent functions.
        """
        own = len(self.below.layers)
        latent = self.below(x, nodes, factors[:own])
        if self.mixing_layer is not None:
            h = self.features(x).unsqueeze(0)
            latent = _joined(latent, self.mixing_layer.moments(h, factors[own]))
        drawn: Latent
        if nodes.mixing is not None:
            drawn = self.readout.sample_mixing(latent, x, nodes.mixing)
        elif nodes.units is not None:
            drawn = self.readout.sample(latent, x, nodes.units)
        else:
            return self.readout.moments(latent, x)
        if self.training:
            return drawn
        omega = nodes.log_omega.exp()[:, None, None]
        if self.readout.units.is_linear:
            return _standardised(drawn, self.readout.moments(latent, x), omega)
        exact = self.readout.mean(latent, x)
        return drawn._replace(f_mean=_centred(drawn.f_mean, exact, omega))

    def kl(self, factors: Sequence[Any]) -> Tensor:
        return self.layers_kl(factors) + self.readout.divergence()

    def divergence_share(self, step: int) -> float:
        return 1.0 if step >= self.n_annealing else (step + 1) / self.n_annealing


def _centred(f_mean: Tensor, exact: Tensor, omega: Tensor) -> Tensor:
    """Means (Q, B, P) whose own mean over the nodes is that of exact ones (Q or 1, B, P).

    m_q <- m_q - sum_q' omega_q' (m_q' - m): a finite number of nodes would leave its error in the
    mean of a prediction.
    """
    return f_mean - (omega * (f_mean - exact.expand_as(f_mean))).sum(0)


def _standardised(drawn: Latent, exact: Latent, omega: Tensor) -> Latent:
    """The same, and the variance of each output too: m_q <- m + c (m_q - m), V_q <- c V_q c."""
    drawn_mean = _centred(drawn.f_mean, exact.f_mean, omega)
    _, found = total_moments(drawn_mean, drawn.f_var, omega)
    mean, total = total_moments(exact.f_mean, exact.f_var, omega)
    scale = torch.where(found > 0.0, total / found, 1.0).sqrt()  # one for certain outputs
    f_mean = mean + scale * (drawn_mean - mean)
    if drawn.root is not None:
        return JointLatent(f_mean, scale.unsqueeze(-1) * drawn.root)
    return Latent(f_mean, drawn.v_prior * scale.square(), drawn.v_q * scale.square())


def _joined(first: Latent, second: Latent) -> Latent:
    """Latent functions of two layers; those that share a kernel may share a variance too."""
    pairs = zip(
        *([part.expand_as(of.f_mean) for part in of] for of in (first, second)), strict=True
    )
    return Latent(*(torch.cat(pair, -1) for pair in pairs))
