"""Several processes that train one model end where one process with all rows does."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from skgp import SVGPRegressor
from skgp._typing import Array
from skgp.core.training.ranks import Ranks
from skgp.fitting.table import common_scale, make_scale
from tests.data_parallel_fits import FITS, problem

ROOT = Path(__file__).parent.parent
WHOLE = ("svgp", "ppgpr", "dspp")  # fits whose steps see all rows

pytestmark = pytest.mark.filterwarnings("ignore::skgp.exceptions.FitQualityWarning")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What each of two processes has predicted."""
    folder = tmp_path_factory.mktemp("ranks")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.data_parallel_worker"]
    workers = [
        subprocess.Popen([*command, str(rank), str(folder)], cwd=ROOT, env=environment)
        for rank in range(2)
    ]
    try:
        assert [worker.wait(timeout=300) for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.kill()
    return [np.load(folder / f"{rank}.npz") for rank in range(2)]


@pytest.mark.parametrize("name", WHOLE)
def test_two_processes_fit_as_one_does(results: list[Any], name: str) -> None:
    X, y, weight = problem(FITS[name].n)
    model = FITS[name].make().fit(X, y, weight)
    dist = model.predict_dist(X[:50])
    found = results[0]
    np.testing.assert_allclose(found[f"{name}-loss"], model.loss_curve_, rtol=0.0, atol=1e-6)
    np.testing.assert_allclose(found[f"{name}-mean"], dist.mean(), rtol=0.0, atol=1e-6)
    np.testing.assert_allclose(found[f"{name}-std"], dist.std(), rtol=1e-6)


@pytest.mark.parametrize("name", FITS)
def test_all_processes_have_the_same_model(results: list[Any], name: str) -> None:
    for key in ("mean", "std", "loss", "scores"):
        np.testing.assert_array_equal(*(of_rank[f"{name}-{key}"] for of_rank in results))
    assert len(results[0]["batches-scores"]) > 0


class Played(Ranks):
    """The first of several ranks, of which the others have said all that they will say."""

    def __init__(self, arrays: list[Array], others: torch.Tensor | None = None) -> None:
        self.n, self.number, self._arrays, self._others = len(arrays), 0, arrays, others

    def total(self, values: torch.Tensor) -> torch.Tensor:
        assert self._others is not None
        return values + self._others

    def gathered(self, rows: Array) -> list[Array]:
        return [rows, *self._arrays[1:]]


def test_average_is_the_gradient_over_the_rows_of_all() -> None:
    w = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    rows = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 4.0]], dtype=torch.float64)

    def loss(part: torch.Tensor) -> torch.Tensor:
        return (part @ w).square().mean() + w.square().sum()

    desired = torch.autograd.grad(loss(rows), w)[0]
    (gradient,) = torch.autograd.grad(loss(rows[2:]), w)
    others = torch.cat([loss(rows[2:]).detach().reshape(1), torch.ones(1), gradient])
    first = loss(rows[:2])
    first.backward()
    average = Played([rows.numpy()] * 2, others).average(first.detach(), [w], n_rows=2)
    torch.testing.assert_close(average, loss(rows).detach())
    torch.testing.assert_close(w.grad, desired)


def test_the_scale_is_that_of_the_rows_of_all() -> None:
    rng = np.random.default_rng(0)
    values = np.column_stack(
        [
            1e6 + rng.normal(size=40),
            np.arange(40) >= 10,  # constant for the first rank
            np.full(40, 7.3),
            np.where(np.arange(40) < 10, np.nan, rng.normal(size=40)),  # missing there
            np.zeros(40),
        ]
    )
    weight = rng.uniform(0.5, 2.0, size=40)
    first, second = slice(0, 10), slice(10, 40)

    def said(part: slice) -> Array:
        recorded: list[Array] = []

        class Recorder(Played):
            def gathered(self, rows: Array) -> list[Array]:
                recorded.append(rows)
                return [rows, rows]

        own = make_scale(values[part], weight[part], True)
        common_scale(values[part], weight[part], own, Recorder([values, values]))
        return recorded[0]

    with np.errstate(invalid="ignore"):
        own = make_scale(values[first], weight[first], True)
        ranks = Played([said(first), said(second)])
        common = common_scale(values[first], weight[first], own, ranks)
    desired = make_scale(values, weight, True)
    np.testing.assert_allclose(common.offset, desired.offset, rtol=1e-12)
    np.testing.assert_allclose(common.unit, desired.unit, rtol=1e-9)


def test_refusals() -> None:
    X, y, _ = problem(30)
    with pytest.raises(ValueError, match="init_process_group"):
        SVGPRegressor(data_parallel=True, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="integer for random_state"):
        SVGPRegressor(data_parallel=True).fit(X, y)
