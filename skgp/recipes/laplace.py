"""GPs of few rows whose predictions average over their hyper-parameters."""

import copy
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

import torch
from torch import Tensor

from skgp.core.kernels.stationary import Stationary
from skgp.core.layers.layer import DrawnLatent, Latent
from skgp.core.layers.sparse import SparseGP
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.marginal.exact import ExactGP
from skgp.core.marginal.laplace import laplace_gps, nth, repeated
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.nodes.rules import NodeRule
from skgp.core.stacks.stack import GPStack
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.model import KnownLayers, Layers, Model
from skgp.fitting.observed import is_one_gp, rows_of_top
from skgp.fitting.table import Table

_DRAWS: Final = 16
_MOST_ROWS: Final = 1000  # distinct ones: the matrices of all draws are kept
_MOST_LENGTHSCALES: Final = 64  # each of which costs as much as a step


class LaplaceLayers(Layers):
    """The layers of a stack with draws of the hyper-parameters of its top layer.

    Parameters
    ----------
    stack : GPStack
        With one top GP at the centre of the draws, which training goes on from.
    gps : ExactGP
        A GP for each draw.
    """

    stack: GPStack

    def __init__(self, stack: GPStack, gps: ExactGP) -> None:
        super().__init__(stack)
        self.gps = gps

    def log_weights(self, nodes: NodeRule) -> Tensor:
        n = len(self.gps.noise_var)
        of_draws = (nodes(1).log_omega - math.log(n)).repeat_interleave(n)
        return self._noise.log_weights(of_draws)

    def latents(self, nodes: NodeRule) -> Callable[[Tensor], Latent]:
        stack, fixed = self._with_top(self.gps), nodes(1)
        factors, noise_ratio = stack.known_factors(), self._noise_ratio.repeat(len(fixed.log_omega))

        def of_rows(x: Tensor) -> Latent:
            latent = stack(x, fixed, factors)  # (Q, B, K)
            f_mean, v_prior, v_q = (part.mT.flatten(0, 1).unsqueeze(-1) for part in latent)
            drawn = DrawnLatent(f_mean, v_prior, v_q, noise_ratio[:, None, None])
            return self._noise.split(drawn)

        return of_rows

    def posteriors(self, nodes: NodeRule) -> list[KnownLayers]:
        ratios = self._noise_ratio.tolist()
        stacks = [self._with_top(nth(self.gps, k)) for k in range(len(ratios))]
        return [
            KnownLayers(stack, stack.known_factors(), nodes, 1.0, self._noise).scaled(
                1.0 / len(ratios), ratio
            )
            for stack, ratio in zip(stacks, ratios, strict=True)
        ]

    def condition(self, rows: ObservedRows, noise_var: Tensor) -> None:
        # Each draw keeps its own noise variance, whose mean is that of the likelihood.
        self.gps.condition(repeated(rows, len(self.gps.noise_var)), self.gps.noise_var)

    def release(self, model: Model) -> None:
        model.source = Layers(self.stack)

    @property
    def _noise_ratio(self) -> Tensor:
        """Noise variances (K,), relative to their mean, which is that of the likelihood."""
        return self.gps.noise_var / self.gps.noise_var.mean()

    def _with_top(self, gps: ExactGP) -> GPStack:
        """The stack with other GPs in the place of its top layer."""
        features = self.stack.features if self.stack.has_features else None
        return GPStack([*self.stack.layers[:-1], gps], features, self.stack.connections)


@torch.no_grad()
def with_laplace_draws(model: Model, table: Table) -> Model:
    """A copy of an untrained GP that averages over its hyper-parameters, given the training rows.

    The model itself where there are too many rows, where hyper-parameters are of another kind, or
    where a draw has no Cholesky factor.
    """
    if not _is_apt(model, table):
        return model
    rows = rows_of_top(model, table)
    if len(rows.x) > _MOST_ROWS:
        return model
    noise = cast(Gaussian, model.likelihood)
    with suppress(NotPositiveDefiniteError):
        gps = laplace_gps(
            cast(SparseGP, model.stack.top), rows, noise.noise_var, noise.noise_floor, _DRAWS
        )
        model = copy.deepcopy(model)
        model.source = LaplaceLayers(cast(GPStack, model.stack), gps)
        model.likelihood.start(gps.noise_var.mean().unsqueeze(0))
    return model


def _is_apt(model: Model, table: Table) -> bool:
    """Whether a model is one GP with a known kernel of few parameters and no more."""
    kernel = model.stack.top.kernel
    return (
        is_one_gp(model, table)
        and isinstance(kernel, Stationary)
        and all(parameter.requires_grad for parameter in kernel.parameters())
        and kernel.log_lengthscale.numel() <= _MOST_LENGTHSCALES
    )
