"""Fits whose steps are replayed, by a stand-in for CUDA graphs that runs a loss again."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from contract_cases import CLASSIFIERS, EMBEDDINGS, REGRESSORS, Case, Data, make_labels
from torch import nn

from skgp import SVGPRegressor
from skgp.core.training import graphs, run
from skgp.core.training.graphs import Replayed, no_replay

CASES = REGRESSORS + CLASSIFIERS + EMBEDDINGS
COLLAPSED = {"fitc", "exact"}  # line searches, of some evaluations each


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Steps from the eleventh on are replayed on the CPU too; the captured ones."""
    captured: list[Any] = []

    def capture(function: Callable[[], Any], device: torch.device) -> Any:
        loss, gradients = results = function()
        captured.append(function)

        def replay() -> None:
            new_loss, new_gradients = function()
            loss.copy_(new_loss)
            for old, new in zip(gradients, new_gradients, strict=True):
                if old is not None:
                    old.copy_(new)

        return replay, results

    def replaying(loss: Any, parameters: Any, *, repeats: bool) -> Any:
        replayed = Replayed(loss, parameters)
        return (replayed.loss, replayed.replay) if repeats else (loss, no_replay)

    monkeypatch.setattr(graphs, "capture", capture)
    monkeypatch.setattr(run, "replaying", replaying)
    return captured


def rows_of(case: Case, data: Data) -> tuple[Any, ...]:
    if case in EMBEDDINGS:
        return (data.Y,)
    if case in CLASSIFIERS:
        labels = make_labels()
        return labels.X, labels.y
    return data.X, data.y


def test_replayed_fits_are_the_computed_ones(
    case: Case, data: Data, replayed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit: what a loss takes from the number of the step is in the batch."""
    params = {"max_iter": 15, "batch_size": 29}
    model = case.make(**case.known(params)).fit(*rows_of(case, data))
    assert bool(replayed) == (case.name not in COLLAPSED)
    monkeypatch.setattr(run, "replaying", graphs.replaying)
    computed = case.make(**case.known(params)).fit(*rows_of(case, data))
    assert model.loss_curve_ == computed.loss_curve_


class Counting(nn.Module):
    """Features of a user, who may count calls."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.n_calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n_calls += 1
        return self.linear(x) * (1.0 + 0.01 * self.n_calls)


@pytest.mark.only(REGRESSORS[:1])
def test_the_code_of_a_user_runs_in_each_step(case: Case, data: Data, replayed: list[Any]) -> None:
    params = {"n_inducing": 10, "max_iter": 15, "random_state": 0, "early_stopping": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SVGPRegressor(feature_extractor=lambda n_features: Counting(), **params).fit(data.X, data.y)
    assert not replayed
