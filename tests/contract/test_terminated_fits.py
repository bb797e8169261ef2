"""Signals, interruptions and callbacks that end a fit with a checkpoint."""

import signal
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contract_cases import Data
from fit_records import assert_same
from sklearn.base import clone

from skgp import SVGPRegressor
from skgp.exceptions import InterruptedFitWarning


class Sender:
    """Callback that sends this process a signal, or does something else, after some epochs."""

    def __init__(self, after: int, act: Callable[[], bool]) -> None:
        self.after = after
        self.act = act
        self.seen: list[int] = []

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any, *, X: Any, y: Any) -> None: ...

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, X: Any, y: Any, fitted_estimator: Any
    ) -> bool:
        if context.task_name != "epoch":
            return False
        self.seen.append(fitted_estimator.n_iter_)
        return self.act() if self.seen[-1] == self.after else False


def terminated() -> bool:
    signal.raise_signal(signal.SIGTERM)
    return False


@pytest.fixture
def model(data: Data, tmp_path: Path) -> SVGPRegressor:
    return SVGPRegressor(
        n_inducing=5, max_iter=6, batch_size=25, random_state=0, checkpoint=tmp_path
    )


def test_a_terminated_fit_is_saved_and_raises(
    model: SVGPRegressor, data: Data, steps: dict[str, int]
) -> None:
    """At the end of the step; and the estimator is what it was."""
    before = signal.getsignal(signal.SIGTERM)
    expected = clone(model).set_params(checkpoint=None).fit(data.X, data.y)
    n_steps, steps["done"] = steps["done"], 0
    sender = Sender(3, terminated)
    with pytest.raises(SystemExit) as raised:
        model.set_callbacks(sender).fit(data.X, data.y)
    assert raised.value.code == 143
    assert not hasattr(model, "model_")
    assert signal.getsignal(signal.SIGTERM) is before
    assert sender.seen == [1, 2, 3]
    assert steps["done"] == 3 * 2 + 1
    watcher = Sender(0, terminated)
    again = clone(model).set_callbacks(watcher)
    assert_same(again.fit(data.X, data.y), expected)
    assert steps["done"] == n_steps
    assert watcher.seen == [4, 5, 6]  # callbacks see what comes after
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_handler_of_the_user_comes_after_the_saving(
    model: SVGPRegressor, data: Data, tmp_path: Path
) -> None:
    files: list[int] = []
    before = signal.signal(
        signal.SIGTERM, lambda *_: files.append(len(list(tmp_path.glob("*.ckpt.*"))))
    )
    try:
        model.set_callbacks(Sender(3, terminated)).fit(data.X, data.y)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert files == [1]
    assert model.n_iter_ == 6  # this one lets the fit go on


def test_a_signal_after_the_last_step_is_not_lost(model: SVGPRegressor, data: Data) -> None:
    with pytest.raises(SystemExit):
        model.set_callbacks(Sender(6, terminated)).fit(data.X, data.y)
    watcher = Sender(0, terminated)
    assert model.set_callbacks(watcher).fit(data.X, data.y).n_iter_ == 6
    assert watcher.seen == []  # it had ended


def test_a_thread_leaves_signals_alone(model: SVGPRegressor, data: Data) -> None:
    handlers: list[Any] = []

    def note() -> bool:
        handlers.append(signal.getsignal(signal.SIGTERM))
        return False

    before = signal.getsignal(signal.SIGTERM)
    model.set_callbacks(Sender(1, note))
    thread = threading.Thread(target=model.fit, args=(data.X, data.y))
    thread.start()
    thread.join()
    assert handlers == [before]
    assert model.n_iter_ == 6


def interrupted() -> bool:
    raise KeyboardInterrupt


@pytest.mark.parametrize("act", [interrupted, lambda: True])
def test_a_fit_that_somebody_ends_is_not_done(
    act: Callable[[], bool], model: SVGPRegressor, data: Data, steps: dict[str, int]
) -> None:
    """The next one trains to the end of its plan."""
    expected = clone(model).set_params(checkpoint=None).fit(data.X, data.y)
    model.set_callbacks(Sender(3, act))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedFitWarning)
        model.fit(data.X, data.y)
    assert model.n_iter_ == 3
    model.set_callbacks()
    assert_same(model.fit(data.X, data.y), expected)
