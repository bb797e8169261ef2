"""What a fit writes of its progress."""

import io
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import rich
from rich.console import Console
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgp import DSPPRegressor, SVGPRegressor
from skgp.core.training.history import History
from skgp.core.training.progress import KEEPS_NOTHING, Progress
from skgp.fitting import progress_report
from skgp.fitting.progress_report import ProgressReport


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress_report, "time", clock)
    return clock


class Told(Progress):
    """Remembers what it has been told."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __enter__(self) -> "Told":
        self.calls.append("enter")
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.calls.append(("exit", kind))

    def saved(self, phase: str) -> Any:
        return f"state of {phase}"

    def follow(self, phase: str, state: Any) -> None:
        self.calls.append(("follow", phase, state()))

    def step(self) -> None:
        self.calls.append("step")

    def epoch(self, history: History) -> None:
        self.calls.append(("epoch", list(history.loss_curve)))

    def finish(self, phase: str, state: Any, *, instead_of: Any) -> None:
        self.calls.append(("finish", phase, state, instead_of))


def run(report: Progress, clock: Clock, n_epochs: int, n_batches: int, seconds: float) -> None:
    """Epochs of steps that take so many seconds, with losses 9, 8, ..."""
    losses: list[float] = []
    for epoch in range(n_epochs):
        for _ in range(n_batches):
            clock.now += seconds
            report.step()
        losses.append(9.0 - epoch)
        report.epoch(History([*losses]))


def test_silence_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `verbose` there is no report at all."""
    monkeypatch.setattr("skgp.estimators._estimator.ProgressReport", None)
    data = table()
    DSPPRegressor(max_iter=2, n_inducing=8, random_state=0).fit(data.X, data.y)
    with pytest.raises(TypeError, match="not callable"):
        SVGPRegressor(verbose=1).fit(data.X, data.y)


def test_a_line_every_two_seconds(clock: Clock, capsys: Any) -> None:
    """Steps of 0.7 s, three of them an epoch: due after steps 3, 6, 9 and at the end."""
    with ProgressReport(KEEPS_NOTHING, "Model", 1, 4, 3) as report:
        run(report, clock, 4, 3, 0.7)
    assert capsys.readouterr().out.splitlines() == [
        "Model: epoch 0/4  step 3/12  2.1 s, at most 6.3 s left",
        "Model: epoch 1/4  step 6/12  loss 9.0000  4.2 s, at most 4.2 s left",
        "Model: epoch 2/4  step 9/12  loss 8.0000  6.3 s, at most 2.1 s left",
        "Model: epoch 3/4  step 12/12  loss 7.0000  8.4 s, at most 0.0 s left",
        "Model: epoch 4/4  step 12/12  loss 6.0000  8.4 s in all",
    ]


def test_long_fits_write_fewer_lines(clock: Clock, capsys: Any) -> None:
    """Each gap is a twentieth of the time before it: 1.05^n, and not 5,000 lines."""
    with ProgressReport(KEEPS_NOTHING, "Model", 1, 1000, 10) as report:
        run(report, clock, 1000, 10, 1.0)
    lines = capsys.readouterr().out.splitlines()
    bound = 40.0 / 2.0 + np.log(10_000 / 40.0) / np.log(1.05)
    assert bound - 20 < len(lines) < bound + 2
    assert lines[-2].endswith(" min, at most 0.0 s left") or "min left" in lines[-2]
    assert lines[-1].endswith("2.8 h in all")


def test_a_line_for_each_epoch(clock: Clock, capsys: Any) -> None:
    with ProgressReport(KEEPS_NOTHING, "Model", 2, 3, 2) as report:
        run(report, clock, 3, 2, 60.0)
    assert capsys.readouterr().out.splitlines() == [
        "Model: epoch 1/3  step 2/6  loss 9.0000  2 min, at most 4 min left",
        "Model: epoch 2/3  step 4/6  loss 8.0000  4 min, at most 2 min left",
        "Model: epoch 3/3  step 6/6  loss 7.0000  6 min, at most 0.0 s left",
        "Model: epoch 3/3  step 6/6  loss 7.0000  6 min in all",
    ]


def test_a_fit_that_goes_on_from_a_checkpoint(clock: Clock, capsys: Any) -> None:
    """The pace is that of the steps of this process: one step in 3 s, 4 of 10 are left."""
    with ProgressReport(KEEPS_NOTHING, "Model", 2, 10, 1) as report:
        clock.now += 3.0
        report.step()
        report.epoch(History([1.0] * 6, [0.5] * 6))
    first = "epoch 6/10  loss 1.0000  validation score 0.5000  3.0 s, at most 12.0 s left"
    assert capsys.readouterr().out.splitlines()[0] == f"Model: {first}"


def test_a_fit_that_ends_in_its_first_epoch(clock: Clock, capsys: Any) -> None:
    with ProgressReport(KEEPS_NOTHING, "Model", 1, 4, 3) as report:
        clock.now += 1.0
        report.step()
    assert capsys.readouterr().out == "Model: epoch 0/4  step 1/12  1.0 s in all\n"


def test_everything_is_passed_on(clock: Clock) -> None:
    told, reference = Told(), Told()
    for progress in (reference, ProgressReport(told, "Model", 1, 2, 1)):
        with progress:
            assert progress.saved("training") == "state of training"
            progress.follow("training", lambda: 7)
            run(progress, clock, 2, 1, 0.1)
            progress.finish("result", 1, instead_of=("training",))
    assert told.calls == reference.calls


def test_an_error_leaves_no_line_and_ends_what_is_inside(clock: Clock, capsys: Any) -> None:
    told = Told()

    def fit() -> None:
        with ProgressReport(told, "Model", 1, 2, 1) as report:
            report.step()
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fit()
    assert told.calls[-1] == ("exit", ArithmeticError)
    assert capsys.readouterr().out == ""


# -------------------------------------------------------------------- a terminal


class Terminal(io.StringIO):
    """A standard output at which somebody looks."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Opens one: pytest sets its own standard output between a fixture and its test."""
    monkeypatch.setenv("TERM", "xterm")

    def opened() -> Terminal:
        stream = Terminal()
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(rich, "_console", Console(width=160, legacy_windows=False))
        return stream

    return opened


def test_a_bar_in_a_terminal(clock: Clock, terminal: Callable[[], Terminal]) -> None:
    """It is drawn ten times a second at most, and erased at the end."""
    stream = terminal()
    with ProgressReport(KEEPS_NOTHING, "Model", 1, 10, 5) as report:
        run(report, clock, 10, 5, 0.03)
    text = stream.getvalue()
    assert 10 <= text.count("at most") <= 16  # in 1.5 s
    assert "━" in text
    assert "epoch 5/10  step 2" in text
    last = "Model: epoch 10/10  step 50/50  loss 0.0000  1.5 s in all"
    assert text.splitlines()[-1].endswith(last)


def test_no_bar_without_rich(
    clock: Clock, terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    stream = terminal()
    with ProgressReport(KEEPS_NOTHING, "Model", 1, 2, 1) as report:
        run(report, clock, 2, 1, 2.0)
    assert "━" not in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 3


def test_no_bar_in_a_second_thread(clock: Clock, terminal: Callable[[], Terminal]) -> None:
    """Several threads that draw would overwrite each other."""
    stream = terminal()

    def fit() -> None:
        with ProgressReport(KEEPS_NOTHING, "Model", 1, 2, 1) as report:
            run(report, clock, 2, 1, 2.0)

    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    assert "━" not in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 3


# -------------------------------------------------------------------- estimators


def table() -> SimpleNamespace:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    return SimpleNamespace(X=X, y=X[:, 0] + 0.1 * rng.normal(size=40))


def test_a_pipeline_says_how_its_regressor_ended(capsys: Any) -> None:
    data = table()
    model = make_pipeline(StandardScaler(), SVGPRegressor(verbose=1, random_state=0))
    regressor = model.fit(data.X, data.y)[-1]
    (line,) = capsys.readouterr().out.splitlines()
    n_epochs, loss = regressor.n_iter_, regressor.loss_curve_[-1]
    assert line.startswith(f"SVGPRegressor: epoch {n_epochs}/100  loss {loss:.4f}")
    model.set_params(svgpregressor__verbose=0).fit(data.X, data.y)
    assert capsys.readouterr() == ("", "")


def test_the_search_for_the_number_of_epochs_says_so(capsys: Any) -> None:
    data = table()
    model = DSPPRegressor(verbose=2, max_iter=2, n_inducing=8, random_state=0).fit(data.X, data.y)
    lines = capsys.readouterr().out.splitlines()
    search = [line for line in lines if line.startswith("DSPPRegressor, cross-validation: epoch")]
    assert [f"{score:.4f}" for score in model.validation_scores_] == [
        line.split("score ")[1].split()[0] for line in search[:-1]
    ]
    assert "step 10/10" in search[-1]  # of five folds
    assert lines[-1].startswith(f"DSPPRegressor: epoch {model.n_iter_}/{model.n_iter_}  loss")


def test_a_fit_that_has_ended_says_that_nothing_is_left(tmp_path: Any, capsys: Any) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = DSPPRegressor(max_iter=2, random_state=0, verbose=1, checkpoint=tmp_path)
    first = model.fit(X, X[:, 0]).predict(X)
    before = capsys.readouterr().out.splitlines()
    np.testing.assert_array_equal(model.fit(X, X[:, 0]).predict(X), first)
    after = capsys.readouterr().out.splitlines()
    titles = [line.partition(":")[0] for line in before]
    assert titles == ["DSPPRegressor, cross-validation", "DSPPRegressor"]
    assert "epoch" in before[0]
    assert [line.partition("  ")[0] for line in after] == [
        f"{title}: nothing left to train" for title in titles
    ]
