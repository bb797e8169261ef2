"""Quadrature rules by name."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from skgp.core.nodes.continuous import ContinuousNodes
from skgp.core.nodes.sigma_points import Grid, LearnedNodes, MatchedNodes, Quadrature

GRIDS: Final[dict[str, Callable[[Sequence[int], int], Grid]]] = {
    "gauss-hermite": Grid,
    "qr1": partial(Grid, learned=True),
    "qr2": partial(Grid, learned=True, symmetric=True),
}


RULES: Final[dict[str, Callable[[Sequence[int], int, int], Quadrature]]] = {
    "matched": MatchedNodes,
    "qr3": LearnedNodes,
    "continuous": ContinuousNodes,
}


def make_quadrature(name: str, widths: Sequence[int], n_sites: int, seed: int) -> Quadrature:
    """Rule of a name: one of `RULES` or of `GRIDS`."""
    if name in RULES:
        return RULES[name](widths, n_sites, seed)
    return GRIDS[name](widths, n_sites)
