"""What ends a fit and what it keeps: restarts, early stopping, interruption."""

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from line_problem import Line, Rows, Sick, fit, generator, line, never, plan, problem, squared_error
from torch import Tensor, nn

from skgp.core.data import Batch
from skgp.core.training.history import History
from skgp.core.training.restarts import train
from skgp.exceptions import NonFiniteLossError

# ---------------------------------------------------------------- restarts


def test_restarts_choose_the_lowest_trial_loss_and_train_it_to_the_end() -> None:
    candidates = [line(-5.0, 0.0), line(1.9, 1.0), line(9.0, 9.0)]
    module, history = fit(candidates, Rows(8), max_iter=6, n_trial_epochs=2)
    assert module is candidates[1].module
    assert len(history.loss_curve) == 6
    assert history.loss_curve[0] < 1.0


def test_restarts_compare_the_last_trial_epoch_not_the_first() -> None:
    """One candidate starts worse and ends its trial better."""
    slow, fast = Line(1.0, 1.0), Line(0.0, 1.0)
    calls: list[str] = []

    def bad_later(batch: Batch, step: int) -> Tensor:
        calls.append("slow")
        return squared_error(slow)(batch, step) + (100.0 if len(calls) > 1 else 0.0)

    candidates = [problem(slow, bad_later), problem(fast, squared_error(fast))]
    module, history = fit(candidates, Rows(4), n_trial_epochs=2)
    assert module is fast
    assert history.loss_curve[0] > 10.0


def test_trial_epochs_count_towards_the_fit_and_its_schedule() -> None:
    """A chosen candidate is trained as it would have been alone with the same order of rows."""
    data = Rows(4)
    together, history = fit([line(), line(50.0, 0.0)], data, n_trial_epochs=3)
    alone, alone_history = fit(line(), Rows(4))
    assert together.w.tolist() == alone.w.tolist()
    assert history.loss_curve == alone_history.loss_curve


def test_a_single_candidate_has_no_trial() -> None:
    data = Rows(4)
    fit(line(), data, max_iter=3, n_trial_epochs=100)
    assert len(data.served) == 3 + 1  # and the check of the last step


def test_trials_are_not_longer_than_the_fit() -> None:
    data = Rows(4)
    _, history = fit([line(), line(1.0, 0.0)], data, max_iter=2, n_trial_epochs=10)
    assert len(data.served) == 4 + 2  # and the checks of their last steps
    assert len(history.loss_curve) == 2


def always_nan(batch: Batch, step: int) -> Tensor:
    return torch.tensor(math.nan, dtype=torch.float64, requires_grad=True)


def test_a_diverging_restart_is_passed_over() -> None:
    good = line()
    module, _ = fit([problem(Line(), always_nan), good], Rows(4))
    assert module is good.module


def test_all_restarts_diverging_is_an_error_at_once() -> None:
    """None of them is tried again."""
    data = Rows(4)
    with pytest.raises(NonFiniteLossError, match="diverged in epoch 1 "):
        fit([problem(Line(), always_nan), problem(Line(), always_nan)], data)
    together = len(data.served)
    data = Rows(4)
    with pytest.raises(NonFiniteLossError):
        fit(problem(Line(), always_nan), data)
    assert together == 2 * len(data.served)


# ---------------------------------------------------------------- early stopping and interruption


def scripted(scores: Sequence[float]) -> tuple[Callable[[nn.Module], float], list[list[float]]]:
    """Validation scores from a list, and the parameters at each of them."""
    parameters: list[list[float]] = []

    def validate(module: nn.Module) -> float:
        parameters.append(module.w.tolist())
        return scores[len(parameters) - 1]

    return validate, parameters


@pytest.mark.parametrize("offset", [-10.0, 0.0, 10.0])
def test_early_stopping_restores_the_best_and_waits_as_long_as_told(offset: float) -> None:
    """Best at epoch 3, then three epochs without: a score is a log density of any sign."""
    scores = [offset + s for s in (0.0, 1.0, 2.0, 1.9, 1.5, 1.99, 5.0, 6.0)]
    validate, parameters = scripted(scores)
    module, history = fit(line(), Rows(8), max_iter=8, n_iter_no_change=3, validate=validate)
    assert history.validation_scores == scores[:6]
    assert len(history.loss_curve) == 6
    assert module.w.tolist() == parameters[2]
    assert parameters[2] != parameters[5]


@pytest.mark.parametrize("offset", [-10.0, 10.0])
def test_a_gain_below_tol_does_not_count_but_is_kept(offset: float) -> None:
    """tol is a difference in nats: gains of 0.05 under tol = 0.1 run out of patience."""
    scores = [offset + s for s in (0.0, 0.05, 0.09, 1.0)]
    validate, parameters = scripted(scores)
    module, history = fit(
        line(), Rows(8), n_iter_no_change=2, tol=0.1, validate=validate, max_iter=4
    )
    assert history.validation_scores == scores[:3]
    assert module.w.tolist() == parameters[2]


@pytest.mark.parametrize("offset", [-10.0, 10.0])
def test_a_gain_above_tol_renews_the_patience(offset: float) -> None:
    scores = [offset + 0.2 * s for s in range(6)]
    validate, parameters = scripted(scores)
    module, history = fit(
        line(), Rows(8), n_iter_no_change=1, tol=0.1, validate=validate, max_iter=6
    )
    assert history.validation_scores == scores
    assert module.w.tolist() == parameters[5]


def test_small_gains_add_up_to_one_that_counts() -> None:
    """Gains of 0.04 under tol = 0.1 pass it after three epochs."""
    scores = [0.04 * s for s in range(9)] + [0.32] * 3
    validate, parameters = scripted(scores)
    module, history = fit(
        line(), Rows(8), n_iter_no_change=3, tol=0.1, validate=validate, max_iter=20
    )
    assert history.validation_scores == scores[:10]
    assert module.w.tolist() == parameters[8]


def test_best_parameters_return_even_if_patience_never_runs_out() -> None:
    validate, parameters = scripted([0.0, 3.0, 1.0, 2.0])
    module, history = fit(line(), Rows(8), max_iter=4, n_iter_no_change=10, validate=validate)
    assert len(history.loss_curve) == 4
    assert module.w.tolist() == parameters[1]


def test_scores_without_patience_are_recorded_only() -> None:
    validate, parameters = scripted([3.0, 2.0, 1.0])
    module, history = fit(line(), Rows(8), max_iter=3, validate=validate)
    assert history.validation_scores == [3.0, 2.0, 1.0]
    assert module.w.tolist() == parameters[2]


def test_a_nan_score_is_never_the_best() -> None:
    validate, parameters = scripted([math.nan, -1.0, math.nan, math.nan])
    module, history = fit(line(), Rows(8), max_iter=4, n_iter_no_change=2, validate=validate)
    assert len(history.validation_scores) == 4
    assert module.w.tolist() == parameters[1]


def test_interrupt_inside_the_loss_returns_to_the_last_completed_epoch() -> None:
    def interrupt(value: Tensor) -> Tensor:
        raise KeyboardInterrupt

    candidate = Line()
    loss = Sick(candidate, {6}, interrupt)
    ends: list[list[float]] = []

    def record(module: nn.Module, history: History) -> bool:
        ends.append(module.w.tolist())
        return False

    module, history = fit(problem(candidate, loss), Rows(8), on_epoch=record)
    assert history.interrupted
    assert len(history.loss_curve) == len(ends) == 2
    assert loss.seen[5] != ends[1]
    assert module.w.tolist() == ends[1]


def test_interrupt_in_the_first_epoch_leaves_the_initial_parameters() -> None:
    def interrupt(value: Tensor) -> Tensor:
        raise KeyboardInterrupt

    candidate = Line(0.5, 0.25)
    module, history = fit(problem(candidate, Sick(candidate, {2}, interrupt)), Rows(8))
    assert history.interrupted
    assert history.loss_curve == []
    assert module.w.tolist() == [0.5, 0.25]


def test_on_epoch_sees_the_history_and_stops_the_fit() -> None:
    lengths: list[int] = []

    def stop_at_three(module: nn.Module, history: History) -> bool:
        lengths.append(len(history.loss_curve))
        return len(history.loss_curve) == 3

    data = Rows(8)
    _, history = fit(line(), data, max_iter=10, on_epoch=stop_at_three)
    assert lengths == [1, 2, 3]
    assert len(data.served) == 6 + 1  # and the check of the last step
    assert not history.interrupted


def test_on_epoch_sees_the_score_of_its_epoch() -> None:
    validate, _ = scripted([1.0, 2.0])
    seen: list[list[float]] = []

    def record(module: nn.Module, history: History) -> bool:
        seen.append(list(history.validation_scores))
        return False

    fit(line(), Rows(8), max_iter=2, validate=validate, on_epoch=record)
    assert seen == [[1.0], [1.0, 2.0]]


def test_interrupt_during_a_trial_keeps_the_best_run_so_far() -> None:
    good, bad = line(2.0, 1.0), line(50.0, 0.0)
    calls = 0

    def interrupting(batch: Batch, step: int) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return bad.loss(batch, step)

    candidates = [good, problem(bad.module, interrupting)]
    module, history = train(
        candidates,
        Rows(4),
        plan(max_iter=6, n_trial_epochs=3),
        generator(),
        validate=None,
        on_epoch=never,
    )
    assert module is good.module
    assert history.interrupted
    assert len(history.loss_curve) == 3


def test_trial_epochs_are_validated_and_can_hold_the_best_score() -> None:
    candidates = [line(1.5, 1.0), line(50.0, 0.0)]
    scores = iter([5.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    seen: list[int] = []

    def on_epoch(module: nn.Module, history: History) -> bool:
        seen.append(len(history.validation_scores))
        return False

    module, history = train(
        candidates,
        Rows(4),
        plan(max_iter=5, n_trial_epochs=2, n_iter_no_change=9),
        generator(),
        validate=lambda _: next(scores),
        on_epoch=on_epoch,
    )
    assert history.validation_scores == [5.0, 1.0, 0.0, 0.0, 0.0]
    assert len(history.loss_curve) == 5
    assert seen == [2, 3, 4, 5]
    # The best score was that of the first trial epoch: its parameters come back.
    one_epoch, _ = fit(
        [line(1.5, 1.0), line(50.0, 0.0)], Rows(4), n_trial_epochs=1, on_epoch=lambda *_: True
    )
    assert module.w.tolist() == one_epoch.w.tolist() != [1.5, 1.0]
