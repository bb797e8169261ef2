"""Wall time of an epoch of whole fits, and of predictions, on a GPU and on the CPU.

    python -m benchmarks.epochs [--device cuda] [--threads 8] [--rows 32000]

An epoch is the difference between fits of six and of two epochs, so that what a fit does once, such
as choosing its start and capturing its steps, is not in it.
"""

import argparse
from functools import partial

import torch
from sklearn.base import clone

from benchmarks.speed import Estimator, make_rows, seconds
from skgp import DGPRegressor, DSPPRegressor, PPGPRRegressor, SVGPRegressor

KINDS = (DSPPRegressor, DGPRegressor, PPGPRRegressor, SVGPRegressor)
SIZES = (1000, 8000)  # rows of a batch
SHORT, LONG = 2, 6  # epochs


def times(model: Estimator, n_rows: int) -> tuple[float, float]:
    """Seconds of an epoch, and of predictions of all rows."""
    X, y = make_rows(n_rows, 8)
    fitted = clone(model).set_params(max_iter=1).fit(X, y)  # with all that a first fit loads
    fitted.predict(X)
    short, long = (
        seconds(partial(clone(model).set_params(max_iter=n).fit, X, y)) for n in (SHORT, LONG)
    )
    return (long - short) / (LONG - SHORT), seconds(partial(fitted.predict, X))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--threads", type=int, default=8, help="those of the CPU")
    parser.add_argument("--rows", type=int, default=32_000)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {arguments.rows:,} rows, {arguments.threads} threads, s")
    print(f"{'':30}{'epoch':>10}{'CPU':>10}{'predict':>10}{'CPU':>10}", flush=True)
    for kind in KINDS:
        for size in SIZES:
            common = {"n_inducing": 300, "early_stopping": False, "random_state": 0}
            model = kind(batch_size=size, **common)
            epoch, predict = times(clone(model).set_params(device=arguments.device), arguments.rows)
            cpu_epoch, cpu_predict = times(model, arguments.rows)
            of = f"{kind.__name__}, B = {size:,}"
            columns = (epoch, cpu_epoch, predict, cpu_predict)
            print(f"{of:30}" + "".join(f"{value:10.3f}" for value in columns), flush=True)


if __name__ == "__main__":
    main()
