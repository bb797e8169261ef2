"""Results as Markdown: ours beside the published numbers, and average ranks."""

import csv
import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks._protocol import HERE, Table, settings

METRICS = ("NLL", "RMSE", "CRPS", "coverage90")
RANKED = ("NLL", "RMSE", "CRPS")
Row = dict[str, Any]
Reference = dict[tuple[str, str, str, str], float]


def published(table: Table) -> Reference:
    """Published values of the paper by (table, data set, method, metric)."""
    with open(HERE / "published.csv", newline="") as file:
        return {
            (row["table"], row["dataset"], row["method"], row["metric"]): float(row["value"])
            for row in csv.DictReader(file)
            if row["paper"] == table["paper"]
        }


def chosen(table: Table, results: list[Row]) -> list[Row]:
    """For each set, method and split the setting with the best validation NLL."""
    groups = defaultdict(list)
    for row in results:
        if (
            row["dataset"] in table["datasets"]
            and row["method"] in table["methods"]
            and row["max_rows"] == table.get("max_rows")
            and row["params"] in settings(table, row["method"])
        ):
            groups[row["dataset"], row["method"], row["split"]].append(row)
    # Tables without a grid have one row in each group, perhaps without a validation score.
    return [min(rows, key=lambda row: row.get("validation_NLL", 0.0)) for rows in groups.values()]


def score(row: Row, metric: str) -> float:
    """A score of a fit; LL is minus the NLL, and our RMSE of several outputs is their mean."""
    if metric == "LL":
        return -float(row["NLL"])
    return float(row["RMSE" if metric == "MRMSE" else metric])


def means(table: Table, rows: list[Row]) -> dict[tuple[str, str], dict[str, float]]:
    """Means over splits by (data set, method)."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["dataset"], row["method"]].append(row)
    return {
        key: {
            name: float(np.mean([score(row, name) for row in groups[key]]))
            for name in (*metrics(table), "seconds")
        }
        | {"splits": len(groups[key])}
        for key in itertools.product(table["datasets"], table["methods"])
        if key in groups
    }


def metrics(table: Table) -> list[str]:
    """The scores that a table shows."""
    return list(table.get("metrics", METRICS))


def average_ranks(
    table: Table, rows: list[Row], methods: list[str]
) -> tuple[dict[tuple[str, str], float], int]:
    """Average rank by (method, metric) over the sets that every method has, and their number."""
    cells = means(table, rows)
    sets = [d for d in table["datasets"] if all((d, method) in cells for method in methods)]
    ranks = {}
    for metric in RANKED if sets else ():
        values = [[cells[dataset, method][metric] for method in methods] for dataset in sets]
        for method, rank in zip(methods, rankdata(values, axis=1).mean(0), strict=True):
            ranks[method, metric] = float(rank)
    return ranks, len(sets)


def render(table: Table, results: list[Row]) -> str:
    """The table of all sets, its averages and its rankings; published numbers in parentheses."""
    rows = chosen(table, results)
    reference = published(table)
    lines = [f"**{table['title']}**", ""] if "title" in table else []
    lines += _table(["set", "method", "splits", *metrics(table), "seconds a fit"])
    cells = means(table, rows)
    theirs = {
        (dataset, method, metric): _published(table, reference, dataset, method, metric)
        for dataset, method, metric in itertools.product(
            table["datasets"], table["methods"], metrics(table)
        )
    }
    for (dataset, method), cell in cells.items():
        numbers = [_beside(cell[m], theirs[dataset, method, m]) for m in metrics(table)]
        lines += _row([dataset, method, str(cell["splits"]), *numbers, f"{cell['seconds']:.0f}"])
    for method in table["methods"] if table.get("average") else ():
        keys = [(dataset, method) for dataset in table["datasets"]]
        if all(key in cells for key in keys):
            numbers = [
                _beside(
                    _mean([cells[key][m] for key in keys]), _mean([theirs[*key, m] for key in keys])
                )
                for m in metrics(table)
            ]
            seconds = sum(cells[key]["seconds"] for key in keys) / len(keys)
            lines += _row([f"mean of {len(keys)}", method, "", *numbers, f"{seconds:.0f}"])
    for ranking in table.get("rankings", []):
        ranks, n_sets = average_ranks(table, rows, ranking["methods"])
        lines += ["", f"{ranking['title']}: average ranks over {n_sets} sets", ""]
        lines += _table(["method", *RANKED])
        for method in ranking["methods"] if ranks else ():
            ours = [ranks[method, m] for m in RANKED]
            places = [
                reference.get((ranking["title"], "avg12", method, f"rank_{m}")) for m in RANKED
            ]
            lines += _row(
                [method, *(_beside(*pair, digits=2) for pair in zip(ours, places, strict=True))]
            )
    return "\n".join(lines)


def _published(
    table: Table, reference: Reference, dataset: str, method: str, metric: str
) -> float | None:
    """What the paper prints, under its own names, in the first of its tables that has it."""
    names = table.get("published_sets", {})
    key = names.get(dataset, dataset), table["methods"][method].get("published", method), metric
    values = (reference.get((name, *key)) for name in table.get("published", []))
    return next((value for value in values if value is not None), None)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _beside(ours: float | None, theirs: float | None, digits: int = 3) -> str:
    return f"{ours:.{digits}f}" + ("" if theirs is None else f" ({theirs:.{digits}f})")


def _row(cells: list[str]) -> list[str]:
    return [f"| {' | '.join(cells)} |"]


def _table(header: list[str]) -> list[str]:
    return [*_row(header), "|---" * len(header) + "|"]
