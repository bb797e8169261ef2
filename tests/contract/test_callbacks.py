"""The regressors under scikit-learn's callbacks."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from contract_cases import REPRESENTATIVES, Case, Data
from sklearn.callback import FitCallback, ProgressBar, ScoringMonitor
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from skgp.exceptions import InterruptedFitWarning
from skgp.scoring import crps, neg_crps_scorer

pytestmark = pytest.mark.usefixtures("short_start")
QUICK = REPRESENTATIVES


class Watcher:
    """Callback that records what it sees and may stop the fit after some epochs."""

    def __init__(self, stop_after: int | None = None, interrupt_after: int | None = None) -> None:
        self.stop_after = stop_after
        self.interrupt_after = interrupt_after
        self.events: list[str] = []
        self.begins = 0
        self.predictions: list[Any] = []
        self.scores: list[float] = []
        self.iterations: list[int] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.events.append("setup")

    def teardown(self, estimator: Any, context: Any) -> None:
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator: Any, context: Any, *, X: Any, y: Any) -> None:
        self.begins += 1
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, X: Any, y: Any, fitted_estimator: Any
    ) -> bool:
        self.events.append(f"end {context.task_name}")
        if context.task_name != "epoch":
            return False
        self.predictions.append(fitted_estimator.predict(X))
        self.scores.append(crps(y, fitted_estimator.predict_dist(X)))
        self.iterations.append(fitted_estimator.n_iter_)
        if len(self.scores) == self.interrupt_after:
            raise KeyboardInterrupt
        return len(self.scores) == self.stop_after


def test_hooks_are_called_in_order(make: Any, data: Data) -> None:
    watcher = Watcher()
    assert isinstance(watcher, FitCallback)
    make(max_iter=2).set_callbacks(watcher).fit(data.X, data.y)
    epoch = ["begin epoch", "end epoch"]
    assert watcher.events == ["setup", "begin fit", *epoch, *epoch, "end fit", "teardown"]


def test_the_estimator_of_an_epoch_predicts(case: Case, data: Data) -> None:
    watcher = Watcher()
    # While hyper-parameters rest, the predictions of a chain change with each position kept.
    params = {"max_iter": 5, **case.known({"thinning": 1})}
    model = case.make(**params).set_callbacks(watcher).fit(data.X, data.y)
    assert watcher.iterations == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(watcher.predictions[-1], model.predict(data.X))
    assert watcher.scores[-1] == crps(data.y, model.predict_dist(data.X))
    assert len({tuple(p) for p in watcher.predictions}) == 5


def test_a_callback_does_not_change_the_fit(case: Case, data: Data) -> None:
    params = case.known({"max_iter": 4, "batch_size": 20})
    watched = case.make(**params).set_callbacks(Watcher()).fit(data.X, data.Y)
    alone = case.make(**params).fit(data.X, data.Y)
    assert watched.loss_curve_ == alone.loss_curve_
    for a, b in zip(
        watched.predict(data.X_new, return_std=True),
        alone.predict(data.X_new, return_std=True),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_a_callback_can_stop_the_fit(make: Any, data: Data) -> None:
    watcher = Watcher(stop_after=3)
    model = make().set_callbacks(watcher).fit(data.X, data.y)
    assert model.n_iter_ == len(model.loss_curve_) == len(watcher.scores) == 3
    np.testing.assert_array_equal(model.predict(data.X), watcher.predictions[-1])
    assert watcher.events[-2:] == ["end fit", "teardown"]


def test_an_interruption_inside_a_callback(make: Any, data: Data) -> None:
    watcher = Watcher(interrupt_after=2)
    model = make(max_iter=20).set_callbacks(watcher)
    try:
        with pytest.warns(InterruptedFitWarning, match="interrupted after 2 of 20 epochs"):
            model.fit(data.X, data.y)
    except KeyboardInterrupt:  # it would end the test run
        pytest.fail("the fit did not catch KeyboardInterrupt")
    np.testing.assert_array_equal(model.predict(data.X), watcher.predictions[-1])
    assert watcher.events[-1] == "teardown"


def test_callbacks_are_torn_down_after_an_error(make: Any, data: Data) -> None:
    watcher = Watcher()
    watcher.on_fit_task_end = None  # type: ignore[assignment, method-assign]  # no callback
    with pytest.raises(TypeError):
        make().set_callbacks(watcher).fit(data.X, data.y)
    assert watcher.events[-1] == "teardown"


def test_progress_bar_alone_and_in_a_pipeline(make: Any, data: Data, capsys: Any) -> None:
    make(max_iter=2).set_callbacks(ProgressBar()).fit(data.X, data.y)
    out = capsys.readouterr().out
    assert type(make()).__name__ in out
    assert "100%" in out
    pipe = Pipeline([("scale", StandardScaler()), ("gp", make(max_iter=2))])
    pipe.set_callbacks(ProgressBar()).fit(data.X, data.y)
    out = capsys.readouterr().out
    assert type(make()).__name__ in out
    assert "100%" in out


def test_scoring_monitor_logs_every_epoch(make: Any, data: Data) -> None:
    monitor = ScoringMonitor(scoring={"crps": neg_crps_scorer, "r2": "r2"})
    model = make(max_iter=3).set_callbacks(monitor).fit(data.X, data.y)
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert [row["task_id"] for row in rows] == [0, 1, 2]
    assert rows[-1]["crps"] == -crps(data.y, model.predict_dist(data.X))
    assert rows[-1]["r2"] == model.score(data.X, data.y)
    assert rows[0]["crps"] != rows[-1]["crps"]


def test_scoring_monitor_in_a_pipeline_with_frames(make: Any, data: Data) -> None:
    """The names of the columns raise no warning on the way."""
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"])
    monitor = ScoringMonitor(scoring={"crps": neg_crps_scorer})
    scaler = StandardScaler().set_output(transform="pandas")
    pipe = Pipeline([("scale", scaler), ("gp", make(max_iter=3).set_callbacks(monitor))])
    pipe.fit(frame, pd.Series(data.y))
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert len(rows) == 3
    assert rows[-1]["crps"] == -crps(data.y, pipe.predict_proba(frame))


def test_scoring_monitor_in_a_grid_search(make: Any, data: Data) -> None:
    monitor = ScoringMonitor(scoring={"crps": neg_crps_scorer})
    epochs = 3
    gp = make(max_iter=epochs).set_callbacks(monitor)
    search = GridSearchCV(
        Pipeline([("scale", StandardScaler()), ("gp", gp)]),
        {"gp__noise_floor": [1e-4, 0.1]},
        scoring=neg_crps_scorer,
        cv=KFold(2),
    ).fit(data.X, data.y)
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    fits = 2 * 2 + 1  # candidates times folds, and the refit
    assert len(rows) == fits * epochs
    assert len({row["parent_task_id_path"] for row in rows}) == fits
    best = -crps(data.y, search.predict_proba(data.X))
    assert any(row["crps"] == best for row in rows)


def test_callbacks_see_early_stopping(make: Any, data: Data) -> None:
    watcher = Watcher()
    model = make(early_stopping=True, n_iter_no_change=2, tol=1e6).set_callbacks(watcher)
    model.fit(data.X, data.y)
    assert watcher.iterations == [1, 2, 3]
    assert model.n_iter_ == 3
    np.testing.assert_array_equal(
        model.predict(data.X),
        watcher.predictions[int(np.argmax(model.validation_scores_))],
    )


def test_callbacks_watch_the_chosen_restart(make: Any, data: Data) -> None:
    watcher = Watcher()
    model = make(max_iter=4, n_restarts=2).set_callbacks(watcher).fit(data.X, data.y)
    np.testing.assert_array_equal(watcher.predictions[-1], model.predict(data.X))
    assert watcher.iterations == list(range(watcher.iterations[0], 5))
