"""A weak prior of parameters on logarithmic scales."""

import math

import torch
from torch import Tensor


def log_weak_prior(moves: Tensor) -> Tensor:
    """Log density of moves from where parameters are expected, summed, up to a constant.

    Hyperbolic secants: near zero these are as tight as N(0, 1), and their tails are exponential. A
    column that does not matter has a long lengthscale, for which a normal would charge ten nats and
    more.
    """
    log_cosh: Tensor = torch.logaddexp(moves, -moves) - math.log(2.0)
    return -log_cosh.sum()
