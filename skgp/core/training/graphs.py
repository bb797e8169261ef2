"""Loss and gradients of a step: computed anew, or replayed as a CUDA graph.

A step is some hundred small kernels, and on a GPU it takes longer to start them than to run them. A
graph starts them all at once.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from skgp.core.data import Batch, Targets
from skgp.core.training.optimizers import trainable
from skgp.core.training.tape import Player, Recorder

Loss = Callable[[Batch, int], Tensor]
Replay = Callable[[Batch, int], Tensor | None]
ResultT = TypeVar("ResultT")

_ONE_AT_A_TIME: Final = Lock()
_FIRST: Final = 10  # steps of a kind before it is captured: a short fit would gain nothing by it


def replaying(loss: Loss, module: nn.Module, *, repeats: bool) -> tuple[Loss, Replay]:
    """A loss to compute steps with, and a function that replays them where it can.

    Parameters
    ----------
    loss : callable (Batch, step) -> Tensor
    module : Module
        Owner of all parameters.
    repeats : bool
        As of a `Candidate`: then a loss on a GPU is replayed.

    Returns
    -------
    loss : callable (Batch, step) -> Tensor
    replay : callable (Batch, step) -> Tensor or None
        Sets all gradients and returns the loss, detached. None if the step has to be computed.
    """
    parameters = trainable(module)
    if repeats and parameters and all(p.is_cuda for p in parameters):
        replayed = Replayed(loss, parameters, statistics_of(module))
        return replayed.loss, replayed.replay
    return loss, no_replay


def statistics_of(module: nn.Module) -> list[Tensor]:
    """What a step changes without gradients: running statistics of batch norms."""
    norms = (m for m in module.modules() if isinstance(m, _BatchNorm))
    return [buffer for norm in norms for buffer in norm.buffers()]


def no_replay(batch: Batch, step: int) -> None:
    """For steps that are all computed."""


class _Captured(NamedTuple):
    """A step of one kind.

    Attributes
    ----------
    replay : callable
        Computes the results anew from what the batch and the parameters hold.
    batch : Batch
        Whose tensors it reads.
    step : Player
        Whose draws it reads.
    loss : Tensor
    gradients : tuple of (Tensor or None)
    addresses : list of int
        Of the parameters that it reads.
    """

    replay: Callable[[], None]
    batch: Batch
    step: Player
    loss: Tensor
    gradients: tuple[Tensor | None, ...]
    addresses: list[int]


class Replayed:
    """Loss and gradients on a GPU, of a loss that is one function of the batch and of draws.

    The first steps with batches of one size are computed, the others replayed. A loss that cannot
    be captured, because it looks at its numbers on the way, is computed in every step. So is a step
    whose replayed loss is not finite: while a graph runs, nobody can raise the jitter of a matrix.

    Parameters
    ----------
    loss : callable (Batch, step) -> Tensor
    parameters : sequence of Parameter
        All that the loss has gradients in.
    statistics : sequence of Tensor
        What it changes besides.
    """

    def __init__(
        self,
        loss: Loss,
        parameters: Sequence[nn.Parameter],
        statistics: Sequence[Tensor] = (),
    ) -> None:
        self._loss = loss
        self._parameters = parameters
        self._statistics = statistics
        self._n_seen: Counter[Any] = Counter()  # steps of a kind so far
        self._recorders: dict[Any, Recorder] = {}
        self._captured: dict[Any, _Captured | None] = {}  # None where that has failed

    def loss(self, batch: Batch, step: int) -> Tensor:
        """The loss of a step that is computed; that of one of each kind is recorded."""
        kind = _kind(batch)
        if self._n_seen[kind] < _FIRST or kind in self._recorders:
            return self._loss(batch, step)
        recorder = Recorder(step)
        loss = self._loss(batch, recorder)
        self._recorders[kind] = recorder
        return loss

    def replay(self, batch: Batch, step: int) -> Tensor | None:
        """Set the gradients of a step and return its loss, None if it has to be computed."""
        kind = _kind(batch)
        self._n_seen[kind] += 1
        captured = self._of_kind(kind, batch)
        if captured is None:
            return None
        captured.step.fill(step)
        for own, tensor in zip(_tensors(captured.batch), _tensors(batch), strict=True):
            own.copy_(tensor)
        before = [tensor.clone() for tensor in self._statistics]
        captured.replay()
        if not bool(torch.isfinite(captured.loss)):
            for tensor, old in zip(self._statistics, before, strict=True):
                tensor.copy_(old)
            return None
        for parameter, gradient in zip(self._parameters, captured.gradients, strict=True):
            parameter.grad = gradient
        return captured.loss.clone()  # the next replay writes to it

    def _of_kind(self, kind: Any, batch: Batch) -> _Captured | None:
        """The captured step of batches of this kind, if there is one."""
        if kind not in self._recorders:
            return None
        addresses = [p.data_ptr() for p in self._parameters]
        captured = self._captured.get(kind)
        if kind not in self._captured or (captured and captured.addresses != addresses):
            player = Player(self._recorders[kind])
            captured = self._captured[kind] = self._capture(batch, player, addresses)
        return captured

    def _capture(self, batch: Batch, step: Player, addresses: list[int]) -> _Captured | None:
        x, y, mask, *others = (None if t is None else t.clone() for t in _parts(batch))
        assert x is not None
        assert y is not None
        own = Batch(x, Targets(y, mask), *others)

        def results() -> tuple[Tensor, tuple[Tensor | None, ...]]:
            step.rewind()
            loss = self._loss(own, step)
            # Accumulating them as `backward` does would belong to another stream.
            return loss.detach(), torch.autograd.grad(loss, self._parameters, allow_unused=True)

        try:
            replay, (loss, gradients) = capture(results, x.device)
        except RuntimeError:  # so torch says that the CPU has waited for the GPU
            return None
        return _Captured(replay, own, step, loss, gradients, addresses)


def capture(
    function: Callable[[], ResultT], device: torch.device
) -> tuple[Callable[[], None], ResultT]:
    """A CUDA graph of what a function does, as a function that does it again, and its results."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(device)
    # A process captures one graph at a time; other threads may go on with other work on the GPU.
    # The streams are entered here as well, because torch leaves its own after an error.
    with (
        _ONE_AT_A_TIME,
        torch.cuda.device(device),
        torch.cuda.stream(stream),
        torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"),
    ):
        results = function()
    return graph.replay, results


def _kind(batch: Batch) -> Any:
    """What batches of one graph have in common."""
    return tuple(None if t is None else (t.shape, t.dtype) for t in _parts(batch))


def _parts(batch: Batch) -> list[Tensor | None]:
    """Everything in a batch, in the order of its arguments."""
    return [batch.x, *batch.targets, *batch[2:]]


def _tensors(batch: Batch) -> list[Tensor]:
    return [part for part in _parts(batch) if part is not None]
