"""Processor seconds of a fit and of 1,000 predictions, for the table "Which one first?".

`python -m benchmarks.first_choice DSPPRegressor:1000 SVGPRegressor:100000:1`, on one thread. The
table is synthetic: eight columns, of which five count, and noise that depends on a sixth.
Estimators have their defaults, but for the epochs where a number of them is given.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import make_friedman1
from threadpoolctl import threadpool_limits

import skgp


def make_table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    X, signal = make_friedman1(n_rows, n_features=8, random_state=0)
    noise = (0.3 + 3.0 * X[:, 5]) * np.random.default_rng(0).standard_normal(n_rows)
    return X, signal + noise


def seconds_of(fit: str, n_outputs: int) -> tuple[float, int]:
    """Processor seconds and iterations of ESTIMATOR:ROWS or ESTIMATOR:ROWS:EPOCHS."""
    name, n_rows, *epochs = fit.split(":")
    X, y = make_table(int(n_rows) + 1000)
    if n_outputs > 1:
        y = np.column_stack([y + X[:, k] for k in range(n_outputs)])
    if name.endswith("Classifier"):
        y = y > np.median(y)
    params = {"max_iter": int(epochs[0]), "early_stopping": False} if epochs else {}
    model = getattr(skgp, name)(random_state=0, **params)
    start = time.process_time()
    model.fit(X[:-1000], y[:-1000]).predict_proba(X[-1000:])
    return time.process_time() - start, model.n_iter_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fits", nargs="+", help="ESTIMATOR:ROWS or ESTIMATOR:ROWS:EPOCHS")
    parser.add_argument("--outputs", type=int, default=1)
    arguments = parser.parse_args()
    for fit in arguments.fits:
        with threadpool_limits(1):
            seconds, n_iter = seconds_of(fit, arguments.outputs)
        print(f"{fit:32}{seconds:8.1f} s{n_iter:6} iterations", flush=True)


if __name__ == "__main__":
    main()
