"""Kills fits at random moments, goes on with them, and compares with fits that nobody has killed.

    python -m benchmarks.interrupted 100

Each line is a kind of fit: how often one was killed (SIGKILL), how often it had written a
checkpoint by then, and how often the fit ended with the same bits afterwards: parameters, loss
curve, scores of held-out rows, predictions. The exit status is 0 if all did.
"""

import argparse
import hashlib
import itertools
import multiprocessing
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from skgp import Checkpoint, DSPPRegressor, IWDGPRegressor, NeuralMOGPEmbedding, SVGPRegressor
from skgp.estimators.baselines import SGHMCDGPRegressor

FORK = multiprocessing.get_context("fork")  # a new interpreter would import torch each time
EVERY = 0.05  # seconds between two writings


class Kind(NamedTuple):
    """Fits of one kind: an estimator for a folder, its rows, and processes that share them."""

    make: Callable[..., Any]
    n_rows: int
    n_processes: int = 1


BATCHES = {"batch_size": 150, "random_state": 0}
KINDS = {
    "SVGP, three restarts": Kind(
        lambda **p: SVGPRegressor(n_inducing=30, max_iter=100, n_restarts=3, **BATCHES, **p), 1500
    ),
    "DSPP, averages and a falling rate": Kind(
        lambda **p: DSPPRegressor(n_inducing=30, max_iter=40, **BATCHES, **p), 1500
    ),
    "DSPP, two processes": Kind(
        lambda **p: DSPPRegressor(n_inducing=30, max_iter=15, **BATCHES, **p), 1500, n_processes=2
    ),
    "DSPP, cross-validation": Kind(
        lambda **p: DSPPRegressor(n_inducing=20, max_iter=40, random_state=0, **p), 150
    ),
    "IWDGP": Kind(lambda **p: IWDGPRegressor(n_inducing=20, max_iter=30, **BATCHES, **p), 1500),
    "SGHMC-DGP": Kind(
        lambda **p: SGHMCDGPRegressor(n_inducing=20, max_iter=40, n_burn_in=50, **BATCHES, **p),
        1500,
    ),
    "embedding": Kind(
        lambda **p: NeuralMOGPEmbedding(n_inducing=20, max_iter=50, **BATCHES, **p), 1500
    ),
}


def rows(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    return X, np.sin(4.0 * X[:, 0]) + 0.2 * rng.standard_normal(n)


def digest(model: Any, X: Any) -> str:
    """Of all bits that a fit leaves."""
    found = hashlib.sha256()
    for name in ("loss_curve_", "validation_scores_", "n_iter_", "n_samples_seen_"):
        found.update(repr(getattr(model, name)).encode())
    for name, value in model.model_.state_dict().items():
        found.update(name.encode())
        found.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    new = model.transform(X[:20]) if hasattr(model, "transform") else X[:20]
    dist = model.predict_dist(new)
    found.update(np.ascontiguousarray(dist.mean()).data)
    found.update(np.ascontiguousarray(dist.std()).data)
    return found.hexdigest()


def fitted(kind: Kind, rank: int = 0, **params: Any) -> str:
    """The digest of a fit in this process, to its rows."""
    X, y = (part[rank :: kind.n_processes] for part in rows(kind.n_rows))
    model = kind.make().set_params(**params)
    if hasattr(model, "transform"):
        X = np.column_stack([X, y])
    return digest(model.fit(X, y), X)


class Started:
    """A fit in processes of its own; `store` is a new file, by which they find each other."""

    def __init__(self, kind: Kind, checkpoint: Checkpoint | None, store: Path) -> None:
        self.answers, there = zip(
            *(FORK.Pipe(duplex=False) for _ in range(kind.n_processes)), strict=True
        )
        self.processes = [
            FORK.Process(target=work, args=(kind, checkpoint, rank, store, to))
            for rank, to in enumerate(there)
        ]
        for process in self.processes:
            process.start()
        for to in there:
            to.close()

    def kill(self, after: float) -> None:
        """Kill all of them after so many seconds, unless they have ended."""
        self.processes[0].join(after)
        for process in self.processes:
            process.kill()

    def ended(self) -> tuple[str, ...] | None:
        """The digests of the fit; None if it was killed."""
        try:
            found: tuple[str, ...] | None = tuple(answer.recv() for answer in self.answers)
        except EOFError:
            found = None
        for process in self.processes:
            process.join()
        return found


def work(kind: Kind, checkpoint: Checkpoint | None, rank: int, store: Path, to: Connection) -> None:
    """In a process of its own."""
    params: dict[str, Any] = {"checkpoint": checkpoint}
    if kind.n_processes > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=kind.n_processes
        )
        params["data_parallel"] = True
    to.send(fitted(kind, rank, **params))


def compare(n_kills: int, seed: int = 0) -> bool:
    """Kill so many fits, of one kind after another; print and return whether all are the same."""
    rng = np.random.default_rng(seed)
    counts = {name: [0, 0, 0] for name in KINDS}
    expected: dict[str, tuple[tuple[str, ...] | None, float]] = {}
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # these fits are short
    for name, kind in KINDS.items():
        fitted(kind, max_iter=1)  # what is imported late would take each process seconds
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            whole = Started(kind, None, Path(folder) / "store").ended()
            expected[name] = whole, time.monotonic() - start
    n_done = 0
    for name in itertools.cycle(KINDS):
        if n_done >= n_kills:
            break
        kind, count = KINDS[name], counts[name]
        whole, seconds = expected[name]
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Checkpoint(folder, every=EVERY)
            n_killed = 0
            for number in range(rng.integers(1, 3)):  # what goes on may be killed again
                started = Started(kind, checkpoint, Path(folder) / f"store{number}")
                started.kill(rng.uniform(0.0, seconds))
                if started.ended() is None:
                    n_killed += 1
                    count[1] += any(Path(folder).glob("*.ckpt.?"))
            is_same = Started(kind, checkpoint, Path(folder) / "store").ended() == whole
            n_done += n_killed
            count[0] += n_killed
            count[2] += n_killed * is_same
            print(
                f"{n_done:4} {name}: {'same' if is_same else 'OTHER'}", file=sys.stderr, flush=True
            )
    print(f"{'fit':36}{'killed':>8}{'with a checkpoint':>20}{'same bits':>12}")
    for name, count in counts.items():
        print(f"{name:36}{count[0]:8}{count[1]:20}{count[2]:12}")
    total = [sum(column) for column in zip(*counts.values(), strict=True)]
    print(f"{'all':36}{total[0]:8}{total[1]:20}{total[2]:12}")
    return total[0] == total[2]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n_kills", type=int, nargs="?", default=100)
    sys.exit(not compare(parser.parse_args().n_kills))
