"""Baselines whose function is a dense network: Monte Carlo dropout and conditional autoencoders."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, cast

from torch import Tensor

from skgp.core.baselines.cvae import ConditionalVAE, cvae_loss
from skgp.core.baselines.dropout import DropoutNetwork, dropout_loss
from skgp.core.data import Batch
from skgp.core.layers.layer import Latent, certain
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.nodes.rules import NodeRule, Sampled
from skgp.fitting.arguments import check_sizes
from skgp.fitting.model import Model, Source
from skgp.fitting.plans import Epochs, Minibatch, Stopping, minibatch_plan
from skgp.fitting.recipe import (
    Loss,
    Recipe,
    always_repeats,
    float64_if_one_batch,
    no_stream_if_stopping,
    pick,
)
from skgp.fitting.setup import Setup
from skgp.recipes.optimizers import adam


@dataclass(frozen=True)
class Network:
    """Parameter group: a dense network."""

    hidden_layer_sizes: int | Sequence[int]
    noise_floor: float

    @property
    def sizes(self) -> list[int]:
        """Widths of the hidden layers."""
        sizes = self.hidden_layer_sizes
        return check_sizes("hidden_layer_sizes", [sizes] if isinstance(sizes, Integral) else sizes)

    def likelihood(self, setup: Setup, noise: float) -> Gaussian:
        """The likelihood, whose noise starts at this share of the variance of y."""
        return Gaussian(setup.Y.shape[1], noise, self.noise_floor)


# ------------------------------------------------------------------ dropout


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


# ------------------------------------------------------------------ autoencoders


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


def network_recipe(p: Any, build: Callable[[Setup], Model], loss: Loss) -> Recipe:
    """The recipe of a network with parameters of `Minibatch` and `Stopping`."""
    return Recipe(
        build=build,
        loss=loss,
        optimizer=partial(adam, p.learning_rate_init),
        plan=partial(minibatch_plan, pick(Minibatch, p), pick(Stopping, p), Epochs()),
        dtype=partial(float64_if_one_batch, p.batch_size),
        why_no_stream=no_stream_if_stopping(p),
        repeats=always_repeats,
    )
