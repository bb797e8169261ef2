"""Published ranks beside ours: the printed ones, or those of the printed means of the same sets."""

import pytest

from benchmarks import _render

TABLE = {
    "paper": "x",
    "published": ["Means"],
    "datasets": ["one", "two", "three"],
    "methods": {name: {"params": {}} for name in "abc"},
    "rankings": [{"title": "Ranks", "methods": ["a", "b", "c"]}],
}
# By set and method; the scores of the three metrics are the same.
OURS = {"one": (1.0, 2.0, 3.0), "two": (1.0, 3.0, 2.0)}  # of `three` nothing was fitted
THEIRS = {"one": (3.0, 1.0, 2.0), "two": (2.0, 2.0, 5.0), "three": (1.0, 2.0, 3.0)}


@pytest.fixture
def shown(monkeypatch):
    """The lines of the ranking with some published numbers."""

    def show(reference):
        monkeypatch.setattr(_render, "published", lambda table: reference)
        results = [
            {"dataset": d, "method": m, "split": 0, "params": {}, "max_rows": None}
            | dict.fromkeys(("NLL", "RMSE", "CRPS"), value)
            | {"coverage90": 0.9, "seconds": 1.0, "n_train": 5}
            for d, values in OURS.items()
            for m, value in zip("abc", values, strict=True)
        ]
        text = _render.render(TABLE, results).partition("average ranks over 2 sets")[2]
        return [line.strip("| ").split(" | ") for line in text.strip().splitlines()[2:]]

    return show


def means_of(sets):
    return {
        ("Means", d, m, metric): value
        for d in sets
        for m, value in zip("abc", THEIRS[d], strict=True)
        for metric in ("NLL", "RMSE", "CRPS")
    }


def test_printed_means_are_ranked_over_the_sets_that_we_have(shown):
    """Ranks 3, 1, 2 and, with a tie, 1.5, 1.5, 3; `three`, where a is first, does not count."""
    assert shown(means_of(THEIRS)) == [
        ["a", *["1.00 (2.25)"] * 3],
        ["b", *["2.50 (1.25)"] * 3],
        ["c", *["2.50 (2.50)"] * 3],
    ]


def test_a_printed_rank_goes_before_that_of_the_means(shown):
    printed = {("Ranks", "avg12", "b", "rank_RMSE"): 1.75}
    assert shown(means_of(THEIRS) | printed)[1] == [
        "b",
        "2.50 (1.25)",
        "2.50 (1.75)",
        "2.50 (1.25)",
    ]


def test_means_of_which_one_is_not_printed_are_not_ranked(shown):
    reference = means_of(THEIRS)
    del reference["Means", "two", "c", "NLL"]
    assert [row[1] for row in shown(reference)] == ["1.00", "2.50", "2.50"]
    assert [row[2] for row in shown(reference)] == ["1.00 (2.25)", "2.50 (1.25)", "2.50 (2.50)"]
