"""Fits that are killed at random moments go on to the last bit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_ten_kills() -> None:
    """By the program that counts a hundred; it forks, and so has a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.interrupted", "10"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    name, killed, with_checkpoint, same = done.stdout.splitlines()[-1].split()
    assert name == "all"
    assert int(killed) == int(same) >= 10
    assert int(with_checkpoint) > 0
