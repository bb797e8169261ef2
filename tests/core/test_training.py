"""The training loop: order of rows, schedule, healing."""

import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from line_problem import (
    Line,
    Rows,
    Sick,
    fit,
    flat,
    generator,
    line,
    plan,
    problem,
    squared_error,
)
from torch import Tensor, nn

from skgp.core.data import Batch
from skgp.core.training.history import History
from skgp.core.training.run import Run
from skgp.core.training.schedules import constant, continued, one_cycle
from skgp.exceptions import NonFiniteLossError, NotPositiveDefiniteError

# ---------------------------------------------------------------- order and schedule


@pytest.mark.parametrize(
    ("n", "batch_size", "count"), [(10, 3, 3), (10, 4, 2), (7, 7, 1), (9, 2, 4)]
)
def test_batches_of_an_epoch_partition_the_rows(n: int, batch_size: int, count: int) -> None:
    """Each row once per epoch, in batches of nearly equal size."""
    data = Rows(n)
    fit(line(), data, max_iter=3, batch_size=batch_size)
    assert len(data.served) == 3 * count + 1  # and the check of the last step
    for epoch in range(3):
        batches = data.served[epoch * count : (epoch + 1) * count]
        assert sorted(flat(batches)) == list(range(n))
        sizes = [len(batch) for batch in batches]
        assert max(sizes) - min(sizes) <= 1


def test_order_of_rows_differs_between_epochs_and_seeds() -> None:
    orders = []
    for seed in (0, 1):
        data = Rows(32)
        fit(line(), data, seed=seed, max_iter=2, batch_size=16)
        orders += [flat(data.served[:2]), flat(data.served[2:])]
    assert len({tuple(order) for order in orders}) == 4


def test_same_seed_gives_the_same_fit_bit_for_bit() -> None:
    runs = []
    for _ in range(2):
        data = Rows(12)
        module, history = fit([line(), line(3.0, 0.0)], data, seed=5)
        runs.append((data.served, history.loss_curve, module.w.tolist()))
    assert runs[0] == runs[1]


def test_global_random_state_plays_no_part() -> None:
    state = torch.get_rng_state()
    results = []
    try:
        for seed in (1, 2):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            results.append(fit(line(), Rows(12))[0].w.tolist())
            assert torch.equal(torch.get_rng_state(), before)
    finally:
        torch.set_rng_state(state)
    assert results[0] == results[1]


def test_one_cycle_rises_to_its_peak_at_a_tenth_and_falls_to_zero() -> None:
    """Linear to 1 at 10 %, then (1 + cos(pi t)) / 2."""
    assert one_cycle(0.1) == 1.0
    np.testing.assert_allclose(one_cycle(0.05), 0.5, rtol=1e-12)
    np.testing.assert_allclose(one_cycle(1.0), 0.0, rtol=0, atol=1e-15)
    np.testing.assert_allclose(one_cycle(0.55), 0.5, rtol=1e-12)
    np.testing.assert_allclose(one_cycle(0.325), 0.5 + math.sqrt(0.125), rtol=1e-12)
    grid = [one_cycle(t) for t in np.linspace(0.0, 1.0, 201)]
    assert grid[0] > 0.0
    assert max(grid) == 1.0
    assert np.all(np.diff(grid[:21]) >= 0.0)
    assert np.all(np.diff(grid[20:]) < 0.0)


def test_a_fit_that_goes_on_takes_a_tenth_of_the_steps_lengths() -> None:
    for progress in (0.0, 0.05, 0.1, 0.6, 1.0):
        expected = one_cycle(progress) / 10.0
        np.testing.assert_allclose(continued(one_cycle, progress), expected, rtol=1e-12)


def test_constant_schedule() -> None:
    assert [constant(t) for t in (0.0, 0.5, 1.0, 7.0)] == [1.0] * 4


def test_learning_rates_of_a_fit_follow_the_schedule() -> None:
    """Step s of S uses learning_rate * one_cycle(s / S)."""
    candidate = line()
    rates: list[float] = []
    run = Run(candidate, Rows(8), plan(max_iter=10), generator())
    moments = run.optimizer._moments
    step = moments.step
    moments.step = lambda rate: (rates.append(rate), step(rate))
    for _ in range(10):
        run.epoch()
    expected = [0.1 * one_cycle(s / 20) for s in range(20)]
    np.testing.assert_allclose(rates, expected, rtol=1e-12)


def test_a_state_keeps_the_versions_of_modules() -> None:
    """A module of a user's feature extractor may read its state by them, as batch norms do."""
    run = Run(line(), Rows(8), plan(), generator())
    expected = run.module.state_dict()._metadata
    assert run.state()["good"]["module"]._metadata == expected
    assert expected


def test_first_steps_are_those_of_adam() -> None:
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, w -= lr mhat / (sqrt(vhat) + 1e-8)."""
    data = Rows(4)
    module, _ = fit(line(), data, max_iter=3)
    w, m, v = np.zeros(2), np.zeros(2), np.zeros(2)
    x = np.arange(4.0)
    for t in range(3):
        residual = w[0] * x + w[1] - (2.0 * x + 1.0)
        g = np.array([np.mean(2.0 * residual * x), np.mean(2.0 * residual)])
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        rate = 0.1 * one_cycle(t / 3)
        scale = np.sqrt(v / (1.0 - 0.999 ** (t + 1))) + 1e-8
        w = w - rate * m / (1.0 - 0.9 ** (t + 1)) / scale
    np.testing.assert_allclose(module.w.detach().numpy(), w, rtol=1e-12)


def test_loss_curve_is_the_mean_over_rows() -> None:
    """Batches of 4 and 3 rows weigh 4 / 7 and 3 / 7; a zero rate keeps the loss fixed."""
    data = Rows(7)
    _, history = fit(line(learning_rate=0.0), data, max_iter=1, batch_size=4)
    expected = np.mean((2.0 * np.arange(7.0) + 1.0) ** 2)
    np.testing.assert_allclose(history.loss_curve, [expected], rtol=1e-13)


def test_training_finds_the_least_squares_line() -> None:
    module, history = fit(line(1.5, 0.5), Rows(4), max_iter=300)
    np.testing.assert_allclose(module.w.detach().numpy(), [2.0, 1.0], rtol=0, atol=1e-4)
    assert len(history.loss_curve) == 300
    assert history.loss_curve[-1] < 1e-6
    assert history.validation_scores == []
    assert not history.interrupted


def test_frozen_parameters_stay() -> None:
    candidate = line()
    candidate.module.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    module, _ = fit(candidate, Rows(8))
    assert module.frozen.tolist() == [1.0, 1.0]
    assert module.w.tolist() != [0.0, 0.0]


# ---------------------------------------------------------------- healing


def nan_loss(value: Tensor) -> Tensor:
    return value * math.nan


def infinite_loss(value: Tensor) -> Tensor:
    return value + math.inf


def nan_gradient(value: Tensor) -> Tensor:
    """Finite, but sqrt has an infinite slope at 0, times 0."""
    return value + torch.sqrt(value * 0.0)


def singular(value: Tensor) -> Tensor:
    raise NotPositiveDefiniteError("a kernel matrix is singular; raise jitter")


FAILURES = [nan_loss, infinite_loss, nan_gradient, singular]


@pytest.mark.parametrize("fail", FAILURES)
def test_one_failure_heals_by_a_rollback_and_a_smaller_step(
    fail: Callable[[Tensor], Tensor],
) -> None:
    """Call 6 is the second batch of epoch 3: the epoch restarts from the end of epoch 2."""
    module = Line()
    loss = Sick(module, {6}, fail)
    ends: list[list[float]] = []
    scales: list[float] = []
    run = Run(problem(module, loss), Rows(8), plan(schedule=constant), generator())
    for _ in range(5):
        run.epoch()
        ends.append(module.w.tolist())
        scales.append(run.optimizer._peak)
    assert np.all(np.isfinite(run.history.loss_curve))
    assert run.epochs_done == 5
    assert loss.seen[5] != ends[1]  # the failing epoch had moved on
    assert loss.seen[6] == ends[1]  # and was taken back
    np.testing.assert_allclose(scales, [0.1, 0.1, 0.03, 0.03, 0.03], rtol=1e-12)


def test_rollback_restores_the_moments_of_the_optimiser_too() -> None:
    """A fit that fails once in epoch 3 equals one whose step shrinks there without a failure."""
    module = Line()
    sick = Run(
        problem(module, Sick(module, {6}, nan_loss)), Rows(8), plan(schedule=constant), generator()
    )
    healthy = Run(line(), Rows(8), plan(schedule=constant), generator())
    for epoch in range(5):
        if epoch == 2:
            healthy.optimizer.shorten(0.3)
            torch.randperm(8, generator=healthy.generator)  # the order of the failed attempt
        sick.epoch()
        healthy.epoch()
    assert module.w.tolist() == healthy.module.w.tolist()


@pytest.mark.parametrize("fail", FAILURES)
def test_a_loss_that_never_recovers_is_an_error(
    fail: Callable[[Tensor], Tensor],
) -> None:
    module = Line()
    loss = Sick(module, set(range(6, 10_000)), fail)
    with pytest.raises(NonFiniteLossError, match=r"diverged in epoch 3 .* smaller steps"):
        fit(problem(module, loss), Rows(8))
    assert module.w.tolist() in loss.seen[0:5:2]  # where a completed epoch began or ended
    assert len(loss.seen) < 20


@pytest.mark.parametrize("n", [4, 8], ids=["one-batch", "two-batches"])
def test_a_state_whose_loss_is_not_finite_is_no_state_to_go_back_to(n: int) -> None:
    """The last step of an epoch leaves the domain of the loss: w < 0 has no logarithm."""
    module = Line(1.0)

    def loss(batch: Batch, step: int) -> Tensor:
        # 4 (w - 0.02)^2 where w > 0, else NaN
        return 4.0 * (module.w[0].log().exp() - 0.02).square()

    run = Run(problem(module, loss, 0.8), Rows(n), plan(schedule=constant), generator())
    for _ in range(12):
        run.epoch()
    assert np.all(np.isfinite(run.history.loss_curve))
    assert run.optimizer._peak < 0.8
    assert module.w[0].item() > 0.0


class Cliff:
    """(w - 1)^2 for the first parameter w, as good as no loss at all beyond an edge."""

    def __init__(self, module: Line, edge: float, beyond: float) -> None:
        self.module = module
        self.edge = edge
        self.beyond = beyond

    def __call__(self, batch: Batch, step: int) -> Tensor:
        w = self.module.w[0]
        return (w - 1.0).square() + torch.where(w > self.edge, self.beyond, 0.0)


@pytest.mark.parametrize("beyond", [math.nan, 1e5])
def test_the_last_step_is_taken_back_if_it_leads_over_the_edge(beyond: float) -> None:
    """From 0 a first step of 0.5 leads to 0.5, beyond the edge; one of 0.15 does not."""
    module = Line()
    candidate = problem(module, Cliff(module, 0.3, beyond), 0.5)
    _, history = fit(candidate, Rows(4), max_iter=1, schedule=constant)
    np.testing.assert_allclose(module.w[0].item(), 0.15, rtol=1e-6)
    assert history.loss_curve == [1.0]


def test_a_last_step_that_no_shorter_one_mends_is_an_error() -> None:
    module = Line()
    candidate = problem(module, Cliff(module, 0.0, math.nan), 0.5)
    with pytest.raises(NonFiniteLossError, match="did not recover"):
        fit(candidate, Rows(4), max_iter=1, schedule=constant)
    assert module.w.tolist() == [0.0, 0.0]


def test_a_fit_that_a_callback_ends_goes_back_one_epoch_if_the_last_step_did_harm() -> None:
    module = Line()
    candidate = problem(module, Cliff(module, 0.7, math.nan), 0.5)
    before: list[float] = []

    def stop_at_two(module: Line, history: History) -> bool:
        before.append(module.w[0].item())
        return len(before) == 2

    _, history = fit(candidate, Rows(4), max_iter=9, schedule=constant, on_epoch=stop_at_two)
    assert before[1] > 0.7 > before[0] == module.w[0].item()
    assert len(history.loss_curve) == 1


@pytest.mark.parametrize(("weight", "is_taken"), [(1.0, False), (1e-6, True), (1e6, False)])
def test_a_leap_is_judged_in_nats_of_all_rows(weight: float, is_taken: bool) -> None:
    """A loss of 1e5 per row is a tenth of a nat in all where the rows weigh a millionth each."""
    module = Line()
    candidate = problem(module, Cliff(module, 0.3, 1e5), 0.5)
    fit(candidate, Rows(4, weight), max_iter=1, schedule=constant)
    np.testing.assert_allclose(module.w[0].item(), 0.5 if is_taken else 0.15, rtol=1e-6)


@pytest.mark.parametrize(("n_outputs", "is_taken"), [(1, False), (300, True)])
def test_a_leap_is_judged_in_nats_of_each_output(n_outputs: int, is_taken: bool) -> None:
    module = Line()
    candidate = problem(module, Cliff(module, 0.3, 1e3), 0.5)
    fit(candidate, Rows(4, 1.0, n_outputs), max_iter=1, schedule=constant)
    np.testing.assert_allclose(module.w[0].item(), 0.5 if is_taken else 0.15, rtol=1e-6)


def test_the_check_of_the_last_step_leaves_no_trace() -> None:
    """Neither in buffers that an evaluation changes nor in the optimiser."""

    class Counting(Line):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

    module = Counting()

    def loss(batch: Batch, step: int) -> Tensor:
        module.calls += 1
        return squared_error(module)(batch, step)

    run = Run(problem(module, loss), Rows(8), plan(max_iter=2), generator())
    for _ in range(2):
        run.epoch()
    assert module.calls == 4
    (state,) = run.optimizer.state_dict()["states"].values()
    assert state["step"] == 4


def scores(module: Line) -> float:
    """Higher up to w = 0.4, lower from there on."""
    return -abs(module.w[0].item() - 0.4)


@pytest.mark.parametrize("is_averaged", [False, True])
@pytest.mark.parametrize("ends", [1, 3, 4])
def test_a_run_goes_on_from_a_state_to_the_last_bit(ends: int, is_averaged: bool) -> None:
    """After a rollback in epoch 2, with a best score: rows, steps, history and patience."""

    def started() -> tuple[Run[Line], Line]:
        module = Line()
        loss = Sick(module, {4}, nan_loss) if ends != 4 else squared_error(module)
        task = problem(module, loss, 0.4)
        settings = plan(max_iter=9, n_iter_no_change=3, tol=0.0, averaged=is_averaged)
        return Run(task, Rows(8), settings, generator(3), scores), module

    def epochs(run: Run[Line], n: int) -> list[tuple[bool, int]]:
        """Whether the run is done after each epoch, and since when nothing is better."""
        progress = []
        for _ in range(n):
            run.epoch()
            progress.append((run.is_done, run.state()["stale"]))
        return progress

    whole, expected = started()
    progress = epochs(whole, 9)
    assert {stale for _, stale in progress} > ({0} if is_averaged else {0, 1, 2})
    first, _ = started()
    assert epochs(first, ends) == progress[:ends]
    state = pickle.loads(pickle.dumps(first.state()))
    second, module = started()
    second.loss = squared_error(module)  # the failure is over
    if ends == 1:
        second.loss = Sick(module, {2}, nan_loss)
    second.load_state(state)
    assert epochs(second, 9 - ends) == progress[ends:]
    assert second.history == whole.history
    assert [run.finish()[0].w.tolist() for run in (second, whole)] == [expected.w.tolist()] * 2


def test_a_run_that_has_begun_takes_no_other_state() -> None:
    run = Run(line(), Rows(8), plan(), generator())
    state = run.state()
    run.epoch()
    with pytest.raises(ValueError, match="has begun"):
        run.load_state(state)


def test_other_errors_pass_through() -> None:
    def broken(batch: Batch, step: int) -> Tensor:
        raise KeyError("no such column")

    with pytest.raises(KeyError, match="no such column"):
        fit(problem(Line(), broken), Rows(4))
