"""Checkpoints of processes that train one model together."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from skgp._typing import Array
from skgp.core.training.ranks import Ranks
from skgp.exceptions import CheckpointWarning
from skgp.fitting.recording import Recording

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "kill",
    [
        pytest.param(3, marks=pytest.mark.slow, id="trials"),
        pytest.param(11, id="training"),
        pytest.param(18, marks=pytest.mark.slow, id="the last epoch"),
    ],
)
def test_two_killed_processes_go_on(kill: int, tmp_path: Path) -> None:
    """At the same step, though one of them has written one state more, and to the last bit."""
    subprocess.run(
        [sys.executable, "-m", "tests.killed_ranks", str(tmp_path), str(kill)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        check=True,
        timeout=300,
    )
    n_steps = []
    for rank in range(2):
        whole, resumed = (
            pickle.loads((tmp_path / f"{name}{rank}.pickle").read_bytes())
            for name in ("whole", "resumed")
        )
        n_steps.append((whole.pop("steps"), resumed.pop("steps")))
        assert whole.keys() == resumed.keys()
        for name, value in whole.items():
            np.testing.assert_array_equal(resumed[name], value, err_msg=name)
    assert n_steps[0] == n_steps[1]
    assert n_steps[0][0] - n_steps[0][1] == kill - 1  # each step is written


class Threads(Ranks):
    """The ranks of threads, which exchange what they have by a list."""

    def __init__(self, number: int, barrier: threading.Barrier, said: list[Any]) -> None:
        self.n, self.number, self._barrier, self._said = len(said), number, barrier, said

    def gathered(self, rows: Array) -> list[Array]:
        self._said[self.number] = rows
        self._barrier.wait()
        heard = list(self._said)
        self._barrier.wait()
        return heard

    def total(self, values: torch.Tensor) -> torch.Tensor:
        return torch.stack(self.gathered(values)).sum(0)  # type: ignore[arg-type]


def together(task: Callable[[Ranks], Any]) -> list[Any]:
    """What two threads return or raise."""
    barrier, said, results = threading.Barrier(2, timeout=20), [None, None], [None, None]

    def work(number: int) -> None:
        try:
            results[number] = task(Threads(number, barrier, said))
        except Exception as error:  # for the test to look at
            results[number] = error  # type: ignore[call-overload]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def record(folder: Path, states: list[Any], failing: dict[int, int]) -> Callable[[Ranks], Any]:
    """Go on from what is there, then write some states; `failing` ranks by the state's number."""

    def task(ranks: Ranks) -> Any:
        recording = Recording(folder / "a.ckpt", 0.0, {"fit": "one"}, ranks)
        found = recording.saved("training")
        for number, state in enumerate(states):
            if failing.get(number) == ranks.number:
                recording._put = lambda *_: OSError("full")  # type: ignore[method-assign]
            recording.follow("training", lambda state=state: [state, ranks.number])
            recording.step()
            vars(recording).pop("_put", None)
        return found

    return task


def test_a_state_counts_when_all_have_written_it(tmp_path: Path) -> None:
    with pytest.warns(CheckpointWarning, match="cannot be written"):
        assert (
            together(record(tmp_path, ["a", "b", "c", "d", "e"], {2: 1, 3: 1, 4: 0})) == [None] * 2
        )
    # The first has the files b and d, the second b and e. No later state has the number of d.
    with pytest.warns(CheckpointWarning, match="cannot be written"):
        assert together(record(tmp_path, ["x", "y"], {0: 0, 1: 0})) == [["b", 0], ["b", 1]]
    assert together(record(tmp_path, ["f"], {})) == [["b", 0], ["b", 1]]
    assert together(record(tmp_path, [], {})) == [["f", 0], ["f", 1]]
    names = {"a.ckpt", "a.ckpt.rank1"}
    assert {file.stem for file in tmp_path.iterdir()} == names


def test_processes_that_have_nothing_in_common_start_anew(tmp_path: Path) -> None:
    together(record(tmp_path, ["a", "b"], {}))
    for file in tmp_path.glob("*.rank1.*"):
        file.unlink()
    with pytest.warns(CheckpointWarning, match="no state in common"):
        assert together(record(tmp_path, ["c"], {})) == [None, None]
    assert together(record(tmp_path, [], {})) == [["c", 0], ["c", 1]]


def test_all_refuse_the_files_of_another_fit(tmp_path: Path) -> None:
    def task(ranks: Ranks) -> None:
        fit = {"fit": "two" if ranks.number else "one"}
        Recording(tmp_path / "a.ckpt", 0.0, fit, ranks)

    together(record(tmp_path, ["a"], {}))
    for error in together(task):
        assert isinstance(error, ValueError)
        assert "fit: one there, two here" in str(error)


def test_all_are_terminated_if_one_is(tmp_path: Path) -> None:
    """And their states are written."""

    def task(ranks: Ranks) -> bool:
        recording = Recording(tmp_path / "a.ckpt", 1e9, {}, ranks)
        recording.follow("training", lambda: "a")
        if ranks.number:
            recording._terminate(signal.SIGTERM, None)
        recording.step()
        return recording._is_terminated

    assert together(task) == [True, True]
    assert len(list(tmp_path.iterdir())) == 2
