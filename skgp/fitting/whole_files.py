"""Files that are there as a whole, or as they were."""

import os
from contextlib import suppress
from pathlib import Path


def put_whole(content: bytes, file: Path, temporary: Path) -> None:
    """Put a content in the place of a file in one step, by a temporary file beside it.

    Raises
    ------
    OSError
        If that fails; what was there stays.
    """
    try:
        with temporary.open("wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        temporary.replace(file)
        _sync(temporary.parent)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _sync(folder: Path) -> None:
    """Make a new name in a folder last, where folders can be opened."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
