"""A fit that fails for any reason leaves the estimator exactly as it was."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from contract_cases import (
    CLASSIFIERS,
    EMBEDDINGS,
    ONE_PER_CLASS,
    REPRESENTATIVES,
    Case,
    Data,
    make_data,
)

from skgp.core.training.run import Run

pytestmark = pytest.mark.usefixtures("short_start")
CASES = ONE_PER_CLASS + CLASSIFIERS + EMBEDDINGS
QUICK = REPRESENTATIVES + CLASSIFIERS[:1] + EMBEDDINGS[:1]


class Broken(Exception):
    """What the tests raise."""


def arguments(case: Case, data: Data, names: tuple[str, str]) -> tuple[Any, ...]:
    """What `fit` takes; a classifier gets classes of these names."""
    if case in EMBEDDINGS:
        return (np.column_stack([data.X, data.y]),)
    if case in CLASSIFIERS:
        return data.X, np.where(data.y > np.median(data.y), *names)
    return data.X, data.y


def answers(case: Case, model: Any, data: Data) -> list[Any]:
    if case in EMBEDDINGS:
        return [model.transform(np.column_stack([data.X, data.y])), model.embedding_]
    if case in CLASSIFIERS:
        return [model.predict_proba(data.X_new), model.predict(data.X_new)]
    return [*model.predict(data.X_new, return_std=True)]


def assert_unchanged(case: Case, model: Any, data: Data, fail: Callable[[], Any]) -> None:
    """Whatever the failure is: attributes are the same objects, answers the same numbers."""
    attributes, before = dict(vars(model)), copy.deepcopy(answers(case, model, data))
    fail()
    assert vars(model).keys() == attributes.keys()
    assert all(vars(model)[name] is value for name, value in attributes.items())
    for actual, desired in zip(answers(case, model, data), before, strict=True):
        np.testing.assert_array_equal(actual, desired)


@pytest.fixture
def model(case: Case, data: Data) -> Any:
    return case.make(max_iter=2).fit(*arguments(case, data, ("cat", "dog")))


def other_rows() -> Data:
    """Rows of two columns instead of three."""
    data = make_data(seed=5)
    return Data(data.X[:, :2], data.y, data.X_new[:, :2], data.y_new)


def test_a_fit_that_fails_in_training(case: Case, data: Data, model: Any, monkeypatch: Any) -> None:
    """The new table has other columns and other classes."""

    def fail() -> None:
        with pytest.raises(Broken):
            model.fit(*arguments(case, other_rows(), ("ham", "spam")))

    def broken(self: Any, batch: Any, step: int) -> float:
        raise Broken

    monkeypatch.setattr(Run, "gradients", broken)
    assert_unchanged(case, model, data, fail)


def test_a_fit_that_is_interrupted_before_training(
    case: Case, data: Data, model: Any, monkeypatch: Any
) -> None:
    def fail() -> None:
        with pytest.raises(KeyboardInterrupt):
            model.fit(*arguments(case, other_rows(), ("ham", "spam")))

    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("skgp.estimators._estimator.first_models", interrupted)
    assert_unchanged(case, model, data, fail)


def test_a_fit_whose_callback_fails(case: Case, data: Data, model: Any) -> None:
    class Callback:
        torn_down = 0

        def setup(self, estimator: Any, context: Any) -> None: ...

        def teardown(self, estimator: Any, context: Any) -> None:
            Callback.torn_down += 1

        def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...

        def on_fit_task_end(self, estimator: Any, context: Any) -> None:
            raise Broken

    def fail() -> None:
        with pytest.raises(Broken):
            model.fit(*arguments(case, other_rows(), ("ham", "spam")))

    model.set_callbacks(Callback())
    assert_unchanged(case, model, data, fail)
    assert Callback.torn_down == 1


def test_a_fit_whose_arguments_are_refused_late(case: Case, data: Data, model: Any) -> None:
    """The inputs are valid and have other columns; what comes after them is not valid."""

    def fail() -> None:
        rows = arguments(case, other_rows(), ("ham", "spam"))
        with pytest.raises(ValueError, match="not available here"):
            model.set_params(device="cuda:77").fit(*rows)
        model.set_params(device="cpu")
        if case not in EMBEDDINGS:
            with pytest.raises(ValueError, match="X_val and y_val"):
                model.fit(*rows, X_val=rows[0])
            with pytest.raises(ValueError, match="sample_weight"):
                model.fit(*rows, np.full(60, -1.0))

    assert_unchanged(case, model, data, fail)


def test_a_partial_fit_that_fails(case: Case, data: Data, monkeypatch: Any) -> None:
    if not hasattr(case.make(), "partial_fit"):
        pytest.skip("there is no partial_fit: the model needs all rows at once")
    rows = arguments(case, data, ("cat", "dog"))
    model = case.make().partial_fit(*rows)
    calls = iter(range(100))

    def broken_after(self: Any, *args: Any) -> None:
        next(calls)
        raise Broken

    def fail() -> None:
        with pytest.raises(Broken):
            model.partial_fit(*rows)

    monkeypatch.setattr(Run, "_record", broken_after)
    assert_unchanged(case, model, data, fail)
    assert next(calls) == 1


def test_a_first_fit_that_fails_leaves_no_attribute(
    case: Case, data: Data, monkeypatch: Any
) -> None:
    def broken(self: Any, batch: Any, step: int) -> float:
        raise Broken

    monkeypatch.setattr(Run, "gradients", broken)
    model = case.make()
    attributes = dict(vars(model))
    with pytest.raises(Broken):
        model.fit(*arguments(case, data, ("cat", "dog")))
    assert vars(model) == attributes
