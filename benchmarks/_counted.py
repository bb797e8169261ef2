"""Printed numbers beside ours, and how many of them were run and reached.

A paper is an entry of benchmarks/cells.toml.
"""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

from benchmarks._protocol import Table
from benchmarks._protocol import tables as tables_of
from benchmarks._render import (
    Number,
    Row,
    chosen,
    gain,
    means,
    metrics,
    printed_names,
    printed_numbers,
)

Paper = dict[str, Any]
TOLERANCE = 1e-9  # of differences of decimals


class Ours(NamedTuple):
    """Our mean over splits, under the names of the protocol."""

    dataset: str
    method: str
    value: float
    splits: int


class Cell(NamedTuple):
    """A printed number, under the names of the paper, and ours if it was run.

    `at_hand` says whether the protocol has the set.
    """

    table: str
    dataset: str
    method: str
    metric: str
    printed: Number
    at_hand: bool
    ours: Ours | None

    def behind(self, paper: Paper) -> float:
        """By how much ours is the worse score; negative where it is the better one."""
        assert self.ours is not None
        ours = self.ours.value
        if paper.get("rounded"):
            ours = round(ours, self.printed.digits)
        return -gain(self.metric, ours, self.printed.value)

    def shortfall(self, paper: Paper) -> float:
        """What `behind` is compared with the rule: as it is, or relative to the printed number."""
        behind = self.behind(paper)
        return behind / abs(self.printed.value) if paper["rule"] == "share" else behind

    def within(self, paper: Paper, rule: str) -> bool:
        """Whether ours is as good as a rule asks."""
        allowed = {
            "mean": 0.0,
            "standard error": self.printed.error,
            "share": paper.get("share", 0.0) * abs(self.printed.value),
        }
        return self.behind(paper) <= allowed[rule] + TOLERANCE


def cells_of(paper: Paper, protocol: Table, results: list[Row]) -> list[Cell]:
    """Every number of the counted tables, but those of sets that have too few rows.

    Of several of our methods that have one name in the paper, the first in the protocol counts.
    """
    left_out = paper.get("without", [])
    group_of = {title: i for i, titles in enumerate(paper["tables"]) for title in titles}

    def key(title: str, *names: str) -> tuple[Any, ...]:
        dataset, method, metric = names
        method = paper.get("names", {}).get(title, {}).get(method, method)
        return group_of[title], dataset, method, metric

    found: dict[tuple[Any, ...], Ours] = {}
    known, small = set(), set()
    for table in tables_of(protocol):
        titles = [title for title in table.get("published", []) if title in group_of]
        if not titles or (paper.get("whole") and table.get("max_rows")):
            continue
        sets = table.get("published_sets", {})
        known |= {sets.get(dataset, dataset) for dataset in table["datasets"]}
        for (dataset, method), cell in means(table, chosen(table, results)).items():
            is_part = paper.get("whole") and "train_rows" in table["methods"][method]
            if is_part or method in left_out:
                continue
            names = printed_names(table, dataset, method)
            if cell["n_train"] < paper.get("min_train", 0):
                small.add(names[0])
                continue
            for title, metric in itertools.product(titles, metrics(table)):
                ours = Ours(dataset, method, cell[metric], int(cell["splits"]))
                found.setdefault(key(title, *names, metric), ours)
    return [
        Cell(*place, number, place[1] in known, found.get(key(*place)))
        for place, number in printed_numbers(protocol["paper"]).items()
        if place[0] in group_of and place[3] in paper["metrics"] and place[1] not in small
    ]


class Count(NamedTuple):
    """How many numbers are printed, are of our sets, were run, and are as good as rules ask."""

    what: str
    printed: int
    at_hand: int
    run: int
    at_mean: int
    within_error: int
    reached: int
    splits: tuple[int, int] | None  # the fewest and the most, of those that were run

    @classmethod
    def of(cls, what: str, cells: list[Cell], paper: Paper) -> "Count":
        """The count of some cells."""
        run = [cell for cell in cells if cell.ours is not None]
        splits = [cell.ours.splits for cell in cells if cell.ours is not None]

        def good(rule: str) -> int:
            return sum(cell.within(paper, rule) for cell in run)

        return cls(
            what=what,
            printed=len(cells),
            at_hand=sum(cell.at_hand for cell in cells),
            run=len(run),
            at_mean=good("mean"),
            within_error=good("standard error"),
            reached=good(paper["rule"]),
            splits=(min(splits), max(splits)) if splits else None,
        )

    def percent(self, paper: Paper) -> float:
        """Per cent reached, of what the bound counts."""
        whole = self.run if paper["asked"]["of"] == "run" else self.printed
        return 100.0 * self.reached / whole if whole else 0.0

    def is_met(self, paper: Paper) -> bool:
        """Whether the bound holds."""
        asked = paper["asked"]
        return (
            self.run >= asked.get("run", 0)
            and self.percent(paper) >= asked["percent"]
            and self.splits is not None
            and self.splits[0] >= asked.get("splits", 1)
        )


def counts_of(paper: Paper, cells: list[Cell]) -> list[Count]:
    """A count for each table or metric, and one of all if the paper has it."""
    names = sorted(itertools.chain(*paper["tables"]))
    counts = [
        Count.of(name, [cell for cell in cells if name == getattr(cell, paper["by"])], paper)
        for name in (names if paper["by"] == "table" else paper["metrics"])
    ]
    return counts + ([Count.of("all", cells, paper)] if paper.get("total") else [])


def bounded(paper: Paper, counts: list[Count]) -> list[Count]:
    """The counts that the bound is on."""
    return [count for count in counts if count.what in paper["asked"].get("on", [count.what])]


def missed(paper: Paper, cells: Iterable[Cell]) -> list[tuple[Cell, list[str]]]:
    """What was run and not reached, nearest first in each metric, with the tables that print it."""
    tables: dict[tuple[Any, ...], list[str]] = {}
    first: dict[tuple[Any, ...], Cell] = {}
    for cell in cells:
        if cell.ours is not None and not cell.within(paper, paper["rule"]):
            key = (cell.ours.dataset, cell.ours.method, cell.metric)
            first.setdefault(key, cell)
            tables.setdefault(key, []).append(cell.table)
    order = sorted(first, key=lambda k: (paper["metrics"].index(k[2]), first[k].shortfall(paper)))
    return [(first[key], tables[key]) for key in order]
