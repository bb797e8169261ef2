"""Defaults on known functions, with little noise, much, and some that is not normal.

    OMP_NUM_THREADS=1 python -m benchmarks.functions --rows 100 300 [--seeds 0] [--only piston ...]
    OMP_NUM_THREADS=1 python -m benchmarks.functions --everyday --rows 100 300 1000
    OMP_NUM_THREADS=1 python -m benchmarks.functions --files DIR/large/*.npz --rows 100 300 1000

With `--everyday`, made-up rows as users have them stand in place of functions, with `--files`
random rows of data sets. The columns are NLL / CRPS of
1,000 further rows in units of the standard deviation of the training targets, the share of these in
90 % intervals, and process time of a fit in seconds.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np

from benchmarks._everyday_rows import EVERYDAY
from benchmarks._known_functions import FUNCTIONS, Make
from benchmarks._markdown import head, line
from benchmarks._scikit_learn_gp import ScikitLearnGP
from benchmarks._subsamples import subsample
from skgp import DSPPRegressor, PPGPRRegressor, SVGPRegressor

N_TEST: Final = 1000
METHODS: Final[dict[str, Callable[[], Any]]] = {
    "scikit-learn GP": ScikitLearnGP,
    "SVGP": partial(SVGPRegressor, random_state=0),
    "PPGPR": partial(PPGPRRegressor, random_state=0),
    "DSPP": partial(DSPPRegressor, random_state=0),
}


def scores(name: str, make: Make, n_rows: int, seed: int, method: str) -> list[float]:
    """NLL, CRPS, coverage and seconds of a fit of so many rows."""
    rng = np.random.default_rng([seed, n_rows, crc32(name.encode())])
    X, y = make(rng, n_rows + N_TEST)
    X, X_new, y, y_new = X[:n_rows], X[n_rows:], y[:n_rows], y[n_rows:]
    start = time.process_time()
    model = METHODS[method]().fit(X, y)
    spent = time.process_time() - start
    dist = model.predict_dist(X_new)
    lower, upper = dist.interval(0.9)
    unit = y.std()
    nll = -dist.logpdf(y_new).mean() - np.log(unit)
    covered = np.mean((lower <= y_new) & (y_new <= upper))
    return [nll, dist.crps(y_new).mean() / unit, covered, spent]


def cell(of_seeds: list[list[float]]) -> str:
    """The means of all seeds."""
    nll, crps, covered, spent = np.mean(of_seeds, axis=0)
    return f"{nll:.3f} / {crps:.4f} / {covered:.2f} / {spent:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    known = {make.__name__: make for make in (*FUNCTIONS, *EVERYDAY)}
    parser.add_argument("--rows", type=int, nargs="+", default=[300])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", choices=known)
    parser.add_argument("--everyday", action="store_true")
    parser.add_argument("--files", type=Path, nargs="+", default=[])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sources = {path.stem: subsample(path) for path in arguments.files}
    names = [make.__name__ for make in (EVERYDAY if arguments.everyday else FUNCTIONS)]
    sources = sources or {name: known[name] for name in arguments.only or names}
    print("\n".join(head(["function", "rows", *arguments.methods])), flush=True)
    for n_rows, (name, make) in product(arguments.rows, sources.items()):
        cells = [
            cell([scores(name, make, n_rows, seed, method) for seed in arguments.seeds])
            for method in arguments.methods
        ]
        print(line([name, str(n_rows), *cells])[0], flush=True)


if __name__ == "__main__":
    main()
