"""SVGP on short tables: the optimum of the bound against minibatches, and CPU against scikit-learn.

    OMP_NUM_THREADS=1 python -m benchmarks.short_tables --data DIR [--folds 3 4] [--only yacht ...]
    OMP_NUM_THREADS=1 python -m benchmarks.short_tables --sizes 300 1500

`DIR` holds the UCI sets as `name.npz` with `X`, `y` and `test_mask` (n, folds). The columns are the
NLL of standardised targets, the share of targets in 90 % intervals, and process time in seconds.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from skgp import SVGPRegressor

SETS = (
    *("concreteslump", "servo", "autos", "machine", "yacht", "autompg"),
    *("housing", "forest", "stock", "pendulum", "concrete", "airfoil"),
)
VARIANTS: dict[str, dict[str, Any]] = {"optimum": {}, "500 steps": {"max_iter": 500}}
N_INPUTS = 6


def seconds(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Process time of a fit."""
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


def quality(folder: Path, name: str, fold: int, parameters: dict[str, Any]) -> list[float]:
    """NLL, coverage and process time on one fold."""
    table = np.load(folder / f"{name}.npz")
    X, y, test = table["X"].astype(float), table["y"].astype(float), table["test_mask"][:, fold]
    model = SVGPRegressor(random_state=0, **parameters)
    spent = seconds(model, X[~test], y[~test])
    lower, upper = model.predict_interval(X[test])
    log_density = model.predict_dist(X[test]).logpdf(y[test]).mean() + np.log(y[~test].std())
    return [-log_density, np.mean((lower <= y[test]) & (y[test] <= upper)), spent]


def against_scikit_learn(n_rows: int) -> str:
    """Process times of both on one table."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_INPUTS))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * X[:, 3]
    y = f + 0.2 * rng.standard_normal(n_rows)
    kernel = ConstantKernel() * Matern(np.ones(N_INPUTS), nu=2.5) + WhiteKernel()
    ours = seconds(SVGPRegressor(random_state=0), X, y)
    theirs = seconds(GaussianProcessRegressor(kernel, normalize_y=True), X, y)
    ratio = ours / theirs
    return f"{n_rows} rows: SVGP {ours:.2f} s, scikit-learn {theirs:.2f} s, ratio {ratio:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--folds", type=int, nargs="+", default=[3, 4])
    parser.add_argument("--only", nargs="+", default=SETS)
    parser.add_argument("--sizes", type=int, nargs="+", default=[])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for n_rows in arguments.sizes:
        print(against_scikit_learn(n_rows), flush=True)
    for name in arguments.only if arguments.data else ():
        for variant, parameters in VARIANTS.items():
            folds = [quality(arguments.data, name, f, parameters) for f in arguments.folds]
            nll, coverage, spent = np.mean(folds, axis=0)
            print(f"{name:14} {variant:10} {nll:7.3f} {coverage:.3f} {spent:6.2f}", flush=True)


if __name__ == "__main__":
    main()
