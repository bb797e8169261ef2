"""Training that ends at an average over its epochs."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from line_problem import Line, Rows, fit, line, problem, squared_error
from torch import Tensor, nn

from skgp.core.data import Batch
from skgp.core.training.history import History
from skgp.core.training.schedules import constant
from skgp.core.training.states import averaged


def weights(n: int) -> np.ndarray:
    """Weights of n states in their average: polynomials of degree five, Gamma(t + 5) / Gamma(t)."""
    w = np.array([math.gamma(t + 5) / math.gamma(t) for t in range(1, n + 1)])
    return w / w.sum()


def test_weights_of_an_average_are_polynomials_of_the_number_of_the_state() -> None:
    states = torch.randn(7, 3, dtype=torch.float64)
    average: dict[str, Tensor] | None = None
    for t, state in enumerate(states, start=1):
        average = averaged(average, {"w": state, "count": torch.tensor(t)}, t)
    assert average is not None
    assert average["w"].numpy() == pytest.approx(weights(7) @ states.numpy())
    assert average["count"] == 7  # numbers of batches do not mix


def recorded() -> tuple[list[list[float]], Callable[[nn.Module, History], bool]]:
    """A callback, and the parameters that it sees."""
    seen: list[list[float]] = []

    def on_epoch(module: nn.Module, history: History) -> bool:
        assert isinstance(module, Line)
        seen.append(module.w.tolist())
        return False

    return seen, on_epoch


def test_a_fit_ends_at_the_average_of_its_epochs_which_callbacks_and_scores_see() -> None:
    plain, on_epoch = recorded()
    _, history = fit(line(), Rows(8), max_iter=6, on_epoch=on_epoch)
    seen, on_epoch = recorded()
    validated: list[list[float]] = []

    def validate(module: nn.Module) -> float:
        validated.append(module.w.tolist())
        return 0.0

    module, averaged_history = fit(
        line(),
        Rows(8),
        max_iter=6,
        averaged=True,
        validate=validate,
        on_epoch=on_epoch,
    )
    assert averaged_history.loss_curve == history.loss_curve  # the steps are the same
    for t in range(1, 7):
        expected = weights(t) @ np.array(plain[:t])
        assert seen[t - 1] == pytest.approx(expected)
        assert validated[t - 1] == pytest.approx(expected)
    assert module.w.tolist() == seen[-1]


def test_the_best_score_of_an_average_keeps_the_average() -> None:
    seen, on_epoch = recorded()
    scores = iter([0.0, 1.0, 0.5, 0.6, 0.7, 0.2])
    module, _ = fit(
        line(),
        Rows(8),
        max_iter=6,
        averaged=True,
        n_iter_no_change=9,
        validate=lambda module: next(scores),
        on_epoch=on_epoch,
    )
    assert module.w.tolist() == seen[1]


def test_an_interrupted_fit_ends_at_the_average() -> None:
    seen, record = recorded()

    def on_epoch(module: nn.Module, history: History) -> bool:
        record(module, history)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return False

    module, history = fit(line(), Rows(8), max_iter=6, averaged=True, on_epoch=on_epoch)
    assert history.interrupted
    assert module.w.tolist() == seen[2]


def test_a_harmful_last_step_is_not_averaged() -> None:
    """A callback ends the fit after a step over an edge, whose loss nothing has seen yet."""
    module = Line()
    inside = squared_error(module)

    def loss(batch: Batch, step: int) -> Tensor:
        return inside(batch, step) * (math.nan if module.w[0].item() > 0.7 else 1.0)

    raw: list[float] = []

    def stop_at_two(averaged: nn.Module, history: History) -> bool:
        raw.append(len(history.loss_curve))
        return len(raw) == 2

    candidate = problem(module, loss, 0.5)
    _, history = fit(
        candidate, Rows(4), max_iter=9, schedule=constant, averaged=True, on_epoch=stop_at_two
    )
    assert module.w[0].item() == pytest.approx(0.5)
    assert len(history.loss_curve) == 1


@pytest.mark.parametrize(("is_averaged", "n_epochs"), [(False, 14), (True, 15)])
def test_training_waits_as_long_as_an_average_remembers(is_averaged: bool, n_epochs: int) -> None:
    """No gain after thirteen epochs, and an average over the last sixth of them."""
    scores = iter([min(epoch, 13.0) for epoch in range(1, 25)])
    _, history = fit(
        line(),
        Rows(8),
        max_iter=24,
        averaged=is_averaged,
        n_iter_no_change=1,
        validate=lambda module: next(scores),
    )
    assert len(history.loss_curve) == n_epochs
