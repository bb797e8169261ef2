"""Printed numbers that were run and reached are counted as by hand."""

import itertools

import pytest

from benchmarks import _counted, cells
from benchmarks._counted import Cell, Count, Ours, bounded, cells_of, counts_of, missed
from benchmarks._protocol import HERE, load_protocol, results_of
from benchmarks._protocol import tables as tables_of
from benchmarks._render import Number, chosen, printed_numbers, published, reached

MEAN = {"rule": "mean"}
ERROR = {"rule": "standard error"}
ROUNDED = {"rule": "standard error", "rounded": True}
SHARE = {"rule": "share", "share": 0.05}

# A model with a name for each of two tables, a set of few rows, and one that is not at hand.
PRINTED = {
    ("Table 1", "first", "a", "LL"): Number(2.0, 0.1, 1),
    ("Table 1", "first", "a", "RMSE"): Number(1.0, 0.1, 1),
    ("Table 1", "first", "B", "LL"): Number(-4.0, 0.1, 1),
    ("Table 2", "first", "B (long)", "LL"): Number(-4.0, 0.1, 1),
    ("Table 2", "first", "c", "LL"): Number(3.0, 0.1, 1),
    ("Table 2", "first", "d", "LL"): Number(3.0, 0.1, 1),
    ("Table 2", "tiny", "a", "LL"): Number(3.0, 0.1, 1),
    ("Table 2", "elsewhere", "a", "LL"): Number(3.0, 0.1, 1),
    ("Table 3", "first", "a", "LL"): Number(9.0, 0.1, 1),
}
PROTOCOL = {
    "paper": "x",
    "datasets": ["one", "tiny"],
    "published_sets": {"one": "first"},
    "metrics": ["LL", "RMSE"],
    "tables": [
        {
            "published": ["Table 1", "Table 3"],
            "methods": {
                "left out": {"published": "a"},
                "a": {},
                "a, variant": {"published": "a"},
                "b": {"published": "B"},
            },
        },
        {"published": ["Table 2"], "methods": {"part": {"published": "c", "train_rows": 5}}},
        {"published": ["Table 2"], "max_rows": 5, "methods": {"d": {}}},
    ],
}
PAPER = SHARE | {
    "tables": [["Table 1", "Table 2"]],
    "names": {"Table 1": {"B": "B (long)"}},
    "metrics": ["RMSE", "LL"],
    "without": ["left out"],
    "whole": True,
    "min_train": 10,
    "by": "table",
    "total": True,
    "title": "X",
    "says": "How.",
}


def fit(method, split, ll, rmse, dataset="one", n_train=20, max_rows=None):
    place = {"dataset": dataset, "method": method, "split": split, "params": {}}
    return place | {
        "NLL": -ll,
        "RMSE": rmse,
        "seconds": 1.0,
        "n_train": n_train,
        "max_rows": max_rows,
    }


RESULTS = [
    fit("left out", 0, 9.0, 0.1),
    fit("a, variant", 0, 9.0, 0.1),
    fit("a", 0, 1.5, 1.2),
    fit("a", 1, 1.7, 1.0),
    fit("b", 0, -4.2, 1.0),
    fit("part", 0, 9.0, 0.1),
    fit("d", 0, 9.0, 0.1, max_rows=5),
    fit("a", 0, 9.0, 0.1, dataset="tiny", n_train=9),
]


@pytest.fixture
def counted(monkeypatch):
    """The numbers of the example."""
    monkeypatch.setattr(_counted, "printed_numbers", lambda paper: PRINTED if paper == "x" else {})
    return cells_of(PAPER, PROTOCOL, RESULTS)


@pytest.mark.parametrize(
    ("paper", "metric", "printed", "ours", "is_reached"),
    [
        (MEAN, "LL", (2.0, 0.5, 1), 2.0, True),
        (MEAN, "LL", (2.0, 0.5, 1), 1.99, False),
        (MEAN, "RMSE", (2.0, 0.5, 1), 2.01, False),
        (MEAN, "RMSE", (2.0, 0.5, 1), 1.0, True),
        (ERROR, "NLL", (-0.712, 0.006, 3), -0.706, True),
        (ERROR, "NLL", (-0.712, 0.006, 3), -0.7059, False),
        (ERROR, "RMSE", (0.06, 0.01, 2), 0.0749, False),
        (ROUNDED, "RMSE", (0.06, 0.01, 2), 0.0749, True),
        (ROUNDED, "RMSE", (0.06, 0.01, 2), 0.0751, False),
        (ROUNDED, "RMSE", (0.0, 0.0, 2), 0.0049, True),
        (SHARE, "LL", (10.0, 3.0, 1), 9.5, True),
        (SHARE, "LL", (10.0, 3.0, 1), 9.49, False),
        (SHARE, "LL", (-10.0, 3.0, 1), -10.5, True),
        (SHARE, "LL", (-10.0, 3.0, 1), -10.51, False),
        (SHARE, "MRMSE", (0.1, 0.03, 3), 0.105, True),
        (SHARE, "MRMSE", (0.1, 0.03, 3), 0.1051, False),
        (SHARE, "MRMSE", (0.1, 0.03, 3), 0.02, True),
    ],
)
def test_a_number_is_reached_as_the_rule_says(paper, metric, printed, ours, is_reached):
    cell = Cell("", "", "", metric, Number(*printed), True, Ours("", "", ours, 1))
    assert cell.within(paper, paper["rule"]) == is_reached


def test_a_shortfall_is_in_the_units_of_the_rule():
    cell = Cell("", "", "", "LL", Number(-4.0, 0.1, 1), True, Ours("", "", -5.04, 1))
    assert cell.shortfall(MEAN) == pytest.approx(1.04)
    assert cell.shortfall(ROUNDED) == pytest.approx(1.0)
    assert cell.shortfall(SHARE) == pytest.approx(0.26)


def test_ours_stand_beside_the_printed_numbers(counted):
    """Parts of a set, fewer rows, left-out methods and later variants do not count."""
    a_ll, a_rmse, b_short, b_long, c, d, elsewhere = counted
    assert a_ll.ours == ("one", "a", pytest.approx(1.6), 2)
    assert a_rmse.ours == ("one", "a", pytest.approx(1.1), 2)
    assert b_short.ours == b_long.ours == ("one", "b", -4.2, 1)
    assert c.ours is d.ours is elsewhere.ours is None
    assert [cell.at_hand for cell in counted] == [True] * 6 + [False]
    with_parts = cells_of(PAPER | {"whole": False, "min_train": 0}, PROTOCOL, RESULTS)
    values = [None if cell.ours is None else cell.ours.value for cell in with_parts]
    assert values[4:] == [9.0, 9.0, 9.0, None]


def test_numbers_are_counted(counted):
    """Of four that were run the two of b are reached; no number is as good as the mean."""
    asked = {"percent": 50, "of": "run"}
    first, second, all_ = counts_of(PAPER | {"asked": asked}, counted)
    assert first == Count("Table 1", 3, 3, 3, 0, 1, 1, (1, 2))
    assert second == Count("Table 2", 4, 3, 1, 0, 0, 1, (1, 1))
    assert all_ == Count("all", 7, 6, 4, 0, 1, 2, (1, 2))
    ll, rmse = counts_of(PAPER | {"by": "metric", "total": False}, counted)[::-1]
    assert (ll.what, ll.printed, ll.run, ll.reached) == ("LL", 6, 3, 2)
    assert (rmse.what, rmse.printed, rmse.run, rmse.reached) == ("RMSE", 1, 1, 0)


@pytest.mark.parametrize(
    ("asked", "is_met"),
    [
        ({"percent": 50, "of": "run"}, True),
        ({"percent": 51, "of": "run"}, False),
        ({"percent": 28, "of": "printed"}, True),
        ({"percent": 29, "of": "printed"}, False),
        ({"percent": 50, "of": "run", "run": 4}, True),
        ({"percent": 50, "of": "run", "run": 5}, False),
        ({"percent": 50, "of": "run", "splits": 1}, True),
        ({"percent": 50, "of": "run", "splits": 2}, False),
    ],
)
def test_a_bound_needs_numbers_shares_and_splits(counted, asked, is_met):
    paper = PAPER | {"asked": asked | {"on": ["all"]}}
    (count,) = bounded(paper, counts_of(paper, counted))
    assert count.what == "all"
    assert count.is_met(paper) == is_met


def test_nothing_run_meets_no_bound():
    paper = PAPER | {"asked": {"percent": 0, "of": "run"}}
    assert not Count.of("all", [], paper).is_met(paper)


@pytest.mark.parametrize("metrics", [["RMSE", "LL"], ["LL", "RMSE"]])
def test_what_is_missed_is_sorted(counted, metrics):
    """Scores in the paper's order, the nearest first, and a number of two tables once."""
    strict = PAPER | {"rule": "mean", "metrics": metrics}
    found = [
        (cell.ours.method, cell.metric, round(cell.shortfall(strict), 3), titles)
        for cell, titles in missed(strict, counted)
    ]
    missed_ll = [("b", "LL", 0.2, ["Table 1", "Table 2"]), ("a", "LL", 0.4, ["Table 1"])]
    missed_rmse = [("a", "RMSE", 0.1, ["Table 1"])]
    assert found == (missed_ll + missed_rmse if metrics[0] == "LL" else missed_rmse + missed_ll)


def test_first_places(monkeypatch):
    """Ranks by NLL are a, b here and b, a in the paper; by CRPS a is first in both."""
    ranks = {"tables": ["Ranks"], "bound": ["NLL", "CRPS"], "title": "R", "says": ""}
    printed = {
        ("Ranks", "avg12", method, f"rank_{metric}"): value
        for metric, values in {"NLL": (1.8, 1.2), "RMSE": (1.5, 1.6), "CRPS": (1.1, 1.9)}.items()
        for method, value in zip("ab", values, strict=True)
    }
    monkeypatch.setattr(cells, "published", lambda table: printed)
    protocol = {
        "datasets": ["one"],
        "methods": {"a": {}, "b": {}},
        "rankings": [
            {"title": "Other", "methods": ["a", "b"]},
            {"title": "Ranks", "methods": ["a", "b"]},
        ],
    }
    results = [
        fit(method, split, ll, rmse) | {"CRPS": rmse, "coverage90": 0.9}
        for method, split, ll, rmse in (("a", 0, 2.0, 0.1), ("a", 1, 2.0, 0.1), ("b", 0, 1.0, 0.2))
    ]
    nll, rmse, crps = cells.first_places(ranks, protocol, results)
    assert nll == ("Ranks", "NLL", "b", 1.2, 2.0, "a", 1.0, 1, (1, 2))
    assert rmse[2:7] == ("a", 1.5, 1.0, "a", 1.0)
    assert crps[2:7] == ("a", 1.1, 1.0, "a", 1.0)
    assert [place.is_met() for place in (nll, rmse, crps)] == [False, True, True]
    lines = cells.render([], ranks, [nll, rmse, crps]).splitlines()
    assert "| R: first places, Ranks | 2 | 2 | 1 | 1 to 2 | all | no |" in lines
    assert "| Ranks | NLL | b (1.20) | 2.00 | a (1.00) | 1 | 1 to 2 | no |" in lines


def test_lines_of_the_page(counted):
    paper = PAPER | {"asked": {"percent": 60, "of": "run", "run": 3, "splits": 2, "on": ["all"]}}
    place = cells.Place("Ranks", "NLL", "a", 1.0, 1.0, "a", 1.0, 1, (1, 1))
    ranks = {"tables": ["Ranks"], "bound": ["NLL"], "title": "R", "says": ""}
    lines = cells.render([(paper, counted)], ranks, [place]).splitlines()
    bound = "| X: Tables 1 and 2 | 7 | 4 | 2 (50.0 %) | 1 to 2 | 3 run, 60 % of those run, 2 splits"
    assert f"{bound} | no |" in lines
    assert "| Table 1 | 3 | 3 | 3 | 0 | 1 | 1 (33.3 %) | 1 to 2 |" in lines
    assert "| one | a | RMSE | 2 | 1.10 | 1.0 ± 0.1 | 10.0 | 1 |" in lines
    assert "| one | a | LL | 2 | 1.60 | 2.0 ± 0.1 | 20.0 | 1 |" in lines
    reached_ones = [cell for cell in counted if cell.method.startswith("B")]
    assert "All that were run are reached." in cells.render([(paper, reached_ones)], ranks, [place])


def test_two_names_of_a_model_have_the_same_numbers():
    """Tables that print a model under a shorter name print its very numbers again."""
    (paper,) = [paper for paper in cells.load_cells()["papers"] if "names" in paper]
    numbers = printed_numbers(paper["protocol"])
    for (title, names), metric in itertools.product(paper["names"].items(), paper["metrics"]):
        (group,) = [group for group in paper["tables"] if title in group]
        for short, long in names.items():
            known = [
                number
                for (table, _, method, name), number in numbers.items()
                if table in group and (method == long or (table, method) == (title, short))
                if name == metric
            ]
            assert len(known) == 2
            assert known[0] == known[1]


def test_the_count_of_a_table_is_that_of_its_summary():
    """The tables of the protocol count by method what is at least the published mean."""
    known = cells.load_cells()["papers"]
    (paper,) = [paper for paper in known if paper["protocol"] == "iwvi2019"]
    protocol, results = load_protocol("iwvi2019"), results_of("iwvi2019")
    # Variants, such as longer fits, stand for methods that these tables have as they are.
    protocol["tables"] = [table for table in protocol["tables"] if "variant" not in table]
    counts = counts_of(paper, cells_of(paper, protocol, results))
    for title in ("Table 1", "Table 2"):
        name = {"Table 1": "table1", "Table 2": "supplement"}[title]
        (table,) = [table for table in tables_of(protocol) if table["name"] == name]
        ours = {theirs: ours for ours, theirs in table["published_sets"].items()}
        theirs = {
            (dataset, method): value
            for (printed, place, method, metric), value in published(table).items()
            if (printed, metric) == (title, "LL")
            for dataset in [ours.get(place, place)]
        }
        by_method = reached(table, chosen(table, results), theirs).values()
        (count,) = [count for count in counts if count.what == title]
        assert (count.reached, count.run) == tuple(map(sum, zip(*by_method, strict=True)))


def test_the_page_is_written_from_the_results():
    assert (HERE.parent / cells.PAGE).read_text() == cells.page()
