"""Processor seconds of a fit and 1,000 predictions: the numbers of the page "Which one first?".

Run as `python -m benchmarks.first_choice`, on one thread. The table is made up: eight columns, of
which five count, and noise that depends on a sixth. Defaults, but where a row says so.
"""

import argparse
import time
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1
from threadpoolctl import threadpool_limits

import skgp


def make_table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    X, signal = make_friedman1(n_rows, n_features=8, random_state=0)
    noise = 0.3 + 3.0 * X[:, 5]
    return X, signal + noise * np.random.default_rng(0).standard_normal(n_rows)


def targets(name: str, y: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Labels of two classes for a classifier, four outputs for a model of several."""
    if "Classifier" in name:
        return y > np.median(y)
    if "MOGP" in name:
        return np.column_stack([y, y + X[:, 6], y * X[:, 7], X[:, 0] - y])
    return y


def seconds_of(name: str, n_rows: int, **params: Any) -> tuple[float, int]:
    X, y = make_table(n_rows + 1000)
    y = targets(name, y, X)
    start = time.process_time()
    model = getattr(skgp, name)(random_state=0, **params).fit(X[:n_rows], y[:n_rows])
    if hasattr(model, "predict_dist"):
        model.predict_dist(X[n_rows:])
    else:
        model.predict_proba(X[n_rows:])
    return time.process_time() - start, model.n_iter_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fits", nargs="+", help="ESTIMATOR:ROWS or ESTIMATOR:ROWS:EPOCHS")
    for fit in parser.parse_args().fits:
        name, n_rows, *epochs = fit.split(":")
        params = {"max_iter": int(epochs[0]), "early_stopping": False} if epochs else {}
        with threadpool_limits(1):
            seconds, n_iter = seconds_of(name, int(n_rows), **params)
        print(f"{fit:32}{seconds:8.1f} s{n_iter:6} iterations", flush=True)


if __name__ == "__main__":
    main()
