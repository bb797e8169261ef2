"""Forked processes: what threads leave behind there, and how work goes on."""

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
    forked process it still believes in them, but they were not copied, and its next parallel loop
    would wait for them for ever: the loops of torch, and those of scikit-learn's k-means. With one
    thread there is nobody to wait for. So the first call of this function in such a process sets
    the numbers of threads of torch and of OpenMP there to one. Elsewhere it changes nothing: not in
    a process that began by itself, nor in one that was forked before any work.

    It has to be called at the start of each prediction and fit, before any tensor.
    """
    process = os.getpid()
    if getattr(_LAST, "process", process) != process:
        torch.set_num_threads(1)
        threadpool_limits(limits=1, user_api="openmp")
    _LAST.process = process
