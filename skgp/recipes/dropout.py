"""Monte Carlo dropout: a dense network under fixed masks."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from torch import Tensor

from skgp.core.baselines.dropout import DropoutNetwork, dropout_loss
from skgp.core.data import Batch
from skgp.core.layers.layer import Latent, certain
from skgp.core.nodes.rules import NodeRule
from skgp.fitting.model import Model, Source
from skgp.fitting.setup import Setup
from skgp.recipes.networks import Network


@dataclass(frozen=True)
class Dropout:
    """Parameter group: masks of the hidden units."""

    dropout: float
    n_samples: int


class Passes(Source):
    """Passes of a network under fixed masks.

    Parameters
    ----------
    network : DropoutNetwork
    """

    def __init__(self, network: DropoutNetwork) -> None:
        super().__init__()
        self.network = network

    def log_weights(self, nodes: NodeRule) -> Tensor:
        n = len(self.network.kept)
        return self.network.biases[-1].new_full((n,), -math.log(n))

    def latents(self, nodes: NodeRule) -> Callable[[Tensor], Latent]:
        return lambda x: certain(self.network(x, self.network.kept))


def build_dropout(network: Network, dropout: Dropout, setup: Setup) -> Model:
    """A network, with a noise that explains the whole variance of y at first."""
    n_inputs, n_outputs = setup.x.shape[1], setup.Y.shape[1]
    seed = setup.seed_for("network")
    parts = network.sizes, n_outputs, dropout.dropout, dropout.n_samples, seed
    passes = Passes(DropoutNetwork(n_inputs, *parts))
    return Model(passes, network.likelihood(setup, 1.0)).double()


def masked_loss(
    weight_decay: float, model: Model, batch: Batch, step: int, n_data: float
) -> Tensor:
    """Training loss of a batch, nats per row, with the penalty of the network's weights."""
    network = cast(Passes, model.source).network
    kept = network.draw(len(batch.x), step)
    return dropout_loss(network, model.likelihood, batch, kept, weight_decay=weight_decay)
