"""Files that are there as a whole, or as they were."""

import os
import shutil
from contextlib import suppress
from pathlib import Path


def put_whole(content: bytes, file: Path, temporary: Path) -> None:
    """Put a content in the place of a file in one step, by a temporary file beside it.

    A file that is replaced passes its permissions on.

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
        if file.exists():
            shutil.copymode(file, temporary)
        temporary.replace(file)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # of a file system that cannot do it for folders
        _sync(file.parent)


def _sync(folder: Path) -> None:
    """Make a new name in a folder last, where folders can be opened."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
