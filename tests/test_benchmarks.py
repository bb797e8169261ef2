"""The programs of benchmarks run, and their tables hold what the results say."""

import re
from functools import partial

import numpy as np
import pytest
from scipy.stats import rankdata

from benchmarks import _render, speed, tables
from benchmarks._class_scores import class_scores
from benchmarks._cosine import make_split
from benchmarks._embedded import embedding_scores
from benchmarks._linear import LinearRegressor
from benchmarks._pictures import draw_weights
from benchmarks._protocol import (
    HERE,
    Split,
    fits_of,
    load_protocol,
    load_split,
    read_results,
    resolved,
    settings,
    thinned,
)
from benchmarks._protocol import tables as tables_of
from benchmarks._render import average_ranks, chosen, compare, render
from skgp import DGPRegressor, DSPPRegressor, NeuralMOGPEmbedding, scoring
from skgp.core.numerics.elementwise import EAGER

LONG_TABLE = pytest.param("dspp2020", marks=pytest.mark.slow)


@pytest.fixture
def small_speed(monkeypatch):
    """The speed program at sizes that take no time."""
    sizes = {"n_sites": (2, 3), "batch_size": (40, 80), "n_layers": (2, 3)}
    small = {"B": 40, "M": 10, "SITES": 3, "N_PREDICT": 50, "N_PREDICT_DEEP": 50, "B_MEMORY": 60}
    for name, value in {**small, "SIZES": sizes}.items():
        monkeypatch.setattr(speed, name, value)
    return speed


def test_the_speed_of_every_model_is_measured(small_speed, monkeypatch, capsys):
    monkeypatch.setattr(speed, "Passes", lambda **_: EAGER)  # compiling takes most of the time
    cases = [*small_speed.flat_cases(), *small_speed.deep_cases()]
    small_speed.compare(cases, n_features=2, repeats=1, predicts=True)
    printed = capsys.readouterr().out
    assert all(case.name in printed for case in cases)
    assert "nan" not in printed


@pytest.mark.slow
def test_cost_and_memory_of_a_deep_step_are_measured(small_speed, capsys):
    small_speed.scaling(n_features=2, repeats=1)
    small_speed.memory_of_step()
    printed = capsys.readouterr().out
    for name, sizes in small_speed.SIZES.items():
        assert all(f"{name} = {size}" in printed for size in sizes)
    assert "B = 60, S = 3, M = 10: peak" in printed
    # Three functions of the first layer and then, at each of five nodes, three and one.
    assert small_speed.passes(n_sites=5, batch_size=2, n_layers=3) == 2 * (3 + 5 * (3 + 1))


def test_restarts_weights_and_gps_in_one_layer_are_measured(small_speed, monkeypatch, capsys):
    def cost(function):
        if isinstance(function, partial):
            models = function.args[0]
            return sum(model.n_restarts + 0.1 * (model.beta_reg == 0.3) for model in models)
        return float(len(function.model.stack.top.Z))

    small = {"N_FIT": 30, "FIT_EPOCHS": 1, "GROUPED": ((20, 5),), "seconds": cost}
    for name, value in small.items():
        monkeypatch.setattr(small_speed, name, value)
    small_speed.restarts(n_features=2, repeats=1)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.endswith("1.00      3.00      4.10") for line in lines) == 4
    assert sum(line.endswith("1000.00 ms      3.00    4.00") for line in lines) == 2


def test_a_step_is_measured_against_one_of_our_own(small_speed, monkeypatch, capsys):
    times = {DSPPRegressor: iter([0.3, 0.1]), DGPRegressor: iter([0.1, 0.2])}
    monkeypatch.setattr(small_speed, "B_LATENT", 40)
    monkeypatch.setattr(small_speed, "seconds", lambda step: next(times[type(step.fitted)]))
    common = {"n_inducing": 5, "max_iter": 1, "random_state": 0}
    pair = DSPPRegressor(**common), DGPRegressor(**common)
    small_speed.latent(pair, n_features=2, repeats=2)
    printed = capsys.readouterr().out
    assert "DSPPRegressor 200.0 ms, DGPRegressor 150.0 ms, ratio 1.75" in printed


def test_steps_with_readouts_are_measured_in_steps_of_the_first(small_speed, monkeypatch, capsys):
    cases = small_speed.readout_cases()
    small_speed.readouts(cases, n_features=2, repeats=1)
    printed = capsys.readouterr().out
    assert all(name in printed for name in cases)
    monkeypatch.setattr(small_speed, "in_turn", lambda *_, **__: np.array([[0.2, 0.5]]))
    pair = {name: cases[name] for name in ("mixing is a point", "MOGP, analytic")}
    small_speed.readouts(pair, n_features=2, repeats=1)
    *_, first, second = capsys.readouterr().out.splitlines()
    assert first.split()[-2:] == ["200.0", "1.00"]
    assert second.split()[-2:] == ["500.0", "2.50"]


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
            assert len(fits) == (4 if method == "gamma-Robust" else 2)  # with two values of gamma
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
    protocol["methods"]["a"]["grid"] = {"b": [], "d": [6]}
    assert settings(protocol, "a") == [{"x": 1, "c": 4, "d": 6}, {"x": 1, "c": 5, "d": 6}]


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


def test_targets_may_be_changes_of_the_leading_inputs(tmp_path):
    X, Y = np.arange(30.0).reshape(10, 3), np.arange(20.0).reshape(10, 2) ** 2
    mask = np.arange(10)[:, None] > 6
    np.savez(tmp_path / "rows.npz", X=X, Y=Y, block_mask=mask)
    table = {"mask": "block_mask", "targets": "Y", "units": "original", "differences": ["rows"]}
    split = load_split(tmp_path / "rows.npz", table, 0)
    np.testing.assert_array_equal(split.test[1], Y[7:] - X[7:, :2])


def test_rows_of_an_embedding_are_inputs_and_targets(tmp_path):
    X, Y = np.arange(30.0).reshape(10, 3) ** 2, np.arange(20.0).reshape(10, 2)
    mask = np.arange(10)[:, None] > 6
    np.savez(tmp_path / "rows.npz", X=X, Y=Y, test_mask=mask)
    table = {"mask": ["block_mask", "test_mask"], "targets": "Y", "latent_inputs": True}
    split = load_split(tmp_path / "rows.npz", table, 0)
    both = np.hstack([X, Y])
    expected = (both[7:] - both[:7].mean(0)) / both[:7].std(0)
    np.testing.assert_allclose(split.test[1], expected)


@pytest.mark.parametrize("inference", ["sampling", "analytic"])
def test_reconstruction_of_held_out_rows_is_scored(inference):
    """Of certain inputs and a reconstruction without spread it is a normal's density."""
    rng = np.random.default_rng(0)
    t = rng.uniform(-1.0, 1.0, (60, 1))
    Y = np.hstack([t, t**2, np.sin(3.0 * t)]) + 0.1 * rng.standard_normal((60, 3))
    params = {"n_inducing": 8, "max_iter": 100, "random_state": 0, "inference": inference}
    model = NeuralMOGPEmbedding(1, **params).fit(Y[:40])
    values = embedding_scores(model, Y[40:])
    mean = model.inverse_transform(model.transform(Y[40:]))
    assert values["RMSE"] == pytest.approx(np.sqrt(np.mean((mean - Y[40:]) ** 2, axis=0)).mean())
    assert values["IWLL"] == model.score(Y[40:])
    draws = model.transform_dist(Y[40:]).rvs(400, random_state=1)
    every_draw = np.moveaxis(draws, -1, 0).reshape(-1, 1)  # all rows, draw by draw
    dist = model.predict_dist(every_draw)
    density = dist.joint_logpdf(np.tile(Y[40:], (400, 1)))
    assert values["nested_LL"] == pytest.approx(density.mean(), abs=0.15)


def test_made_up_rows_are_those_of_the_paper():
    """Standard errors of the noise over 1,000 rows and eight outputs."""
    split = make_split(0)
    for X, Y in (split.train, split.test):
        assert X.shape == (1000, 5)
        assert Y.shape == (1000, 8)
        radius = np.linalg.norm(X, axis=1)
        assert radius.max() < 1.0
        assert abs((radius**5).mean() - 0.5) < 4 / np.sqrt(12 * 1000)  # uniform in the ball
        noise = Y - np.cos(4.0 * radius)[:, None]
        assert abs(noise.std() - 0.1) < 4 * 0.1 / np.sqrt(2 * 8000)
    assert not np.array_equal(make_split(1).train[0], split.train[0])


def test_a_method_has_what_it_does_not_say_from_the_one_it_is_like():
    protocol = {
        "datasets": ["s"],
        "n_splits": 1,
        "methods": {
            "a": {"estimator": "A", "params": {"x": 1, "y": 2}},
            "b": {"like": "a", "params": {"y": 3, "z": 4}},
        },
        "tables": [{"methods": {"b": {"params": {"z": 5}}, "c": {"like": "b", "n_splits": 2}}}],
    }
    (table,) = tables_of(protocol)
    assert table["methods"]["c"]["estimator"] == "A"
    assert table["methods"]["b"]["params"] == {"x": 1, "y": 3, "z": 5}
    assert [(f.method, f.params["z"], f.split) for f in fits_of(table)] == [
        ("b", 5, 0),
        ("c", 5, 0),
        ("c", 5, 1),
    ]


def test_the_printed_scores_give_the_printed_summary():
    """Nearly: the paper takes both over five runs of each set, and here are the runs' means."""
    (table,) = [t for t in tables_of(load_protocol("iwvi2019")) if t["name"] == "table1"]
    reference = _render.published(table)
    scores = {(d, m): v for (t, d, m, k), v in reference.items() if (t, k) == ("Table 1", "LL")}
    printed = {method for _, method in scores}
    methods = [method for method in table["methods"] if method in printed]
    assert len(methods) == 9
    result = compare(scores, methods, "GP VI")
    assert len(result.places) == 41
    for method in methods:
        gap = reference["Table 1", "median41", method, "LL_median_diff_from_GP_VI"]
        rank = reference["Table 1", "avg41", method, "rank_LL"]
        assert result.difference(method) == pytest.approx(gap, abs=0.035)
        assert result.rank[method] == pytest.approx(rank, abs=0.15)


def test_a_summary_holds_differences_ranks_and_sets_that_were_reached(monkeypatch):
    """Two splits of three sets, one of few rows and one without a published value."""
    nll = {  # set: baseline and other method, both splits
        "r": ([1.0, 2.0], [0.9, 1.0]),
        "s": ([1.0, 1.0], [3.0, 1.5]),
        "t": ([0.0, 0.0], [-0.3, -0.7]),
        "u": ([1.0, 1.0], [0.8, 0.8]),
    }
    rows = [
        {"dataset": d, "method": m, "split": split, "params": {}, "max_rows": None}
        | {"NLL": values[split], "n_train": 10 if d == "t" else 100, "seconds": 1.0}
        for d, pair in nll.items()
        for m, values in zip(("a b", "c"), pair, strict=True)
        for split in range(2)
    ]
    printed = {
        ("T", "r", "a b", "LL"): -1.6,
        ("T", "r", "c", "LL"): -0.95,
        ("T", "s", "a b", "LL"): -1.5,
        ("T", "s", "c", "LL"): -2.0,
        ("T", "t", "a b", "LL"): -1.0,
        ("T", "t", "c", "LL"): -1.0,
        ("T", "all", "c", "LL_median_diff_from_a_b"): 0.33,
        ("T", "all", "c", "rank_LL"): 1.75,
    }
    monkeypatch.setattr(_render, "published", lambda table: printed)
    table = {
        "paper": "p",
        "published": ["T"],
        "datasets": list(nll),
        "methods": {"a b": {"params": {}}, "c": {"params": {}}, "never fitted": {"params": {}}},
        "metrics": ["LL"],
        "summary": {"metric": "LL", "baseline": "a b", "min_train": 50},
    }
    text = render(table, rows)
    # differences 0.1, 1, -2, -0.5, 0.3, 0.7, 0.2, 0.2: median 0.2; c is ahead at six of eight
    assert "LL against a b, ranks over 4 sets" in text
    assert "| a b | 4 | 0.000 | 1.25 |  | 2 of 2 sets |" in text
    assert "| c | 4 | 0.200 | 1.75 | 0.33, 1.75 | 1 of 2 sets |" in text
    del nll["u"]  # the published have all the others
    text = render({**table, "datasets": list(nll)}, rows)
    assert "| c | 3 | 0.200 (0.000) | 1.67 (1.50) | 0.33, 1.75 | 1 of 2 sets |" in text
    # a method that only one set has: the differences of the others stay, ranks are over that set
    methods = {**table["methods"], "d": {"params": {}}}
    rows += [{**row, "method": "d", "NLL": 0.0} for row in rows if row["method"] == "c"][:2]
    text = render({**table, "datasets": list(nll), "methods": methods}, rows)
    assert "LL against a b, ranks over 1 sets" in text
    assert "| c | 3 | 0.200 (0.000) | 2.00 | 0.33, 1.75 | 1 of 2 sets |" in text
    assert "| d | 1 | 1.500 | 3.00 |  | 0 of 0 sets |" in text


def test_a_wide_table_has_a_column_for_each_method_and_a_table_for_each_score(monkeypatch):
    printed = {("T", "s", "b", "LL"): -0.5}
    monkeypatch.setattr(_render, "published", lambda table: printed)
    rows = [
        {"dataset": d, "method": m, "split": 0, "params": {}, "max_rows": None}
        | {"NLL": value, "CRPS": value / 2.0, "n_train": 100, "seconds": 7.0}
        for (d, m), value in {("r", "a"): 1.0, ("s", "a"): 2.0, ("s", "b"): 0.25}.items()
    ]
    rows.append(rows[-1] | {"split": 1})
    table = {
        "paper": "p",
        "published": ["T"],
        "datasets": ["r", "s", "never fitted"],
        "methods": {"a": {"params": {}}, "never fitted": {"params": {}}, "b": {"params": {}}},
        "metrics": ["LL", "CRPS"],
        "wide": True,
    }
    blocks = render(table, rows).split("\n\n")
    head = "| set | a | b |\n|---|---|---|\n"
    assert blocks == [
        "LL:",
        head + "| r | -1.000 |  |\n| s | -2.000 [1] | -0.250 (-0.500) |",
        "CRPS:",
        head + "| r | 0.500 |  |\n| s | 1.000 [1] | 0.125 |",
        "seconds:",
        head + "| r | 7 |  |\n| s | 7 [1] | 7 |",
    ]


def test_the_linear_baseline_is_an_exact_gp_with_a_linear_kernel():
    """Its prediction from its own precisions, by the normal equations."""
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, [1.0, 5.0], (40, 2))
    y = X @ [1.0, -0.5] + 2.0 + 0.3 * rng.standard_normal(40)
    model = LinearRegressor().fit(X, y)
    ridge = model.model_[-1]
    Z = (X - X.mean(0)) / X.std(0)
    z = (X[:5] - X.mean(0)) / X.std(0)
    S = np.linalg.inv(ridge.lambda_ * np.eye(2) + ridge.alpha_ * Z.T @ Z)
    dist = model.predict_dist(X[:5])
    mean = y.mean() + ridge.alpha_ * z @ S @ Z.T @ (y - y.mean())
    np.testing.assert_allclose(dist.mean(), mean, rtol=1e-8)
    variance = model.noise_variance_ + np.einsum("nd,de,ne->n", z, S, z)
    np.testing.assert_allclose(dist.var(), variance, rtol=1e-8)
    assert scoring.nll(y[:5], dist) < 1.0


def test_a_method_sees_fewer_rows_and_outputs():
    X, Y = np.arange(50.0)[:, None], np.tile(np.arange(50.0)[:, None], 4)
    for method in ({"train_rows": 20, "n_missing": 3}, {"train_rows": 20}, {"n_missing": 3}, {}):
        X_seen, Y_seen = thinned((X, Y), method)
        assert len(X_seen) == len(set(X_seen[:, 0])) == method.get("train_rows", 50)
        observed = ~np.isnan(Y_seen)
        assert (observed.sum(1) == 4 - method.get("n_missing", 0)).all()
        np.testing.assert_array_equal(Y_seen[observed], (X_seen + np.zeros(4))[observed])
        assert (observed.mean(0) > 0.1).all()  # other outputs for each row
    assert not np.isnan(Y).any()
    first, second = (thinned((X, Y), {"train_rows": n})[0] for n in (5, 20))
    np.testing.assert_array_equal(first, second[:5])
    assert (first[:, 0] != np.arange(5.0)).any()


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


@pytest.mark.usefixtures("short_start")
@pytest.mark.parametrize("name", ["dsvi2017", "dsvi2017-classification", "iwvi2019", LONG_TABLE])
def test_every_fit_of_the_deep_tables_runs_once(name, monkeypatch, tmp_path, capsys):
    """On a few rows of made-up sets, for one step; the second run has nothing left to fit."""
    protocol = load_protocol(name)
    rng = np.random.default_rng(0)
    read = [table for table in tables_of(protocol) if "made_by" not in table]
    for table in read:
        (tmp_path / table["folder"]).mkdir(exist_ok=True)
        for dataset in table["datasets"]:
            X = rng.standard_normal((60, 2))
            y = X.sum(1)
            arrays = {"X": X, "y": y, "Y": X, "test_mask": rng.random((60, 2)) < 0.2}
            if table.get("units") == "labels":
                arrays["y"] = y > 0
            if "largest" in table:
                arrays = {f"{k}_{part}": arrays[k] for k in "Xy" for part in ("train", "test")}
            np.savez(tmp_path / table["folder"] / f"{dataset}.npz", **arrays)
    tiny = {"max_iter": 1, "n_inducing": 5, "batch_size": 50}
    few = tiny | {"n_prediction_samples": 8}

    def reduced(params, X):  # baselines without Gaussian processes have no inducing inputs
        params = resolved(params, X)
        known = params | tiny if name == "dspp2020" else params
        return params | {k: few[k] for k in few if k in known or (k == "max_iter" and params)}

    # Two points of a grid are enough to choose between them.
    monkeypatch.setattr("benchmarks._protocol.settings", lambda *args: settings(*args)[:2])
    monkeypatch.setattr(tables, "resolved", reduced)
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    sets: list[str] = []  # one of each table at least, and few
    for table in sorted(read, key=lambda table: len(table["datasets"])):
        if set(sets).isdisjoint(table["datasets"]):
            sets.append(table["datasets"][0])
    made = [d for table in tables_of(protocol) if table not in read for d in table["datasets"]]
    run = [name, "--data", str(tmp_path), "--splits", "1", "--datasets", *sets, *made]
    monkeypatch.setattr("sys.argv", ["tables", *run])
    tables.main()
    lines = (tmp_path / f"{name}.jsonl").read_text().splitlines()
    printed = capsys.readouterr().out
    for table in tables_of(protocol):
        assert table["title"] in printed
        for method in table["methods"]:
            cells = f"| {method} |" if table.get("wide") else f"| {method} | 1 |"
            assert cells in printed.partition(table["title"])[2]
    assert not re.search(r"\bnan\b", printed, re.IGNORECASE)  # one set is called banana
    assert ("quadrature_weights" in "".join(lines)) == (name == "dspp2020")
    tables.main()
    assert (tmp_path / f"{name}.jsonl").read_text().splitlines() == lines


def test_the_weights_of_fits_with_ten_nodes_are_drawn(tmp_path):
    rows = [{"quadrature_weights": [1 / n] * n} for n in (10, 10, 27)]
    draw_weights([{}, rows[-1]], tmp_path, "none")
    draw_weights([{}, *rows], tmp_path, "some")
    assert [path.name for path in tmp_path.iterdir()] == ["some-weights.png"]


def test_labels_are_kept_as_they_are_and_images_are_flattened(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), np.arange(20, dtype=np.uint8) % 2
    np.savez(tmp_path / "rows.npz", X=X, y=y, test_mask=np.arange(20)[:, None] < 5)
    split = load_split(tmp_path / "rows.npz", {"mask": "test_mask", "units": "labels"}, 0)
    np.testing.assert_array_equal(split.train[1], y[5:])
    assert split.train[1].dtype.kind == "i"
    images = {f"X_{p}": rng.integers(0, 256, (9, 2, 3), np.uint8) for p in ("train", "test")}
    labels = {f"y_{p}": rng.integers(0, 3, 9, np.uint8) for p in ("train", "test")}
    np.savez(tmp_path / "images.npz", **images, **labels)
    split = load_split(tmp_path / "images.npz", {"units": "labels", "largest": 255.0}, 0)
    np.testing.assert_allclose(split.test[0], images["X_test"].reshape(9, 6) / 255)
    np.testing.assert_array_equal(split.test[1], labels["y_test"])
    assert sorted(map(tuple, split.train[0] * 255)) == sorted(
        map(tuple, images["X_train"].reshape(9, 6).astype(float))
    )
    assert len(split.validation[1]) == 0


def test_scores_of_a_classifier_are_those_of_scikit_learn():
    """By hand: one of four labels is wrong, with probabilities of 0.8 for the label guessed."""
    X, y = np.array([[0.0], [1.0], [1.0], [0.0]]), np.array([0, 1, 0, 0])

    class Guess:
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            return np.column_stack([0.8 - 0.6 * X[:, 0], 0.2 + 0.6 * X[:, 0]])

    scores = class_scores(Guess(), Split((X, y), (X, y), (X, y)))
    assert scores["accuracy"] == 0.75
    assert scores["log_loss"] == pytest.approx(-(3 * np.log(0.8) + np.log(0.2)) / 4)
    assert scores["brier"] == pytest.approx((3 * 0.04 + 0.64) / 4)
    assert scores["ECE"] == pytest.approx(0.05)
    assert scores["AUC"] == pytest.approx((1 + 1 + 0.5) / 3)


def test_standard_errors_stand_behind_the_means():
    values = [0.7, 0.8, 0.9]
    rows = [
        {"dataset": "s", "method": "m", "split": split, "params": {}, "max_rows": None}
        | {"accuracy": value, "n_train": 9, "seconds": 1.0}
        for split, value in enumerate(values)
    ]
    table = {
        "paper": "p",
        "datasets": ["s"],
        "methods": {"m": {"params": {}}},
        "metrics": ["accuracy"],
        "standard_errors": True,
    }
    assert "| s | m | 3 | 0.800 ± 0.058 | 1 |" in render(table, rows)
    assert "| s | m | 1 | 0.700 | 1 |" in render(table, rows[:1])
