"""Nodes of a continuous mixture: normals with learned centres, spreads and weights."""

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor, nn

from skgp.core.nodes.rules import Nodes, Sampled
from skgp.core.nodes.sigma_points import MatchedNodes, Quadrature

_SPREAD: Final = 0.5  # where the spreads start


class ContinuousNodes(Quadrature):
    """Nodes from q(xi) = sum_s omega_s N(xi; c_s, diag(t_s^2)), all of it learned.

    The density of a row is the integral of N(y; f_mean(h), f_var(h) + noise) over q, h = mean +
    sqrt(var) * xi: a continuous mixture as a deep GP has it (deep sigma point processes, Eqn 15)
    with a learned quadrature rule (section 6, future work). Without spread it is QR3 (Eqn 23);
    one component with centre zero and unit spread is `Sampled`.

    Each component has K nodes xi = c_s + t_s z of weight omega_s / K, so that gradients in the
    weights need no draws. In training z are standard normals of each row and step. The log of
    their average density has an expectation below the log of the integral (Jensen), so a step
    maximises a lower bound, which more nodes make tighter. In predictions z are fixed.

    The components start with equal weights and spreads, and with matched nodes, drawn together, as
    centres: then q has the mean and the covariance of a standard normal.

    Parameters
    ----------
    widths : sequence of int
        Outputs W of each hidden layer.
    n_sites : int
        Number S of components.
    seed : int
    n_draws : int, default=1
        Number K of nodes of each component in a training step.
    n_fixed : int, default=4
        The same in a prediction; a power of two suits a Sobol sequence.
    """

    def __init__(
        self, widths: Sequence[int], n_sites: int, seed: int, n_draws: int = 1, n_fixed: int = 4
    ) -> None:
        super().__init__(widths)
        self.normals = Sampled(widths, n_draws * n_sites, n_fixed * n_sites, seed)
        xi = MatchedNodes(widths, n_sites, seed).points()
        # mean of c^2 + t^2 = 1; a single centre is zero, and has unit spread
        var = 1.0 - (1.0 - _SPREAD**2) * xi.square().mean(0)
        self.centres = nn.Parameter(xi * math.sqrt(1.0 - _SPREAD**2))
        self.log_spreads = nn.Parameter((0.5 * var.log()).repeat(n_sites, 1))
        self.logits = nn.Parameter(torch.zeros(n_sites, dtype=torch.float64))

    def points(self) -> Tensor:
        """Nodes (S K, C) of a prediction, those of a component together."""
        return self._placed(self.normals.fixed.unsqueeze(1)).squeeze(1)

    def log_weights(self) -> Tensor:
        """Their log-weights (S K,)."""
        return self._shared(len(self.normals.fixed))

    def forward(self, n_rows: int, step: int | None = None) -> Nodes:
        z = torch.cat(self.normals(n_rows, step).xi, -1)
        xi = torch.split_with_sizes(self._placed(z), self.widths, -1)
        return Nodes(xi, self._shared(len(z)))

    def _placed(self, z: Tensor) -> Tensor:
        """xi = c_s + t_s z for standard normals z (S K, B or 1, C)."""
        z = z.unflatten(0, (len(self.logits), -1))
        centres, spreads = (part[:, None, None] for part in (self.centres, self.log_spreads.exp()))
        return (centres + spreads * z).flatten(0, 1)

    def _shared(self, n_nodes: int) -> Tensor:
        """Log-weights of so many nodes, omega_s / K each."""
        n_each = n_nodes // len(self.logits)
        return (super().log_weights() - math.log(n_each)).repeat_interleave(n_each)
