"""How far a fit is, on the standard output."""

import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from skgp.core.training.history import History
from skgp.core.training.progress import Progress

_BETWEEN_LINES: Final = 2.0  # seconds from one line to the next, at least,
_SHARE: Final = 0.05  # and this share of the time that has passed
_BETWEEN_UPDATES: Final = 0.1  # seconds, of a bar


class ProgressReport(Progress):
    """Writes how far a fit is on the standard output, and passes everything on.

    Parameters
    ----------
    inner : Progress
        To pass it on to.
    title : str
        What the report is about.
    verbose : int
        One shows a bar in a terminal if rich is installed, else a line from time to time; more
        writes a line for each epoch.
    n_epochs : int
        At most.
    n_batches : int
        Steps of an epoch.
    """

    def __init__(
        self, inner: Progress, title: str, verbose: int, n_epochs: int, n_batches: int
    ) -> None:
        self._inner = inner
        self._title = title
        self._has_line_per_epoch = verbose > 1
        self._n_epochs = n_epochs
        self._n_batches = n_batches
        self._history = History()
        self._n_done = 0  # epochs
        self._n_taken = 0  # steps since the last of them
        self._n_here = 0  # steps of this process, which may go on from a checkpoint
        self._bar: _Bar | None = None
        self._started = self._due = time.monotonic()

    def __enter__(self) -> Self:
        self._inner.__enter__()
        self._bar = None if self._has_line_per_epoch else _bar(self._title)
        self._started = time.monotonic()
        self._due = self._started + (0.0 if self._bar else _BETWEEN_LINES)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._bar is not None:
                self._bar.stop()
            if error is None:
                has_trained = self._n_done or self._n_here  # unless a checkpoint has the end
                text = self._numbers() if has_trained else "nothing left to train"
                self._write(f"{text}  {_duration(self._passed)} in all")
        finally:
            self._inner.__exit__(kind, error, traceback)

    def saved(self, phase: str) -> Any:
        return self._inner.saved(phase)

    def follow(self, phase: str, state: Callable[[], Any]) -> None:
        self._inner.follow(phase, state)

    def finish(self, phase: str, state: Any, *, instead_of: Sequence[str]) -> None:
        self._inner.finish(phase, state, instead_of=instead_of)

    def step(self) -> None:
        self._n_taken += 1
        self._n_here += 1
        self._show(is_due=not self._has_line_per_epoch and time.monotonic() >= self._due)
        self._inner.step()

    def epoch(self, history: History) -> None:
        self._history = history
        self._n_done = max(len(history.loss_curve), len(history.validation_scores))
        self._n_taken = 0
        self._show(is_due=self._has_line_per_epoch or time.monotonic() >= self._due)
        self._inner.epoch(history)

    # ---------------------------------------------------------------- text

    @property
    def _passed(self) -> float:
        return time.monotonic() - self._started

    @property
    def _n_steps(self) -> int:
        """Steps of the fit; of restarts, which try some epochs each, one counts."""
        return self._n_done * self._n_batches + min(self._n_taken, self._n_batches)

    def _show(self, *, is_due: bool) -> None:
        if not is_due:
            return
        text, passed = self._numbers(), self._passed
        n_all = self._n_epochs * self._n_batches
        if self._n_here:  # training may stop before its last epoch
            left = passed / self._n_here * max(n_all - self._n_steps, 0)
            text = f"{text}  {_duration(passed)}, at most {_duration(left)} left"
        if self._bar is None:
            self._write(text)
            self._due = time.monotonic() + max(_BETWEEN_LINES, _SHARE * passed)
        else:
            self._bar.update(text, self._n_steps / n_all)
            self._due = time.monotonic() + _BETWEEN_UPDATES

    def _numbers(self) -> str:
        parts = [f"epoch {self._n_done}/{self._n_epochs}"]
        if self._n_batches > 1:
            parts += [f"step {self._n_steps}/{self._n_epochs * self._n_batches}"]
        if self._history.loss_curve:
            parts += [f"loss {self._history.loss_curve[-1]:.4f}"]
        if self._history.validation_scores:
            parts += [f"validation score {self._history.validation_scores[-1]:.4f}"]
        return "  ".join(parts)

    def _write(self, text: str) -> None:
        sys.stdout.write(f"{self._title}: {text}\n")
        sys.stdout.flush()  # a pipe keeps lines back


class _Bar:
    """A bar of rich with a text, which is drawn when it is told to."""

    def __init__(self, progress: Any, title: str) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=1.0, text="")
        progress.start()

    def update(self, text: str, share: float) -> None:
        self._progress.update(self._task, completed=share, text=text, refresh=True)

    def stop(self) -> None:
        self._progress.stop()


def _bar(title: str) -> _Bar | None:
    """A bar, where one can be drawn: in a terminal, by a process and a thread that are alone."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or multiprocessing.current_process().name != "MainProcess":
        return None
    try:
        import rich
        from rich.errors import LiveError
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress
    except ImportError:
        return None
    console = rich.get_console()
    if not console.is_terminal:
        return None
    columns = TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[text]}")
    with suppress(LiveError):  # another one is drawn already, such as scikit-learn's ProgressBar
        return _Bar(
            RichProgress(*columns, console=console, auto_refresh=False, transient=True), title
        )
    return None


def _duration(seconds: float) -> str:
    if seconds < 100.0:
        return f"{seconds:.1f} s"
    if seconds < 6000.0:
        return f"{seconds / 60.0:.0f} min"
    return f"{seconds / 3600.0:.1f} h"
