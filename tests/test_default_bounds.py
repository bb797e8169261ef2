"""What the defaults are asked to hold is compared with their results as by hand."""

import re

import numpy as np
import pytest

from benchmarks import bounds, tables
from benchmarks._protocol import HERE, Split, load_protocol, results_of
from benchmarks._render import chosen, means
from benchmarks._sizes import average_ranks, size_classes
from skgp import SVGPRegressor

ROOT = HERE.parent
METRICS = ["NLL", "CRPS", "coverage90", "processor_seconds"]


def fit(dataset, method, split, nll, n_train=100, **others):
    values = {"dataset": dataset, "method": method, "split": split, "NLL": nll, "CRPS": nll}
    values |= {"coverage90": 0.9, "processor_seconds": nll, "seconds": 1.0, "n_train": n_train}
    return values | {"params": {}, "max_rows": None} | others


# Of "small" and "large" the means of ours are 0.3 above and 0.2 below the better of a and b, whose
# third split is not ours; "mine" and "theirs" have no pair.
RESULTS = [
    fit("small", "ours", 0, 1.0),
    fit("small", "ours", 1, 2.0),
    fit("small", "a", 0, 1.2),
    fit("small", "a", 1, 1.2),
    fit("small", "a", 2, -9.0),
    fit("small", "b", 0, 3.0),
    fit("small", "b", 1, 3.0),
    fit("large", "ours", 0, 1.0, n_train=1000, coverage90=0.7),
    fit("large", "a", 0, 1.2, n_train=1000),
    fit("mine", "ours", 0, -3.0, n_train=2000, coverage90=0.8),
    fit("theirs", "a", 0, -3.0),
]
BOUND = {
    "protocol": "x",
    "metric": "NLL",
    "baselines": ["a", "b"],
    "within": 0.1,
    "percent": 50,
    "range": [0.79, 0.81],
    "others": ["a"],
    "most": 1.2,
}


@pytest.fixture
def example(monkeypatch):
    """The results of the example instead of the committed ones."""
    protocol = {
        "datasets": ["small", "large", "mine", "theirs"],
        "metrics": METRICS,
        "methods": {name: {"params": {}} for name in ("ours", "a", "b")},
    }
    monkeypatch.setattr(bounds, "load_protocol", lambda name: protocol)
    monkeypatch.setattr(bounds, "results_of", lambda name: RESULTS)


@pytest.mark.usefixtures("example")
def test_distances_are_of_folds_that_all_have():
    verdict = bounds.near(BOUND, "ours")
    assert verdict.found == "1 of 2 sets, worst 0.3"
    assert verdict.missed == pytest.approx({"small": 0.3})
    assert verdict.is_met
    assert not bounds.near(BOUND | {"percent": 51}, "ours").is_met
    assert bounds.near(BOUND | {"worst": 0.31}, "ours").is_met
    assert not bounds.near(BOUND | {"worst": 0.29}, "ours").is_met
    relative = bounds.near(BOUND | {"metric": "CRPS", "within": 0.24}, "ours")
    assert relative.missed == pytest.approx({"small": 0.25})
    assert bounds.near(BOUND | {"rows": [1000, 1001]}, "ours").found == "1 of 1 sets, worst -0.2"
    assert bounds.near(BOUND | {"rows": [100, 1000]}, "ours").found == "0 of 1 sets, worst 0.3"


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize("rows", [[101, 1000], [0, 100]])
def test_what_was_not_run_is_not_met(rows):
    for rule in (bounds.most, bounds.between):
        assert rule(BOUND | {"rows": rows}, "ours") == ("not run", False, {})


@pytest.mark.usefixtures("example")
def test_scores_of_each_set_and_means_of_all():
    assert bounds.most(BOUND, "ours") == ("2 of 3 sets, worst 1.5", False, {"small": 1.5})
    assert bounds.most(BOUND | {"most": 1.5}, "ours").is_met
    assert bounds.most(BOUND | {"datasets": ["large", "mine"]}, "ours").is_met
    coverage = BOUND | {"metric": "coverage90"}
    assert bounds.between(coverage, "ours") == ("0.800", True, {})
    assert not bounds.between(coverage | {"range": [0.81, 0.9]}, "ours").is_met
    assert not bounds.between(coverage | {"range": [0.7, 0.79]}, "ours").is_met


@pytest.mark.usefixtures("example")
def test_ranks_are_of_sets_that_all_have():
    assert bounds.ahead(BOUND, "ours") == ("1.50, a 1.50", False, {})
    assert bounds.ahead(BOUND | {"rows": [101, 1001]}, "ours") == ("1.00, a 2.00", True, {})


@pytest.mark.usefixtures("example")
def test_copies_do_not_count_where_new_inputs_are_scored(monkeypatch):
    """Where one of the fits has no such score, all of that set's rows count."""
    new = [
        row | ({"new_NLL": -row["NLL"], "new_CRPS": 7.0} if row["dataset"] == "small" else {})
        for row in RESULTS
    ]
    monkeypatch.setattr(bounds, "results_of", lambda name: new)
    verdict = bounds.near(BOUND | {"new_inputs": True}, "ours")
    assert verdict.missed == pytest.approx({"small": 1.5})  # -1.5 and -3.0 of b
    assert bounds.near(BOUND, "ours").missed == pytest.approx({"small": 0.3})
    monkeypatch.setattr(bounds, "results_of", lambda name: RESULTS[:1] + new[1:])
    assert bounds.near(BOUND | {"new_inputs": True}, "ours") == bounds.near(BOUND, "ours")


def test_rows_with_new_inputs_are_scored_by_themselves():
    """Equal in all columns, signs of zeros apart; targets do not matter."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 3)) * 1.0
    X[:, 0] = np.arange(60)
    y = X[:, 0] / 10 + rng.standard_normal(60)
    X_test = np.vstack([-0.0 * X[:1], X[1:4], X[1:4] + np.array([0.0, 0.0, 0.5])])
    X_test[0] = np.where(X[0] == 0.0, -0.0, X[0])
    y_test = np.array([9.0, 9.0, 9.0, 9.0, -1.0, 0.0, 1.0])
    model = SVGPRegressor(n_inducing=5, max_iter=2).fit(X, y)
    none = X[:0], y[:0]
    values = tables.scores(model, Split((X, y), (X_test, y_test), none))
    alone = tables.scores(model, Split((X, y), (X_test[4:], y_test[4:]), none))
    assert not any(name.startswith("new_") for name in alone)
    for name in ("NLL", "RMSE", "CRPS", "coverage90"):
        assert values[f"new_{name}"] == pytest.approx(alone[name])
        assert values[name] != pytest.approx(alone[name])


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ({"rule": "near"}, ("all", "at most 0.1 above the better of a and b on 50 % of the sets")),
        (
            {"rule": "near", "metric": "CRPS", "worst": 0.3, "rows": [0, 2000]},
            (
                "below 2,000 rows",
                "at most 10 % above the better of a and b on 50 % of the sets, never more than "
                "0.3 above it",
            ),
        ),
        ({"rule": "most", "datasets": ["small", "large"]}, ("small, large", "at most 1.2")),
        (
            {"rule": "between", "rows": [100, 2000]},
            ("100 to 1,999 rows", "0.79 to 0.81 in the mean"),
        ),
        ({"rule": "ahead", "new_inputs": True}, ("all, new inputs", "average rank ahead of a")),
        ({"rule": "most", "protocol": "further"}, ("further sets, all", "at most 1.2")),
    ],
)
def test_bounds_in_words(bound, words):
    assert (bounds.where(BOUND | bound), bounds.asked(BOUND | bound)) == words


def test_the_page_is_written_from_the_results():
    assert (ROOT / bounds.PAGE).read_text() == bounds.page()


def test_the_short_table_is_of_the_results():
    """Ranks and coverage of small data sets, and the sentences of the README about these."""
    (table,) = tables.tables(load_protocol("defaults"))
    cells = means(table, chosen(table, results_of("defaults")))
    sets, *_, large = size_classes(cells, table["by_size"]["bounds"]).values()
    text = (ROOT / "doc" / "benchmarks.md").read_text().partition("## Small data sets")[2]
    names, _, *lines = [
        [cell.strip() for cell in row.split("|")[1:-1]]
        for row in text.splitlines()
        if row.startswith("|")
    ][:5]
    methods = names[1:]
    nll, crps = (average_ranks(cells, sets, methods, metric) for metric in ("NLL", "CRPS"))
    coverage = {m: np.mean([cells[name, m]["coverage90"] for name in sets]) for m in methods}
    for (title, *shown), values, digits in zip(
        lines, (nll, crps, coverage), (2, 2, 3), strict=True
    ):
        assert shown == [f"{values[method]:.{digits}f}" for method in methods], title
    sentences = " ".join((ROOT / "README.md").read_text().split()).partition("On eleven UCI")[2]
    of_small, _, of_large = sentences.partition(" On nine sets")
    assert (len(sets), len(large)) == (11, 9)
    ours = ("DSPP", "PPGPR", "SVGP")
    ranks = [f"{nll[name]:.1f}" for name in (*ours, "scikit-learn GP", "CatBoost", "NGBoost")]
    shares = [f"{100 * coverage[name]:.0f}" for name in (*ours, "NGBoost")]
    assert re.findall(r"\d\.\d", of_small) == ranks
    assert re.findall(r"\b\d+\b", of_small.partition("intervals hold")[2]) == shares
    methods = [name for name in methods if ("elevators", name) in cells]
    best = [average_ranks(cells, large, methods, metric)["DSPP"] for metric in ("NLL", "CRPS")]
    assert re.findall(r"\d\.\d", of_large)[:2] == [f"{rank:.1f}" for rank in best]
