"""Random numbers that are functions of a seed and a name: generators and Sobol sequences."""

import zlib

import numpy as np
import torch
from torch import Tensor


def make_seed(seed: int, *key: str | int) -> int:
    """A seed for one purpose, below 2^32: those of other keys or seeds are independent of it.

    Parameters
    ----------
    seed : int
    *key : str or int
        What for, such as "slope" of layer 2 or draws of step 17.
    """
    numbers = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in key]
    # torch's generator uses 32 bits of its seed, so all numbers are mixed into these.
    return int(np.random.SeedSequence((seed, *numbers)).generate_state(1)[0])


def make_generator(seed: int, *key: str | int) -> torch.Generator:
    """A generator for one purpose, see `make_seed`."""
    return torch.Generator().manual_seed(make_seed(seed, *key))


def sobol_normals(n: int, dim: int, seed: int) -> Tensor:
    """A scrambled Sobol sequence of standard normals, (n, dim), in float64."""
    if dim == 0:  # torch has no such sequence
        return torch.zeros(n, 0, dtype=torch.float64)
    sobol = torch.quasirandom.SobolEngine(dim, scramble=True, seed=seed)
    uniform = sobol.draw(n, dtype=torch.float64)
    uniform[0] = uniform[0].float()  # it comes in torch's default dtype, whatever that is
    tail = 0.5 / n**2  # Sobol points may be exactly zero
    return torch.special.ndtri(uniform.clamp(tail, 1.0 - tail))
