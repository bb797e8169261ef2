"""Memory: what a GP over all its training rows needs, and blocks that are used again."""

import os

import torch

_GIB = 2.0**30
_LARGEST_KEPT = 2**25 - 2**16  # bytes, just below what glibc can learn to keep


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


def available_memory(device: torch.device) -> int | None:
    """Bytes of free memory of a GPU, of all memory of a computer, None where that is unknown.

    A computer counts whole: its file cache gives way when memory is asked for.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_memory(
    n_rows: int, n_gps: int, itemsize: int, iterative: bool, device: torch.device
) -> None:
    """Refuse a model that cannot fit, before anything is allocated.

    Parameters
    ----------
    n_rows, n_gps, itemsize, iterative
        As in `memory_needed`.
    device : torch.device

    Raises
    ------
    MemoryError
        If the model needs more memory than the device has.
    """
    needed = memory_needed(n_rows, n_gps, itemsize, iterative)
    available = available_memory(device)
    if available is not None and needed > available:
        most = int(n_rows * (available / needed) ** 0.5)
        raise MemoryError(
            f"an exact GP over {n_rows} rows needs about {needed / _GIB:.1f} GiB, and there are "
            f"{available / _GIB:.1f} GiB: use a sparse estimator (SVGPRegressor or "
            f"PPGPRRegressor), or fit at most {most} rows"
        )


def keep_freed_blocks() -> None:
    """Let glibc use freed blocks of a few megabytes again instead of returning them to the system.

    Each training step frees its blocks of M x B numbers, and the next one would have every page of
    them mapped anew, a twentieth of its time or more. The allocator keeps what is smaller than
    the largest block that has been freed, and this one is freed before a page of it is touched.
    Where there is another allocator nothing happens.
    """
    torch.empty(_LARGEST_KEPT, dtype=torch.uint8)
