"""Whether training is long enough where targets have no noise, and does no harm where it is longer.

    python -m benchmarks.training_length --rows 4400 30000
    python -m benchmarks.training_length --data DIR --sets housing concrete elevators

The first fits the distance from the shoulder to the end of an arm of four links, a function of four
angles and four lengths, without noise. The second fits fold 0 of real sets, of at most 10,000 rows,
with default settings and with five times as many epochs as these took. Targets are standardised.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import skgp
from benchmarks._protocol import Fit, Split, load_protocol, rows_of, tables
from skgp import scoring

N_TEST, MAX_ROWS = 5000, 10_000


def arm(n_rows: int) -> Split:
    """Rows of the arm: n to train on, and 5,000 to test."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.5, 1.5, (n_rows + N_TEST, 8))
    angles, lengths = X[:, :4].cumsum(1), 0.75 + 0.25 * X[:, 4:]
    y = np.hypot((lengths * np.cos(angles)).sum(1), (lengths * np.sin(angles)).sum(1))
    y = (y - y[:n_rows].mean()) / y[:n_rows].std()
    nothing = X[:0], y[:0]
    return Split((X[:n_rows], y[:n_rows]), (X[n_rows:], y[n_rows:]), nothing)


def fit(name: str, rows: Split, **params: Any) -> int:
    """Fit an estimator, print its scores and return its epochs."""
    start = time.process_time()
    model = getattr(skgp, name)(random_state=0, **params).fit(*rows.train)
    seconds = time.process_time() - start
    dist, y = model.predict_dist(rows.test[0]), rows.test[1]
    print(
        f"{model!r:50} NLL {scoring.nll(y, dist):7.3f}  RMSE {scoring.rmse(y, dist):.4f}  "
        f"{model.n_iter_:5} epochs  {seconds:6.0f} s",
        flush=True,
    )
    return int(model.n_iter_)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--estimators", nargs="+", default=["DSPPRegressor"])
    parser.add_argument("--rows", nargs="*", type=int, default=[], help="of data without noise")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="*", default=[])
    arguments = parser.parse_args()
    table = tables(load_protocol("defaults"))[0]
    for name in arguments.estimators:
        for n_rows in arguments.rows:
            print(f"arm, {n_rows} rows")
            fit(name, arm(n_rows))
        for dataset in arguments.sets:
            print(dataset)
            rows = rows_of(arguments.data, table, Fit(dataset, "", 0, {}, MAX_ROWS))
            n_epochs = fit(name, rows)
            fit(name, rows, max_iter=5 * n_epochs)


if __name__ == "__main__":
    main()
