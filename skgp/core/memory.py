"""Memory that a GP over all its training rows needs, against what the machine has."""

import os

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
