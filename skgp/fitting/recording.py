"""The state of a fit in two files, which are written in turn."""

import hashlib
import io
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import torch

from skgp.core.training.progress import Progress
from skgp.exceptions import CheckpointWarning, InvalidFileError

_HEAD: Final = b"skgp checkpoint 1\n"
_DIGEST: Final = 32  # bytes of SHA-256
_TERMINATED: Final = 128 + signal.SIGTERM  # exit status of a process that SIGTERM has ended


class Recording(Progress):
    """Writes what the phases of a fit give into two files in turn.

    A file is written under another name, and takes its place when it is safe on the disk. So one
    of the two is whole whenever the process ends. Reading runs nothing that they hold: torch
    loads tensors and plain values alone.

    Parameters
    ----------
    path : Path
        Of the files, without the numbers that follow.
    every : float
        Seconds from one writing to the next.
    fit : mapping
        What the files belong to: text by name.

    Raises
    ------
    ValueError
        If they belong to another fit.

    Warns
    -----
    CheckpointWarning
        If there are files and none can be read; once, if they cannot be written.
    """

    def __init__(self, path: Path, every: float, fit: Mapping[str, str]) -> None:
        self._path = path
        self._every = every
        self._fit = dict(fit)
        self._states: dict[str, Callable[[], Any]] = {}
        self._number, self._saved = self._read()
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
        return self._saved.get(phase)

    def follow(self, phase: str, state: Callable[[], Any]) -> None:
        self._states[phase] = state

    def step(self) -> None:
        if self._is_terminated or time.monotonic() >= self._due:
            self._write()
        if self._is_terminated:
            self._pass_on()

    def finish(self, phase: str, state: Any, *, instead_of: Sequence[str]) -> None:
        self._states[phase] = lambda: state
        for name in instead_of:
            self._states.pop(name, None)
        if self._write():
            with suppress(OSError):
                self._file(self._number + 1).unlink(missing_ok=True)

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

    def _file(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number % 2}")

    def _read(self) -> tuple[int, dict[str, Any]]:
        """Number and states of the newer file that can be read."""
        found, faults = [], []
        for file in (self._file(0), self._file(1)):
            try:
                found.append(_unpacked(file.read_bytes()))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, InvalidFileError) as error:
                faults.append(f"{file}: {error}")
        if not found:
            if faults:
                warnings.warn(
                    f"the checkpoint cannot be read ({'; '.join(faults)}): the fit starts anew",
                    CheckpointWarning,
                    stacklevel=2,
                )
            return 0, {}
        newer = max(found, key=lambda content: content["number"])
        differences = list(_differences(newer["fit"], self._fit))
        if differences:
            raise ValueError(
                f"the checkpoint {self._path} belongs to another fit: {'; '.join(differences)}. "
                f"Set that back, delete the files {self._path}.*, or pass another path"
            )
        return newer["number"], newer["states"]

    def _write(self) -> bool:
        """Write what all phases give; whether that could be done."""
        states = {phase: state() for phase, state in self._states.items()}
        number = self._number + 1
        content = _packed({"fit": self._fit, "number": number, "states": states})
        temporary = self._path.with_name(f"{self._path.name}.tmp")
        try:
            temporary.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._file(number))
            _sync(temporary.parent)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            self._warn(error)
            return False
        finally:
            self._due = time.monotonic() + self._every
        self._number = number
        return True

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"the checkpoint {self._path} cannot be written ({error}): the fit goes on "
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


def _sync(folder: Path) -> None:
    """Make a new name in a folder last, where folders can be opened."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
