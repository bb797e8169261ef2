"""Deep GPs whose inducing variables are sampled by stochastic-gradient Hamiltonian Monte Carlo."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

import torch
from torch import Tensor, nn

from skgp.core.layers.layer import Latent
from skgp.core.layers.sparse import Factors, SparseGP
from skgp.core.nodes.rules import NodeRule
from skgp.core.stacks.stack import GPStack
from skgp.core.training.markov_chain import Chain
from skgp.core.training.optimizers import Adam, Optimizer, trainable
from skgp.core.training.plan import Plan
from skgp.core.training.schedules import one_cycle
from skgp.core.training.sghmc import SGHMC
from skgp.fitting.model import KnownLayers, Layers, Model
from skgp.fitting.setup import Setup

_LEAST_SHARE: Final = 0.5  # of the steps, in which the hyper-parameters move


@dataclass(frozen=True)
class ChainParameters:
    """Parameter group: a chain of inducing variables."""

    n_posterior_samples: int
    thinning: int
    n_burn_in: int
    step_size: float
    friction: float


class ChainLayers(Layers):
    """The layers of a stack at each of the inducing variables that a chain has kept.

    Parameters
    ----------
    stack : GPStack
        Of layers with a point for q(v), where the chain begins.
    n_kept : int
        Number T of positions.
    thinning : int
    seed : int
    """

    stack: GPStack

    def __init__(self, stack: GPStack, n_kept: int, thinning: int, seed: int) -> None:
        super().__init__(stack)
        start = torch.cat([v.flatten() for v in self.inducing_variables])
        self.chain = Chain(start, n_kept, thinning, seed)

    @property
    def inducing_variables(self) -> list[nn.Parameter]:
        """Whitened inducing variables (W, M) of each layer."""
        layers = cast(list[SparseGP], self.stack.layers)
        return [cast(nn.Parameter, layer.posterior.mu) for layer in layers]

    def log_weights(self, nodes: NodeRule) -> Tensor:
        n = len(self.chain.positions)
        return (super().log_weights(nodes) - math.log(n)).repeat(n)

    def latents(self, nodes: NodeRule) -> Callable[[Tensor], Latent]:
        posteriors, fixed = self.posteriors(nodes), nodes(1)

        # Each position gives other functions and, above the first layer, other inputs of each
        # kernel, so they run one after another.
        def of_rows(x: Tensor) -> Latent:
            parts = [self.stack(x, fixed, known.factors) for known in posteriors]
            return Latent(*(torch.cat(moments) for moments in zip(*parts, strict=True)))

        return of_rows

    def posteriors(self, nodes: NodeRule) -> list[KnownLayers]:
        factors = self.stack.known_factors()  # those of Kuu are the same for all positions
        at_positions = [self._factors_at(factors, p) for p in self.chain.positions]
        weight = 1.0 / len(at_positions)
        return [KnownLayers(self.stack, of_one, nodes, weight) for of_one in at_positions]

    def _factors_at(self, factors: Sequence[Factors], position: Tensor) -> list[Factors]:
        """The factors of all layers with the inducing variables of a position (K,)."""
        parts = position.split([of_layer.q_mu.numel() for of_layer in factors])
        values = [part.view_as(f.q_mu) for part, f in zip(parts, factors, strict=True)]
        pairs = zip(factors, values, strict=True)
        return [f._replace(q_mu=v, column_weights=v) for f, v in pairs]


def with_chain(build: Callable[[Setup], Model], parameters: ChainParameters, setup: Setup) -> Model:
    """A model of a stack of points, with a chain that begins there."""
    model = build(setup)
    kept = parameters.n_posterior_samples, parameters.thinning
    model.source = ChainLayers(model.stack, *kept, setup.seed_for("chain"))
    return model


def hamiltonian(
    learning_rate: float, parameters: ChainParameters, model: Model, n_data: float, n_batches: int
) -> Optimizer:
    """Steps of the chain for the inducing variables, and Adam for everything else."""
    source = model.source
    assert isinstance(source, ChainLayers)
    sampled = source.inducing_variables
    others = trainable(model, sampled)
    return SGHMC(
        sampled,
        source.chain,
        Adam(others, learning_rate),
        n_data,
        step_size=parameters.step_size,
        friction=parameters.friction,
        n_burn_in=parameters.n_burn_in,
    )


def chain_plan(plan: Callable[[int], Plan], parameters: ChainParameters, n: int) -> Plan:
    """A plan in whose last steps, whose positions are kept, all else rests."""
    of_rows = plan(n)
    n_steps = of_rows.max_iter * of_rows.n_batches(n)
    n_kept = parameters.n_posterior_samples * parameters.thinning
    share = max(_LEAST_SHARE, 1.0 - n_kept / n_steps)
    return dataclasses.replace(of_rows, schedule=partial(_then_rest, share))


def _then_rest(share: float, progress: float) -> float:
    """One cycle in the first share of the steps."""
    return one_cycle(progress / share) if progress < share else 0.0
