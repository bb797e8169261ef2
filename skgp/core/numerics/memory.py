"""Memory that an exact GP needs, against what there is."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import torch

_GIB = 2.0**30


def memory_needed(n_rows: int, n_gps: int, itemsize: int, iterative: bool) -> int:
    """Bytes at the peak of fitting an exact GP, or of a prediction: blocks of n x n numbers.

    Counted for a Matern kernel and for a sum of gpytorch kernels; a deeper composition of kernels
    can need more.

    Parameters
    ----------
    n_rows, n_gps : int
    itemsize : int
        Bytes of a number in the working dtype.
    iterative : bool
        Whether conjugate gradients take the place of the Cholesky factor, which is in float64.

    Returns
    -------
    int
    """
    block = 8 * itemsize if iterative else 5 * itemsize + 3 * 8
    return n_gps * n_rows**2 * block


def available_memory(device: torch.device, root: Path = Path("/")) -> int | None:
    """Bytes that can still be allocated on a device, None where that is unknown.

    On a CPU this is the memory that Linux calls available, or less if the control groups of the
    process, such as those of a container, leave it less. A file cache counts as available, because
    it gives way when memory is asked for. On other systems all memory counts as available.

    Parameters
    ----------
    device : torch.device
    root : Path
        Root of the file system from which Linux's numbers are read.

    Returns
    -------
    int or None
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    available = _field(root / "proc/meminfo", "MemAvailable:")
    of_computer = _physical_memory() if available is None else 1024 * available  # it is in kB
    of_groups = _left_by_groups(root)
    return min(of_groups if of_computer is None else (of_computer, *of_groups), default=None)


def _left_by_groups(root: Path) -> Iterator[int]:
    """Bytes that each limit leaves, on the process's control group and on those above it."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        # In a container the path may be that of the host, and the group lies at the top.
        group = PurePosixPath(path.lstrip("/"))
        for folder in (top / part for part in (group, *group.parents)):
            limit, usage = (_read(folder / name).strip() for name in names[:2])
            if limit.isdigit() and usage.isdigit():  # a version 2 without a limit says "max"
                cache = _field(folder / "memory.stat", names[2]) or 0
                yield max(0, int(limit) - int(usage) + cache)


def _field(path: Path, name: str) -> int | None:
    """The number after a name that starts a line of a file; None if there is none."""
    for line in _read(path).splitlines():
        key, *numbers = line.split()
        if key == name and numbers and numbers[0].isdigit():
            return int(numbers[0])
    return None


def _read(path: Path) -> str:
    """The text of a file, empty if it cannot be read."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _physical_memory() -> int | None:
    """Bytes of all memory of the computer, None where that is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_memory(
    n_rows: int, n_gps: int, itemsize: int, iterative: bool, device: torch.device
) -> None:
    """Refuse a model that does not fit into memory, before anything is allocated.

    Parameters
    ----------
    n_rows, n_gps, itemsize, iterative
        As in `memory_needed`.
    device : torch.device

    Raises
    ------
    MemoryError
        If the model needs more memory than is available on the device.
    """
    needed = memory_needed(n_rows, n_gps, itemsize, iterative)
    available = available_memory(device)
    if available is not None and needed > available:
        most = int(n_rows * (available / needed) ** 0.5)
        raise MemoryError(
            f"an exact GP over {n_rows} rows needs about {needed / _GIB:.1f} GiB, and there are "
            f"{available / _GIB:.1f} GiB left: use a sparse model, or fit at most {most} rows"
        )
