"""The memory that an exact GP asks for, and its refusal."""

import os

import pytest
import torch

from skgp.core import memory
from skgp.core.memory import available_memory, check_memory, memory_needed

CPU = torch.device("cpu")


def test_memory_needed_grows_with_the_square_of_the_rows_and_with_the_gps():
    """Eight blocks of float64 for both ways; in float32 the Cholesky factor stays in float64."""
    assert memory_needed(1000, 1, 8, iterative=True) == 64 * 10**6
    assert memory_needed(1000, 1, 8, iterative=False) == 64 * 10**6
    assert memory_needed(1000, 1, 4, iterative=True) == 32 * 10**6
    assert memory_needed(1000, 1, 4, iterative=False) == 44 * 10**6
    assert memory_needed(3000, 2, 8, iterative=True) == 18 * 64 * 10**6


def test_available_memory_of_a_computer_is_all_of_it():
    expected = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert available_memory(CPU) == expected > 2**28


def test_model_that_cannot_fit_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda device: 2**30)
    message = (
        r"over 10000 rows needs about 6\.0 GiB, and there are 1\.0 GiB: use a sparse estimator "
        r"\(SVGPRegressor or PPGPRRegressor\), or fit at most 4096 rows"
    )
    with pytest.raises(MemoryError, match=message):
        check_memory(10_000, 1, 8, False, CPU)
    check_memory(4096, 1, 8, False, CPU)
    with pytest.raises(MemoryError):
        check_memory(4097, 1, 8, False, CPU)


def test_unknown_memory_refuses_nothing(monkeypatch):
    def fail(name):
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", fail)
    assert available_memory(CPU) is None
    check_memory(10**7, 1, 8, False, CPU)
