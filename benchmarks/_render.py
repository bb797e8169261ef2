"""Results as Markdown: ours beside the published numbers, and average ranks."""

import csv
from collections import defaultdict
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks._protocol import HERE, settings

METRICS = ("NLL", "RMSE", "CRPS", "coverage90")
RANKED = ("NLL", "RMSE", "CRPS")
Row = dict[str, Any]


def published(protocol: dict[str, Any]) -> dict[tuple[str, str, str, str], float]:
    """Published values of the paper by (table, data set, method, metric)."""
    with open(HERE / "published.csv", newline="") as file:
        return {
            (row["table"], row["dataset"], row["method"], row["metric"]): float(row["value"])
            for row in csv.DictReader(file)
            if row["paper"] == protocol["paper"]
        }


def chosen(protocol: dict[str, Any], results: list[Row]) -> list[Row]:
    """For each set, method and split the setting with the best validation NLL."""
    groups = defaultdict(list)
    for row in results:
        if row["method"] in protocol["methods"] and row["params"] in settings(
            protocol, row["method"]
        ):
            groups[row["dataset"], row["method"], row["split"]].append(row)
    # Protocols without a grid have one row in each group, perhaps without a validation score.
    return [min(rows, key=lambda row: row.get("validation_NLL", 0.0)) for rows in groups.values()]


def means(rows: list[Row]) -> dict[tuple[str, str], dict[str, float]]:
    """Means over splits by (data set, method), in the order of the rows."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["dataset"], row["method"]].append(row)
    return {
        key: {
            "splits": len(group),
            **{name: float(np.mean([row[name] for row in group])) for name in METRICS},
            "seconds": float(np.mean([row["seconds"] for row in group])),
        }
        for key, group in groups.items()
    }


def average_ranks(
    protocol: dict[str, Any], rows: list[Row], methods: list[str]
) -> tuple[dict[tuple[str, str], float], int]:
    """Average rank by (method, metric) over the sets that every method has, and their number."""
    cells = means(rows)
    sets = [d for d in protocol["datasets"] if all((d, method) in cells for method in methods)]
    ranks = {}
    for metric in RANKED if sets else ():
        values = [[cells[dataset, method][metric] for method in methods] for dataset in sets]
        for method, rank in zip(methods, rankdata(values, axis=1).mean(0), strict=True):
            ranks[method, metric] = float(rank)
    return ranks, len(sets)


def render(protocol: dict[str, Any], results: list[Row]) -> str:
    """The table of all sets and the paper's rankings; published numbers in parentheses."""
    rows = chosen(protocol, results)
    reference = published(protocol)
    lines = _table(["set", "method", "splits", *METRICS, "seconds a fit"])
    cells = means(rows)
    order = {
        key: (protocol["datasets"].index(key[0]), list(protocol["methods"]).index(key[1]))
        for key in cells
    }
    for dataset, method in sorted(cells, key=order.__getitem__):
        cell = cells[dataset, method]
        name = protocol["methods"][method].get("published", method)
        numbers = [
            _beside(cell[m], reference.get((protocol.get("table", ""), dataset, name, m)))
            for m in METRICS
        ]
        lines += _row(
            [dataset, method, f"{cell['splits']:.0f}", *numbers, f"{cell['seconds']:.0f}"]
        )
    for ranking in protocol.get("rankings", []):
        ranks, n_sets = average_ranks(protocol, rows, ranking["methods"])
        lines += ["", f"{ranking['title']}: average ranks over {n_sets} sets", ""]
        lines += _table(["method", *RANKED])
        for method in ranking["methods"] if ranks else ():
            theirs = [
                reference.get((ranking["title"], "avg12", method, f"rank_{m}")) for m in RANKED
            ]
            ours = [ranks[method, m] for m in RANKED]
            lines += _row(
                [method, *(_beside(*pair, digits=2) for pair in zip(ours, theirs, strict=True))]
            )
    return "\n".join(lines)


def _beside(ours: float, theirs: float | None, digits: int = 3) -> str:
    return f"{ours:.{digits}f}" + ("" if theirs is None else f" ({theirs:.{digits}f})")


def _row(cells: list[str]) -> list[str]:
    return [f"| {' | '.join(cells)} |"]


def _table(header: list[str]) -> list[str]:
    return [*_row(header), "|---" * len(header) + "|"]
