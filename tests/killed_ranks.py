"""Two processes that train together, are killed, and go on: `killed_ranks.py FOLDER KILL`."""

import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from skgp import Checkpoint, DSPPRegressor
from skgp.core.training.run import Run
from skgp.fitting.recording import Recording
from tests.data_parallel_fits import problem


def fit(rank: int, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """What a fit leaves: restarts, batches, early stopping, running statistics of each process."""
    steps = []
    gradients = Run.gradients
    Run.gradients = lambda run, *a: (steps.append(0), gradients(run, *a))[1]  # type: ignore[method-assign]
    X, y, weight = problem(300)
    part = slice(0, 100) if rank == 0 else slice(100, 300)
    model = DSPPRegressor(
        **{"n_inducing": 10, "batch_size": 100, "max_iter": 6, "n_restarts": 2, "n_sites": 2},
        **{"feature_extractor": [4, 2], "random_state": 0, "data_parallel": True},
        checkpoint=checkpoint,
    ).fit(X[part], y[part], weight[part])
    Run.gradients = gradients  # type: ignore[method-assign]
    records = {name: getattr(model, name) for name in ("loss_curve_", "validation_scores_")}
    return {**records, **model.model_.state_dict(), "steps": len(steps)}


def die_at(rank: int, number: int) -> None:
    """Be killed at this attempt to write: the first process after it, the second one before."""
    put = Recording._put

    def put_or_die(self: Recording, content: bytes, file: Path) -> OSError | None:
        if self._number == number:
            if rank == 0:
                put(self, content, file)
            os.kill(os.getpid(), signal.SIGKILL)
        return put(self, content, file)

    Recording._put = put_or_die  # type: ignore[method-assign]


def train(rank: int, folder: Path, kill: int) -> None:
    """In a process of its own; with kill = 0 it goes on to the end."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder / f'store{kill}'}", rank=rank, world_size=2
    )
    if kill:
        (folder / f"whole{rank}.pickle").write_bytes(pickle.dumps(fit(rank, None)))
        die_at(rank, kill)
    resumed = fit(rank, Checkpoint(folder / "runs", every=0.0))
    (folder / f"resumed{rank}.pickle").write_bytes(pickle.dumps(resumed))
    torch.distributed.destroy_process_group()


def main(folder: Path, kill: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # these fits are short
    fork = multiprocessing.get_context("fork")  # a new interpreter would import torch each time
    for number in (kill, 0):
        processes = [fork.Process(target=train, args=(r, folder, number)) for r in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        desired = -signal.SIGKILL if number else 0
        assert [process.exitcode for process in processes] == [desired, desired]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
