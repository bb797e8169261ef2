"""One data set by a Parquet file and by arrays: losses, scores and time, with CatBoost beside.

    python -m benchmarks.on_disk FILE.npz

FILE holds X, y and masks of the test rows of ten folds, `test_mask`, of which the fourth is taken.
Targets are standardised by the training rows. Seconds are processor time of a fit; those of reading
the Parquet file stand apart.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import skgp.streams
from benchmarks._catboost import CatBoost
from skgp import DSPPRegressor, SVGPRegressor
from skgp.scoring import crps, nll

FOLD = 3
MODELS: dict[str, Callable[[], Any]] = {
    "SVGP, M = 300": lambda: SVGPRegressor(n_inducing=300, random_state=0),
    "DSPP, M = 100": lambda: DSPPRegressor(n_inducing=100, random_state=0),
}


def write(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    """A Parquet file with ten row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {f"x{j}": x for j, x in enumerate(X.T)} | {"y": y}
    pq.write_table(pa.table(columns), path, row_group_size=-(-len(X) // 10))


def fitted(make: Callable[[], Any], X: Any, y: Any) -> tuple[Any, float]:
    """A model and the seconds of its fit."""
    begun = time.process_time()
    return make().fit(X, y), time.process_time() - begun


def row(name: str, dist: Any, y: np.ndarray, loss: str, seconds: str) -> str:
    scores = nll(y, dist), crps(y, dist), np.sqrt(np.mean((dist.mean() - y) ** 2))
    return f"| {name} | {loss} | {' | '.join(f'{s:.4f}' for s in scores)} | {seconds} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    data = np.load(parser.parse_args().file)
    is_test = data["test_mask"][:, FOLD]
    X, X_test = data["X"][~is_test], data["X"][is_test]
    y, y_test = data["y"][~is_test], data["y"][is_test]
    y, y_test = (((t - y.mean()) / y.std()).astype(np.float32) for t in (y, y_test))
    print("| model | last loss | NLL | CRPS | RMSE | seconds |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "rows.parquet", X, y)
        begun = time.process_time()
        rows = skgp.streams.read_rows(Path(folder) / "rows.parquet", target="y")
        reading = time.process_time() - begun
        for name, make in MODELS.items():
            losses = []
            for source, given in {"arrays": (X, y), "Parquet": (rows.X, rows.y)}.items():
                model, seconds = fitted(make, *given)
                losses.append(model.loss_curve_)
                texts = f"{losses[-1][-1]:.6f}", f"{seconds:.1f}"
                print(row(f"{name}, {source}", model.predict_dist(X_test), y_test, *texts))
            print(f"{name}: losses of all {len(losses[0])} epochs equal: {losses[0] == losses[1]}")
    model, seconds = fitted(CatBoost, X, y)
    print(row("CatBoost", model.predict_dist(X_test), y_test, "", f"{seconds:.1f}"))
    print(f"{len(X)} rows; reading: {reading:.2f} s")


if __name__ == "__main__":
    main()
