"""Dense networks with dropout, whose passes under several masks are draws of one posterior."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, relu

from skgp.core.data import Batch
from skgp.core.layers.layer import certain
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.networks.features import half_squared_norm
from skgp.core.numerics.draws import DrawSource, make_generator, source_of_step, uniforms
from skgp.core.objectives.objective import ELBO


class DropoutNetwork(nn.Module):
    """Dense ReLU layers, each followed by dropout, and a linear layer that starts at zero.

    Weights and masks come from `seed`. The masks of the predictions never change; those of a
    training step depend on its number too.

    Parameters
    ----------
    n_inputs : int
        Number D of inputs.
    sizes : sequence of int
        Widths of the hidden layers, H in total.
    n_outputs : int
        Number P of outputs.
    dropout : float in [0, 1)
        Probability with which a unit is dropped.
    n_samples : int
        Number S of passes of a prediction.
    seed : int
    """

    kept: Tensor

    def __init__(
        self,
        n_inputs: int,
        sizes: Sequence[int],
        n_outputs: int,
        dropout: float,
        n_samples: int,
        seed: int,
    ) -> None:
        super().__init__()
        self.sizes = list(sizes)
        self.dropout = dropout
        self.seed = seed
        generator = make_generator(seed, "weights")
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for n_in, n_out in pairwise([n_inputs, *sizes]):
            bound = 1.0 / math.sqrt(n_in)
            weight = torch.empty(n_out, n_in, dtype=torch.float32)
            bias = weight.new_empty(n_out)
            self.weights.append(nn.init.kaiming_uniform_(weight, generator=generator))
            self.biases.append(nn.init.uniform_(bias, -bound, bound, generator=generator))
        self.weights.append(weight.new_zeros(n_outputs, self.sizes[-1]))
        self.biases.append(weight.new_zeros(n_outputs))
        self.register_buffer("kept", self._draw((n_samples, 1), make_generator(seed, "fixed")))

    def forward(self, x: Tensor, kept: Tensor) -> Tensor:
        """Outputs of S passes.

        Parameters
        ----------
        x : Tensor of shape (B, D)
        kept : Tensor of bool of shape (S, B or 1, H)
            The hidden units that a pass does not drop.

        Returns
        -------
        Tensor of shape (S, B, P)
        """
        masks = torch.split(kept.to(x) / (1.0 - self.dropout), self.sizes, -1)
        *hidden, top = zip(self.weights, self.biases, strict=True)
        h = x
        for (weight, bias), mask in zip(hidden, masks, strict=True):
            # h <- m * relu(W h + b), m = z / (1 - p), z ~ Bernoulli(1 - p), so that E m = 1
            h = mask * relu(linear(h, weight, bias))
        return linear(h, *top)

    def draw(self, n_rows: int, step: int) -> Tensor:
        """Units to keep in a training step, (1, B, H): a draw for each row."""
        return self._draw((1, n_rows), source_of_step(self.seed, step))

    def _draw(self, shape: tuple[int, int], source: DrawSource) -> Tensor:
        like = self.biases[0].new_empty(0, dtype=torch.float32)
        return uniforms((*shape, sum(self.sizes)), source, like) >= self.dropout


def dropout_loss(
    network: DropoutNetwork,
    likelihood: Gaussian,
    batch: Batch,
    kept: Tensor,
    *,
    weight_decay: float,
) -> Tensor:
    """-(mean over rows of log N(y; f(x), noise)) + weight_decay / 2 * |parameters of f|^2.

    f is the network under a mask for each row (Gal and Ghahramani 2016).

    Parameters
    ----------
    network : DropoutNetwork
    likelihood : Gaussian
    batch : Batch
    kept : Tensor of bool of shape (1, B, H)
        See `DropoutNetwork.draw`.
    weight_decay : float

    Returns
    -------
    Tensor, scalar
        In nats per row.
    """
    latent = certain(network(batch.x, kept))
    fit = ELBO.term(likelihood, latent, batch.targets).squeeze(0)
    if batch.weight is not None:
        fit = fit * batch.weight
    return -fit.mean() + weight_decay * half_squared_norm(network)
