"""What has to be so before torch works: after a fork, and whatever its default device is."""

import os
import threading

import torch
from threadpoolctl import threadpool_limits

# The number of the process in which a thread last worked. A fork copies the thread that calls it,
# with this number, and no other thread.
_LAST = threading.local()


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
