"""Time and memory of one epoch on rows that stand on disk, beside rows in memory.

    python -m benchmarks.scale DIR [CASE ...]

A case is MODEL:SOURCE:ROWS, where MODEL is SVGP (300 inducing inputs) or DSPP (100), and SOURCE is
memory, memmap or parquet. DIR takes files of n x 8 inputs in float32, 360 MB for 10^7 rows in each
format; those that it has are used again. Each case runs in a process of its own. Seconds are processor
time of the fit, setup included; those of reading Parquet stand apart. Memory is the largest resident
set (VmHWM), which includes imports and the pages of files that are in memory.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import skgp.streams
from skgp import DSPPRegressor, SVGPRegressor

D = 8
CHUNK = 1_000_000
MODELS = {
    "SVGP": lambda: SVGPRegressor(n_inducing=300, max_iter=1, random_state=0),
    "DSPP": lambda: DSPPRegressor(n_inducing=100, max_iter=1, random_state=0, early_stopping=False),
}
DEFAULT = (
    *("SVGP:memory:1000000", "SVGP:memmap:10000000", "SVGP:parquet:10000000"),
    *("DSPP:memory:1000000", "DSPP:memmap:10000000", "DSPP:parquet:10000000"),
)


def chunks(n: int) -> Any:
    """Inputs (b, 8) and targets (b,) of a smooth function with noise, float32."""
    rng = np.random.default_rng(0)
    for start in range(0, n, CHUNK):
        X = rng.standard_normal((min(CHUNK, n - start), D), dtype=np.float32)
        noise = rng.standard_normal(len(X), dtype=np.float32)
        yield X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * np.exp(0.5 * X[:, 3]) * noise


def make_maps(folder: Path, n: int) -> tuple[Path, Path]:
    """Files of n rows in NumPy's format, made unless they are there."""
    paths = folder / f"X-{n}.npy", folder / f"y-{n}.npy"
    if not paths[1].exists():
        shapes = (n, D), (n,)
        new = np.lib.format.open_memmap
        X, y = (new(p, "w+", np.float32, shape) for p, shape in zip(paths, shapes, strict=True))
        start = 0
        for x, t in chunks(n):
            X[start : start + len(x)], y[start : start + len(x)] = x, t
            start += len(x)
        X.flush()
        y.flush()
    return paths


def make_parquet(folder: Path, n: int) -> Path:
    """A Parquet file of n rows with ten row groups a million, made unless it is there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"rows-{n}.parquet"
    if not path.exists():
        names = [*(f"x{j}" for j in range(D)), "y"]
        with pq.ParquetWriter(path, pa.schema([(name, pa.float32()) for name in names])) as file:
            for X, y in chunks(n):
                table = pa.table([*(pa.array(x) for x in X.T), pa.array(y)], names)
                file.write_table(table, row_group_size=100_000)
    return path


def made(folder: Path, source: str, n: int) -> None:
    """Files of a case, written by a process of its own, whose memory does not count."""
    if source == "parquet":
        make_parquet(folder, n)
    else:
        make_maps(folder, n)


def measure(folder: Path, case: str) -> dict[str, Any]:
    """One fit in this process."""
    model, source, n = case.split(":")
    begun, reading = time.process_time(), 0.0
    if source == "parquet":
        rows = skgp.streams.read_rows(make_parquet(folder, int(n)), target="y")
        X, y = rows.X, rows.y
        reading = time.process_time() - begun
    else:
        mode = "r" if source == "memmap" else None
        X, y = (np.load(path, mmap_mode=mode) for path in make_maps(folder, int(n)))
    begun = time.process_time()
    fitted = MODELS[model]().fit(X, y)
    seconds = time.process_time() - begun
    return {
        "case": case,
        "seconds per million rows": round(seconds * 1e6 / int(n), 1),
        "of reading": round(reading * 1e6 / int(n), 2),
        "GiB": round(peak_memory() / 2**30, 2),
        "loss": fitted.loss_curve_[-1],
    }


def peak_memory() -> int:
    """Bytes of the largest resident set of this process; Linux."""
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", default=DEFAULT)
    parser.add_argument("--one", choices=("make", "measure"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = arguments.folder
    if arguments.one == "make":
        made(folder, *(f(x) for f, x in zip((str, int), arguments.cases[0].split(":")[1:])))
    elif arguments.one == "measure":
        print(json.dumps(measure(folder, arguments.cases[0])))
    else:
        folder.mkdir(parents=True, exist_ok=True)
        for case in arguments.cases:
            for step in ("make", "measure"):
                command = [sys.executable, "-W", "ignore", "-m", "benchmarks.scale", str(folder), case]
                subprocess.run([*command, "--one", step], check=True, env={**os.environ})


if __name__ == "__main__":
    main()
