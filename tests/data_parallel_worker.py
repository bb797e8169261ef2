"""One of two processes that train models together: `python worker.py RANK FOLDER`."""

import sys
from pathlib import Path

import numpy as np
import torch

from tests.data_parallel_fits import FITS, problem


def main(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=2
    )
    results = {}
    for name, fit in FITS.items():
        X, y, weight = problem(fit.n)
        rows = slice(0, fit.n // 3) if rank == 0 else slice(fit.n // 3, fit.n)
        model = fit.make(data_parallel=True).fit(X[rows], y[rows], weight[rows])
        dist = model.predict_dist(X[:50])
        scores = getattr(model, "validation_scores_", None) or []
        results |= {
            f"{name}-mean": dist.mean(),
            f"{name}-std": dist.std(),
            f"{name}-loss": np.array(model.loss_curve_),
            f"{name}-scores": np.array(scores),
        }
    np.savez(folder / f"{rank}.npz", **results)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
