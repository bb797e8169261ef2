"""Nodes: where the hidden layers of a stack are evaluated, and with which weights."""

from typing import NamedTuple

import torch
from torch import Tensor


class Nodes(NamedTuple):
    """Q evaluation points of the hidden layers; h = mean + sqrt(var) * xi for each of them.

    Attributes
    ----------
    xi : tuple of Tensors, each of shape (Q, B or 1, W)
        Standardised nodes, one tensor per hidden layer.
    log_omega : Tensor of shape (Q,)
        Log-weights; their exponentials sum to one.
    """

    xi: tuple[Tensor, ...]
    log_omega: Tensor


def trivial(like: Tensor) -> Nodes:
    """The node of a stack without hidden layers, in the dtype and on the device of `like`."""
    return Nodes((), torch.zeros(1, dtype=like.dtype, device=like.device))
