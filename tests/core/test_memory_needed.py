"""The memory that an exact GP asks for, its refusal, and blocks that are used again."""

import os
import platform
import subprocess
import sys

import pytest
import torch

from skgp.core.numerics import memory
from skgp.core.numerics.memory import available_memory, check_memory, memory_needed

CPU = torch.device("cpu")


def test_memory_needed_grows_with_the_square_of_the_rows_and_with_the_gps():
    """Eight blocks of float64 for both ways; in float32 the Cholesky factor stays in float64."""
    assert memory_needed(1000, 1, 8, iterative=True) == 64 * 10**6
    assert memory_needed(1000, 1, 8, iterative=False) == 64 * 10**6
    assert memory_needed(1000, 1, 4, iterative=True) == 32 * 10**6
    assert memory_needed(1000, 1, 4, iterative=False) == 44 * 10**6
    assert memory_needed(3000, 2, 8, iterative=True) == 18 * 64 * 10**6


def test_available_memory_of_this_computer():
    everything = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 2**28 < available_memory(CPU) <= everything


MEMINFO = "MemTotal:       65536000 kB\nMemFree:  1000 kB\nMemAvailable:   4194304 kB\n"  # 4 GiB
V1 = "sys/fs/cgroup/memory"
V1_FILES = "memory.limit_in_bytes", "memory.usage_in_bytes"
V2 = "sys/fs/cgroup"
V2_FILES = "memory.max", "memory.current"
GIB = 2**30


def group(folder, names, limit, usage, stat=""):
    values = [str(limit), str(usage), stat]
    return {f"{folder}/{n}": v for n, v in zip([*names, "memory.stat"], values, strict=True)}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 4 * GIB),
        ({"proc/self/cgroup": "0::/app\n"}, 4 * GIB),
        (  # the file cache that nobody has used for a while gives way
            {
                "proc/self/cgroup": "0::/app\n",
                **group(f"{V2}/app", V2_FILES, 3 * GIB, 2 * GIB, "anon 5\ninactive_file 1048576\n"),
            },
            GIB + 2**20,
        ),
        ({"proc/self/cgroup": "0::/app\n", **group(f"{V2}/app", V2_FILES, "max", GIB)}, 4 * GIB),
        (  # a limit higher up
            {
                "proc/self/cgroup": "0::/a/b\n",
                **group(f"{V2}/a/b", V2_FILES, "max", GIB),
                **group(f"{V2}/a", V2_FILES, 2 * GIB, GIB),
            },
            GIB,
        ),
        (  # in a container the path may be that outside
            {
                "proc/self/cgroup": "9:cpu:/docker/f00\n4:memory:/docker/f00\n0::/\n",
                **group(
                    V1, V1_FILES, 3 * GIB, 2 * GIB, "inactive_file 9\ntotal_inactive_file 4096\n"
                ),
            },
            GIB + 4096,
        ),
        (
            {
                "proc/self/cgroup": "4:hugetlb,memory:/x:y\n",
                **group(f"{V1}/x:y", V1_FILES, 2 * GIB, GIB),
                **group(V1, V1_FILES, 9223372036854771712, 3 * GIB),
            },
            GIB,
        ),
        ({"proc/self/cgroup": "0::/\n", **group(V2, V2_FILES, GIB, 2 * GIB)}, 0),
    ],
)
def test_available_memory_of_a_container(files, expected, tmp_path):
    for name, text in ({"proc/meminfo": MEMINFO} | files).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert available_memory(CPU, tmp_path) == expected


def test_another_system_counts_whole(tmp_path):
    everything = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert available_memory(CPU, tmp_path) == everything


def test_model_that_cannot_fit_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda device: 2**30)
    message = (
        r"over 10000 rows needs about 6\.0 GiB, and there are 1\.0 GiB left: use a sparse "
        r"model, or fit at most 4096 rows"
    )
    with pytest.raises(MemoryError, match=message):
        check_memory(10_000, 1, 8, False, CPU)
    check_memory(4096, 1, 8, False, CPU)
    with pytest.raises(MemoryError):
        check_memory(4097, 1, 8, False, CPU)


def test_unknown_memory_refuses_nothing(monkeypatch, tmp_path):
    def fail(name):
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", fail)
    assert available_memory(CPU, tmp_path) is None
    monkeypatch.setattr(memory, "available_memory", lambda device: None)
    check_memory(10**7, 1, 8, False, CPU)


_FAULTS = """
import resource
import numpy as np
import torch
from skgp import SVGPRegressor

torch.set_num_threads(1)
X = np.linspace(0.0, 1.0, 20)[:, None]
SVGPRegressor(n_inducing=4, max_iter=1).fit(X, X[:, 0])
for n_steps in (10, 100):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(n_steps):
        blocks = [torch.ones(128, 2500) for _ in range(8)]
        del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other rules")
def test_a_fit_has_freed_blocks_used_again() -> None:
    """Page faults of 100 steps with eight blocks of 1.3 MB after a fit, in a process of its own.

    Without a fit they are 184,300 in two processes of three; in the third the heap happens not to
    end where blocks are freed.
    """
    script = [sys.executable, "-c", _FAULTS]
    faults = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    assert int(faults) < 1000
