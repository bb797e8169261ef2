"""Random numbers that depend on numbers alone: generators and Sobol sequences."""

import numpy as np
import torch
from torch import Tensor


def make_generator(*numbers: int) -> torch.Generator:
    """A generator that is seeded by several numbers, such as a seed and the number of a step."""
    # torch's generator uses 32 bits of its seed, so all numbers are mixed into these.
    mixed = np.random.SeedSequence(numbers).generate_state(1)
    return torch.Generator().manual_seed(int(mixed[0]))


def sobol_normals(n: int, dim: int, seed: int) -> Tensor:
    """A scrambled Sobol sequence of standard normals, (n, dim), in float64."""
    sobol = torch.quasirandom.SobolEngine(dim, scramble=True, seed=seed)
    uniform = sobol.draw(n, dtype=torch.float64)
    uniform[0] = uniform[0].float()  # it comes in torch's default dtype, whatever that is
    tail = 0.5 / n**2  # Sobol points may be exactly zero
    return torch.special.ndtri(uniform.clamp(tail, 1.0 - tail))
