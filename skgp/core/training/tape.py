"""What a training step draws: recorded, and played again with other numbers."""

from typing import NamedTuple, Self

import torch
from torch import Tensor

from skgp.core.numerics.draws import Draw, Taped, TapedStep, generator_of_step


class Request(NamedTuple):
    """A block of random numbers that a step asks for.

    Attributes
    ----------
    source : int
        Number of its source, among those of the step.
    seed : int
        Of that source.
    draw : callable
    shape : tuple of int
    dtype : dtype
    device : device
    """

    source: int
    seed: int
    draw: Draw
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def drawn(self, generator: torch.Generator) -> Tensor:
        """The next such block of a generator."""
        return self.draw(self.shape, generator=generator, dtype=self.dtype)


class Recorder(TapedStep):
    """A step that draws as ever, and remembers it.

    Attributes
    ----------
    requests : list of Request
    """

    requests: list[Request]
    _n_sources: int

    def __new__(cls, number: int) -> Self:
        recorder = super().__new__(cls, number)
        recorder.requests, recorder._n_sources = [], 0
        return recorder

    def source(self, seed: int) -> Taped:
        self._n_sources += 1
        return _Recorded(self, self._n_sources, seed)


class _Recorded(Taped):
    def __init__(self, step: Recorder, number: int, seed: int) -> None:
        self._step = step
        self._key = number, seed
        self._generator = generator_of_step(seed, step)

    def draw(self, draw: Draw, shape: tuple[int, ...], like: Tensor) -> Tensor:
        request = Request(*self._key, draw, tuple(shape), like.dtype, like.device)
        self._step.requests.append(request)
        return request.drawn(self._generator).to(like.device)


class Player(TapedStep):
    """A step whose draws stand in tensors of its own.

    Parameters
    ----------
    recorder : Recorder
        An earlier step, which has drawn blocks of the same sizes for the same purposes.
    """

    _requests: list[Request]
    _blocks: list[Tensor]
    _n_sources: int
    _n_played: int

    def __new__(cls, recorder: Recorder) -> Self:
        player = super().__new__(cls, recorder)
        player._requests = recorder.requests
        player._blocks = [
            torch.empty(request.shape, dtype=request.dtype, device=request.device)
            for request in recorder.requests
        ]
        player.rewind()
        return player

    def source(self, seed: int) -> Taped:
        self._n_sources += 1
        return _Played(self, self._n_sources, seed)

    def rewind(self) -> None:
        """Go back to the first block."""
        self._n_sources = self._n_played = 0

    def fill(self, step: int) -> None:
        """Draw the numbers of a step."""
        generators: dict[int, torch.Generator] = {}
        for request, block in zip(self._requests, self._blocks, strict=True):
            if request.source not in generators:
                generators[request.source] = generator_of_step(request.seed, step)
            block.copy_(request.drawn(generators[request.source]))

    def take(self, request: Request) -> Tensor:
        """The next block, if it is what was asked for in this place before."""
        number = self._n_played
        if number == len(self._blocks) or request != self._requests[number]:
            raise RuntimeError("a step draws something else than the one before it")
        self._n_played += 1
        return self._blocks[number]


class _Played(Taped):
    def __init__(self, step: Player, number: int, seed: int) -> None:
        self._step = step
        self._key = number, seed

    def draw(self, draw: Draw, shape: tuple[int, ...], like: Tensor) -> Tensor:
        request = Request(*self._key, draw, tuple(shape), like.dtype, like.device)
        return self._step.take(request)
