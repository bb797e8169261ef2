"""The model of a deep GP whose inducing variables are sampled: a stack, noise, and a chain."""

import math
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from skgp.core.chain import Chain
from skgp.core.layers import Factors, Latent, SparseGP
from skgp.core.likelihoods import Gaussian
from skgp.core.nodes import NodeRule
from skgp.core.stack import GPStack
from skgp.estimators._model import GPModel


class ChainModel(GPModel):
    """A mixture over the inducing variables that a chain has kept, and over the nodes of each.

    Parameters
    ----------
    stack : GPStack
        Of layers with a point for q(v), where the chain begins.
    likelihood : Gaussian
    nodes : NodeRule
    n_kept : int
        Number T of positions.
    thinning : int
    seed : int
    """

    stack: GPStack

    def __init__(
        self,
        stack: GPStack,
        likelihood: Gaussian,
        nodes: NodeRule,
        n_kept: int,
        thinning: int,
        seed: int,
    ) -> None:
        super().__init__(stack, likelihood, nodes)
        start = torch.cat([v.flatten() for v in self.inducing_variables])
        self.chain = Chain(start, n_kept, thinning, seed)

    @property
    def inducing_variables(self) -> list[nn.Parameter]:
        """Whitened inducing variables (W, M) of each layer."""
        layers = cast(list[SparseGP], self.stack.layers)
        return [cast(nn.Parameter, layer.posterior.mu) for layer in layers]

    @property
    def log_weights(self) -> Tensor:
        n = len(self.chain.positions)
        return (super().log_weights - math.log(n)).repeat(n)

    def latents(self) -> Callable[[Tensor], Latent]:
        factors, nodes = self.stack.factors(), self.nodes(1)
        # Each position makes another stack of functions, and above the first layer other inputs of
        # each kernel, so they run one after another. The factors of Kuu are the same for all.
        stacks = [self._factors_at(factors, position) for position in self.chain.positions]

        def of_rows(x: Tensor) -> Latent:
            parts = [self.stack(x, nodes, factors_at) for factors_at in stacks]
            return Latent(*(torch.cat(moments) for moments in zip(*parts, strict=True)))

        return of_rows

    def _factors_at(self, factors: Sequence[Factors], position: Tensor) -> list[Factors]:
        """The factors of all layers with the inducing variables of a position (K,)."""
        parts = position.split([of_layer.q_mu.numel() for of_layer in factors])
        values = [part.view_as(f.q_mu) for part, f in zip(parts, factors, strict=True)]
        pairs = zip(factors, values, strict=True)
        return [f._replace(q_mu=v, column_weights=v) for f, v in pairs]
