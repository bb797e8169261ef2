"""Sizes that no memory holds are refused by name, and nothing of them is allocated."""

from typing import Any

import numpy as np
import pytest
import torch
from contract_cases import CLASSIFIERS, EMBEDDINGS, REGRESSORS, Case, Data

from skgp.core.numerics import memory
from skgp.fitting.setup import Setup

CASES = list(
    {case.cls: case for case in (*EMBEDDINGS, *CLASSIFIERS, *reversed(REGRESSORS))}.values()
)
MANY = 10**9
SIZES: dict[str, Any] = {
    "n_samples": MANY,
    "n_prediction_samples": MANY,
    "n_posterior_samples": MANY,
    "n_importance": MANY,
    "n_sites": MANY,
    "n_layers": MANY,
    "n_restarts": MANY,
    "n_hidden": MANY,
    "n_components": MANY,
    "latent_dim": MANY,
    "width": MANY,
    "feature_extractor": [10**6, 10**6],
    "hidden_layer_sizes": np.array([10**6, 10**6]),
}


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda device: 16 * 2**30)


def target(case: Case, data: Data) -> Any:
    return data.y > data.y.mean() if case in CLASSIFIERS else data.y


def test_sizes_beyond_the_memory(case: Case, data: Data) -> None:
    for name, value in case.known(SIZES).items():
        model = case.make(**{name: value})
        if name == "n_sites":
            model.set_params(quadrature="qr3")
        for fit in (model.fit, getattr(model, "partial_fit", model.fit)):
            with pytest.raises(
                MemoryError, match=rf"^{name}=.*GiB of memory, and there are 16 GiB"
            ):
                fit(data.X, target(case, data))


def test_every_size_is_tried() -> None:
    assert set(SIZES) == {name for case in CASES for name in case.known(SIZES)}


@pytest.fixture
def failing(case: Case, error: Exception, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An estimator whose model cannot be built."""

    def fail(spec: Any, setup: Setup) -> Any:
        raise error

    monkeypatch.setattr("skgp.recipes.assemble.build_stack", fail)
    return case.make()


@pytest.mark.only(CASES[-1:])
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"
        ),
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("Storage size calculation overflowed with sizes=[9, 9]"),
        MemoryError(),
        np._core._exceptions._ArrayMemoryError((10**9,), np.dtype(float)),
    ],
    ids=["cpu", "gpu", "overflow", "python", "numpy"],
)
def test_failed_allocations_name_what_may_be_lowered(
    case: Case, data: Data, error: Exception, failing: Any
) -> None:
    message = r"more memory than there is: lower some of .*n_inducing=15"
    for fit in (failing.fit, failing.partial_fit):
        with pytest.raises(MemoryError, match=message) as caught:
            fit(data.X, target(case, data))
        assert caught.value.__cause__ is error


@pytest.mark.only(CASES[-1:])
@pytest.mark.parametrize("error", [RuntimeError("another one"), MemoryError("with its remedy")])
def test_other_errors_stay_as_they_are(
    case: Case, data: Data, error: Exception, failing: Any
) -> None:
    with pytest.raises(type(error)) as caught:
        failing.fit(data.X, target(case, data))
    assert caught.value is error
