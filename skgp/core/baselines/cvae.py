"""Conditional variational autoencoders: dense networks with one latent variable for each row."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from skgp.core.data import Batch
from skgp.core.layers.layer import certain
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.networks.features import half_squared_norm, tanh_network
from skgp.core.nodes.rules import Nodes
from skgp.core.numerics.draws import make_generator
from skgp.core.objectives.objective import ELBO
from skgp.core.stacks.row_posterior import RowMoments


class ConditionalVAE(nn.Module):
    """Encoder q(z | x, y) = N(m, diag(s^2)) and decoder f(x, z) of a latent z ~ N(0, I).

    Sohn, Lee and Yan (2015), with a prior that does not depend on x. Both networks start with
    Glorot weights, except the last layer of the decoder, which starts at zero.

    Parameters
    ----------
    n_inputs : int
        Number D of inputs.
    sizes : sequence of int
        Widths of the hidden layers, of the encoder and of the decoder.
    n_outputs : int
        Number P of outputs.
    latent_dim : int
        Number L of latent variables of a row.
    seed : int
        Seeds the weights.
    """

    def __init__(
        self, n_inputs: int, sizes: Sequence[int], n_outputs: int, latent_dim: int, seed: int
    ) -> None:
        super().__init__()
        generator = make_generator(seed, "weights")
        self.encoder = tanh_network([n_inputs + n_outputs, *sizes, 2 * latent_dim], generator)
        self.decoder = tanh_network([n_inputs + latent_dim, *sizes, n_outputs], generator)
        # A new model predicts the mean of the targets, whatever x and z are.
        *_, weight, _ = self.decoder.parameters()
        nn.init.zeros_(weight)

    def encode(self, x: Tensor, y: Tensor) -> RowMoments:
        """Moments of q(z | x, y), each (B, L).

        Parameters
        ----------
        x : Tensor of shape (B, D)
        y : Tensor of shape (B, P)
            Zero, the mean, where missing.
        """
        return RowMoments(*self.encoder(torch.cat([x, y], -1)).chunk(2, -1))

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        """Outputs (Q, B, P) of the decoder.

        Parameters
        ----------
        x : Tensor of shape (B, D)
        z : Tensor of shape (Q, B or 1, L)
        """
        shape = len(z), len(x), -1
        outputs: Tensor = self.decoder(torch.cat([x.expand(shape), z.expand(shape)], -1))
        return outputs


def cvae_loss(
    network: ConditionalVAE,
    likelihood: Gaussian,
    nodes: Nodes,
    batch: Batch,
    *,
    beta_reg: float,
    weight_decay: float,
) -> Tensor:
    """-(mean over rows of E_q log N(y; f(x, z), noise) - beta_reg KL(q || p)) + the penalty.

    The expectation over q(z | x, y) is the mean over reparameterised z (Sohn, Lee and Yan 2015,
    Eqn 5); the penalty is weight_decay / 2 * |parameters of both networks|^2. A row's weight
    multiplies its divergence too, because each row has a latent variable of its own.

    Parameters
    ----------
    network : ConditionalVAE
    likelihood : Gaussian
    nodes : Nodes
        Standard normal draws (Q, B, L).
    batch : Batch
    beta_reg : float
    weight_decay : float

    Returns
    -------
    Tensor, scalar
        In nats per row.
    """
    local = network.encode(batch.x, batch.targets.y)
    z = local.draw(nodes.xi[0])
    terms = ELBO.term(likelihood, certain(network(batch.x, z)), batch.targets)
    bound = ELBO.reduce(terms, nodes.log_omega) - beta_reg * local.kl()
    if batch.weight is not None:
        bound = bound * batch.weight
    return -bound.mean() + weight_decay * half_squared_norm(network)
