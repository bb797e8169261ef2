"""Rerun a paper's tables from its protocol file and print ours beside the published numbers.

    python -m benchmarks.tables PROTOCOL --data DIR [--datasets elevators ...] [--n-jobs 2]

PROTOCOL is the name of a file in benchmarks/protocols. Each finished fit is one line of
benchmarks/results/PROTOCOL.jsonl; a run that was killed goes on where it stopped, because a fit
whose line is there (same set, method, split and parameters) is not run again. `--show` prints the
tables from that file alone.
"""

import argparse
import importlib
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from joblib import Parallel, delayed

import skgp
from benchmarks._pictures import draw
from benchmarks._protocol import HERE, Fit, load_protocol, load_split, settings
from benchmarks._render import render
from skgp import scoring


def run_fit(data: Path, protocol: dict[str, Any], fit: Fit, memory: str) -> dict[str, Any]:
    """Fit and score one method with one setting on one split."""
    method = protocol["methods"][fit.method]
    rows = load_split(data / protocol["folder"] / f"{fit.dataset}.npz", protocol, fit.split)
    module = importlib.import_module(method.get("module", "skgp"))
    estimator = getattr(module, method["estimator"])(**fit.params, memory=memory)
    start = time.perf_counter()
    estimator.fit(*rows.train)
    fit_seconds = time.perf_counter() - start
    X_test, y_test = rows.test
    X_validation, y_validation = rows.validation
    dist = estimator.predict_dist(X_test)
    noise = estimator.noise_variance_
    return {
        **fit._asdict(),
        "estimator": method["estimator"],
        "NLL": scoring.nll(y_test, dist),
        "RMSE": scoring.rmse(y_test, dist),
        "CRPS": scoring.crps(y_test, dist),
        "coverage90": scoring.coverage(y_test, dist, coverage=0.9),
        "validation_NLL": scoring.nll(y_validation, estimator.predict_dist(X_validation)),
        "noise_variance": noise,
        "noise_fraction": float(scoring.noise_fraction(dist, noise).mean()),
        "seconds": round(fit_seconds, 1),
        "threads": torch.get_num_threads(),
        "n_iter": estimator.n_iter_,
        "n_train": len(rows.train[1]),
        "version": skgp.__version__,
    }


def read_results(file: Path) -> list[dict[str, Any]]:
    """Every line of a results file."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


def missing_fits(
    protocol: dict[str, Any], results: list[dict[str, Any]], arguments: argparse.Namespace
) -> list[Fit]:
    """The fits that were asked for and have no line in the results."""
    done = [Fit(*(row[name] for name in Fit._fields)) for row in results]
    fits = [
        Fit(dataset, method, split, params)
        for split in range(arguments.splits or protocol["n_splits"])
        for dataset in arguments.datasets or protocol["datasets"]
        for method in arguments.methods or protocol["methods"]
        for params in settings(protocol, method)
    ]
    return [fit for fit in fits if fit not in done]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("protocol")
    parser.add_argument("--data", type=Path, help="folder that holds the data sets")
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--splits", type=int, help="number of splits, the protocol's if absent")
    parser.add_argument("--max-rows", type=int, help="rows of a set, the protocol's if absent")
    parser.add_argument("--n-jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--pictures", type=Path, help="folder to draw the results into")
    parser.add_argument("--show", action="store_true", help="print the tables, fit nothing")
    arguments = parser.parse_args()
    protocol = load_protocol(arguments.protocol)
    name = arguments.protocol
    if arguments.max_rows is not None:
        protocol["max_rows"] = arguments.max_rows
        name += f"-{arguments.max_rows}"  # other rows, other results
    file = HERE / "results" / f"{name}.jsonl"
    if not arguments.show:
        if arguments.data is None:
            parser.error("--data DIR is needed to run fits")
        fits = missing_fits(protocol, read_results(file), arguments)
        file.parent.mkdir(exist_ok=True)
        # Fits on the same rows share the k-means of their inducing inputs.
        with tempfile.TemporaryDirectory() as memory:
            tasks = (delayed(run_fit)(arguments.data, protocol, fit, memory) for fit in fits)
            rows = Parallel(n_jobs=arguments.n_jobs, return_as="generator_unordered")(tasks)
            for number, row in enumerate(rows, start=1):
                with open(file, "a") as out:
                    out.write(json.dumps(row) + "\n")
                print(f"{number}/{len(fits)} {json.dumps(row)}", flush=True)
    results = read_results(file)
    print(render(protocol, results))
    if arguments.pictures is not None:
        draw(protocol, results, arguments.pictures, name)


if __name__ == "__main__":
    main()
