"""Fits whose steps are replayed, by a stand-in for CUDA graphs that runs a loss again."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from contract_cases import CLASSIFIERS, EMBEDDINGS, REGRESSORS, REPRESENTATIVES, Case, Data, rows_of
from gpytorch.kernels import MaternKernel, ScaleKernel
from torch import nn

from skgp import SVGPRegressor
from skgp.core.training import graphs, run
from skgp.core.training.graphs import Replayed, no_replay, statistics_of

pytestmark = pytest.mark.usefixtures("short_start")

CASES = REGRESSORS + CLASSIFIERS + EMBEDDINGS
QUICK = REPRESENTATIVES + CLASSIFIERS + EMBEDDINGS[:1]
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

    def replaying(loss: Any, module: nn.Module, *, repeats: bool) -> Any:
        parameters = [p for p in module.parameters() if p.requires_grad]
        replayed = Replayed(loss, parameters, statistics_of(module))
        return (replayed.loss, replayed.replay) if repeats else (loss, no_replay)

    monkeypatch.setattr(graphs, "capture", capture)
    monkeypatch.setattr(run, "replaying", replaying)
    return captured


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


@pytest.mark.only(REGRESSORS[:1])
def test_a_line_search_runs_in_each_step(case: Case, data: Data, replayed: list[Any]) -> None:
    """That of SVGP on a small data set of one output."""
    model = SVGPRegressor(n_inducing=10, random_state=0).fit(data.X, data.y)
    assert model.n_iter_ > 10
    assert not replayed


@pytest.mark.only(REGRESSORS[:1])
@pytest.mark.parametrize(
    "params",
    [
        {"likelihood": "censored"},  # looks for bounds that coincide
        {"kernel": ScaleKernel(MaternKernel(2.5))},
    ],
)
def test_what_may_look_at_numbers_is_computed(
    case: Case, data: Data, replayed: list[Any], params: Any
) -> None:
    common = {"n_inducing": 10, "max_iter": 15, "batch_size": 30, "early_stopping": False}
    SVGPRegressor(**common, **params, optimizer="adam").fit(data.X, data.y)
    assert not replayed


@pytest.mark.only(REGRESSORS[:1])
def test_hooks_of_a_user_are_called_in_each_step(
    case: Case, data: Data, replayed: list[Any]
) -> None:
    n_calls = 0

    def count(*_: Any) -> None:
        nonlocal n_calls
        n_calls += 1

    def features(n_features: int) -> nn.Module:
        network = nn.Linear(n_features, 2)
        network.register_forward_hook(count)
        return network

    params = {"n_inducing": 10, "max_iter": 15, "random_state": 0, "early_stopping": False}
    SVGPRegressor(feature_extractor=features, **params).fit(data.X, data.y)
    assert not replayed
    assert n_calls >= 15


@pytest.mark.only(REGRESSORS[:1])
def test_chunks_of_a_stream_are_computed(case: Case, data: Data, replayed: list[Any]) -> None:
    model = SVGPRegressor(n_inducing=10, batch_size=2, random_state=0)
    for _ in range(2):
        model.partial_fit(data.X, data.y)
    assert not replayed
