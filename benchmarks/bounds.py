"""The page of what is asked of the defaults and what they hold, from benchmarks/bounds.toml.

python -m benchmarks.bounds > doc/benchmarks/bounds.md
"""

import tomllib
from typing import Any, NamedTuple

import numpy as np

from benchmarks._markdown import head, line
from benchmarks._protocol import HERE, load_protocol, results_of, tables
from benchmarks._render import Cells, Row, chosen, means, render
from benchmarks._sizes import average_ranks, distances

PAGE = "doc/benchmarks/bounds.md"
_TOP = f"""\
# What the defaults hold

`python -m benchmarks.bounds > {PAGE}` writes this page from `benchmarks/results` and
`benchmarks/bounds.toml`, which says what the project has set itself for models with their default
settings, beside what else there is to try. Scores are means over folds of standardised targets;
in the first two tables only folds count that all methods of a comparison have. "New inputs" are
test rows whose inputs no training row has, of the data sets where these are scored by themselves.
In the tables of scores, [1] is the number of folds of a mean where other methods have more. What
was found out on the way is [another page](defaults.md).
"""
_PARTS = {  # protocols
    "defaults": "Regressors",
    "further": "Regressors on further data sets",
    "classifier-defaults": "Classifiers",
}
Bound = dict[str, Any]


class Verdict(NamedTuple):
    """What a method holds of a bound, and the scores or distances of data sets that miss it."""

    found: str
    is_met: bool
    missed: dict[str, float]

    @classmethod
    def of(cls, values: dict[str, float], bound: float, percent: float, worst: float) -> "Verdict":
        """Whether so many per cent of the data sets are within a bound, and all within another."""
        missed = {name: value for name, value in values.items() if value > bound}
        n_met, largest = len(values) - len(missed), max(values.values(), default=np.nan)
        found = f"{n_met} of {len(values)} sets, worst {largest:.3g}" if values else "not run"
        return cls(found, 100 * n_met >= percent * len(values) and largest <= worst, missed)


def load_bounds() -> list[Bound]:
    """What benchmarks/bounds.toml says."""
    with open(HERE / "bounds.toml", "rb") as file:
        return list(tomllib.load(file)["bounds"])


def cells_of(bound: Bound, methods: list[str]) -> Cells:
    """Means by data set and method, over the folds that all methods fitted on a set have."""
    results = results_of(bound["protocol"])
    cells: Cells = {}
    for table in tables(load_protocol(bound["protocol"])):
        rows = [row for row in chosen(table, results) if row["method"] in methods]
        counted = [row for row in rows if _counts(bound, row, rows)]
        cells |= means(table, _of_new_inputs(counted) if bound.get("new_inputs") else counted)
    return cells


def _of_new_inputs(rows: list[Row]) -> list[Row]:
    """The scores on test rows whose inputs no training row has, of sets that have such scores."""
    new = {row["dataset"] for row in rows} - {r["dataset"] for r in rows if "new_NLL" not in r}
    renamed = [
        row | {name.removeprefix("new_"): row[name] for name in row if name.startswith("new_")}
        for row in rows
    ]
    return [
        after if row["dataset"] in new else row for row, after in zip(rows, renamed, strict=True)
    ]


def _counts(bound: Bound, row: Row, rows: list[Row]) -> bool:
    """Whether a fit is on a set and a fold that count."""
    least, most = bound.get("rows", (0, np.inf))
    if row["dataset"] not in bound.get("datasets", [row["dataset"]]):
        return False
    of_set = [other for other in rows if other["dataset"] == row["dataset"]]
    fitted = {other["method"] for other in of_set}
    n_fits = sum(other["split"] == row["split"] for other in of_set)
    n_train = min(other["n_train"] for other in of_set)
    return n_fits == len(fitted) and least <= n_train < most


def near(bound: Bound, method: str) -> Verdict:
    """Whether a method is near the best of the baselines."""
    cells = cells_of(bound, [method, *bound["baselines"]])
    above = distances(cells, method, bound["baselines"], bound["metric"])
    return Verdict.of(above, bound["within"], bound["percent"], bound.get("worst", np.inf))


def most(bound: Bound, method: str) -> Verdict:
    """Whether no data set has a larger score."""
    return Verdict.of(_scores(bound, method), bound["most"], 100, np.inf)


def between(bound: Bound, method: str) -> Verdict:
    """Whether the mean over data sets is in a range."""
    least, largest = bound["range"]
    scores = list(_scores(bound, method).values())
    if not scores:
        return Verdict("not run", False, {})
    mean = np.mean(scores)
    return Verdict(f"{mean:.3f}", bool(least <= mean <= largest), {})


def ahead(bound: Bound, method: str) -> Verdict:
    """Whether the average rank of a method is before that of each of the others."""
    methods = [method, *bound["others"]]
    cells = cells_of(bound, methods)
    sets = [name for name, m in cells if m == method if all((name, o) in cells for o in methods)]
    ranks = average_ranks(cells, sets, methods, bound["metric"])
    others = {name: ranks[name] for name in bound["others"]}
    best = min(others, key=others.__getitem__)
    found = f"{ranks[method]:.2f}, {best} {others[best]:.2f}"
    return Verdict(found, ranks[method] < others[best], {})


def _scores(bound: Bound, method: str) -> dict[str, float]:
    """The score of a method by data set."""
    cells = cells_of(bound, [method])
    return {dataset: cell[bound["metric"]] for (dataset, _), cell in cells.items()}


RULES = {rule.__name__: rule for rule in (near, most, between, ahead)}


def asked(bound: Bound) -> str:
    """A bound in words."""
    match bound["rule"]:
        case "near":
            share, baselines = bound["metric"] == "CRPS", " and ".join(bound["baselines"])
            amount = f"{100 * bound['within']:g} %" if share else f"{bound['within']:g}"
            best = f"the better of {baselines}" if len(bound["baselines"]) > 1 else baselines
            worst = f", never more than {bound['worst']} above it" if "worst" in bound else ""
            return f"at most {amount} above {best} on {bound['percent']} % of the sets{worst}"
        case "most":
            return f"at most {bound['most']:g}"
        case "between":
            return "{} to {} in the mean".format(*bound["range"])
        case _:
            return f"average rank ahead of {', '.join(bound['others'])}"


def where(bound: Bound) -> str:
    """The data sets of a bound in words."""
    least, largest = bound.get("rows", (0, np.inf))
    text = ", ".join(bound.get("datasets", [])) or "all"
    if "rows" in bound:
        text = f"{least:,} to {largest - 1:,} rows" if least else f"below {largest:,} rows"
    if bound["protocol"] == "further":
        text = f"further sets, {text}"
    return f"{text}, new inputs" if bound.get("new_inputs") else text


def page() -> str:
    """The page of the committed results."""
    lines = [_TOP, *head(["score", "sets", "asked", "method", "found", "met"])]
    missed = [
        "",
        "## Data sets that miss a bound",
        "",
        *head(["score", "sets", "method", "by set"]),
    ]
    for bound in load_bounds():
        for method in bound["methods"]:
            verdict = RULES[bound["rule"]](bound, method)
            names = [bound["metric"], where(bound)]
            met = "yes" if verdict.is_met else "no"
            lines += line([*names, asked(bound), method, verdict.found, met])
            if verdict.missed:
                worst_first = sorted(verdict.missed.items(), key=lambda item: -item[1])
                texts = [f"{name} {value:.3g}" for name, value in worst_first]
                missed += line([*names, method, ", ".join(texts)])
    return "\n".join([*lines, *missed, *_tables()]) + "\n"


def _tables() -> list[str]:
    """All scores that the verdicts are drawn from."""
    lines = []
    for name, title in _PARTS.items():
        lines += ["", f"## {title}", "", f"`python -m benchmarks.tables {name} --data DIR`"]
        for table in tables(load_protocol(name)):
            lines += ["", render(table, results_of(name))]
    return lines


if __name__ == "__main__":
    print(page(), end="")
