"""The programs of benchmarks run, and their tables hold what the results say."""

import numpy as np
import pytest
from scipy.stats import rankdata

from benchmarks import speed, tables
from benchmarks._pictures import draw_weights
from benchmarks._protocol import (
    HERE,
    fits_of,
    load_protocol,
    load_split,
    read_results,
    resolved,
    settings,
)
from benchmarks._protocol import tables as tables_of
from benchmarks._render import average_ranks, chosen


@pytest.fixture
def small_speed(monkeypatch):
    """The speed program at sizes that take no time."""
    sizes = {"n_sites": (2, 3), "batch_size": (40, 80), "n_layers": (2, 3)}
    small = {"B": 40, "M": 10, "SITES": 3, "N_PREDICT": 50, "N_PREDICT_DEEP": 50, "B_MEMORY": 60}
    for name, value in {**small, "SIZES": sizes}.items():
        monkeypatch.setattr(speed, name, value)
    return speed


def test_the_speed_of_every_model_is_measured(small_speed, capsys):
    cases = [*small_speed.flat_cases(), *small_speed.deep_cases()]
    small_speed.compare(cases, n_features=2, repeats=1)
    printed = capsys.readouterr().out
    assert all(case.name in printed for case in cases)
    assert "nan" not in printed


def test_cost_and_memory_of_a_deep_step_are_measured(small_speed, capsys):
    small_speed.scaling(n_features=2, repeats=1)
    small_speed.memory_of_step()
    printed = capsys.readouterr().out
    for name, sizes in small_speed.SIZES.items():
        assert all(f"{name} = {size}" in printed for size in sizes)
    assert "B = 60, S = 3, M = 10: peak" in printed
    # Three functions of the first layer and then, at each of five nodes, three and one.
    assert small_speed.passes(n_sites=5, batch_size=2, n_layers=3) == 2 * (3 + 5 * (3 + 1))


def test_average_ranks_of_the_committed_results():
    """By a loop over sets and settings instead of groups."""
    (protocol,) = tables_of(load_protocol("ppgpr2020"))
    results = read_results(HERE / "results" / "ppgpr2020.jsonl", protocol)
    methods = protocol["rankings"][0]["methods"]
    ranks = []
    for dataset in protocol["datasets"]:
        scores = []
        for method in methods:
            fits = [r for r in results if (r["dataset"], r["method"]) == (dataset, method)]
            assert len(fits) == 2
            scores.append(min(fits, key=lambda r: r["validation_NLL"])["CRPS"])
        ranks.append(rankdata(scores))
    ours, n_sets = average_ranks(protocol, chosen(protocol, results), methods)
    assert n_sets == 12
    for method, rank in zip(methods, np.mean(ranks, axis=0), strict=True):
        assert ours[method, "CRPS"] == pytest.approx(rank)


def test_a_grid_gives_a_setting_for_each_of_its_points():
    protocol = {"methods": {"a": {"params": {"x": 1}}}, "grid": {"b": [2, 3], "c": [4, 5]}}
    points = [(p["x"], p["b"], p["c"]) for p in settings(protocol, "a")]
    assert points == [(1, 2, 4), (1, 2, 5), (1, 3, 4), (1, 3, 5)]


def test_a_split_has_each_row_of_the_subsample_once(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez(path, X=np.arange(100.0)[:, None], y=np.arange(100.0) ** 2)
    split = load_split(path, {"shares": [15, 3, 2], "max_rows": 40}, 0)
    rows = np.concatenate([X[:, 0] for X, _ in split])
    assert [len(y) for _, y in split] == [30, 6, 4]
    assert len(set(rows)) == 40
    X, y = split.train
    assert y.std() == pytest.approx(1.0)
    assert y.mean() == pytest.approx(0.0)
    again = load_split(path, {"shares": [15, 3, 2], "max_rows": 40}, 1)
    assert set(rows) == set(np.concatenate([X[:, 0] for X, _ in again]))  # one subsample
    assert not np.array_equal(X, again.train[0])


def test_marked_rows_are_the_test_rows(tmp_path):
    rows = np.arange(20.0)
    mask = np.stack([rows < 4, rows >= 15], axis=1)
    np.savez(tmp_path / "rows.npz", X=rows[:, None], y=2 * rows, test_mask=mask)
    split = load_split(tmp_path / "rows.npz", {"mask": "test_mask", "units": "original"}, 1)
    np.testing.assert_array_equal(split.test[1], 2 * rows[15:])
    np.testing.assert_array_equal(split.train[1], 2 * rows[:15])
    assert len(split.validation[1]) == 0


def test_a_table_changes_what_the_protocol_says():
    protocol = {
        "datasets": ["s", "t"],
        "n_splits": 1,
        "methods": {"a": {"estimator": "A", "params": {"x": 1}}},
        "tables": [
            {"methods": {"a": {"params": {"y": 2}}, "b": {"params": {}, "n_splits": 2}}},
            {"datasets": ["s"], "max_rows": 7, "methods": {"a": {"grid": {"z": [3, 4]}}}},
        ],
    }
    first, second = tables_of(protocol)
    assert [(f.method, f.split, f.dataset, f.params) for f in fits_of(first)] == [
        ("a", 0, "s", {"x": 1, "y": 2}),
        ("a", 0, "t", {"x": 1, "y": 2}),
        ("b", 0, "s", {}),
        ("b", 0, "t", {}),
        ("b", 1, "s", {}),
        ("b", 1, "t", {}),
    ]
    assert [(f.dataset, f.params["z"], f.max_rows) for f in fits_of(second)] == [
        ("s", 3, 7),
        ("s", 4, 7),
    ]
    assert resolved({"width": "inputs"}, np.zeros((5, 2))) == {"width": 2}


@pytest.mark.parametrize("name", ["dspp2020", "dsvi2017"])
def test_every_fit_of_the_deep_tables_runs_once(name, monkeypatch, tmp_path, capsys):
    """On a few rows of made-up sets, for one step; the second run has nothing left to fit."""
    protocol = load_protocol(name)
    rng = np.random.default_rng(0)
    for table in tables_of(protocol):
        (tmp_path / table["folder"]).mkdir(exist_ok=True)
        for dataset in table["datasets"]:
            X = rng.standard_normal((60, 2))
            np.savez(
                tmp_path / table["folder"] / f"{dataset}.npz",
                X=X,
                y=X.sum(1),
                Y=X,
                test_mask=rng.random((60, 2)) < 0.2,
            )
    tiny = {"max_iter": 1, "n_inducing": 5, "batch_size": 50}
    monkeypatch.setattr(tables, "resolved", lambda params, X: resolved(params, X) | tiny)
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    sets = {table["folder"]: table["datasets"][0] for table in tables_of(protocol)}.values()
    run = [name, "--data", str(tmp_path), "--splits", "1", "--datasets", "protein", *sets]
    monkeypatch.setattr("sys.argv", ["tables", *run])
    tables.main()
    lines = (tmp_path / f"{name}.jsonl").read_text().splitlines()
    printed = capsys.readouterr().out
    for table in tables_of(protocol):
        assert table["title"] in printed
        for method in table["methods"]:
            assert f"| {method} | 1 |" in printed.partition(table["title"])[2]
    assert "nan" not in printed
    assert ("quadrature_weights" in "".join(lines)) == (name == "dspp2020")
    tables.main()
    assert (tmp_path / f"{name}.jsonl").read_text().splitlines() == lines


def test_the_weights_of_fits_with_ten_nodes_are_drawn(tmp_path):
    rows = [{"quadrature_weights": [1 / n] * n} for n in (10, 10, 27)]
    draw_weights([{}, rows[-1]], tmp_path, "none")
    draw_weights([{}, *rows], tmp_path, "some")
    assert [path.name for path in tmp_path.iterdir()] == ["some-weights.png"]
