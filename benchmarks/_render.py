"""Results as Markdown: ours beside the published numbers, and average ranks."""

import csv
import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from benchmarks._markdown import head, line
from benchmarks._protocol import HERE, Table, settings
from benchmarks._sizes import size_lines

METRICS = ("NLL", "RMSE", "CRPS", "coverage90")
RANKED = ("NLL", "RMSE", "CRPS")
Row = dict[str, Any]
Reference = dict[tuple[str, str, str, str], float]
Scores = dict[tuple[str, str], float]  # by (data set, method)
Cells = dict[tuple[str, str], dict[str, float]]
Printed = dict[tuple[str, str, str], float | None]  # by (data set, method, metric)


class Number(NamedTuple):
    """A printed mean, its standard error (NaN where none is printed) and its decimals."""

    value: float
    error: float
    digits: int


def printed_numbers(paper: str | None) -> dict[tuple[str, str, str, str], Number]:
    """What a paper prints by (table, data set, method, metric)."""
    with open(HERE / "published.csv", newline="") as file:
        return {
            (row["table"], row["dataset"], row["method"], row["metric"]): Number(
                float(row["value"]),
                float(row["stderr"] or "nan"),
                len(row["value"].partition(".")[2]),
            )
            for row in csv.DictReader(file)
            if row["paper"] == paper
        }


def published(table: Table) -> Reference:
    """Published values of the paper by (table, data set, method, metric)."""
    return {key: number.value for key, number in printed_numbers(table.get("paper")).items()}


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
    """A score of a fit; our RMSE of several outputs is their mean.

    LL is that of all outputs of a row from as many draws as it takes, or the nested estimate of a
    fit that was scored before there was this one, or minus the NLL.
    """
    if metric == "LL":
        known = [row[name] for name in ("converged_LL", "nested_LL") if name in row]
        return float(known[0] if known else -row["NLL"])
    return float(row["RMSE" if metric == "MRMSE" else metric])


def gain(metric: str, ours: float, theirs: float) -> float:
    """By how much ours is the better score."""
    return ours - theirs if metric == "LL" else theirs - ours


def means(table: Table, rows: list[Row]) -> Cells:
    """Means over splits by (data set, method)."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["dataset"], row["method"]].append(row)
    return {
        key: {
            name: float(np.mean([score(row, name) for row in groups[key]]))
            for name in (*metrics(table), "seconds", "n_train")
        }
        | {f"{name} error": _error(groups[key], name) for name in metrics(table)}
        | {"splits": len(groups[key])}
        for key in itertools.product(table["datasets"], table["methods"])
        if key in groups
    }


def _error(rows: list[Row], metric: str) -> float:
    """Standard error of the mean over splits; NaN for a single one."""
    values = [score(row, metric) for row in rows]
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def metrics(table: Table) -> list[str]:
    """The scores that a table shows."""
    return list(table.get("metrics", METRICS))


def average_ranks(
    table: Table, rows: list[Row], methods: list[str]
) -> tuple[dict[tuple[str, str], float], int]:
    """Average rank by (method, metric) over the sets that every method has, and their number."""
    cells = means(table, rows)
    sets = ranked_sets(table, cells, methods)
    ranks: dict[tuple[str, str], float] = {}
    for metric in RANKED if sets else ():
        values = [[cells[dataset, method][metric] for method in methods] for dataset in sets]
        ranks |= _ranks(values, methods, metric)
    return ranks, len(sets)


def ranked_sets(table: Table, cells: Cells, methods: list[str]) -> list[str]:
    """The sets that every method has."""
    return [d for d in table["datasets"] if all((d, method) in cells for method in methods)]


def _ranks(
    values: Sequence[Sequence[float | None]], methods: list[str], metric: str
) -> dict[tuple[str, str], float]:
    """Average ranks from scores by set and method."""
    ranks = rankdata(np.array(values, dtype=float), axis=1).mean(0)
    return {(method, metric): float(rank) for method, rank in zip(methods, ranks, strict=True)}


def published_ranks(
    ranking: Row, sets: list[str], reference: Reference, theirs: Printed
) -> dict[tuple[str, str], float]:
    """What the paper prints of a ranking, or else the ranks of its means over the same sets."""
    methods = ranking["methods"]
    ranks = {}
    for metric in RANKED:
        for method in methods:
            printed = reference.get((ranking["title"], "avg12", method, f"rank_{metric}"))
            if printed is not None:
                ranks[method, metric] = printed
        values = [[theirs[dataset, method, metric] for method in methods] for dataset in sets]
        if sets and all(value is not None for row in values for value in row):
            ranks = _ranks(values, methods, metric) | ranks
    return ranks


class Comparison(NamedTuple):
    """Methods compared by their scores at places, such as the splits of sets.

    Attributes
    ----------
    gaps : dict
        Method to its differences in score from the baseline by place, where both have one.
    places : list
        Where every method has a score.
    rank : dict
        Method to its average rank over these; the larger the score the larger the rank.
    """

    gaps: dict[str, dict[Any, float]]
    places: list[Any]
    rank: dict[str, float]

    def difference(self, method: str) -> float | None:
        """Median difference of a method from the baseline."""
        gaps = self.gaps[method]
        return float(np.median(list(gaps.values()))) if gaps else None


def compare(
    scores: dict[tuple[Any, str], float], methods: Sequence[str], baseline: str
) -> Comparison:
    """Compare methods by their scores at (place, method)."""
    asked = dict.fromkeys(place for place, _ in scores)
    gaps = {
        method: {
            place: scores[place, method] - scores[place, baseline]
            for place in asked
            if (place, method) in scores and (place, baseline) in scores
        }
        for method in methods
    }
    places = [place for place in asked if all((place, method) in scores for method in methods)]
    if not places:
        return Comparison(gaps, places, {})
    values = np.array([[scores[place, method] for method in methods] for place in places])
    ranks = rankdata(values, axis=1).mean(0)
    return Comparison(gaps, places, dict(zip(methods, ranks.tolist(), strict=True)))


def reached(table: Table, rows: list[Row], theirs: Scores) -> dict[str, tuple[int, int]]:
    """By method at how many sets our mean is at least as good as the published, and of how many.

    Counted are sets with a published score and as many training rows as the table asks for.
    """
    metric, least = table["summary"]["metric"], table["summary"].get("min_train", 0)
    large = {row["dataset"] for row in rows if row["n_train"] >= least}
    gains = defaultdict(list)
    for (dataset, method), cell in means(table, rows).items():
        if dataset in large and (dataset, method) in theirs:
            gains[method].append(gain(metric, cell[metric], theirs[dataset, method]))
    return {
        method: (sum(g >= 0.0 for g in values), len(values)) for method, values in gains.items()
    }


def render(table: Table, results: list[Row]) -> str:
    """The table of all sets, its averages and its rankings; published numbers in parentheses."""
    rows = chosen(table, results)
    reference = published(table)
    lines = [f"**{table['title']}**", ""] if "title" in table else []
    cells = means(table, rows)
    theirs = {
        (dataset, method, metric): _published(table, reference, dataset, method, metric)
        for dataset, method, metric in itertools.product(
            table["datasets"], table["methods"], metrics(table)
        )
    }
    lines += (_wide_lines if table.get("wide") else _long_lines)(table, cells, theirs)
    for ranking in table.get("rankings", []):
        ranks, n_sets = average_ranks(table, rows, ranking["methods"])
        lines += ["", f"{ranking['title']}: average ranks over {n_sets} sets", ""]
        lines += head(["method", *RANKED])
        sets = ranked_sets(table, cells, ranking["methods"])
        known = published_ranks(ranking, sets, reference, theirs)
        for method in ranking["methods"] if ranks else ():
            ours = [ranks[method, m] for m in RANKED]
            places = [known.get((method, m)) for m in RANKED]
            lines += line(
                [method, *(_beside(*pair, digits=2) for pair in zip(ours, places, strict=True))]
            )
    if "summary" in table:
        lines += _summary_lines(table, rows, theirs, reference)
    if "by_size" in table:
        lines += size_lines(table, cells)
    return "\n".join(lines)


def _long_lines(table: Table, cells: Cells, theirs: Printed) -> list[str]:
    """A line for each set and method, with all scores."""
    lines = head(["set", "method", "splits", *metrics(table), "seconds a fit"])
    for (dataset, method), cell in cells.items():
        numbers = [_beside(cell[m], theirs[dataset, method, m]) for m in metrics(table)]
        if table.get("standard_errors") and cell["splits"] > 1:
            errors = [cell[f"{m} error"] for m in metrics(table)]
            numbers = [f"{n} ± {e:.3f}" for n, e in zip(numbers, errors, strict=True)]
        lines += line([dataset, method, str(cell["splits"]), *numbers, f"{cell['seconds']:.0f}"])
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
            lines += line([f"mean of {len(keys)}", method, "", *numbers, f"{seconds:.0f}"])
    return lines


def _wide_lines(table: Table, cells: Cells, theirs: Printed) -> list[str]:
    """A table for each score: a line for each set, with all methods that were fitted.

    A mean over fewer splits than another method has is followed by their number.
    """
    methods = [method for method in table["methods"] if any(method == m for _, m in cells)]
    lines = []
    for name in (*metrics(table), "seconds"):
        lines += [f"{name}:", "", *head(["set", *methods])]
        digits = 0 if name == "seconds" else 3
        for dataset in table["datasets"]:
            ours = [cells.get((dataset, method), {}).get(name) for method in methods]
            known = [theirs.get((dataset, method, name)) for method in methods]
            numbers = [_beside(*pair, digits=digits) for pair in zip(ours, known, strict=True)]
            splits = [cells.get((dataset, method), {}).get("splits", 0) for method in methods]
            marks = [f" [{n}]" if 0 < n < max(splits) else "" for n in splits]
            texts = [number + mark for number, mark in zip(numbers, marks, strict=True)]
            lines += line([dataset, *texts]) if any(numbers) else []
        lines += [""]
    return lines[:-1]


def _summary_lines(
    table: Table,
    rows: list[Row],
    theirs: Printed,
    reference: Reference,
) -> list[str]:
    """The table's summary; that of the published scores of the same sets in parentheses."""
    metric, baseline = table["summary"]["metric"], table["summary"]["baseline"]
    fitted = {row["method"] for row in rows}
    methods = [method for method in table["methods"] if method in fitted]
    ours = compare(
        {((row["dataset"], row["split"]), row["method"]): score(row, metric) for row in rows},
        methods,
        baseline,
    )
    known = {
        (dataset, method): value
        for (dataset, method, name), value in theirs.items()
        if name == metric and value is not None
    }
    counts = reached(table, rows, known)
    ranked = {dataset for dataset, _ in ours.places}
    same_ranked = _of_sets(known, methods, baseline, ranked)
    lines = ["", f"{metric} against {baseline}, ranks over {len(ranked)} sets", ""]
    lines += head(
        ["method", "sets", "median difference", "average rank", "printed", "at least published"]
    )
    for method in methods:
        printed = [
            _printed(table, reference, method, name)
            for name in (
                f"{metric}_median_diff_from_{baseline.replace(' ', '_')}",
                f"rank_{metric}",
            )
        ]
        compared = {dataset for dataset, _ in ours.gaps[method]}
        same = _of_sets(known, [method], baseline, compared)
        good, of = counts.get(method, (0, 0))
        lines += line(
            [
                method,
                str(len(compared)),
                _beside(ours.difference(method), same and same.difference(method)),
                _beside(ours.rank.get(method), same_ranked and same_ranked.rank.get(method), 2),
                ", ".join(f"{value:.2f}" for value in printed if value is not None),
                f"{good} of {of} sets",
            ]
        )
    return lines


def _of_sets(
    scores: Scores, methods: Sequence[str], baseline: str, sets: set[str]
) -> Comparison | None:
    """Comparison over some sets, if all of them have a score of each method and the baseline."""
    if any((dataset, method) not in scores for dataset in sets for method in (*methods, baseline)):
        return None
    return compare({key: scores[key] for key in scores if key[0] in sets}, methods, baseline)


def _printed(table: Table, reference: Reference, method: str, metric: str) -> float | None:
    """What the paper prints of a method over all its sets."""
    name = table["methods"][method].get("published", method)
    values = (
        value
        for (printed, _, *key), value in reference.items()
        if printed in table.get("published", []) and key == [name, metric]
    )
    return next(values, None)


def printed_names(table: Table, dataset: str, method: str) -> tuple[str, str]:
    """Names that the paper has for a data set and a method."""
    names = table.get("published_sets", {})
    return names.get(dataset, dataset), table["methods"][method].get("published", method)


def _published(
    table: Table, reference: Reference, dataset: str, method: str, metric: str
) -> float | None:
    """What the paper prints, under its own names, in the first of its tables that has it."""
    key = *printed_names(table, dataset, method), metric
    values = (reference.get((name, *key)) for name in table.get("published", []))
    return next((value for value in values if value is not None), None)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _beside(ours: float | None, theirs: float | None, digits: int = 3) -> str:
    if ours is None:
        return ""
    return f"{ours:.{digits}f}" + ("" if theirs is None else f" ({theirs:.{digits}f})")
