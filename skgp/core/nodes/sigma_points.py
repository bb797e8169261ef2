"""Sigma points: deterministic nodes of the hidden layers, fixed or learned."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from scipy.special import roots_hermitenorm
from torch import Tensor, nn

from skgp.core.nodes.rules import NodeRule, Nodes
from skgp.core.numerics.draws import make_generator


class Quadrature(NodeRule):
    """Abstract base: C = sum(widths) hidden functions, each with a value at every node.

    Parameters
    ----------
    widths : sequence of int
        Outputs W of each hidden layer.
    """

    logits: Tensor  # unnormalised log-weights (Q,), learned or fixed

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.widths = list(widths)

    @abstractmethod
    def points(self) -> Tensor:
        """Nodes xi (Q, C)."""

    def log_weights(self) -> Tensor:
        """Log-weights (Q,); their exponentials sum to one."""
        return self.logits.log_softmax(0)

    def forward(self, n_rows: int, step: int | None = None) -> Nodes:
        xi = self.points().unsqueeze(1)
        return Nodes(torch.split_with_sizes(xi, self.widths, -1), self.log_weights())


class LearnedNodes(Quadrature):
    """QR3 (deep sigma point processes, Eqn 23): S nodes of C learned coordinates and a weight each.

    A node keeps its index through all hidden layers. The coordinates start as standard normal
    draws; the weights start equal.

    Parameters
    ----------
    widths : sequence of int
    n_sites : int
        Number S of nodes.
    seed : int
    """

    def __init__(self, widths: Sequence[int], n_sites: int, seed: int) -> None:
        super().__init__(widths)
        generator = make_generator(seed, "sites")
        shape = n_sites, sum(widths)
        self.xi = nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))
        self.logits = nn.Parameter(torch.zeros(n_sites, dtype=torch.float64))

    def points(self) -> Tensor:
        return self.xi


class MatchedNodes(Quadrature):
    """S fixed nodes of equal weight, with the mean and the covariance of a standard normal.

    Learned nodes may shrink to a point, or gather most of the weight in one. The hidden functions
    are then as good as certain, whatever the divergences say, and the model overfits small tables.
    These cannot. With no more nodes than coordinates, the variance of each coordinate is one, and
    the covariances are those of chance.

    Parameters
    ----------
    widths : sequence of int
    n_sites : int
        Number S of nodes.
    seed : int
    """

    xi: Tensor

    def __init__(self, widths: Sequence[int], n_sites: int, seed: int) -> None:
        super().__init__(widths)
        generator = make_generator(seed, "sites")
        xi = torch.randn((n_sites, sum(widths)), generator=generator, dtype=torch.float64)
        self.register_buffer("xi", _standardised(xi))
        self.register_buffer("logits", torch.zeros(n_sites, dtype=torch.float64))

    def points(self) -> Tensor:
        return self.xi


def _standardised(xi: Tensor) -> Tensor:
    """Points (S, C), moved so that their mean is zero and their covariance the identity."""
    n_sites, n_coordinates = xi.shape
    if n_sites == 1:
        return torch.zeros_like(xi)
    centred = xi - xi.mean(0)
    if n_sites <= n_coordinates:
        return centred / centred.square().mean(0).sqrt()
    factor = torch.linalg.cholesky(centred.mT @ centred / n_sites)
    return torch.linalg.solve_triangular(factor, centred.mT, upper=False).mT


class Grid(Quadrature):
    """A rule on the grid of S^C nodes that starts at Gauss and Hermite's.

    Fixed it is Eqn 18 of deep sigma point processes; learned, with sites of each function and joint
    weights, QR1 (Eqn 22); learned with symmetric sites, xi^(s) = -xi^(S + 1 - s), QR2.

    Parameters
    ----------
    widths : sequence of int
    n_sites : int
        Number S of sites of each hidden function.
    learned : bool
        Whether sites and weights are parameters.
    symmetric : bool
        Whether the sites stay symmetric about zero.
    """

    index: Tensor
    sites: Tensor

    def __init__(
        self,
        widths: Sequence[int],
        n_sites: int,
        *,
        learned: bool = False,
        symmetric: bool = False,
    ) -> None:
        super().__init__(widths)
        self.symmetric = symmetric
        n_functions = sum(widths)
        # Weight exp(-x^2 / 2), so the sites are those of a standard normal. With more than 370 of
        # them numpy's weights overflow, and those of scipy at the far ends are zero.
        x, weights = roots_hermitenorm(n_sites)
        log_weights = np.log(np.maximum(weights / weights.sum(), np.finfo(float).tiny))
        index = np.indices((n_sites,) * n_functions).reshape(n_functions, -1).T.copy()
        sites = torch.from_numpy(x).unsqueeze(-1).repeat(1, n_functions)
        logits = torch.from_numpy(log_weights[index].sum(-1))
        self.register_buffer("index", torch.from_numpy(index))
        if learned:
            self.sites, self.logits = nn.Parameter(sites), nn.Parameter(logits)
        else:
            self.register_buffer("sites", sites)
            self.register_buffer("logits", logits)

    def points(self) -> Tensor:
        sites = self.sites
        if self.symmetric:
            sites = 0.5 * (sites - sites.flip(0))
        return sites.gather(0, self.index)
