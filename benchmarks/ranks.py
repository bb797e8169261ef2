"""Rows per second of a DSPP that one and two processes train, each with one thread.

    python -m benchmarks.ranks [--repeats 2]

A step has 2,000 rows in all, 300 inducing inputs, width 3 and ten nodes, in float32. The seconds
are those of three epochs: a fit of four epochs without one of one epoch, so that the start is left
out.
"""

import argparse
import os
import time
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from skgp import DSPPRegressor

N_ROWS, N_EPOCHS = 40_000, 3


def train(rank: int, n_ranks: int, queue: Any) -> None:
    """Fit one of the processes' shares of the rows; the first one reports rows per second."""
    torch.set_num_threads(1)
    if n_ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29561")
        dist.init_process_group("gloo", rank=rank, world_size=n_ranks)
    rng = np.random.default_rng(rank)
    X = rng.normal(size=(N_ROWS // n_ranks, 8)).astype(np.float32)
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=len(X))

    def seconds(max_iter: int) -> float:
        model = DSPPRegressor(
            n_inducing=300,
            batch_size=2000,
            max_iter=max_iter,
            early_stopping=False,
            input_warping=False,
            dtype="float32",
            data_parallel=n_ranks > 1,
            random_state=0,
        )
        start = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - start

    start = seconds(1)
    rate = N_EPOCHS * N_ROWS / (seconds(1 + N_EPOCHS) - start)
    if rank == 0:
        queue.put(rate)
    if n_ranks > 1:
        dist.destroy_process_group()


def rows_per_second(n_ranks: int) -> float:
    """Of so many processes that train one model."""
    context = mp.get_context("spawn")
    queue = context.Queue()
    ranks = [context.Process(target=train, args=(r, n_ranks, queue)) for r in range(n_ranks)]
    for process in ranks:
        process.start()
    rate = float(queue.get(timeout=600))
    for process in ranks:
        process.join()
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2)
    for _ in range(parser.parse_args().repeats):
        one, two = rows_per_second(1), rows_per_second(2)
        print(f"one {one:,.0f}, two {two:,.0f} rows per second: {two / one:.2f} times as many")


if __name__ == "__main__":
    main()
