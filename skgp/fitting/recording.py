"""The state of a fit in two files, which are written in turn."""

import hashlib
import io
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import torch

from skgp.core.training.progress import Progress
from skgp.core.training.ranks import ALONE, Ranks
from skgp.exceptions import CheckpointWarning, InvalidFileError, brief
from skgp.fitting.whole_files import put_whole

_HEAD: Final = b"skgp checkpoint 1\n"
_DIGEST: Final = 32  # bytes of SHA-256
_TERMINATED: Final = 128 + signal.SIGTERM  # exit status of a process that SIGTERM has ended


class Recording(Progress):
    """Writes what the phases of a fit give into two files in turn.

    A file is written under another name, and takes its place when it is safe on the disk. So one
    of the two is whole whenever the process ends. Reading runs nothing that they hold: torch
    loads tensors and plain values alone.

    Processes that train together have two files each, and write after the same step. The next
    state takes the other file once all of them have written this one, so they always have one in
    common. States are numbered by the attempts to write them: numbers that are equal are the same.

    Parameters
    ----------
    path : Path
        Of the files, without the ranks and numbers that follow.
    every : float
        Seconds from one writing to the next.
    fit : mapping
        What the files belong to: text by name, the same in all processes.
    ranks : Ranks, optional
        The processes.

    Raises
    ------
    ValueError
        If they belong to another fit.

    Warns
    -----
    CheckpointWarning
        If there are files and none can be read; once, if they cannot be written.
    """

    def __init__(
        self, path: Path, every: float, fit: Mapping[str, str], ranks: Ranks = ALONE
    ) -> None:
        self._path = path.with_name(path.name + (f".rank{ranks.number}" if ranks.number else ""))
        self._every = every
        self._fit = dict(fit)
        self._ranks = ranks
        self._states: dict[str, Callable[[], Any]] = {}
        # Of the last attempt to write; which file is whole everywhere.
        self._number, self._whole, self._saved = self._read()
        self._due = time.monotonic() + every
        self._has_warned = False
        self._is_terminated = False
        self._handler: Any = signal.SIG_IGN

    def __enter__(self) -> Self:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) not in (signal.SIG_IGN, None):
            self._handler = signal.signal(signal.SIGTERM, self._terminate)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pass_on()

    def saved(self, phase: str) -> Any:
        return self._saved.pop(phase, None)  # once: it may be large

    def follow(self, phase: str, state: Callable[[], Any]) -> None:
        self._states[phase] = state

    def step(self) -> None:
        if not self._ranks.any(self._is_terminated or time.monotonic() >= self._due):
            return
        self._write()
        self._is_terminated = self._ranks.any(self._is_terminated)
        if self._is_terminated:
            self._pass_on()

    def finish(self, phase: str, state: Any, *, instead_of: Sequence[str]) -> None:
        self._states[phase] = lambda: state
        for name in instead_of:
            self._states.pop(name, None)
        if self._write():
            with suppress(OSError):
                self._file(1 - self._whole).unlink(missing_ok=True)

    # -------------------------------------------------------------- SIGTERM

    def _terminate(self, number: int, frame: Any) -> None:
        """The next step saves and raises: in the middle of one there is nothing to save."""
        self._is_terminated = True

    def _pass_on(self) -> None:
        """Give SIGTERM back to whom it belonged, and what has been held back of it."""
        handler, self._handler = self._handler, signal.SIG_IGN
        if handler is signal.SIG_IGN:
            return
        signal.signal(signal.SIGTERM, handler)
        if self._is_terminated:
            self._is_terminated = False
            if handler is signal.SIG_DFL:  # which would end the process here and now
                raise SystemExit(_TERMINATED)
            signal.raise_signal(signal.SIGTERM)

    # ---------------------------------------------------------------- files

    def _file(self, which: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{which}")

    def _read(self) -> tuple[int, int, dict[str, Any]]:
        """The largest number; the newest file that all ranks can read, and its states."""
        found: dict[int, tuple[int, dict[str, Any]]] = {}
        faults = []
        for which in (0, 1):
            try:
                content = _unpacked(self._file(which).read_bytes())
                found[content["number"]] = which, content
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, InvalidFileError) as error:
                faults.append(f"{self._file(which)}: {brief(error)}")
        self._refuse_others(found[max(found)][1]["fit"] if found else self._fit)
        numbers = [set(of_rank.tolist()) for of_rank in self._ranks.gathered(np.array([*found]))]
        everywhere, anywhere = set.intersection(*numbers), set.union(*numbers)
        if everywhere:
            which, content = found[max(everywhere)]
            return max(anywhere), which, content["states"]
        if faults or anywhere:
            fault = "; ".join(faults) or "the processes have no state in common"
            warnings.warn(
                f"the checkpoint cannot be read ({fault}): the fit starts anew",
                CheckpointWarning,
                stacklevel=2,
            )
        return max(anywhere, default=0), 0, {}

    def _refuse_others(self, fit: Mapping[str, str]) -> None:
        """Raise in all processes if the files of one belong to another fit."""
        own = np.array([*_differences(fit, self._fit)], dtype=str)
        differences = np.unique(np.concatenate(self._ranks.gathered(own)))
        if differences.size:
            raise ValueError(
                f"the checkpoint {self._path} belongs to another fit: {'; '.join(differences)}. "
                f"Set that back, delete the files {self._path}.*, or pass another path"
            )

    def _write(self) -> bool:
        """Write what all phases give; whether that could be done, in all processes."""
        states = {phase: state() for phase, state in self._states.items()}
        self._number += 1
        content = _packed({"fit": self._fit, "number": self._number, "states": states})
        fault = self._put(content, self._file(1 - self._whole))
        self._due = time.monotonic() + self._every
        if fault is not None:
            self._warn(fault)
        if self._ranks.any(fault is not None):
            return False
        self._whole = 1 - self._whole
        return True

    def _put(self, content: bytes, file: Path) -> OSError | None:
        """Put a content in the place of a file, in one step; what went wrong."""
        temporary = self._path.with_name(f"{self._path.name}.tmp")
        try:
            temporary.parent.mkdir(parents=True, exist_ok=True)
            put_whole(content, file, temporary)
        except OSError as error:
            return error
        return None

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"the checkpoint {self._path} cannot be written ({brief(error)}): the fit goes on "
                "without; free the disk, or pass a folder that can be written",
                CheckpointWarning,
                stacklevel=2,
            )


def _differences(there: Mapping[str, str], here: Mapping[str, str]) -> Iterator[str]:
    """What is not the same in two fits, one after another."""
    for name in sorted(there.keys() | here.keys()):
        then, now = there.get(name), here.get(name)
        if then != now:
            is_hashed = any(text is not None and text.startswith("#") for text in (then, now))
            yield f"{name}: other contents" if is_hashed else f"{name}: {then} there, {now} here"


def _packed(content: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    torch.save(content, stream)
    payload = stream.getvalue()
    return b"".join((_HEAD, hashlib.sha256(payload).digest(), payload))


def _unpacked(content: bytes) -> dict[str, Any]:
    start = len(_HEAD) + _DIGEST
    head, digest, payload = content[: len(_HEAD)], content[len(_HEAD) : start], content[start:]
    if head != _HEAD or digest != hashlib.sha256(payload).digest():
        raise InvalidFileError("this is no checkpoint, or a part of one")
    try:
        unpacked: dict[str, Any] = torch.load(io.BytesIO(payload), weights_only=True)
    except Exception as error:  # of many types: it depends on what is wrong
        raise InvalidFileError(str(error)) from error
    return unpacked
