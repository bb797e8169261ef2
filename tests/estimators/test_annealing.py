"""The end of a fit that held-out rows stop: steps that become shorter, kept if they help."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from skgp.core.data import Batch, Targets
from skgp.core.training.history import History
from skgp.core.training.optimizers import Adam
from skgp.core.training.plan import Candidate, Plan
from skgp.core.training.progress import KEEPS_NOTHING
from skgp.core.training.ranks import ALONE
from skgp.core.training.schedules import constant, falling
from skgp.exceptions import NonFiniteLossError
from skgp.fitting.fit import _anneal


class Rows:
    n_outputs = 1
    n_data = 4.0
    n_rows = 4
    ranks = ALONE

    def __len__(self) -> int:
        return 4

    def ordered(self) -> torch.Tensor:
        return torch.arange(4)

    def shuffled(self, generator: torch.Generator) -> torch.Tensor:
        return torch.randperm(4, generator=generator)

    def batch(self, rows: torch.Tensor) -> Batch:
        x = torch.zeros(len(rows), 1)
        return Batch(x, Targets(x, None), None, rows)


class Weight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(()))


def anneal(scores, after, loss=None, n_annealed=9, schedule=constant):
    """The record, the module and its weights at each validation; `scores` came before."""
    module = Weight()
    optimizer = Adam([module.w], 0.1)
    loss = (lambda batch, step: (module.w - 1.0) ** 2) if loss is None else loss(module)
    seen, epochs, values = [], [], iter(after)

    def validate(module):
        seen.append(module.w.item())
        return next(values)

    def on_epoch(module, history):
        epochs.append(len(history.loss_curve))
        return False

    task = Candidate(module, loss, optimizer, 0)
    plan = Plan(20, 2, schedule, 1, 5, 0.01, averaged=True, n_annealed=n_annealed)
    earlier = History([0.0] * len(scores), list(scores))
    history = _anneal(
        task, earlier, Rows(), plan, torch.Generator(), validate, on_epoch, KEEPS_NOTHING
    )
    return history, module, seen, epochs


def test_rate_falls_from_one_to_zero_as_a_cosine() -> None:
    rates = [falling(1.0, share) for share in (0.0, 1 / 3, 0.5, 1.0)]
    np.testing.assert_allclose(rates, [1.0, 0.75, 0.5, 0.0], atol=1e-12)
    assert falling(0.1, 0.5) == 0.05


def test_a_quarter_of_the_epochs_up_to_the_best_is_added() -> None:
    scores = [0.0, 1.0, 2.0, 3.0, 4.0, 3.0, 2.0]  # best after five
    history, _, seen, epochs = anneal(scores, [5.0, 6.0])
    assert history.validation_scores == [*scores, 5.0, 6.0]
    assert len(seen) == len(history.loss_curve) - 7 == 2
    assert epochs == [8, 9]
    history, *_ = anneal(scores, [5.0], n_annealed=1)
    assert len(history.loss_curve) == 8


@pytest.mark.parametrize("first", [1.0, 0.1])
def test_steps_become_shorter_from_where_the_rate_was(first: float) -> None:
    """Adam's first steps on a line are as long as the rate, of which there are two an epoch.

    After 16 of 20 epochs the schedule is at its first rate.
    """

    def schedule(progress: float) -> float:
        return first if progress == 0.8 else math.nan

    scores = [0.0] * 15 + [1.0]
    _, _, seen, _ = anneal(
        scores, [2.0, 3.0, 4.0, 5.0], lambda module: lambda batch, step: module.w, schedule=schedule
    )
    lengths = 0.1 * np.array([falling(first, i / 8) for i in range(8)]).reshape(4, 2).sum(1)
    np.testing.assert_allclose(seen, -lengths.cumsum(), rtol=1e-4)


@pytest.mark.parametrize(("after", "kept"), [([0.5, 3.0], 1), ([3.0, 2.0], 0), ([0.5, 0.7], None)])
def test_the_best_of_all_is_kept(after: list[float], kept: int | None) -> None:
    _, module, seen, _ = anneal([0.0, 0.0, 0.0, 0.0, 1.0], after)
    assert module.w.item() == (0.0 if kept is None else seen[kept])


def test_a_divergence_leaves_the_average() -> None:
    def sick(module):
        return lambda batch, step: module.w * math.nan

    history, module, seen, _ = anneal([0.0, 1.0], [], sick)
    assert module.w.item() == 0.0
    assert history.validation_scores == [0.0, 1.0]
    assert not seen
    assert issubclass(NonFiniteLossError, ArithmeticError)
