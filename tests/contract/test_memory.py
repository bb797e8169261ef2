"""`memory`: fits on the same rows share scales and k-means, on disk or within one fit."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import sklearn
import torch
from contract_cases import ONE_PER_CLASS, SPARSE_REGRESSORS, Case, Data
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.model_selection import GridSearchCV

import skgp
from skgp import PPGPRRegressor
from skgp.fitting import cache, table
from skgp.fitting.cache import Cached
from skgp.fitting.setup import Centres, Setup

pytestmark = pytest.mark.usefixtures("short_start")
CASES = ONE_PER_CLASS


@pytest.fixture
def computed(monkeypatch: Any) -> Counter[str]:
    """How often k-means and scales were computed, not read: spies inside the stored functions."""
    counts: Counter[str] = Counter()
    fit, scale = MiniBatchKMeans.fit, table.Scale.__init__

    def counted_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        counts["kmeans"] += 1
        return fit(self, *args, **kwargs)

    def counted_scale(self: Any, *args: Any) -> None:
        counts["scale"] += 1
        scale(self, *args)

    monkeypatch.setattr(MiniBatchKMeans, "fit", counted_fit)
    monkeypatch.setattr(table.Scale, "__init__", counted_scale)
    return counts


def n_kmeans(case: Case, n_restarts: int = 1) -> int:
    """The decoupled layer has inducing inputs of its own for the mean.

    A hidden layer of as many functions as there are inputs starts as the identity, so that the
    layer above it starts from the same rows.

    The exact GP starts from inducing inputs too, but from more than there are rows here. Where the
    upper layer sees hidden functions that chance tells apart, each restart has its own.
    """
    sees_chance = case.name == "dspp"
    own = len(case.known(dict.fromkeys(("n_inducing", "n_inducing_mean"))))
    return own + n_restarts * sees_chance


def test_a_second_fit_computes_nothing_again(
    case: Case, data: Data, tmp_path: Path, computed: Counter[str]
) -> None:
    """Bit for bit the fit without memory, whether results are computed or read."""
    memory = str(tmp_path)
    plain = case.make(max_iter=3).fit(data.X, data.y)
    expected = Counter(kmeans=n_kmeans(case), scale=2)
    assert computed == expected
    computed.clear()
    first = case.make(max_iter=3, memory=memory).fit(data.X, data.y)
    assert computed == expected
    computed.clear()
    second = case.make(max_iter=3, memory=memory).fit(data.X, data.y)
    assert not computed
    for model in (first, second):
        assert model.loss_curve_ == plain.loss_curve_
        for a, b in zip(
            model.predict(data.X_new, return_std=True),
            plain.predict(data.X_new, return_std=True),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)


def test_what_differs_is_computed(data: Data, tmp_path: Path, computed: Counter[str]) -> None:
    """Also with an object in place of a path, and by partial_fit."""
    memory = joblib.Memory(tmp_path, verbose=0)
    case = SPARSE_REGRESSORS[0]
    model = case.make(max_iter=1, memory=memory).fit(data.X, data.y)
    for change in ({"random_state": 7}, {"n_inducing": 12}):
        computed.clear()
        model.set_params(**change).fit(data.X, data.y)
        assert computed == {"kmeans": 1}
    computed.clear()
    case.make(memory=memory).partial_fit(data.X, data.y)
    assert not computed
    case.make(memory=memory).partial_fit(data.X[1:], data.y[1:])
    assert computed == {"kmeans": 1, "scale": 2}


def test_a_search_over_beta_reg_computes_kmeans_once_per_fold(
    data: Data, tmp_path: Path, computed: Counter[str]
) -> None:
    (case,) = [case for case in ONE_PER_CLASS if case.cls is PPGPRRegressor]
    model = case.make(max_iter=1, memory=str(tmp_path))
    GridSearchCV(model, {"beta_reg": [0.1, 1.0]}, cv=2, refit=False).fit(data.X, data.y)
    assert computed == {"kmeans": 2 * 2, "scale": 4}


def test_a_clone_keeps_it(case: Case, tmp_path: Path) -> None:
    for memory in (str(tmp_path), joblib.Memory(tmp_path, verbose=0)):
        copy = clone(case.make(memory=memory))
        assert getattr(copy.memory, "location", copy.memory) == getattr(memory, "location", memory)


# ------------------------------------------------- a cache that cannot be used


def fit_small(data: Data, memory: Any) -> Any:
    return SPARSE_REGRESSORS[0].make(max_iter=2, memory=memory).fit(data.X, data.y)


class Broken:
    """In the place of joblib.Memory: fails when it is set up, or when it is called."""

    def __init__(self, fails_at_once: bool) -> None:
        self.fails_at_once = fails_at_once

    def cache(self, function: Any) -> Any:
        if self.fails_at_once:
            raise PermissionError("not here")
        return self.fail

    def fail(self, *args: Any) -> Any:
        raise OSError("disk on fire")


@pytest.mark.parametrize("kind", ["file", "below a file", "object", "object that fails later"])
def test_a_fit_goes_on_without_a_cache(kind: str, data: Data, tmp_path: Path) -> None:
    """One warning, and the fit without memory."""
    file = tmp_path / "file"
    file.write_text("")
    memory = {
        "file": str(file),
        "below a file": str(file / "folder"),
        "object": Broken(True),
        "object that fails later": Broken(False),
    }[kind]
    with pytest.warns(
        UserWarning, match=r"^memory=.* cannot be used .*the fit goes on without"
    ) as caught:
        model = fit_small(data, memory)
    assert len(caught) == 1
    np.testing.assert_array_equal(
        model.predict(data.X_new), fit_small(data, None).predict(data.X_new)
    )


class Liar:
    """A cache whose objects have been replaced."""

    def cache(self, function: Any) -> Any:
        return lambda *args: "something else"


def test_what_is_of_another_type_is_computed(data: Data, computed: Counter[str]) -> None:
    desired = fit_small(data, None).predict(data.X_new)
    computed.clear()
    np.testing.assert_array_equal(fit_small(data, Liar()).predict(data.X_new), desired)
    assert computed == {"kmeans": 1, "scale": 2}


@pytest.mark.parametrize("content", [b"", b"\x80", b"no pickle"])
def test_damaged_files_are_computed(
    content: bytes, data: Data, tmp_path: Path, computed: Counter[str]
) -> None:
    desired = fit_small(data, str(tmp_path)).predict(data.X_new)
    for file in tmp_path.rglob("output.pkl"):
        file.write_bytes(content)
    computed.clear()
    np.testing.assert_array_equal(fit_small(data, str(tmp_path)).predict(data.X_new), desired)
    assert computed == {"kmeans": 1, "scale": 2}


def test_an_error_of_the_function_is_not_blamed_on_the_cache(tmp_path: Path) -> None:
    cached = Cached(math.sqrt, str(tmp_path), float)
    assert [cached(4.0), cached(4.0)] == [2.0, 2.0]
    with pytest.raises(ValueError, match=r"math domain|nonnegative"):
        cached(-1.0)


@pytest.mark.parametrize("package", ["skgp", "scikit-learn"])
def test_versions_do_not_share(
    package: str, data: Data, tmp_path: Path, computed: Counter[str], monkeypatch: Any
) -> None:
    fit_small(data, str(tmp_path))
    versions = [v + ".1" if i == (package != "skgp") else v for i, v in enumerate(cache._VERSIONS)]
    assert cache._VERSIONS == (skgp.__version__, sklearn.__version__)
    monkeypatch.setattr(cache, "_VERSIONS", tuple(versions))
    computed.clear()
    fit_small(data, str(tmp_path))
    assert computed == {"kmeans": 1, "scale": 2}


# --------------------------------------------------------------------- restarts


def test_restarts_compute_each_set_of_inducing_inputs_once(
    case: Case, data: Data, computed: Counter[str]
) -> None:
    """Even without a memory."""
    case.make(max_iter=1, n_restarts=2).fit(data.X, data.y)
    assert computed["kmeans"] == n_kmeans(case, n_restarts=2)


def test_centres_are_computed_once_for_equal_rows() -> None:
    calls = []

    def kmeans(X: Any, weight: Any, n: int, seed: int) -> Any:
        calls.append((weight.tolist(), n, seed))
        return X[:n] + seed

    centres = Centres(kmeans, 5)
    x = torch.arange(6.0).double().reshape(3, 2)
    one, two = torch.ones(3).double(), torch.full((3,), 2.0).double()
    for _ in range(2):
        assert centres(x.clone(), one, 2).tolist() == [[5.0, 6.0], [7.0, 8.0]]
    centres(x, one, 1)
    centres(x + 1.0, one, 2)
    centres(x, two, 2)
    assert [n for _, n, _ in calls] == [2, 1, 2, 2]
    assert [weight[0] for weight, *_ in calls] == [1.0, 1.0, 1.0, 2.0]
    assert {seed for *_, seed in calls} == {5}


def test_restarts_start_from_other_lengthscales(data: Data, monkeypatch: Any) -> None:
    """The first from sqrt(D), the others around it, log-normally and by their own seeds."""
    original, starts = Setup.lengthscale, []

    def spy(self: Setup, features: Any) -> float:
        starts.append(original(self, features))
        return starts[-1]

    monkeypatch.setattr(Setup, "lengthscale", spy)
    SPARSE_REGRESSORS[0].make(max_iter=1, n_restarts=4).fit(data.X, data.y)
    assert starts[0] == pytest.approx(np.sqrt(3.0), rel=1e-12)
    assert len(set(starts)) == len(starts) == 4
    logs = np.log(np.array(starts[1:]) / starts[0])
    assert 0.01 < np.abs(logs).max() < 2.5


def test_lengthscales_of_restarts_are_log_normal() -> None:
    """Standard deviation 0.5 of the logarithm: 400 seeds, tolerance 4 standard errors."""
    x = torch.zeros(2, 4).double()
    rows = x, x, x[:, 0], np.ones((2, 1), bool), np.zeros(2, np.uint64)
    centres = Centres(lambda *_: None, 0)
    setups = [Setup(*rows, 2.0, 2, centres, False, restart=1, seed=seed) for seed in range(400)]
    logs = np.log([setup.lengthscale(x) / 2.0 for setup in setups])
    assert abs(logs.mean()) < 4 * 0.5 / np.sqrt(400)
    assert abs(logs.std() - 0.5) < 4 * 0.5 / np.sqrt(800)
