"""Every estimator comes back from a file as it was, to the bit, and trains on like the original."""

from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import pytest
import torch
from contract_cases import (
    CLASSIFIERS,
    EMBEDDINGS,
    MINIBATCH_REGRESSORS,
    REGRESSORS,
    REPRESENTATIVES,
    Case,
    Data,
    make_labels,
)
from torch import nn

from skgp import load, save

pytestmark = pytest.mark.usefixtures("short_start")
CASES = (*REGRESSORS, *EMBEDDINGS, *CLASSIFIERS)
FROZEN = next(case for case in REGRESSORS if case.name == "dspp-qr1")  # it has fixed parameters
QUICK = (*REPRESENTATIVES, FROZEN, REGRESSORS[-1], EMBEDDINGS[0], CLASSIFIERS[0])
SHORT = {"max_iter": 2}
for_streams = pytest.mark.only((*MINIBATCH_REGRESSORS, *CLASSIFIERS))
for_warm_starts = pytest.mark.only((*REGRESSORS, *CLASSIFIERS))
for_regressors = pytest.mark.only(REGRESSORS)


@pytest.fixture
def again(tmp_path: Path) -> Any:
    """What becomes of an estimator in a file."""

    def round_trip(model: Any, **kwargs: Any) -> Any:
        save(model, tmp_path / "model.skgp")
        return load(tmp_path / "model.skgp", **kwargs)

    return round_trip


def targets(case: Case, data: Data) -> Any:
    return make_labels().y if case in CLASSIFIERS else data.y


def fitted(case: Case, data: Data, **params: Any) -> Any:
    model = case.make(**{**SHORT, **params})
    return model.fit(data.X) if case in EMBEDDINGS else model.fit(data.X, targets(case, data))


def predicted(model: Any, X: Any) -> list[Any]:
    """All numbers that a model predicts."""
    if hasattr(model, "transform"):
        dist = model.predict_dist(model.transform(X))
        return [*dist.components()[:3], model.transform(X), model.score_samples(X)]
    if hasattr(model, "classes_"):
        return [model.predict_proba(X), model.predict(X), model.predict_dist(X).pmf("bottom")]
    return [*model.predict_dist(X).components()[:3], *model.predict(X, return_std=True)]


def assert_same_bits(actual: Any, desired: Any, X: Any) -> None:
    for a, b in zip(predicted(actual, X), predicted(desired, X), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


def assert_same(a: Any, b: Any, seen: set[int]) -> None:
    """Of the same type and with the same attributes, all the way down."""
    assert type(a) is type(b)
    if isinstance(b, nn.Module) and id(b) in seen:
        return
    seen.add(id(b))
    if isinstance(b, np.ndarray):
        np.testing.assert_array_equal(a, b, strict=True)
        assert a.flags.c_contiguous == b.flags.c_contiguous
        assert a.flags.writeable
    elif isinstance(b, torch.Tensor):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
        assert a.requires_grad == b.requires_grad
        assert a.is_contiguous() == b.is_contiguous()
    elif isinstance(b, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y, seen)
    elif isinstance(b, dict):
        assert list(a) == list(b)
        for key in b:
            assert_same(a[key], b[key], seen)
    elif isinstance(b, MethodType):
        assert a.__name__ == b.__name__
        assert type(a.__self__) is type(b.__self__)
    elif isinstance(b, np.random.RandomState):
        assert_same(a.get_state(), b.get_state(), seen)
    elif isinstance(b, nn.Module):
        hooks = {name for name in vars(b) if name.endswith("_hooks")}
        computed = {"_kept"}  # by predictions
        assert vars(a).keys() - computed == vars(b).keys() - computed
        for name in vars(b).keys() - hooks - computed:
            assert_same(vars(a)[name], vars(b)[name], seen)
    elif hasattr(b, "__dict__") and not isinstance(b, type | FunctionType):
        assert_same(vars(a), vars(b), seen)
    else:
        assert a == b or (a != a and b != b)


def test_a_file_holds_everything(case: Case, data: Data, again: Any) -> None:
    model = fitted(case, data)
    loaded = again(model)
    assert_same(loaded, model, set())
    assert_same_bits(loaded, model, data.X_new)
    assert_same(loaded, model, set())


def test_an_estimator_without_a_fit_comes_back(case: Case, again: Any) -> None:
    model = case.make()
    loaded = again(model)
    assert not hasattr(loaded, "model_")
    assert_same(loaded.get_params(), model.get_params(), set())


@for_warm_starts
def test_training_goes_on(case: Case, data: Data, again: Any) -> None:
    model = fitted(case, data, warm_start=True)
    loaded = again(model)
    for each in (loaded, model):
        each.fit(data.X, targets(case, data))
    assert loaded.loss_curve_ == model.loss_curve_
    assert_same_bits(loaded, model, data.X_new)


@for_streams
def test_a_stream_goes_on(case: Case, data: Data, again: Any) -> None:
    """Its optimiser and its first rows are in the file."""
    y = targets(case, data)
    model = case.make(**SHORT)
    first = {"classes": np.unique(y)} if case in CLASSIFIERS else {}
    model.partial_fit(data.X[:40], y[:40], **first)
    loaded = again(model)
    assert_same(loaded, model, set())
    for each in (loaded, model):
        each.partial_fit(data.X[40:], y[40:]).partial_fit(data.X, y)
    assert loaded.loss_curve_ == model.loss_curve_
    assert_same_bits(loaded, model, data.X_new)


@for_regressors
def test_several_outputs_come_back(case: Case, data: Data, again: Any) -> None:
    Y = data.Y.copy()
    Y[3, 1] = np.nan
    model = case.make(**SHORT).fit(data.X, Y if "gamma" not in case.name else data.Y)
    loaded = again(model)
    assert_same(loaded, model, set())
    assert_same_bits(loaded, model, data.X_new)


def test_the_comparison_sees_a_difference() -> None:
    layer = nn.Linear(1, 1)
    other = nn.Linear(1, 1)
    assert_same(layer, layer, set())
    for a, b in [(1, 1.0), ([1], [2]), ({"a": 1}, {"b": 1}), (np.ones(1), np.zeros(1))]:
        with pytest.raises(AssertionError):
            assert_same(a, b, set())
    with pytest.raises(AssertionError):
        assert_same(layer, other, set())
