"""A fit on two threads, and predictions from several at once, are those of one thread."""

import copy
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from contract_cases import CLASSIFIERS, ONE_PER_CLASS, Case, make_data, make_labels
from sklearn.base import is_classifier
from torch import nn

from skgp import PPGPRClassifier, PPGPRRegressor, SVGPRegressor
from skgp.core.layers.kept import Content
from skgp.core.layers.sparse import SparseLayer
from skgp.estimators import _estimator
from skgp.estimators.baselines import MCDropoutRegressor

pytestmark = pytest.mark.usefixtures("short_start")
CASES = ONE_PER_CLASS + CLASSIFIERS
# One layer of several outputs, nodes, and samples. More are slow tests: beside another worker, two
# threads wait for each other.
QUICK = tuple(case for case in CASES if case.name in {"svgp-full", "dspp-qr3", "iwdgp"})
# torch splits among threads what is large only, as are the matrices of 200 inducing inputs.
_N_ROWS = 220
_PARAMS = {"n_inducing": 200, "max_iter": 1, "dtype": "float64"}


def predictions(case: Case, n_threads: int) -> Any:
    torch.set_num_threads(n_threads)
    model = case.make(**case.known(_PARAMS))
    if is_classifier(model):
        labels = make_labels(_N_ROWS)
        return model.fit(labels.X, labels.y).predict_proba(labels.X_new)
    rows = make_data(_N_ROWS)
    return model.fit(rows.X, rows.Y).predict(rows.X_new)


@pytest.mark.usefixtures("two_threads")
def test_a_fit_on_two_threads_is_that_on_one(case: Case, monkeypatch: Any) -> None:
    monkeypatch.setattr("skgp.core.numerics.processes._FEW_ROWS", 0)
    found, desired = predictions(case, 2), predictions(case, 1)
    # Kernel and noise that start at an optimum are rounded to 1e-4, and two threads sum in another
    # order: a number beside an edge is rounded to the other side, here or on another machine.
    atol = 3e-3 * desired.std() if case.name.startswith(("dspp", "ppgpr")) else 1e-7
    if case.name == "dspp-continuous":  # whose steps by drawn nodes lead further apart
        atol = 0.02 * desired.std()
    np.testing.assert_allclose(found, desired, rtol=1e-7, atol=atol)


class NoteThreads:
    """A callback that notes the number of torch's threads, and may fail."""

    def __init__(self, error: type[Exception] | None = None) -> None:
        self.seen: list[int] = []
        self.error = error

    def setup(self, estimator: Any, context: Any) -> None:
        pass

    def teardown(self, estimator: Any, context: Any) -> None:
        pass

    def on_fit_task_begin(self, estimator: Any, context: Any, **arguments: Any) -> None:
        pass

    def on_fit_task_end(self, estimator: Any, context: Any, **arguments: Any) -> bool:
        if context.task_name == "epoch":
            self.seen.append(torch.get_num_threads())
            if self.error is not None:
                raise self.error("no more")
        return False


@pytest.mark.usefixtures("two_threads", "short_start")
@pytest.mark.parametrize(("n_rows", "n_cores", "expected"), [(40, 8, 1), (500, 8, 2), (500, 1, 1)])
def test_few_rows_or_few_cores_take_few_threads(
    n_rows: int, n_cores: int, expected: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr("skgp.core.numerics.processes.joblib.cpu_count", lambda: n_cores)
    rows, note = make_data(n_rows), NoteThreads()
    model = SVGPRegressor(n_inducing=5, max_iter=2, random_state=0).set_callbacks(note)
    model.fit(rows.X, rows.y)
    assert note.seen == [expected] * 2
    assert torch.get_num_threads() == 2
    train = _estimator.fit_chunk

    def noted(*args: Any, **options: Any) -> Any:
        note.seen.append(torch.get_num_threads())
        return train(*args, **options)

    monkeypatch.setattr(_estimator, "fit_chunk", noted)
    model.partial_fit(rows.X, rows.y)
    assert note.seen == [expected] * 3
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_search_over_few_rows_takes_one_thread(monkeypatch: Any) -> None:
    seen, find = [], _estimator.found_plan

    def noted(*args: Any) -> Any:
        seen.append(torch.get_num_threads())
        return find(*args)

    monkeypatch.setattr(_estimator, "found_plan", noted)
    rows = make_data(40)
    PPGPRRegressor(max_iter=1, random_state=0).fit(rows.X, rows.y)
    assert seen == [1]


@pytest.mark.usefixtures("two_threads")
def test_a_fit_that_fails_gives_threads_back() -> None:
    rows = make_data(40)
    model = SVGPRegressor(n_inducing=5, random_state=0).set_callbacks(NoteThreads(OSError))
    with pytest.raises(OSError, match="no more"):
        model.fit(rows.X, rows.y)
    assert torch.get_num_threads() == 2


def with_dropout(n_features: int) -> nn.Module:
    layers = nn.Linear(n_features, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 2)
    return nn.Sequential(*layers)


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Threads take turns a thousand times as often as usual."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(interval)


_WITH_DROPOUT = {"feature_extractor": with_dropout, "n_inducing": 8}


@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize(
    "model",
    [
        MCDropoutRegressor(n_samples=4, max_iter=2, random_state=0),
        PPGPRRegressor(max_iter=2, early_stopping=False, random_state=0, **_WITH_DROPOUT),
        PPGPRClassifier(max_iter=2, early_stopping=False, random_state=0, **_WITH_DROPOUT),
    ],
    ids=lambda model: type(model).__name__,
)
def test_predictions_from_several_threads_are_those_from_one(model: Any) -> None:
    """Dropout and batch norms stay as they are in predictions, which any thread begins or ends."""
    rows = make_labels(40) if is_classifier(model) else make_data(40)
    model.fit(rows.X, rows.y)
    X = np.tile(rows.X_new, (200, 1))[:2000]

    def predicted(of: Any) -> Any:
        return of.predict_proba(X) if is_classifier(of) else of.predict(X, return_std=True)

    expected, n_threads = predicted(model), 4
    shared = copy.deepcopy(model)  # which has kept no factors
    all_begin = threading.Barrier(n_threads)

    def of_thread() -> list[Any]:
        all_begin.wait()
        return [predicted(shared) for _ in range(15)]

    parallel = joblib.Parallel(n_threads, backend="threading")
    for found in parallel(joblib.delayed(of_thread)() for _ in range(n_threads)):
        for each in found:
            np.testing.assert_array_equal(each, expected)


@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize(
    "read",
    [Content.of, SparseLayer.__getstate__],
    ids=["content", "pickle"],
)
def test_a_layer_is_read_while_a_prediction_keeps_factors(read: Callable[[nn.Module], Any]) -> None:
    rows = make_data(40)
    model = SVGPRegressor(max_iter=1, n_inducing=8, random_state=0).fit(rows.X, rows.y)
    (layer,) = (m for m in model.model_.modules() if isinstance(m, SparseLayer))
    layer.known_factors()
    kept, stop = layer._kept, threading.Event()

    def keep_and_forget() -> None:
        while not stop.is_set():
            vars(layer)["_kept"] = kept
            del vars(layer)["_kept"]

    with ThreadPoolExecutor(1) as other:
        keeping = other.submit(keep_and_forget)
        try:
            for _ in range(3000):
                read(layer)
        finally:
            stop.set()
    keeping.result()
