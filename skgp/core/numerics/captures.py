"""Decisions by numbers on a GPU, which nobody sees while a CUDA graph is captured.

What then fails becomes NaN, and the step is computed without the graph.
"""

import math

import torch
from torch import Tensor


def is_capturing(tensor: Tensor) -> bool:
    """Whether work on a tensor becomes part of a graph."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def nan_where(failed: Tensor, value: Tensor) -> Tensor:
    """A value, NaN where a bool tensor, which broadcasts to it, is True."""
    return torch.where(failed, math.nan, value)
