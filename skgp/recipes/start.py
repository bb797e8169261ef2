"""Where models start, in units of standardised targets."""

import math
from typing import Final

import torch

from skgp.core.kernels.kernel import Kernel

INITIAL_NOISE: Final = math.exp(-2.0)  # of the variance of y
INITIAL_VAR: Final = 0.1  # of q(v)
CERTAIN_VAR: Final = 1e-5  # of q(v) of hidden functions that are drawn


def each_gp(kernel: Kernel, Z: torch.Tensor) -> torch.Tensor:
    """Inducing inputs (M, F) for each GP of a kernel, (W, M, F)."""
    return Z.expand(len(kernel.variance), -1, -1).clone()
