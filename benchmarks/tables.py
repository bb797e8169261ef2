"""Rerun a paper's table from its protocol file and print ours beside the published numbers.

    python -m benchmarks.tables dspp2020 --data DIR [--datasets elevators ...] [--n-jobs 2]

Each finished fit is one line of benchmarks/results/<protocol>.jsonl; a run that was killed goes on
where it stopped, because a fit whose line is there (same set, method, split and parameters) is not
run again. `--show` prints the table from that file alone.
"""

import argparse
import csv
import itertools
import json
import time
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

import skgp
from skgp import scoring

HERE = Path(__file__).parent
METRICS = ("NLL", "RMSE", "CRPS", "coverage90")


def load_protocol(name: str) -> dict[str, Any]:
    """The protocol file of a paper."""
    with open(HERE / "protocols" / f"{name}.toml", "rb") as file:
        return tomllib.load(file)


def load_split(
    path: Path, shares: list[int], split: int
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Training and test rows of one random split; y in units of the training rows' deviation.

    The validation share is set aside: one setting serves all sets, so nothing is chosen on it.
    """
    archive = np.load(path)
    X, y = archive["X"].astype(float), archive["y"].astype(float)
    order = np.random.default_rng(split).permutation(len(X))
    bounds = (np.cumsum(shares) / np.sum(shares) * len(X)).astype(int)
    train, test = order[: bounds[0]], order[bounds[0] : bounds[1]]
    y = (y - y[train].mean()) / y[train].std()
    return (X[train], y[train]), (X[test], y[test])


def run_fit(path: Path, protocol: dict[str, Any], method: str, split: int) -> dict[str, Any]:
    """Fit and score one method on one split."""
    settings = protocol["methods"][method]
    (X, y), (X_test, y_test) = load_split(path, protocol["shares"], split)
    estimator = getattr(skgp, settings["estimator"])(**settings["params"])
    start = time.perf_counter()
    estimator.fit(X, y)
    fit_seconds = time.perf_counter() - start
    dist = estimator.predict_dist(X_test)
    return {
        "dataset": path.stem,
        "method": method,
        "split": split,
        "params": settings["params"],
        "estimator": settings["estimator"],
        "NLL": scoring.nll(y_test, dist),
        "RMSE": scoring.rmse(y_test, dist),
        "CRPS": scoring.crps(y_test, dist),
        "coverage90": scoring.coverage(y_test, dist, coverage=0.9),
        "noise_variance": estimator.noise_variance_,
        "seconds": round(fit_seconds, 1),
        "threads": torch.get_num_threads(),
        "n_iter": estimator.n_iter_,
        "n_train": len(X),
        "version": skgp.__version__,
    }


def read_results(file: Path) -> list[dict[str, Any]]:
    """Every line of a results file."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


def is_done(
    results: list[dict[str, Any]], protocol: dict[str, Any], dataset: str, method: str, split: int
) -> bool:
    """Whether a fit's line is in the results."""
    wanted = (dataset, method, split, protocol["methods"][method]["params"])
    return any((r["dataset"], r["method"], r["split"], r["params"]) == wanted for r in results)


def published(protocol: dict[str, Any]) -> dict[tuple[str, str, str], float]:
    """Published values by (dataset, method, metric)."""
    with open(HERE / "published.csv", newline="") as file:
        return {
            (row["dataset"], row["method"], row["metric"]): float(row["value"])
            for row in csv.DictReader(file)
            if row["paper"] == protocol["paper"]
            and row["table"] == protocol["table"]
            and row["protocol"] in protocol["protocols"]
        }


def render(protocol: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """Ours beside the published numbers as a Markdown table; means over splits."""
    reference = published(protocol)
    groups = defaultdict(list)
    for row in results:
        if row["params"] == protocol["methods"].get(row["method"], {}).get("params"):
            groups[row["dataset"], row["method"]].append(row)
    lines = [
        "| set | method | splits | " + " | ".join(METRICS) + " | seconds a fit |",
        "|---" * (len(METRICS) + 4) + "|",
    ]
    for (dataset, method), rows in groups.items():
        cells = []
        for metric in METRICS:
            cell = f"{np.mean([row[metric] for row in rows]):.3f}"
            theirs = reference.get((dataset, protocol["methods"][method]["published"], metric))
            cells.append(cell if theirs is None else f"{cell} ({theirs:.3f})")
        seconds = np.mean([row["seconds"] for row in rows])
        lines.append(
            f"| {dataset} | {method} | {len(rows)} | {' | '.join(cells)} | {seconds:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("protocol", nargs="?", default="dspp2020")
    parser.add_argument("--data", type=Path, help="folder that holds the data sets")
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--splits", type=int, help="number of splits, the protocol's if absent")
    parser.add_argument("--n-jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--show", action="store_true", help="print the table, fit nothing")
    arguments = parser.parse_args()
    protocol = load_protocol(arguments.protocol)
    file = HERE / "results" / f"{arguments.protocol}.jsonl"
    if not arguments.show:
        if arguments.data is None:
            parser.error("--data DIR is needed to run fits")
        fits = itertools.product(
            range(arguments.splits or protocol["n_splits"]),
            arguments.datasets or protocol["datasets"],
            arguments.methods or protocol["methods"],
        )
        results = read_results(file)
        missing = [
            delayed(run_fit)(
                arguments.data / protocol["folder"] / f"{dataset}.npz", protocol, method, split
            )
            for split, dataset, method in fits
            if not is_done(results, protocol, dataset, method, split)
        ]
        rows = Parallel(n_jobs=arguments.n_jobs, return_as="generator_unordered")(missing)
        file.parent.mkdir(exist_ok=True)
        for row in rows:
            with open(file, "a") as out:
                out.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
    print(render(protocol, read_results(file)))


if __name__ == "__main__":
    main()
