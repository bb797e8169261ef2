"""Replayed steps, with a stand-in for CUDA graphs: it runs the captured function again.

`tests/contract/test_cuda.py` has the real ones. The stand-in calls the loss with the number of the
step that was captured, so that a loss that depends on it in secret gives itself away.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from skgp.core.data import Batch, Targets
from skgp.core.numerics.draws import normals, source_of_step, uniforms
from skgp.core.training import graphs
from skgp.core.training.graphs import Replayed, no_replay, replaying, statistics_of
from skgp.exceptions import NotPositiveDefiniteError


class Graphs:
    """Captures by calling; `spoilt` replays leave the results at NaN."""

    def __init__(self) -> None:
        self.n_captured = 0
        self.n_replayed = 0
        self.fails = False
        self.spoilt = False

    def capture(self, function: Callable[[], Any], device: torch.device) -> Any:
        self.n_captured += 1
        if self.fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        loss, gradients = function()

        def replay() -> None:
            self.n_replayed += 1
            new_loss, new_gradients = function()
            loss.copy_(new_loss)
            if self.spoilt:
                loss.fill_(torch.nan)
            for old, new in zip(gradients, new_gradients, strict=True):
                if old is not None:
                    old.copy_(new)

        return replay, (loss, gradients)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Graphs:
    stand_in = Graphs()
    monkeypatch.setattr(graphs, "capture", stand_in.capture)
    return stand_in


class Line(nn.Module):
    """y = a x + b, with a parameter that no loss knows."""

    def __init__(self, *seeds: int) -> None:
        super().__init__()
        self.seeds = seeds
        self.slope = nn.Parameter(torch.tensor(0.5))
        self.offset = nn.Parameter(torch.tensor(-1.0))
        self.unused = nn.Parameter(torch.tensor(3.0))

    def loss(self, batch: Batch, step: int) -> Tensor:
        residual = batch.targets.y - self.slope * batch.x - self.offset
        for seed in self.seeds:
            source = source_of_step(seed, step)
            residual = residual + normals((len(batch.x), 1), source, batch.x)
            residual = residual * uniforms((1, 1), source, batch.x)
        weight = torch.ones(len(batch.x)) if batch.weight is None else batch.weight
        return (weight[:, None] * residual.square()).mean()


def batch_of(n: int, seed: int, *, weighted: bool = False) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, n, 1, generator=generator)
    weight = torch.rand(n, generator=generator) if weighted else None
    return Batch(x, Targets(y, None), weight, torch.arange(n))


def computed(loss: Any, line: Line, batch: Batch, step: int) -> Tensor:
    """Set the gradients anew and return the loss."""
    line.zero_grad()
    value = loss(batch, step)
    value.backward()
    return value.detach()


def taken(replayed: Replayed, line: Line, batch: Batch, step: int) -> Tensor:
    """The same as a run does it."""
    loss = replayed.replay(batch, step)
    return computed(replayed.loss, line, batch, step) if loss is None else loss


def assert_same_steps(replayed: Replayed, line: Line, batches: list[Batch], first: int = 0) -> None:
    """Loss and gradients of each step are those without graphs; steps move the parameters."""
    for step, batch in enumerate(batches, first):
        loss = taken(replayed, line, batch, step).clone()
        gradients = [None if p.grad is None else p.grad.clone() for p in line.parameters()]
        expected = computed(line.loss, line, batch, step)
        torch.testing.assert_close(loss, expected, rtol=0, atol=0)
        assert not loss.requires_grad
        for gradient, parameter in zip(gradients, line.parameters(), strict=True):
            if parameter.grad is None:
                assert gradient is None
            else:
                torch.testing.assert_close(gradient, parameter.grad, rtol=0, atol=0)
        with torch.no_grad():
            line.slope += 0.1
            line.offset -= 0.01 * step


@pytest.mark.parametrize("seeds", [(), (3,), (3, 4, 3)])
def test_replayed_steps_are_computed_ones(stand_in: Graphs, seeds: tuple[int, ...]) -> None:
    """Batches of two sizes, and some with weights, are of three kinds; each step has its draws."""
    line = Line(*seeds)
    replayed = Replayed(line.loss, list(line.parameters()))
    batches = [batch_of(7 + step % 2, step, weighted=step % 4 == 0) for step in range(60)]
    assert_same_steps(replayed, line, batches)
    assert stand_in.n_captured == 3
    assert stand_in.n_replayed == 60 - 3 * 10


def test_a_few_steps_are_not_captured(stand_in: Graphs) -> None:
    line = Line()
    replayed = Replayed(line.loss, list(line.parameters()))
    assert_same_steps(replayed, line, [batch_of(5, step) for step in range(10)])
    assert stand_in.n_captured == 0


def test_a_step_that_fails_is_computed(stand_in: Graphs) -> None:
    line = Line()
    replayed = Replayed(line.loss, list(line.parameters()))
    batches = [batch_of(5, step) for step in range(15)]
    stand_in.spoilt = True
    assert_same_steps(replayed, line, batches)
    assert stand_in.n_replayed == 5
    stand_in.spoilt = False
    assert_same_steps(replayed, line, batches)
    assert stand_in.n_replayed == 20
    assert stand_in.n_captured == 1


def test_what_cannot_be_captured_is_tried_once(stand_in: Graphs) -> None:
    line = Line()
    stand_in.fails = True
    replayed = Replayed(line.loss, list(line.parameters()))
    assert_same_steps(replayed, line, [batch_of(5, step) for step in range(15)])
    assert stand_in.n_captured == 1
    assert stand_in.n_replayed == 0


def test_a_loss_that_draws_something_else_is_computed(stand_in: Graphs) -> None:
    line = Line(3)
    replayed = Replayed(line.loss, list(line.parameters()))
    assert_same_steps(replayed, line, [batch_of(5, step) for step in range(10)])
    line.seeds = (4,)
    assert_same_steps(replayed, line, [batch_of(5, step) for step in range(10, 15)], 10)
    assert stand_in.n_captured == 1
    assert stand_in.n_replayed == 0


def raising(loss: Any, n: int, error: Exception) -> Any:
    """The loss, but an error at its n-th call."""
    calls = count(1)

    def of_call(batch: Batch, step: int) -> Tensor:
        if next(calls) == n:
            raise error
        value: Tensor = loss(batch, step)
        return value

    return of_call


def test_other_errors_of_a_loss_are_raised(stand_in: Graphs) -> None:
    line = Line()
    replayed = Replayed(raising(line.loss, 11, ValueError("of the user")), [*line.parameters()])
    for step in range(10):
        taken(replayed, line, batch_of(5, step), step)
    with pytest.raises(ValueError, match="of the user"):
        taken(replayed, line, batch_of(5, 10), 10)


def test_parameters_that_have_moved_in_memory_are_captured_anew(stand_in: Graphs) -> None:
    line = Line()
    replayed = Replayed(line.loss, list(line.parameters()))
    batches = [batch_of(5, step) for step in range(15)]
    assert_same_steps(replayed, line, batches)
    line.slope.data = torch.tensor(0.25)
    assert_same_steps(replayed, line, batches)
    assert stand_in.n_captured == 2


class Normed(nn.Module):
    """A batch norm, whose statistics move with each evaluation in training."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(1)

    def loss(self, batch: Batch, step: int) -> Tensor:
        return (batch.targets.y - self.norm(batch.x)).square().mean()


def test_statistics_move_once_in_a_step_that_fails(stand_in: Graphs) -> None:
    module = Normed()
    replayed = Replayed(module.loss, list(module.parameters()), statistics_of(module))
    assert len(statistics_of(module)) == 3
    for step in range(11):
        if replayed.replay(batch_of(5, step), step) is None:
            replayed.loss(batch_of(5, step), step)
    before = [tensor.clone() for tensor in statistics_of(module)]
    stand_in.spoilt = True
    assert replayed.replay(batch_of(5, 11), 11) is None
    for tensor, old in zip(statistics_of(module), before, strict=True):
        torch.testing.assert_close(tensor, old, rtol=0, atol=0)
    stand_in.spoilt = False
    assert replayed.replay(batch_of(5, 11), 11) is not None
    assert (statistics_of(module)[0] != before[0]).all()


def test_a_loss_is_not_that_of_the_next_step(stand_in: Graphs) -> None:
    line = Line()
    replayed = Replayed(line.loss, list(line.parameters()))
    losses = [taken(replayed, line, batch_of(5, step), step) for step in range(14)]
    assert len({loss.item() for loss in losses}) == 14


def test_a_step_that_fails_while_it_is_recorded(stand_in: Graphs) -> None:
    """The next one is recorded instead."""
    line = Line(3)
    singular = raising(line.loss, 10, NotPositiveDefiniteError("singular"))
    replayed = Replayed(singular, [*line.parameters()])
    for step in range(9):
        taken(replayed, line, batch_of(5, step), step)
    with pytest.raises(NotPositiveDefiniteError):
        taken(replayed, line, batch_of(5, 9), 9)
    assert_same_steps(replayed, line, [batch_of(5, step) for step in range(10, 14)], 10)
    assert stand_in.n_replayed == 3


def test_steps_on_a_cpu_are_computed() -> None:
    line = Line()
    loss, replay = replaying(line.loss, line, repeats=True)
    assert loss == line.loss
    assert replay is no_replay
    assert replay(batch_of(5, 0), 0) is None
