"""Random numbers that are functions of a seed and a name: generators and Sobol sequences."""

import zlib
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


def draw_seed(rng: np.random.RandomState) -> int:
    """A seed for a generator of another kind."""
    return int(rng.randint(np.iinfo(np.int32).max))


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


@contextmanager
def seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Start torch's global generator of a device at a seed, and restore its state afterwards."""
    state = torch.Generator(device).manual_seed(seed).get_state()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        if device.type == "cuda":
            torch.cuda.set_rng_state(state, device)
        else:
            torch.set_rng_state(state)
        yield


Draw = Callable[..., Tensor]  # torch.randn or torch.rand


class Taped(metaclass=ABCMeta):
    """Abstract base of sources whose draws are recorded, or come from a record."""

    @abstractmethod
    def draw(self, draw: Draw, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """The next draws, in the dtype and on the device of `like`."""


class TapedStep(int, metaclass=ABCMeta):
    """Abstract base of numbers of training steps all of whose sources are `Taped`."""

    @abstractmethod
    def source(self, seed: int) -> Taped:
        """A source with this seed."""


DrawSource = torch.Generator | Taped


def source_of_step(seed: int, step: int) -> DrawSource:
    """What a training step draws from, for one purpose: see `make_seed`."""
    return step.source(seed) if isinstance(step, TapedStep) else generator_of_step(seed, step)


def generator_of_step(seed: int, step: int) -> torch.Generator:
    """The generator of that source."""
    return make_generator(seed, "step", step)


def normals(shape: tuple[int, ...], source: DrawSource, like: Tensor) -> Tensor:
    """Standard normal draws, in the dtype and on the device of `like`."""
    return _from(source, torch.randn, shape, like)


def uniforms(shape: tuple[int, ...], source: DrawSource, like: Tensor) -> Tensor:
    """Draws from [0, 1), in the dtype and on the device of `like`."""
    return _from(source, torch.rand, shape, like)


def _from(source: DrawSource, draw: Draw, shape: tuple[int, ...], like: Tensor) -> Tensor:
    if isinstance(source, Taped):
        return source.draw(draw, shape, like)
    # On the CPU, so that draws are the same on all devices.
    return draw(shape, generator=source, dtype=like.dtype).to(like.device)


def sobol_normals(n: int, dim: int, seed: int) -> Tensor:
    """A scrambled Sobol sequence of standard normals, (n, dim), in float64."""
    if dim == 0:  # torch has no such sequence
        return torch.zeros(n, 0, dtype=torch.float64)
    sobol = torch.quasirandom.SobolEngine(dim, scramble=True, seed=seed)
    uniform = sobol.draw(n, dtype=torch.float64)
    uniform[0] = uniform[0].float()  # it comes in torch's default dtype, whatever that is
    tail = 0.5 / n**2  # Sobol points may be exactly zero
    return torch.special.ndtri(uniform.clamp(tail, 1.0 - tail))
