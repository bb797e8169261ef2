"""The programs of benchmarks run, and their tables hold what the results say."""

import numpy as np
import pytest
from scipy.stats import rankdata

from benchmarks import speed
from benchmarks._protocol import load_protocol, load_split, settings
from benchmarks._render import average_ranks, chosen
from benchmarks.tables import HERE, read_results


def test_the_speed_of_every_model_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(speed, "B", 40)
    monkeypatch.setattr(speed, "M", 10)
    monkeypatch.setattr(speed, "N_PREDICT", 50)
    speed.compare(n_features=2, repeats=1)
    printed = capsys.readouterr().out
    assert all(case.name in printed for case in speed.cases())
    assert "nan" not in printed


def test_average_ranks_of_the_committed_results():
    """By a loop over sets and settings instead of groups."""
    protocol = load_protocol("ppgpr2020")
    results = read_results(HERE / "results" / "ppgpr2020.jsonl")
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
