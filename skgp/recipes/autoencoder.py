"""Conditional variational autoencoders whose function is a dense network."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from torch import Tensor

from skgp.core.baselines.cvae import ConditionalVAE, cvae_loss
from skgp.core.data import Batch
from skgp.core.layers.layer import Latent, certain
from skgp.core.nodes.rules import NodeRule, Sampled
from skgp.fitting.model import Model, Source
from skgp.fitting.setup import Setup
from skgp.recipes.networks import Network


@dataclass(frozen=True)
class LatentVariables:
    """Parameter group: latent variables of each row."""

    latent_dim: int
    n_samples: int
    n_prediction_samples: int
    beta_reg: float


class Decoder(Source):
    """The decoder at fixed nodes of the latent prior.

    Parameters
    ----------
    network : ConditionalVAE
    """

    def __init__(self, network: ConditionalVAE) -> None:
        super().__init__()
        self.network = network

    def log_weights(self, nodes: NodeRule) -> Tensor:
        fixed = cast(Sampled, nodes).fixed
        return fixed.new_full((len(fixed),), -math.log(len(fixed)))

    def latents(self, nodes: NodeRule) -> Callable[[Tensor], Latent]:
        fixed = cast(Sampled, nodes).fixed.unsqueeze(1)
        return lambda x: certain(self.network(x, fixed))


# Far less than a new decoder leaves unexplained. So the targets count more than the divergence at
# first, and the decoder finds a use for z (doc/decisions/79).
_INITIAL_NOISE = 0.03


def build_autoencoder(network: Network, latent: LatentVariables, setup: Setup) -> Model:
    """Encoder and decoder, and nodes of the latent prior."""
    n_inputs, n_outputs = setup.x.shape[1], setup.Y.shape[1]
    parts = network.sizes, n_outputs, latent.latent_dim, setup.seed_for("network")
    layers = ConditionalVAE(n_inputs, *parts)
    n_samples, n_fixed = latent.n_samples, latent.n_prediction_samples
    nodes = Sampled([latent.latent_dim], n_samples, n_fixed, setup.seed_for("nodes"))
    return Model(Decoder(layers), network.likelihood(setup, _INITIAL_NOISE), nodes).double()


def autoencoder_loss(
    weight_decay: float, beta_reg: float, model: Model, batch: Batch, step: int, n_data: float
) -> Tensor:
    """Training loss of a batch, nats per row, with the penalty of the networks' weights."""
    return cvae_loss(
        cast(Decoder, model.source).network,
        model.likelihood,
        model.nodes(len(batch.x), step),
        batch,
        beta_reg=beta_reg,
        weight_decay=weight_decay,
    )
