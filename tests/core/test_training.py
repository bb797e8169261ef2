"""The training loop on problems whose every step can be followed."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from skgp.core.likelihoods import Targets
from skgp.core.objectives import Batch
from skgp.core.training import (
    Candidate,
    History,
    Plan,
    Trainer,
    constant,
    one_cycle,
    train,
)
from skgp.exceptions import NonFiniteLossError, NotPositiveDefiniteError


class Rows:
    """Rows whose single input is their own number, with targets 2 x + 1."""

    def __init__(self, n: int) -> None:
        self.x = torch.arange(n, dtype=torch.float64).unsqueeze(-1)
        self.served: list[list[int]] = []

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, rows: Tensor) -> Batch:
        self.served.append(rows.tolist())
        x = self.x[rows]
        return Batch(x, Targets(2.0 * x + 1.0, None), None)


class Line(nn.Module):
    """y = a x + b."""

    def __init__(self, a: float = 0.0, b: float = 0.0) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([a, b], dtype=torch.float64))


def squared_error(module: Line) -> Callable[[Batch], Tensor]:
    def loss(batch: Batch) -> Tensor:
        prediction = module.w[0] * batch.x + module.w[1]
        return (prediction - batch.targets.y).square().mean()

    return loss


def plan(**changes: float | None) -> Plan:
    settings = {
        "max_iter": 5,
        "batch_size": 4,
        "learning_rate": 0.1,
        "n_trial_epochs": 2,
        "n_iter_no_change": None,
        "tol": 1e-4,
    }
    return Plan(**{**settings, **changes})  # type: ignore[arg-type]


def flat(batches: Sequence[Sequence[int]]) -> list[int]:
    return [row for batch in batches for row in batch]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def never(module: nn.Module, history: History) -> bool:
    return False


def fit(
    candidates: Sequence[Candidate] | Candidate,
    data: Rows,
    *,
    seed: int = 0,
    validate: Callable[[nn.Module], float] | None = None,
    on_epoch: Callable[[nn.Module, History], bool] = never,
    **changes: float | None,
) -> tuple[nn.Module, History]:
    if isinstance(candidates, Candidate):
        candidates = [candidates]
    return train(
        candidates, data, plan(**changes), generator(seed), validate=validate, on_epoch=on_epoch
    )


def line(a: float = 0.0, b: float = 0.0) -> Candidate:
    module = Line(a, b)
    return Candidate(module, squared_error(module))


# ---------------------------------------------------------------- order and schedule


@pytest.mark.parametrize(
    ("n", "batch_size", "count"), [(10, 3, 3), (10, 4, 2), (7, 7, 1), (9, 2, 4)]
)
def test_batches_of_an_epoch_partition_the_rows(n: int, batch_size: int, count: int) -> None:
    """Each row once per epoch, in batches of nearly equal size."""
    data = Rows(n)
    fit(line(), data, max_iter=3, batch_size=batch_size)
    assert len(data.served) == 3 * count
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


def test_constant_schedule() -> None:
    assert [constant(t) for t in (0.0, 0.5, 1.0, 7.0)] == [1.0] * 4


def test_learning_rates_of_a_fit_follow_the_schedule() -> None:
    """Step s of S uses learning_rate * one_cycle(s / S)."""
    candidate = line()
    rates: list[float] = []
    trainer = Trainer(candidate, Rows(8), plan(max_iter=10), one_cycle, generator())
    step = trainer.optimizer.step
    trainer.optimizer.step = lambda: (rates.append(trainer.optimizer.param_groups[0]["lr"]), step())
    for _ in range(10):
        trainer.epoch()
    expected = [0.1 * one_cycle(s / 20) for s in range(20)]
    np.testing.assert_allclose(rates, expected, rtol=1e-12)


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
    _, history = fit(line(), data, max_iter=1, batch_size=4, learning_rate=0.0)
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

    def bad_later(batch: Batch) -> Tensor:
        calls.append("slow")
        return squared_error(slow)(batch) + (100.0 if len(calls) > 1 else 0.0)

    candidates = [Candidate(slow, bad_later), Candidate(fast, squared_error(fast))]
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
    assert len(data.served) == 3


def test_trials_are_not_longer_than_the_fit() -> None:
    data = Rows(4)
    _, history = fit([line(), line(1.0, 0.0)], data, max_iter=2, n_trial_epochs=10)
    assert len(data.served) == 4
    assert len(history.loss_curve) == 2


def always_nan(batch: Batch) -> Tensor:
    return torch.tensor(math.nan, dtype=torch.float64, requires_grad=True)


def test_a_diverging_restart_is_passed_over() -> None:
    good = line()
    module, _ = fit([Candidate(Line(), always_nan), good], Rows(4))
    assert module is good.module


def test_all_restarts_diverging_is_an_error_at_once() -> None:
    """None of them is tried again."""
    data = Rows(4)
    with pytest.raises(NonFiniteLossError, match="lower learning_rate_init"):
        fit([Candidate(Line(), always_nan), Candidate(Line(), always_nan)], data)
    together = len(data.served)
    data = Rows(4)
    with pytest.raises(NonFiniteLossError):
        fit(Candidate(Line(), always_nan), data)
    assert together == 2 * len(data.served)


# ---------------------------------------------------------------- healing


class Sick:
    """A loss that calls `fail` at the calls named, and records parameters at every call."""

    def __init__(self, module: Line, at: set[int], fail: Callable[[Tensor], Tensor]) -> None:
        self.module = module
        self.at = at
        self.fail = fail
        self.seen: list[list[float]] = []

    def __call__(self, batch: Batch) -> Tensor:
        self.seen.append(self.module.w.tolist())
        value = squared_error(self.module)(batch)
        return self.fail(value) if len(self.seen) in self.at else value


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
    trainer = Trainer(Candidate(module, loss), Rows(8), plan(), constant, generator())
    curve = []
    for _ in range(5):
        curve.append(trainer.epoch())
        ends.append(module.w.tolist())
        scales.append(trainer.optimizer.param_groups[0]["lr"])
    assert np.all(np.isfinite(curve))
    assert trainer.epochs_done == 5
    assert loss.seen[5] != ends[1]  # the failing epoch had moved on
    assert loss.seen[6] == ends[1]  # and was taken back
    np.testing.assert_allclose(scales, [0.1, 0.1, 0.03, 0.03, 0.03], rtol=1e-12)


def test_rollback_restores_the_moments_of_the_optimiser_too() -> None:
    """A fit that fails once in epoch 3 equals one whose step shrinks there without a failure."""
    module = Line()
    sick = Trainer(
        Candidate(module, Sick(module, {6}, nan_loss)), Rows(8), plan(), constant, generator()
    )
    healthy = Trainer(line(), Rows(8), plan(), constant, generator())
    for epoch in range(5):
        if epoch == 2:
            healthy.step_scale = 0.3
            torch.randperm(8, generator=healthy.generator)  # the order of the failed attempt
        sick.epoch()
        healthy.epoch()
    assert module.w.tolist() == healthy.candidate.module.w.tolist()


@pytest.mark.parametrize("fail", FAILURES)
def test_a_loss_that_never_recovers_is_an_error_with_its_remedy(
    fail: Callable[[Tensor], Tensor],
) -> None:
    module = Line()
    loss = Sick(module, set(range(6, 10_000)), fail)
    message = (
        "diverged in epoch 3 .* normalize_X=True.* normalize_y=True.*"
        "lower learning_rate_init or raise jitter or noise_floor"
    )
    with pytest.raises(NonFiniteLossError, match=message):
        fit(Candidate(module, loss), Rows(8))
    assert module.w.tolist() in loss.seen[0:5:2]  # where a completed epoch began or ended
    assert len(loss.seen) < 20


@pytest.mark.parametrize("n", [4, 8], ids=["one-batch", "two-batches"])
def test_a_state_whose_loss_is_not_finite_is_no_state_to_go_back_to(n: int) -> None:
    """The last step of an epoch leaves the domain of the loss: w < 0 has no logarithm."""
    module = Line(1.0)

    def loss(batch: Batch) -> Tensor:
        # 4 (w - 0.02)^2 where w > 0, else NaN
        return 4.0 * (module.w[0].log().exp() - 0.02).square()

    trainer = Trainer(
        Candidate(module, loss), Rows(n), plan(learning_rate=0.8), constant, generator()
    )
    curve = [trainer.epoch() for _ in range(12)]
    assert np.all(np.isfinite(curve))
    assert trainer.step_scale < 1.0
    assert module.w[0].item() > 0.0


def test_other_errors_pass_through() -> None:
    def broken(batch: Batch) -> Tensor:
        raise KeyError("no such column")

    with pytest.raises(KeyError, match="no such column"):
        fit(Candidate(Line(), broken), Rows(4))


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

    module, history = fit(Candidate(candidate, loss), Rows(8), on_epoch=record)
    assert history.interrupted
    assert len(history.loss_curve) == len(ends) == 2
    assert loss.seen[5] != ends[1]
    assert module.w.tolist() == ends[1]


def test_interrupt_in_the_first_epoch_leaves_the_initial_parameters() -> None:
    def interrupt(value: Tensor) -> Tensor:
        raise KeyboardInterrupt

    candidate = Line(0.5, 0.25)
    module, history = fit(Candidate(candidate, Sick(candidate, {2}, interrupt)), Rows(8))
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
    assert len(data.served) == 6
    assert not history.interrupted


def test_on_epoch_sees_the_score_of_its_epoch() -> None:
    validate, _ = scripted([1.0, 2.0])
    seen: list[list[float]] = []

    def record(module: nn.Module, history: History) -> bool:
        seen.append(list(history.validation_scores))
        return False

    fit(line(), Rows(8), max_iter=2, validate=validate, on_epoch=record)
    assert seen == [[1.0], [1.0, 2.0]]
