"""Nodes: where the hidden layers of a stack are evaluated, and with which weights."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from skgp.core.numerics.draws import DrawSource, make_seed, normals, sobol_normals, source_of_step


class Nodes(NamedTuple):
    """Q evaluation points of the hidden layers; h = mean + sqrt(var) * xi for each of them.

    Attributes
    ----------
    xi : tuple of Tensors, each of shape (Q, B or 1, W)
        Standardised nodes, one tensor per hidden layer.
    log_omega : Tensor of shape (Q,)
        Log-weights; their exponentials sum to one.
    units : Tensor of shape (Q, B or 1, n_noise) or None
        Standard normals at which the units of a readout are drawn; None if there is no readout, or
        if its units are integrated out.
    mixing : Tensor of shape (Q, B or 1, n_entries) or None
        Standard normals at which the mixing matrix of a readout is drawn, none of them where it is
        certain; None if the matrix is integrated out.
    """

    xi: tuple[Tensor, ...]
    log_omega: Tensor
    units: Tensor | None = None
    mixing: Tensor | None = None


def trivial(like: Tensor) -> Nodes:
    """The node of a stack without hidden layers, in the dtype and on the device of `like`."""
    return Nodes((), torch.zeros(1, dtype=like.dtype, device=like.device))


class NodeRule(nn.Module, ABC):
    """Where the nodes of a stack come from: a rule may learn them, or draw them anew."""

    @abstractmethod
    def forward(self, n_rows: int, step: int | None = None) -> Nodes:
        """Nodes for a batch.

        Parameters
        ----------
        n_rows : int
            Number B of rows of the batch.
        step : int or None
            Number of the training step; None gives the nodes of predictions, (Q, 1, W).
        """


class Trivial(NodeRule):
    """The rule of a stack without hidden layers."""

    log_omega: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("log_omega", torch.zeros(1, dtype=torch.float32))

    def forward(self, n_rows: int, step: int | None = None) -> Nodes:
        return trivial(self.log_omega)


class Sampled(NodeRule):
    """Standard normal nodes of equal weight (doubly stochastic variational inference, Eqn 15).

    In a training step each row of the batch has its own draws, which depend on `seed` and the
    number of the step alone. In predictions all rows share fixed nodes, a scrambled Sobol sequence,
    so a prediction does not depend on the other rows.

    Fixed nodes of a layer may be drawn from N(0, stretch^2 I) instead, with importance weights: a
    mixture of narrow normals has tails only as far as its nodes reach.

    Parameters
    ----------
    widths : sequence of int
        Outputs W of each hidden layer.
    n_samples : int
        Number Q of nodes of a training step.
    n_fixed : int
        Number Q of nodes of a prediction.
    seed : int
    stretch : sequence of float, optional
        Stretch of the fixed nodes of each layer; one if None.
    """

    fixed: Tensor
    log_omega: Tensor

    def __init__(
        self,
        widths: Sequence[int],
        n_samples: int,
        n_fixed: int,
        seed: int,
        stretch: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.widths = list(widths)
        self.n_samples = n_samples
        self.seed = seed
        normal = sobol_normals(n_fixed, sum(widths), make_seed(seed, "fixed"))
        of_layers = torch.as_tensor(stretch or [1.0] * len(self.widths), dtype=torch.float64)
        stretched = normal * of_layers.repeat_interleave(torch.tensor(self.widths))
        # omega is in proportion to N(xi; 0, I) / N(xi; 0, s^2 I), xi = s z with z ~ N(0, I):
        # log omega = (|z|^2 - |xi|^2) / 2 + constant
        log_ratio = 0.5 * (normal.square() - stretched.square()).sum(-1)
        self.register_buffer("fixed", stretched)
        self.register_buffer("log_omega", torch.log_softmax(log_ratio, 0))

    def forward(self, n_rows: int, step: int | None = None) -> Nodes:
        if step is None:
            xi, log_omega = self.fixed.unsqueeze(1), self.log_omega
        else:
            shape = self.n_samples, n_rows, sum(self.widths)
            xi = normals(shape, self.generator(step), self.fixed)
            log_omega = xi.new_full((len(xi),), -math.log(len(xi)))
        return Nodes(torch.split_with_sizes(xi, self.widths, -1), log_omega)

    def generator(self, step: int) -> DrawSource:
        """The source of the draws of a training step."""
        return source_of_step(self.seed, step)


class UnitNodes(NodeRule):
    """Sampled nodes of hidden layers and of a readout's units, drawn together.

    Parameters
    ----------
    rule : Sampled
        Nodes of the hidden layers and, as the last of its widths, of the units.
    integrated : bool
        Whether training integrates the units out. They have nodes for predictions alone then, and
        training without hidden layers has one node.
    mixing : Sampled, optional
        Nodes of predictions that draw the mixing matrix and integrate the units out: of the hidden
        layers and, as the last of its widths, of the entries of the matrix.
    """

    def __init__(self, rule: Sampled, integrated: bool, mixing: Sampled | None = None) -> None:
        super().__init__()
        self.rule = rule
        self.integrated = integrated
        self.mixing = mixing

    def forward(self, n_rows: int, step: int | None = None) -> Nodes:
        if step is None and self.mixing is not None:
            nodes = self.mixing(n_rows)
            *hidden, entries = nodes.xi
            return Nodes(tuple(hidden), nodes.log_omega, mixing=entries)
        integrates = step is not None and self.integrated
        if integrates and len(self.rule.widths) == 1:
            return trivial(self.rule.fixed)
        nodes = self.rule(n_rows, step)
        *hidden, units = nodes.xi
        return Nodes(tuple(hidden), nodes.log_omega, None if integrates else units)
