"""Rerun a paper's tables from its protocol file and print ours beside the published numbers.

    python -m benchmarks.tables PROTOCOL --data DIR [--tables layers ...] [--n-jobs 2]

PROTOCOL is the name of a file in benchmarks/protocols. Each finished fit is one line of
benchmarks/results/PROTOCOL.jsonl; a run that was killed goes on where it stopped, because a fit
whose line is there (same set, method, split, parameters and rows) is not run again. `--show` prints
the tables from that file alone.
"""

import argparse
import importlib
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.base import is_classifier

import skgp
from benchmarks._class_scores import class_scores
from benchmarks._embedded import embedding_scores
from benchmarks._nested import converged_log_likelihood, nested_log_likelihood
from benchmarks._pictures import draw, draw_weights, draw_zscores
from benchmarks._protocol import (
    HERE,
    Fit,
    Rows,
    Split,
    Table,
    fit_of,
    fits_of,
    is_within,
    load_protocol,
    read_results,
    resolved,
    rows_of,
    tables,
    thinned,
)
from benchmarks._render import render
from benchmarks._sampled import sampled_scores
from benchmarks._zscores import zscore_scores
from skgp import scoring

RESULTS = HERE / "results"


def run_fit(data: Path, table: Table, fit: Fit, memory: str, device: str = "cpu") -> dict[str, Any]:
    """Fit and score one method with one setting on one split.

    A line names the device if that is a GPU.
    """
    method = table["methods"][fit.method]
    rows = rows_of(data, table, fit)
    params = resolved(fit.params, rows.train[0])
    estimator = estimator_of(table, method, params | {"memory": memory})
    on_gpu = device != "cpu" and "device" in estimator.get_params()
    if on_gpu:
        estimator.set_params(device=device)
    is_embedding = table.get("latent_inputs", False)
    X, y = thinned(rows.train, method)
    start, processor_start = time.perf_counter(), time.process_time()
    estimator.fit(y) if is_embedding else estimator.fit(X, y)
    fit_seconds = time.perf_counter() - start
    processor_seconds = time.process_time() - processor_start
    if is_embedding:
        values = embedding_scores(estimator, rows.test[1])
    else:
        values = (class_scores if is_classifier(estimator) else scores)(estimator, rows)
        if table.get("sampled"):
            values |= sampled_scores(estimator, rows.test)
        if table.get("zscores"):
            values |= zscore_scores(estimator, rows.test)
        nested = table.get("nested", False)
        if nested:
            n_outer = 25 if nested is True else nested
            values["nested_LL"] = nested_log_likelihood(estimator, *rows.test, n_outer=n_outer)
        if nested is True:
            converged = converged_log_likelihood(estimator, *rows.test)
            values["converged_LL"], values["n_draws"], values["last_change"] = converged
    return {
        **fit._asdict(),
        "estimator": method["estimator"],
        **values,
        "seconds": round(fit_seconds, 1),
        "processor_seconds": round(processor_seconds, 2),
        "threads": torch.get_num_threads(),
        **({"device": torch.cuda.get_device_name(device)} if on_gpu else {}),
        "n_iter": getattr(estimator, "n_iter_", None),
        "n_train": len(y),
        "version": skgp.__version__,
    }


def estimator_of(table: Table, method: dict[str, Any], params: dict[str, Any]) -> Any:
    """A method's estimator with these parameters, and with those that the table fixes."""
    make = getattr(importlib.import_module(method.get("module", "skgp")), method["estimator"])
    estimator = make(**params)
    known = estimator.get_params(deep=False)
    return estimator.set_params(**{k: v for k, v in table.get("fixed", {}).items() if k in known})


def scores(estimator: Any, rows: Split) -> dict[str, Any]:
    """What is kept of a fitted estimator; of several outputs the NLL is joint, for each output.

    Scores of the test rows alone whose inputs no training row has are named `new_...`, where that
    are some but not all.
    """
    dist = estimator.predict_dist(rows.test[0])
    values = scores_on(estimator, rows.test, dist)
    is_new = ~np.isin(_as_items(rows.test[0]), _as_items(rows.train[0]))
    if 0 < is_new.sum() < len(is_new):
        X, y = rows.test[0][is_new], rows.test[1][is_new]
        of_new = scores_on(estimator, (X, y), estimator.predict_dist(X))
        values |= {f"new_{name}": value for name, value in of_new.items()}
    if hasattr(estimator, "noise_variance_"):
        noise = estimator.noise_variance_
        values["noise_variance"] = np.asarray(noise).tolist()
        if getattr(estimator, "copy_probability_", 0.0) > 0.0:
            # Copies of training rows may have less variance than other rows have noise.
            noise = np.minimum(noise, dist.var())
        values["noise_fraction"] = float(scoring.noise_fraction(dist, noise).mean())
    if len(rows.validation[1]):
        dist = estimator.predict_dist(rows.validation[0])
        values["validation_NLL"] = scoring.joint_nll(rows.validation[1], dist)
    if hasattr(estimator, "quadrature_weights_"):
        values["quadrature_weights"] = estimator.quadrature_weights_.tolist()
    return values


def scores_on(estimator: Any, rows: Rows, dist: Any) -> dict[str, float]:
    """The scores of test rows and their predictions."""
    return {
        "NLL": estimator.nll(*rows)
        if hasattr(estimator, "nll")  # by a rule of its own
        else scoring.joint_nll(rows[1], dist),
        "RMSE": scoring.rmse(rows[1], dist),
        "CRPS": scoring.crps(rows[1], dist),
        "coverage90": scoring.coverage(rows[1], dist, coverage=0.9),
    }


def _as_items(X: np.ndarray) -> np.ndarray:
    """Each row as one item that is equal to another only if all columns are."""
    X = np.ascontiguousarray(X + 0.0)  # no zero with a sign
    return X.view(np.dtype((np.void, X.itemsize * X.shape[1]))).ravel()


def asked_tables(protocol: Table, arguments: argparse.Namespace) -> list[Table]:
    """The protocol's tables that were asked for, with the number of rows that was."""
    asked = [
        table
        for table in tables(protocol)
        if arguments.tables is None or table.get("name") in arguments.tables
    ]
    if arguments.max_rows is not None:
        asked = [{**table, "max_rows": arguments.max_rows} for table in asked]
    return asked


def missing_fits(
    asked: list[Table], results: list[dict[str, Any]], arguments: argparse.Namespace
) -> list[tuple[Table, Fit]]:
    """The fits that were asked for and have no line in the results, each once.

    Those with more training rows than their method takes are left out.
    """
    done = [fit_of(row) for row in results]
    missing = []
    for table in asked:
        for fit in fits_of(table, arguments.splits):
            if (
                fit.dataset in (arguments.datasets or table["datasets"])
                and fit.method in (arguments.methods or table["methods"])
                and fit not in done
                and is_within(arguments.data, table, fit)
            ):
                done.append(fit)
                missing.append((table, fit))
    return missing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("protocol")
    parser.add_argument("--data", type=Path, help="folder that holds the data sets")
    parser.add_argument("--tables", nargs="+", help="names of the tables, all if absent")
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--splits", type=int, help="number of splits, the protocol's if absent")
    parser.add_argument("--max-rows", type=int, help="rows of a set, the protocol's if absent")
    parser.add_argument("--n-jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--device", default="cpu", help="that of the fits")
    parser.add_argument("--pictures", type=Path, help="folder to draw the results into")
    parser.add_argument("--show", action="store_true", help="print the tables, fit nothing")
    arguments = parser.parse_args()
    protocol, name = load_protocol(arguments.protocol), arguments.protocol
    if arguments.max_rows is not None:
        name += f"-{arguments.max_rows}"  # other rows, other results
    asked = asked_tables(protocol, arguments)
    if not asked:
        parser.error(f"--tables are {[table.get('name') for table in tables(protocol)]}")
    file = RESULTS / f"{name}.jsonl"
    if not arguments.show:
        if arguments.data is None:
            parser.error("--data DIR is needed to run fits")
        fits = missing_fits(asked, read_results(file, protocol), arguments)
        file.parent.mkdir(exist_ok=True)
        # Fits on the same rows share the k-means of their inducing inputs.
        with tempfile.TemporaryDirectory() as memory:
            device = arguments.device
            tasks = (delayed(run_fit)(arguments.data, *fit, memory, device) for fit in fits)
            rows = Parallel(n_jobs=arguments.n_jobs, return_as="generator_unordered")(tasks)
            for number, row in enumerate(rows, start=1):
                with open(file, "a") as out:
                    out.write(json.dumps(row) + "\n")
                print(f"{number}/{len(fits)} {json.dumps(row)}", flush=True)
    results = read_results(file, protocol)
    for table in asked:
        print(render(table, results), end="\n\n")
        if arguments.pictures is not None:
            parts = [name, table["name"]] if "name" in table else [name]
            draw(table, results, arguments.pictures, "-".join(parts))
            draw_zscores(table, results, arguments.pictures, "-".join(parts))
    if arguments.pictures is not None:
        draw_weights(results, arguments.pictures, name)


if __name__ == "__main__":
    main()
