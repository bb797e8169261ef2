"""`compile=True`: fits that a compiler helps, and those that have none."""

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from contract_cases import EMBEDDINGS, REGRESSORS, REPRESENTATIVES, Data

from skgp import DSPPRegressor, load, save
from skgp.core.kernels.kernel import Kernel
from skgp.core.numerics import elementwise
from skgp.core.numerics.elementwise import EAGER, diagonal_moments, diagonal_slopes, matern52
from skgp.exceptions import CompilationWarning

pytestmark = pytest.mark.usefixtures("short_start")

CASES = tuple(c for c in (*REGRESSORS, *EMBEDDINGS) if "compile" in c.make().get_params())
QUICK = tuple(c for c in REPRESENTATIVES if c in CASES)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Functions that are compiled, by a compiler that changes nothing."""
    functions: list[Any] = []

    def compiler(function: Any, *, dynamic: bool) -> Any:
        assert dynamic
        functions.append(function)
        return function

    monkeypatch.setattr(elementwise.torch, "compile", compiler)
    return functions


def test_a_failing_compiler_changes_nothing(
    case: Any, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warning of a fit, also of one that cross-validates, and the eager result to the bit."""

    def compiler(function: Any, **options: Any) -> Any:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(elementwise.torch, "compile", compiler)
    params = {"max_iter": 2, **case.known({"early_stopping": "auto"})}
    rows = (data.X,) if case in EMBEDDINGS else (data.X, data.y)
    if case.cls.__name__ not in {"DSPPRegressor", "PPGPRRegressor"}:
        params.pop("early_stopping", None)
    desired = case.make(**params).fit(*rows)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = case.make(compile=True, **params).fit(*rows)
    assert [w.category for w in caught].count(CompilationWarning) == 1
    assert model.loss_curve_ == desired.loss_curve_


def make(**params: Any) -> DSPPRegressor:
    settings = {"n_inducing": 12, "n_sites": 3, "max_iter": 2, "random_state": 0}
    return DSPPRegressor(**{**settings, **params})


@pytest.mark.only(REGRESSORS[:1])
def test_training_is_compiled_and_the_fitted_model_is_not(
    case: Any, data: Data, compiled: list[Any], tmp_path: Any
) -> None:
    model = make(compile=True).fit(data.X, data.y)
    assert set(compiled) == {
        elementwise.FUSED[f] for f in (matern52, diagonal_moments, diagonal_slopes)
    }
    assert len(compiled) == 3
    save(model, tmp_path / "model.skgp")
    copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model)), load(tmp_path / "model.skgp")
    for twin in (model, *copies):
        kernels = [m for m in twin.model_.modules() if isinstance(m, Kernel)]
        assert len(kernels) == 2
        assert all(kernel.passes is EAGER for kernel in kernels)
    eager = make().fit(data.X, data.y)
    np.testing.assert_allclose(model.loss_curve_, eager.loss_curve_, rtol=1e-9)


@pytest.mark.slow  # half a minute of a compiler
@pytest.mark.only(REGRESSORS[:1])
@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_a_compiled_fit_is_the_eager_one(case: Any, data: Data, covariance: Any) -> None:
    """To rounding, in float64 and with batches of unequal size."""
    params = {"covariance": covariance, "dtype": "float64", "batch_size": 37, "max_iter": 5}
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompilationWarning)
        model = make(compile=True, **params).fit(data.X, data.y)
    eager = make(**params).fit(data.X, data.y)
    np.testing.assert_allclose(model.loss_curve_, eager.loss_curve_, rtol=1e-9)
    np.testing.assert_allclose(model.predict(data.X_new), eager.predict(data.X_new), rtol=1e-7)
