"""Methods by the number of training rows: ranks, coverage, and the worst set of each."""

import itertools
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks._markdown import head, line

Cells = dict[tuple[str, str], dict[str, float]]  # means over splits by (data set, method)
NEAR = {"NLL": 0.05, "CRPS": 0.03}  # nats above the baseline, share of the baseline above it
FORMATS = {"NLL": "{:+.2f}", "CRPS": "{:+.0%}"}


def size_lines(table: dict[str, Any], cells: Cells) -> list[str]:
    """A table each of ranks in NLL and CRPS, of coverage, and of distances from the baselines."""
    methods = [method for method in table["methods"] if any(method == m for _, m in cells)]
    classes = size_classes(cells, table["by_size"]["bounds"])
    names = [f"{title} ({len(sets)} sets)" for title, sets in classes.items()]
    lines = []
    for metric in NEAR:
        ranks = [average_ranks(cells, sets, methods, metric) for sets in classes.values()]
        lines += ["", f"Average rank in {metric} of the methods that have all sets and folds", ""]
        lines += head(["method", *names])
        for method in methods:
            places = [f"{rank[method]:.2f}" if method in rank else "" for rank in ranks]
            lines += line([method, *places])
    lines += ["", "Coverage of 90 % intervals, mean over the sets that a method has", ""]
    lines += head(["method", *names])
    for method in methods:
        shares = [
            [cells[name, method]["coverage90"] for name in sets if (name, method) in cells]
            for sets in classes.values()
        ]
        lines += line([method, *(f"{np.mean(values):.3f}" if values else "" for values in shares)])
    return lines + distance_lines(cells, methods, table["by_size"]["baselines"])


def size_classes(cells: Cells, bounds: list[int]) -> dict[str, list[str]]:
    """The sets by their number of training rows, in classes that the bounds part."""
    rows = {dataset: cell["n_train"] for (dataset, _), cell in cells.items()}
    classes = {}
    for least, bound in itertools.pairwise([0, *bounds, np.inf]):
        title = f"below {bound:,}" if not least else f"{least:,} to {bound - 1:,}"
        title = title if bound < np.inf else f"{least:,} or more"
        sets = [dataset for dataset, n_train in rows.items() if least <= n_train < bound]
        classes |= {title: sets} if sets else {}
    return classes


def average_ranks(
    cells: Cells, sets: list[str], methods: list[str], metric: str
) -> dict[str, float]:
    """Average rank of each method that has all of the sets, each with as many splits as any."""
    most = {
        name: max(cell["splits"] for (d, _), cell in cells.items() if d == name) for name in sets
    }
    has_all = {(d, m) for (d, m), cell in cells.items() if cell["splits"] == most.get(d)}
    compared = [m for m in methods if all((dataset, m) in has_all for dataset in sets)]
    values = [[cells[dataset, m][metric] for m in compared] for dataset in sets]
    return dict(zip(compared, rankdata(values, axis=1).mean(0).tolist(), strict=True))


def distances(cells: Cells, method: str, baselines: list[str], metric: str) -> dict[str, float]:
    """By set how far a method is above the best of the baselines: in nats, or relative to it."""
    above = {}
    for dataset in (dataset for dataset, other in cells if other == method):
        scores = [cells[dataset, b][metric] for b in baselines if (dataset, b) in cells]
        if scores:
            gap = cells[dataset, method][metric] - min(scores)
            above[dataset] = gap / min(scores) if metric == "CRPS" else gap
    return above


def distance_lines(cells: Cells, methods: list[str], baselines: list[str]) -> list[str]:
    """For each method its worst set, and on how many it is near the best of the baselines."""
    lines = ["", f"Above the better of {' and '.join(baselines)}", ""]
    names = [
        (f"worst set in {metric}", f"at most {FORMATS[metric].format(near)}")
        for metric, near in NEAR.items()
    ]
    lines += head(["method", *itertools.chain(*names)])
    for method in methods:
        texts = []
        for metric, near in NEAR.items():
            above = distances(cells, method, baselines, metric)
            worst = max(above, key=above.__getitem__, default="")
            texts.append(f"{worst}: {FORMATS[metric].format(above[worst])}" if above else "")
            texts.append(f"{sum(gap <= near for gap in above.values())} of {len(above)} sets")
        lines += line([method, *texts])
    return lines
