"""Training goes back to its best state, with shorter steps."""

from collections.abc import Callable

import pytest
import torch
from line_problem import Line, Rows, generator, plan, problem
from torch import Tensor

from skgp.core.data import Batch
from skgp.core.training.run import Run
from skgp.core.training.schedules import constant

_EDGE = 0.7


class Cliff:
    """(w - 1)^2 for the first parameter w up to an edge, and a number of nats more beyond it."""

    def __init__(self, module: Line, height: float) -> None:
        self.module = module
        self.height = height

    def __call__(self, batch: Batch, step: int) -> Tensor:
        w = self.module.w[0]
        return (w - 1.0).square() + torch.where(w > _EDGE, self.height, 0.0)


def score(module: Line) -> float:
    """Best where the first step leads."""
    return -abs(module.w[0].item() - 0.5)


def run_of(
    height: float,
    *,
    n_outputs: int = 1,
    n_retreats: int = 4,
    averaged: bool = True,
    patience: int = 9,
) -> Run:
    """Steps of 0.5: the first leads to 0.5, the second beyond the edge, the third finds out."""
    module = Line()
    arguments = {"schedule": constant, "averaged": averaged, "n_retreats": n_retreats}
    return Run(
        problem(module, Cliff(module, height), 0.5),
        Rows(4, 1.0, n_outputs),
        plan(max_iter=9, n_iter_no_change=patience, **arguments),
        generator(),
        score,
    )


@pytest.mark.parametrize("averaged", [False, True])
def test_an_epoch_of_a_far_higher_loss_leads_back_to_the_best_state(averaged: bool) -> None:
    run = run_of(100.0, averaged=averaged)
    states = []
    for _ in range(3):
        run.epoch()
        states.append(run.module.w.tolist())
    assert states[1][0] > _EDGE
    with run.outcome() as outcome:
        assert outcome.w.tolist() == states[0]
    assert run.history.loss_curve[2] > 100.0  # the record says what happened
    torch.testing.assert_close(run.optimizer._peak, 0.15)
    before = run.module.w[0].item()
    run.epoch()
    assert abs(run.module.w[0].item() - before) < 0.16  # a step of the shorter kind
    assert run.history.loss_curve[3] < 1.0


def test_shorter_steps_have_the_whole_patience() -> None:
    """The second epoch was no gain, and the third is the first one after the retreat."""
    run = run_of(100.0, patience=2)
    for _ in range(3):
        run.epoch()
    assert run._n_retreats == 1
    assert not run.is_done


def test_a_first_epoch_leads_back_to_where_it_began() -> None:
    """Two batches: the second one sees what the step of the first has done."""
    module = Line(0.5)
    run = Run(
        problem(module, Cliff(module, 100.0), 0.5),
        Rows(8),
        plan(max_iter=9, n_iter_no_change=9, schedule=constant, n_retreats=1),
        generator(),
        score,
    )
    run.epoch()
    assert module.w.tolist() == [0.5, 0.0]


@pytest.mark.parametrize(
    ("height", "n_outputs", "n_retreats", "n_taken"),
    [(1.0, 1, 4, 0), (3.0, 1, 4, 1), (3.0, 2, 4, 0), (3.0, 1, 0, 0)],
    ids=["small", "far", "of-two-outputs", "none-allowed"],
)
def test_two_nats_per_output_are_far(
    height: float, n_outputs: int, n_retreats: int, n_taken: int
) -> None:
    run = run_of(height, n_outputs=n_outputs, n_retreats=n_retreats)
    for _ in range(3):
        run.epoch()
    assert run._n_retreats == n_taken


def test_a_run_goes_on_from_the_state_after_a_retreat() -> None:
    run, twin = run_of(100.0), run_of(100.0)
    for _ in range(3):
        run.epoch()
    assert run._n_retreats == 1
    twin.load_state(run.state())
    for _ in range(3):
        run.epoch()
        twin.epoch()
    assert twin.module.w.tolist() == run.module.w.tolist()
    assert twin.history.loss_curve == run.history.loss_curve
    assert twin._n_retreats == run._n_retreats


def run_of_all_rows(
    height: float,
    *,
    max_iter: int = 9,
    weight: float = 1.0,
    n_outputs: int = 1,
    n_retreats: int = 2,
    rise: float = 0.5,
) -> Run:
    """The same steps, each of all rows, without a score."""
    module = Line()
    return Run(
        problem(module, Cliff(module, height), 0.5),
        Rows(4, weight, n_outputs),
        plan(max_iter=max_iter, schedule=constant, n_retreats=n_retreats, rise=rise),
        generator(),
    )


@pytest.mark.parametrize(
    ("height", "n_outputs", "n_retreats", "n_taken"),
    [(0.7, 1, 2, 0), (0.8, 1, 2, 1), (0.8, 2, 2, 0), (0.8, 1, 0, 0)],
    ids=["small", "far", "of-two-outputs", "none-allowed"],
)
def test_where_no_score_decides_training_goes_back_to_the_lowest_loss(
    height: float, n_outputs: int, n_retreats: int, n_taken: int
) -> None:
    """The last state but one is beyond the edge, too, where the loss is `height` or a bit more."""
    run = run_of_all_rows(height, n_outputs=n_outputs, n_retreats=n_retreats)
    states = []
    for _ in range(3):
        run.epoch()
        states.append(run.module.w.tolist())
    assert states[1][0] > _EDGE
    assert (states[2] == states[0]) == (n_taken > 0)
    torch.testing.assert_close(run.optimizer._peak, 0.5 * 0.3**n_taken)
    assert run.history.loss_curve[2] > height


@pytest.mark.parametrize(
    ("height", "n_outputs", "n_retreats", "goes_back"),
    [(0.4, 1, 2, True), (0.4, 2, 2, False), (0.2, 1, 2, False), (0.4, 1, 0, False)],
    ids=["far", "of-two-outputs", "near", "no-retreats"],
)
def test_training_ends_near_the_lowest_loss_of_all_rows(
    height: float, n_outputs: int, n_retreats: int, goes_back: bool
) -> None:
    """The last step leads beyond the edge, from a loss of 0.25."""
    run = run_of_all_rows(height, max_iter=2, n_outputs=n_outputs, n_retreats=n_retreats)
    run.epoch()
    before = run.module.w.tolist()
    run.epoch()
    module, _ = run.finish()
    assert (module.w.tolist() == before) == goes_back
    assert (module.w[0].item() > _EDGE) != goes_back


@pytest.mark.parametrize(("weight", "n_taken"), [(1.0, 1), (0.1, 0), (10.0, 1)])
def test_light_rows_may_leap_further(weight: float, n_taken: int) -> None:
    """Ten rows per weight: ten times as far."""
    run = run_of_all_rows(0.8, weight=weight)
    for _ in range(3):
        run.epoch()
    assert run._n_retreats == n_taken
    last = run_of_all_rows(0.8, max_iter=2, weight=weight)
    for _ in range(2):
        last.epoch()
    assert (last.module.w[0].item() < _EDGE) == (n_taken > 0)


def test_a_run_goes_on_with_the_lowest_loss_of_all_rows() -> None:
    run, twin = run_of_all_rows(0.8), run_of_all_rows(0.8)
    for _ in range(2):
        run.epoch()
    twin.load_state(run.state())
    run.epoch()
    twin.epoch()
    assert run._n_retreats == twin._n_retreats == 1
    assert twin.module.w.tolist() == run.module.w.tolist()


def until_the_end(run: Run) -> list[float]:
    """Lengths of the optimiser's steps after each epoch."""
    lengths = []
    while not run.is_done:
        run.epoch()
        lengths.append(run.optimizer._peak)
    return lengths


def flat_run(validate: Callable[[Line], float], patience: int) -> Run:
    module = Line()
    return Run(
        problem(module, Cliff(module, 0.0), 0.5),
        Rows(4),
        plan(max_iter=40, n_iter_no_change=patience, tol=0.01, schedule=constant, n_retreats=9),
        generator(),
        validate,
    )


def test_shorter_steps_lead_on_from_the_best_state_where_patience_has_run_out() -> None:
    """Steps of 0.5 and of 0.15 pass the best score, at 0.6, and shorter ones come no nearer."""
    run = flat_run(lambda module: -abs(module.w[0].item() - 0.6), patience=2)
    lengths = until_the_end(run)
    expected = [0.5, 0.5, 0.15, 0.15, 0.15, 0.045, 0.045, 0.045]
    torch.testing.assert_close(lengths, expected)
    scores = run.history.validation_scores
    assert [scores.index(max(scores[:n])) for n in (3, 8)] == [0, 3]
    # From 0.5, the state of the first epoch, by one step of about 0.15; from there one of 0.045.
    torch.testing.assert_close([scores[3], scores[6]], [-0.04, -0.08], rtol=0.0, atol=0.01)


def test_training_ends_where_shorter_steps_have_gained_nothing() -> None:
    scores = iter(range(0, -99, -1))
    run = flat_run(lambda _: float(next(scores)), patience=3)
    # A gain in the first epoch, the patience, and the patience once more.
    torch.testing.assert_close(until_the_end(run), [0.5] * 3 + [0.15] * 4)


def test_a_run_goes_on_from_the_state_after_patience_has_run_out() -> None:
    def near(module: Line) -> float:
        return -abs(module.w[0].item() - 0.6)

    run, twin = flat_run(near, patience=2), flat_run(near, patience=2)
    for _ in range(6):
        run.epoch()
    assert run._n_retreats == 2
    twin.load_state(run.state())
    assert until_the_end(twin) == until_the_end(run)
    assert twin.history.validation_scores == run.history.validation_scores
