"""States of a run after each of its steps: another run goes on from there to the last bit."""

import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from line_problem import Line, Rows, generator, never, plan, problem, squared_error
from torch import Tensor

from skgp.core.data import Batch
from skgp.core.training.optimizers import LBFGS
from skgp.core.training.plan import Candidate
from skgp.core.training.progress import Progress
from skgp.core.training.restarts import train
from skgp.core.training.run import Run
from skgp.core.training.schedules import constant
from skgp.exceptions import NonFiniteLossError

Loss = Callable[[Line], Callable[[Batch, int], Tensor]]


class Notes(Progress):
    """Pickles the states of the phase that is followed after each step."""

    def __init__(self, saved: bytes | None = None) -> None:
        self.states: list[bytes] = []
        self._saved = saved
        self._state: Callable[[], Any] = dict

    def saved(self, phase: str) -> Any:
        return None if self._saved is None else pickle.loads(self._saved)

    def follow(self, phase: str, state: Callable[[], Any]) -> None:
        self._state = state

    def step(self) -> None:
        self.states.append(pickle.dumps(self._state()))


def with_edge(at: float) -> Loss:
    """No loss at all where a parameter leaves the others behind."""

    def of(module: Line) -> Callable[[Batch, int], Tensor]:
        def loss(batch: Batch, step: int) -> Tensor:
            value = squared_error(module)(batch, step)
            return torch.where(module.w[0] > at, math.nan, value)

        return loss

    return of


LOSSES: dict[str, tuple[Loss, int]] = {  # and rollbacks in all
    "none fails": (squared_error, 0),
    "some steps fail": (with_edge(0.6), 1),
    "an epoch fails for good": (with_edge(1e-5), 6),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_run_goes_on_after_any_step(loss: str) -> None:
    of_module, n_rollbacks = LOSSES[loss]

    def ended(saved: bytes | None = None) -> tuple[Any, list[bytes]]:
        module = Line()
        notes = Notes()
        run = Run(
            problem(module, of_module(module), 0.3),
            Rows(12),
            plan(max_iter=4, averaged=True, n_iter_no_change=3, schedule=constant),
            generator(3),
            lambda line: -abs(line.w[0].item() - 0.4),
            notes,
        )
        notes.follow("", run.state)
        if saved is not None:
            run.load_state(pickle.loads(saved))
        run.trial(4)
        state = run.state()
        names = "n_healed", "stale", "mark", "best_score", "history", "failure", "epochs_done"
        parts = [state[name] for name in names], run.finish()[0].w.tolist()
        return parts, notes.states

    expected, states = ended()
    assert (expected[0][0] >= n_rollbacks) if n_rollbacks else expected[0][0] == 0
    assert (expected[0][5] is not None) == (loss == "an epoch fails for good")
    for number, state in enumerate(states):
        actual, further = ended(state)
        assert actual == expected
        assert len(further) == len(states) - number - 1  # no step twice


@pytest.mark.parametrize("is_restarted", [False, True])
def test_training_goes_on_after_any_step(is_restarted: bool) -> None:
    """The same candidate is chosen, though another one may have a lower loss by then."""

    def ended(saved: bytes | None = None) -> tuple[Any, list[bytes]]:
        notes = Notes(saved)
        seen: list[int] = []
        starts = [(1.9, 0.9), (3.0, 0.0), (0.0, 5.0)] if is_restarted else [(0.0, 0.0)]
        modules = [Line(*start) for start in starts]
        tasks = [problem(module, squared_error(module), 0.5) for module in modules]
        settings = plan(max_iter=5, n_trial_epochs=2, schedule=constant)
        module, history = train(
            tasks,
            Rows(12),
            settings,
            generator(1),
            validate=None,
            on_epoch=lambda module, history: seen.append(len(history.loss_curve)) or False,
            progress=notes,
        )
        return (modules.index(module), module.w.tolist(), history, seen), notes.states

    expected, states = ended()
    seen = expected[3]
    assert seen == ([2, 3, 4, 5] if is_restarted else [1, 2, 3, 4, 5])
    for number, state in enumerate(states):
        actual, further = ended(state)
        assert actual[:3] == expected[:3]
        assert actual[3] == seen[len(seen) - len(actual[3]) :]
        assert len(further) == len(states) - number - 1
    assert ended(states[-1])[0][3] == [5]


def test_lbfgs_is_done_when_it_was() -> None:
    """Where it has converged it takes no further step; it evaluates no point twice."""

    def ended(saved: bytes | None = None) -> tuple[Any, list[bytes], int]:
        module = Line()
        notes = Notes(saved)
        n_evaluated = 0

        def counted(batch: Batch, step: int) -> Tensor:
            nonlocal n_evaluated
            n_evaluated += 1
            return squared_error(module)(batch, step)

        task = Candidate(module, counted, LBFGS([module.w]))
        settings = plan(max_iter=100, batch_size=12, schedule=constant)
        _, history = train(
            [task],
            Rows(12),
            settings,
            generator(),
            validate=None,
            on_epoch=never,
            progress=notes,
        )
        return (module.w.tolist(), history), notes.states, n_evaluated

    expected, states, n_evaluated = ended()
    assert 2 < len(states) < 100
    counts = []
    for number, state in enumerate(states):
        actual, further, n_further = ended(state)
        assert actual == expected
        assert len(further) == len(states) - number - 1
        counts.append(n_further)
    assert n_evaluated > counts[0] > counts[-1] == 1  # the check of the last step


def test_a_failure_is_remembered() -> None:
    """A run that has failed trains no more, whatever its next epoch would be."""
    module = Line()
    run = Run(problem(module, with_edge(-1.0)(module)), Rows(4), plan(), generator())
    run.trial(2)
    state = run.state()
    module = Line()
    again = Run(problem(module, squared_error(module)), Rows(4), plan(), generator())
    again.load_state(state)
    again.trial(2)
    assert isinstance(again.failure, NonFiniteLossError)
    assert str(again.failure) == str(run.failure)
    assert again.loss_after(2) == math.inf
