"""The table of defaults: methods of other packages, and sets of every size."""

import importlib
import json

import numpy as np
import pytest
from scipy.stats import rankdata

from benchmarks import tables
from benchmarks._protocol import load_protocol, load_split, resolved, rows_of
from benchmarks._protocol import tables as tables_of
from benchmarks._scikit_learn_gp import ScikitLearnGP
from benchmarks._sizes import average_ranks, distances, size_classes, size_lines
from skgp import scoring

PEERS = {
    "ScikitLearnGP": ("_scikit_learn_gp", "sklearn"),
    "CatBoost": ("_catboost", "catboost"),
    "NGBoost": ("_ngboost", "ngboost"),
    "QuantileForest": ("_quantile_forest", "quantile_forest"),
}
# NGBoost takes seconds for each output.
FITTED_OFTEN = [
    pytest.param(name, marks=pytest.mark.slow) if name == "NGBoost" else name for name in PEERS
]
TINY = {"max_iter": 1, "n_inducing": 5, "batch_size": 50}
# Few made-up rows: lengthscales run into scikit-learn's bounds.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def peer(name):
    """A method of another package, which the extra `bench` installs."""
    module, package = PEERS[name]
    pytest.importorskip(package, reason=f"{package} is in the extra bench")
    return getattr(importlib.import_module(f"benchmarks.{module}"), name)()


@pytest.fixture
def made_up(tmp_path, rng):
    """A folder with a set of one output and one of two."""
    for folder, name, n_outputs in (("uci", "servo", 1), ("robotics", "sarcos_test_part", 2)):
        X = rng.standard_normal((120, 3))
        Y = np.tile(X.sum(1), (n_outputs, 1)).T + 0.3 * rng.standard_normal((120, n_outputs))
        targets = {"y": Y[:, 0]} if n_outputs == 1 else {"Y": Y}
        (tmp_path / folder).mkdir()
        mask = rng.random((120, 3)) < 0.2
        np.savez(tmp_path / folder / f"{name}.npz", X=X, test_mask=mask, **targets)
    return tmp_path


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("name", FITTED_OFTEN)
def test_every_fit_of_the_defaults_runs_once(name, made_up, monkeypatch, capsys):
    """One step of ours beside one method of others; the second run has nothing left to fit."""
    peer(name)
    protocol = load_protocol("defaults")
    methods = {
        label: method
        for label, method in protocol["methods"].items()
        if method["estimator"] == name or "module" not in method
    }

    def reduced(params, X):
        params = resolved(params, X)
        return params | (TINY if params else {})

    exact = {**methods["exact GP"], "params": {}}
    protocol["methods"] = methods | {"exact GP": exact}
    monkeypatch.setattr(tables, "load_protocol", lambda _: protocol)
    monkeypatch.setattr(tables, "resolved", reduced)
    monkeypatch.setattr(tables, "RESULTS", made_up)
    run = ["defaults", "--data", str(made_up), "--splits", "1"]
    run += ["--datasets", "servo", "sarcos_test_part"]
    monkeypatch.setattr("sys.argv", ["tables", *run])
    tables.main()
    text = (made_up / "defaults.jsonl").read_text()
    printed = capsys.readouterr().out
    rows = [json.loads(line) for line in text.splitlines()]
    assert [(row["dataset"], row["method"]) for row in rows] == [
        (dataset, method) for method in methods for dataset in ("servo", "sarcos_test_part")
    ]
    for row in rows:
        assert np.isfinite([row[m] for m in protocol["metrics"]]).all()
    assert all(f"| {method} |" in printed.partition("Average rank")[2] for method in methods)
    tables.main()
    assert (made_up / "defaults.jsonl").read_text() == text


def test_the_sets_are_those_of_the_folders(made_up):
    (table,) = tables_of(load_protocol("defaults"))
    assert len(table["datasets"]) == len(set(table["datasets"])) == 31
    fits = {fit.dataset: fit for fit in tables.fits_of(table, 1)}
    single = rows_of(made_up, table, fits["servo"])
    several = rows_of(made_up, table, fits["sarcos_test_part"])
    assert single.train[1].ndim == 1
    assert several.train[1].shape[1:] == (2,)
    with pytest.raises(FileNotFoundError, match="uci"):
        rows_of(made_up, table, fits["yacht"])


def test_targets_of_a_named_set_are_changes(made_up):
    table = {"mask": "test_mask", "targets": "Y", "units": "original"}
    path = made_up / "robotics" / "sarcos_test_part.npz"
    X, Y = load_split(path, {**table, "differences": ["other"]}, 0).train
    _, changes = load_split(path, {**table, "differences": ["other", path.stem]}, 0).train
    np.testing.assert_array_equal(changes, Y - X[:, :2])


def test_a_set_with_too_many_rows_is_not_fitted(made_up, monkeypatch, capsys):
    protocol = load_protocol("defaults")
    (table,) = tables_of(protocol)
    (fit,) = (f for f in tables.fits_of(table, 1) if (f.dataset, f.method) == ("servo", "SVGP"))
    n_train = len(rows_of(made_up, table, fit).train[1])
    gp = protocol["methods"]["scikit-learn GP"]
    for most, n_fits in ((n_train - 1, 0), (n_train, 1)):
        methods = {"scikit-learn GP": {**gp, "max_train": most}}
        monkeypatch.setattr(
            tables, "load_protocol", lambda _, m=methods: {**protocol, "methods": m}
        )
        monkeypatch.setattr(tables, "RESULTS", made_up)
        run = ["defaults", "--data", str(made_up), "--splits", "1", "--datasets", "servo"]
        monkeypatch.setattr("sys.argv", ["tables", *run])
        tables.main()
        assert capsys.readouterr().out.count('"scikit-learn GP"') == n_fits


@pytest.mark.parametrize("name", FITTED_OFTEN)
def test_outputs_have_models_of_their_own(name, rng):
    """Each as if the others were not there; the joint density is the product of theirs."""
    X = rng.standard_normal((80, 2))
    Y = np.column_stack([X.sum(1), X[:, 0] ** 2]) + 0.2 * rng.standard_normal((80, 2))
    both = peer(name).fit(X[:60], Y[:60])
    nll = []
    for output in range(2):
        alone = peer(name).fit(X[:60], Y[:60, output])
        dist = alone.predict_dist(X[60:])
        assert dist.shape == (20,)
        np.testing.assert_allclose(both.predict_dist(X[60:]).mean()[:, output], dist.mean())
        np.testing.assert_allclose(both.predict_dist(X[60:]).std()[:, output], dist.std())
        own = getattr(alone, "nll", None)
        y = Y[60:, output]
        nll.append(own(X[60:], y) if own else scoring.joint_nll(y, dist))
    own = getattr(both, "nll", None)
    joint = own(X[60:], Y[60:]) if own else scoring.joint_nll(Y[60:], both.predict_dist(X[60:]))
    assert joint == pytest.approx(np.mean(nll))


@pytest.mark.parametrize("name", PEERS)
def test_predictions_of_other_packages_have_the_spread_of_the_noise(name, rng):
    """Most new targets are within intervals of 90 %, though some defaults are too certain."""
    X = rng.uniform(-1.0, 1.0, (900, 4))
    y = 2.0 * X[:, 0] + X[:, 1] + 0.3 * rng.standard_normal(900)
    dist = peer(name).fit(X[:600], y[:600]).predict_dist(X[600:])
    assert 0.6 < scoring.coverage(y[600:], dist, coverage=0.9) < 0.99  # NGBoost has 0.66
    assert scoring.rmse(y[600:], dist) < 0.45
    assert 0.2 < dist.std().mean() < 0.5


def test_scikit_learns_gp_predicts_with_its_noise(rng):
    X = rng.uniform(-1.0, 1.0, (100, 1))
    y = 3.0 * np.sin(X[:, 0]) + 0.3 * rng.standard_normal(100)
    model = ScikitLearnGP().fit(X, y)
    gp = model.models_[0][-1]
    noise = gp.kernel_.k2.noise_level * y.var()
    assert noise == pytest.approx(0.09, rel=0.5)
    assert (model.predict_dist(X).var() > noise).all()


def test_a_forest_is_scored_by_its_quantiles(rng):
    """CRPS is twice the mean pinball loss; the density is that of a kernel estimate, by a loop."""
    forest = peer("QuantileForest")
    X = rng.standard_normal((150, 2))
    y = np.round(X.sum(1) + 0.5 * rng.standard_normal(150), 1)  # some quantiles are equal
    forest.fit(X[:100], y[:100])
    levels = (np.arange(99) + 0.5) / 99
    q = forest.models_[0].predict(X[100:], quantiles=levels.tolist())
    gap = y[100:, None] - q
    pinball = np.maximum(levels * gap, (levels - 1.0) * gap)
    crps = scoring.crps(y[100:], forest.predict_dist(X[100:]))
    assert crps == pytest.approx(2.0 * pinball.mean(), rel=1e-2)
    nll = []
    for row, target in zip(q, y[100:], strict=True):
        width = max(row.std(ddof=1) * (4 / 3 / 99) ** 0.2, 0.01 * y[:100].std())
        kernels = np.exp(-0.5 * ((target - row) / width) ** 2) / (width * np.sqrt(2.0 * np.pi))
        nll.append(-np.log(kernels.mean()))
    assert forest.nll(X[100:], y[100:]) == pytest.approx(np.mean(nll))


def test_sizes_ranks_and_distances_by_hand():
    nll = {
        "small": {"a": 1.0, "b": 2.0, "c": 0.5},
        "other": {"a": 3.0, "b": 2.5, "c": 2.51},
        "large": {"a": 1.0, "c": 1.2},
        "huge": {"c": 0.0},
    }
    n_train = {"small": 99, "other": 50, "large": 100, "huge": 1000}
    cells = {
        (dataset, method): {
            "NLL": value,
            "CRPS": 2.0 * value,
            "coverage90": 0.9 if dataset == "small" else 0.8,
            "n_train": n_train[dataset],
            "splits": 2,
        }
        for dataset, values in nll.items()
        for method, value in values.items()
    }
    classes = size_classes(cells, [100, 500, 1000])
    assert classes == {
        "below 100": ["small", "other"],
        "100 to 499": ["large"],
        "1,000 or more": ["huge"],
    }
    ranks = average_ranks(cells, ["small", "other"], ["a", "b", "c"], "NLL")
    expected = rankdata([[1.0, 2.0, 0.5], [3.0, 2.5, 2.51]], axis=1).mean(0)
    assert ranks == dict(zip("abc", expected, strict=True))
    assert average_ranks(cells, ["large"], ["a", "b", "c"], "NLL") == {"a": 1.0, "c": 2.0}
    fewer = cells | {("small", "a"): cells["small", "a"] | {"splits": 1}}
    assert average_ranks(fewer, ["small", "other"], ["a", "b", "c"], "NLL") == {"b": 1.5, "c": 1.5}
    above = distances(cells, "c", ["a", "b"], "NLL")
    assert above == pytest.approx({"small": -0.5, "other": 0.01, "large": 0.2})
    above = distances(cells, "c", ["a", "b"], "CRPS")
    assert above == pytest.approx({"small": -0.5, "other": 0.004, "large": 0.2})
    table = {
        "methods": dict.fromkeys(["a", "b", "c", "never fitted"]),
        "by_size": {"bounds": [100, 500, 1000], "baselines": ["a", "b"]},
    }
    lines = size_lines(table, cells)
    assert "| method | below 100 (2 sets) | 100 to 499 (1 sets) | 1,000 or more (1 sets) |" in lines
    assert "| a | 2.50 | 1.00 |  |" in lines
    assert "| b | 2.00 |  |  |" in lines
    assert "| c | 1.50 | 2.00 | 1.00 |" in lines
    assert "| c | 0.850 | 0.800 | 0.800 |" in lines
    assert "| c | large: +0.20 | 2 of 3 sets | large: +20% | 2 of 3 sets |" in lines
    assert "| b | small: +1.00 | 1 of 2 sets | small: +100% | 1 of 2 sets |" in lines
    assert not any("never fitted" in line for line in lines)


def test_a_protocol_fixes_parameters_of_the_estimators_that_have_them():
    (table,) = tables_of(load_protocol("ppgpr2020"))
    for method in table["methods"].values():
        estimator = tables.estimator_of(table, method, {"random_state": 3})
        assert estimator.random_state == 3
        assert getattr(estimator, "input_warping", False) is False
    assert tables.estimator_of({}, {"estimator": "SVGPRegressor"}, {}).input_warping == "auto"
