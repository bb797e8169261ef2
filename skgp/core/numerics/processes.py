"""What has to be so before torch works: after a fork, on few rows, whatever its default device."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import joblib
import torch
from threadpoolctl import threadpool_limits

# The number of the process in which a thread last worked. A fork copies the thread that calls it,
# with this number, and no other thread.
_LAST = threading.local()

_FEW_ROWS: Final = 500  # a fit of fewer gains little by a second thread


def guard_against_fork() -> None:
    """Let a thread work in a process that was forked after it had worked in the parent process.

    A thread that has run a parallel loop of OpenMP keeps a pool of helpers for the next one. In a
    forked process the helpers do not exist, and the thread's next parallel loop would wait for them
    for ever: a loop of torch, or of scikit-learn's k-means. With one thread there is nobody to wait
    for. So the first call of this function in such a process sets the numbers of threads of torch
    and of OpenMP to one. It changes nothing in a process that was not forked, or that was forked
    before any work.

    It has to be called at the start of each prediction and fit, before any tensor.
    """
    process = os.getpid()
    if getattr(_LAST, "process", process) != process:
        torch.set_num_threads(1)
        threadpool_limits(limits=1, user_api="openmp")
    _LAST.process = process


@contextmanager
def limited_threads(n_rows: int) -> Iterator[None]:
    """Give torch one thread for a fit of few rows, and none beyond the cores that are there.

    The threads of torch wait for each other many times in each step. Where another program has the
    core of one of them, or a container has fewer cores than the machine, all of them wait, and a
    fit of few rows takes many times as long. The numbers of such a fit do not depend on the number
    of threads then, either.
    """
    n_threads = torch.get_num_threads()
    most = 1 if n_rows < _FEW_ROWS else joblib.cpu_count()
    if n_threads <= most:
        yield
        return
    torch.set_num_threads(most)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def check_default_device() -> None:
    """Refuse another default device of torch: tensors are made on the CPU and moved by name.

    Raises
    ------
    RuntimeError
    """
    default = torch.get_default_device()
    if default.type != "cpu":
        raise RuntimeError(
            f"torch's default device is {str(default)!r}, and skgp needs 'cpu': call "
            "torch.set_default_device('cpu'), and pass device= to the estimator"
        )
