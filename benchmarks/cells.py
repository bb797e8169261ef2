"""The page of how many printed numbers were run and reached, from benchmarks/cells.toml.

python -m benchmarks.cells > doc/benchmarks/cells.md
"""

import tomllib
from typing import Any, NamedTuple

from benchmarks._counted import Cell, Count, Paper, bounded, cells_of, counts_of, missed
from benchmarks._markdown import head, line
from benchmarks._protocol import HERE, load_protocol, results_of, tables
from benchmarks._render import RANKED, Row, average_ranks, chosen, published, published_ranks

PAGE = "doc/benchmarks/cells.md"
_TOP = f"""\
# How many printed numbers are reached

`python -m benchmarks.cells > {PAGE}` writes this page from `benchmarks/results`,
`benchmarks/published.csv` and `benchmarks/cells.toml`, which says what is counted and asked. Ours
are means over the splits that were run, whose number each line has. A bound that asks for more
splits is not met before they are there. "Of our sets" counts numbers of data sets that the protocol
has. Where several of our methods have one name in a paper, the first in the protocol counts.
"""


class Place(NamedTuple):
    """The method that a paper has first in an average rank, and who is first here."""

    table: str
    metric: str
    first: str
    printed: float
    rank: float
    ours_first: str
    ours_rank: float
    sets: int
    splits: tuple[int, int]

    def is_met(self) -> bool:
        """Whether no other method is ahead of it here."""
        return self.rank == self.ours_rank


def load_cells() -> dict[str, Any]:
    """What benchmarks/cells.toml says."""
    with open(HERE / "cells.toml", "rb") as file:
        return tomllib.load(file)


def first_places(ranks: Paper, protocol: dict[str, Any], results: list[Row]) -> list[Place]:
    """The first place of each ranking in each score."""
    (table,) = tables(protocol)
    rows = chosen(table, results)
    places = []
    for ranking in table["rankings"]:
        title, methods = ranking["title"], ranking["methods"]
        if title not in ranks["tables"]:
            continue
        theirs = published_ranks(ranking, [], published(table), {})
        ours, n_sets = average_ranks(table, rows, methods)
        for metric in RANKED:
            first, best = _first(theirs, methods, metric), _first(ours, methods, metric)
            values = theirs[first, metric], ours[first, metric], best, ours[best, metric]
            places.append(Place(title, metric, first, *values, n_sets, _splits(rows, methods)))
    return places


def _first(ranks: dict[tuple[str, str], float], methods: list[str], metric: str) -> str:
    """The method with the best rank."""
    return min(methods, key=lambda method: ranks[method, metric])


def _splits(rows: list[Row], methods: list[str]) -> tuple[int, int]:
    """The fewest and the most splits of a set and a method."""
    fits = [(row["dataset"], row["method"]) for row in rows if row["method"] in methods]
    counts = [fits.count(fit) for fit in set(fits)]
    return min(counts), max(counts)


def render(papers: list[tuple[Paper, list[Cell]]], ranks: Paper, places: list[Place]) -> str:
    """The page."""
    lines = [_TOP, *_bound_lines(papers, ranks, places)]
    for paper, cells in papers:
        lines += ["", f"## {paper['title']}", "", paper["says"], ""]
        lines += _count_lines(paper, counts_of(paper, cells))
        lines += _missed_lines(paper, cells)
    return "\n".join([*lines, *_place_lines(ranks, places)]) + "\n"


def _bound_lines(
    papers: list[tuple[Paper, list[Cell]]], ranks: Paper, places: list[Place]
) -> list[str]:
    """What is asked of each paper, and whether it is met."""
    lines = head(["numbers", "printed", "run", "reached", "splits", "asked", "met"])
    for paper, cells in papers:
        for count in bounded(paper, counts_of(paper, cells)):
            titles = sorted(title for group in paper["tables"] for title in group)
            what = _joined(titles) if count.what == "all" else count.what
            numbers = str(count.printed), str(count.run), _share(count, paper), _span(count.splits)
            asked = _asked(paper["asked"]), _yes(count.is_met(paper))
            lines += line([f"{paper['title']}: {what}", *numbers, *asked])
    bound = [place for place in places if place.metric in ranks["bound"]]
    met = sum(place.is_met() for place in bound)
    name = f"{ranks['title']}: first places, {_joined(ranks['tables'])}"
    numbers = str(len(bound)), str(len(bound)), str(met), _span(bound[0].splits)
    return lines + line([name, *numbers, "all", _yes(met == len(bound))])


def _count_lines(paper: Paper, counts: list[Count]) -> list[str]:
    """A line for each count."""
    share = f"reached of those {paper['asked']['of']}"
    columns = [
        "printed",
        "of our sets",
        "run",
        "at the mean or better",
        "within the standard error",
        share,
    ]
    lines = head([paper["by"], *columns, "splits"])
    for count in counts:
        numbers = count.printed, count.at_hand, count.run, count.at_mean, count.within_error
        lines += line([count.what, *map(str, numbers), _share(count, paper), _span(count.splits)])
    return lines


def _missed_lines(paper: Paper, cells: list[Cell]) -> list[str]:
    """What was run and not reached."""
    behind = "behind, %" if paper["rule"] == "share" else "behind"
    names = ["set", "method", "score", "splits", "ours", "printed", behind, "table"]
    found = missed(paper, cells)
    if not found:
        return ["", "All that were run are reached."]
    lines = ["", "Run and not reached, the nearest first:", "", *head(names)]
    for cell, titles in found:
        assert cell.ours is not None
        number, digits = cell.printed, cell.printed.digits
        shortfall = cell.shortfall(paper)
        lines += line(
            [
                cell.ours.dataset,
                cell.ours.method,
                cell.metric,
                str(cell.ours.splits),
                f"{cell.ours.value:.{digits + 1}f}",
                f"{number.value:.{digits}f} ± {number.error:.{digits}f}",
                f"{100 * shortfall:.1f}" if paper["rule"] == "share" else f"{shortfall:.3f}",
                ", ".join(title.removeprefix("Table ") for title in titles),
            ]
        )
    return lines


def _place_lines(ranks: Paper, places: list[Place]) -> list[str]:
    """A line for each ranking and score."""
    names = ["table", "rank in", "first in the paper", "its rank here", "first here"]
    lines = ["", f"## {ranks['title']}", "", ranks["says"], ""]
    lines += head([*names, "sets", "splits", "the paper's"])
    for place in places:
        lines += line(
            [
                place.table,
                place.metric,
                f"{place.first} ({place.printed:.2f})",
                f"{place.rank:.2f}",
                f"{place.ours_first} ({place.ours_rank:.2f})",
                str(place.sets),
                _span(place.splits),
                _yes(place.is_met()),
            ]
        )
    return lines


def _joined(titles: list[str]) -> str:
    """Names of tables, the word only once."""
    if len(titles) == 1:
        return titles[0]
    numbers = [title.removeprefix("Table ") for title in titles]
    return f"Tables {', '.join(numbers[:-1])} and {numbers[-1]}"


def _asked(asked: dict[str, Any]) -> str:
    """The bound in words."""
    parts = [f"{asked['run']} run"] if "run" in asked else []
    parts += [f"{asked['percent']} % of those {asked['of']}"]
    parts += [f"{asked['splits']} splits"] if "splits" in asked else []
    return ", ".join(parts)


def _share(count: Count, paper: Paper) -> str:
    return f"{count.reached} ({count.percent(paper):.1f} %)"


def _span(splits: tuple[int, int] | None) -> str:
    if splits is None:
        return ""
    least, most = splits
    return str(least) if least == most else f"{least} to {most}"


def _yes(is_met: bool) -> str:
    return "yes" if is_met else "no"


def page() -> str:
    """The page of the committed results."""
    known = load_cells()
    names = [paper["protocol"] for paper in known["papers"]]
    papers = [
        (paper, cells_of(paper, load_protocol(name), results_of(name)))
        for paper, name in zip(known["papers"], names, strict=True)
    ]
    name = known["ranks"]["protocol"]
    places = first_places(known["ranks"], load_protocol(name), results_of(name))
    return render(papers, known["ranks"], places)


if __name__ == "__main__":
    print(page(), end="")
