"""Streams whose chunks differ in length, and fits that go on after a stream or an interruption."""

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest

from skgp import DGPRegressor, DSPPRegressor, MOGPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.exceptions import InterruptedFitWarning
from skgp.fitting.rows import Rows
from skgp.fitting.stream import ENOUGH, Opening, enough_rows
from skgp.scoring import nll

pytestmark = pytest.mark.usefixtures("short_start")

ppgpr = partial(PPGPRRegressor, n_inducing=15, random_state=0, warm_start=True)


class Interrupter:
    """Callback that presses Ctrl-C after the third epoch, once."""

    n_epochs = 0

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        self.n_epochs += context.task_name == "epoch"
        if self.n_epochs == 3:
            self.n_epochs += 1
            raise KeyboardInterrupt


@pytest.fixture
def rows(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(400, 2))
    return X, np.column_stack([np.sin(2.0 * X[:, 0]), X[:, 1]]) + 0.1 * rng.normal(size=(400, 2))


@pytest.mark.parametrize("cuts", [[0, 200, 250, 400], [0, 50, 250, 300]])
@pytest.mark.parametrize("cls", [SVGPRegressor, DSPPRegressor, DGPRegressor, MOGPRegressor])
def test_chunks_of_one_batch_and_of_several(cls: Any, cuts: list[int], rows: Any) -> None:
    """The first are trained in float64, the others in float32, as dtype="auto" has it."""
    curves = []
    for dtype in ("auto", "float64"):
        model = cls(n_inducing=10, batch_size=100, dtype=dtype, random_state=0)
        for start, end in itertools.pairwise(cuts):
            model.partial_fit(*(part[start:end] for part in rows))
        curves.append(model.loss_curve_)
    assert curves[0] == pytest.approx(curves[1], rel=3e-3, abs=1e-3)


def test_a_stream_starts_once_more_from_enough_rows(rng: np.random.Generator) -> None:
    X = rng.normal(size=(ENOUGH, 2))
    model = SVGPRegressor(n_inducing=ENOUGH, covariance="delta", random_state=0)
    model.partial_fit(X[:501], X[:501, 0]).partial_fit(X[501:], X[501:, 0])
    assert len(model.inducing_points_) == ENOUGH
    np.testing.assert_allclose(model.model_.x_scale.unit, X.std(axis=0))


def test_an_opening_of_enough_rows_is_not_due_again(rng: np.random.Generator) -> None:
    X = rng.normal(size=(30, 1))
    table = SVGPRegressor().partial_fit(X[:12], X[:12, 0])._opening
    assert table is not None
    opening = Opening(table.rows, 7, table.n_values)
    assert [opening.is_due(enough) for enough in (7, 12, 13, 15)] == [False, True, False, False]
    assert Opening(table.rows, 6, table.n_values).is_due(13)


@pytest.mark.parametrize(
    ("parameters", "enough"),
    [
        ({}, 1000),
        ({"n_inducing": "auto"}, 1000),
        ({"n_inducing": [100, 1500]}, 1500),
        ({"n_inducing": 10, "n_inducing_mean": 1200}, 1200),
        ({"n_inducing": 600, "n_orthogonal": 700}, 1300),
    ],
)
def test_enough_rows_for_every_inducing_input(parameters: dict[str, Any], enough: int) -> None:
    assert enough_rows(parameters) == enough


def test_a_fit_after_a_stream_is_no_longer_or_shorter_for_its_chunks(rows: Any) -> None:
    X, y = rows[0][:60], rows[1][:60, 0]
    model = ppgpr().partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    assert model.fit(X, y).n_iter_ == 100
    assert ppgpr(max_iter=7).partial_fit(X, y).fit(X, y).n_iter_ == 7


@pytest.mark.slow
def test_a_fit_after_an_interruption_has_the_length_that_was_found(rows: Any) -> None:
    X, y = rows[0][:60], rows[1][:60, 0]
    found = ppgpr().fit(X, y)
    assert found.n_iter_ > 3

    model = ppgpr().set_callbacks(Interrupter())
    with pytest.warns(InterruptedFitWarning):
        model.fit(X, y)
    assert model.n_iter_ == 3
    assert model.fit(X, y).n_iter_ == found.n_iter_


@pytest.mark.parametrize("n_first", [1, 2, 5, 40])
def test_few_values_of_an_output_settle_no_scale(n_first: int) -> None:
    """The rows of one task after those of another, with a border inside of a chunk."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (3400, 2))
    f = np.sin(2.0 * X[:, 0])
    noise = rng.normal(size=(3400, 2))
    Y = np.column_stack([f + 0.1 * noise[:, 0], 50.0 + 30.0 * f + 3.0 * noise[:, 1]])
    Y[: 1200 - n_first, 1] = np.nan
    Y[1200:2400, 0] = np.nan
    model = SVGPRegressor(n_inducing=20, random_state=0)
    for start in range(0, 2400, 1200):
        model.partial_fit(X[start : start + 1200], Y[start : start + 1200])
    error = model.predict(X[2400:]) - np.column_stack([f, 50.0 + 30.0 * f])[2400:]
    assert (np.sqrt(np.square(error).mean(axis=0)) < [0.3, 5.0]).all()
    np.testing.assert_allclose(model.model_.y_scale.unit[1], 19.3, rtol=0.1)


def test_rows_of_rare_outputs_stay_in_a_stream_that_has_not_settled() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2000, 1)), rng.normal(size=(2000, 2))
    Y[::2, 0] = np.nan
    rare = rng.choice(2000, 30, replace=False)
    Y[np.setdiff1d(np.arange(2000), rare), 1] = np.nan
    opening = Opening.of(Rows(X, Y, None)).shortened(500, np.random.RandomState(0))
    assert len(opening.rows.X) == 500
    assert set(Y[rare, 1]) <= set(opening.rows.y[:, 1])


@pytest.mark.parametrize("n_rows", [2, 8, 40])
def test_a_stream_after_a_fit_of_few_rows_finds_its_scales(n_rows: int) -> None:
    """Those of a few rows stayed for ever, and rows far from these were outliers."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (2300, 2))
    y = 10.0 + np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=2300)
    y[:n_rows] = 10.0 + 1e-3 * np.arange(n_rows)
    model = SVGPRegressor(n_inducing=30, random_state=0).fit(X[:n_rows], y[:n_rows])
    for start in range(100, 2000, 200):
        model.partial_fit(X[start : start + 200], y[start : start + 200])
    assert nll(y[2000:], model.predict_dist(X[2000:])) < 0.3  # 1.0 of a constant
    assert model._n_rows_fitted == 0  # nothing is left of the fit, from which rates would rise
    assert SVGPRegressor(max_iter=1).fit(X[:50], y[:50])._opening is None


@pytest.mark.parametrize("n_first", [1, 10])
def test_a_warm_start_does_not_go_on_from_the_scales_of_a_first_chunk(n_first: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=100)
    model = SVGPRegressor(n_inducing=10, max_iter=20, warm_start=True, random_state=0)
    expected = model.__sklearn_clone__().fit(X, y).predict(X)
    model.partial_fit(X[:n_first], 5.0 + y[:n_first]).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), expected)
    few = model.__sklearn_clone__().fit(X[:30], y[:30])  # a fit of few rows is gone on from
    first = few.loss_curve_[0]
    assert few.fit(X[:30], y[:30]).loss_curve_[0] < first - 0.01
