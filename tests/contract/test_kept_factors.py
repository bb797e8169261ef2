"""A fitted model keeps the factors of its predictions, for as long as nothing changes it."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gpytorch
import numpy as np
import pytest
import torch
from contract_cases import EMBEDDINGS, ONE_OUTPUT, REGRESSORS, REPRESENTATIVES, Data

from skgp import DSPPRegressor, SVGPRegressor, load, save
from skgp.core.layers.sparse import SparseGP, SparseLayer

pytestmark = pytest.mark.usefixtures("short_start")
CASES = (*REGRESSORS, *ONE_OUTPUT, *EMBEDDINGS)
QUICK = (*REPRESENTATIVES, EMBEDDINGS[0])
SHORT = {"max_iter": 1, "random_state": 0}


def small(**params: Any) -> DSPPRegressor:
    return DSPPRegressor(**{"n_inducing": 12, "n_sites": 3, **SHORT, **params})


@pytest.fixture
def fitted(data: Data) -> DSPPRegressor:
    return small().fit(data.X, data.y)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[SparseGP]:
    """Grows by each layer whose factors are computed."""
    layers: list[SparseGP] = []
    original = SparseGP.factors

    def counted(layer: SparseGP) -> Any:
        layers.append(layer)
        return original(layer)

    monkeypatch.setattr(SparseGP, "factors", counted)
    return layers


def layers(model: Any) -> list[SparseLayer]:
    return [m for m in model.model_.modules() if isinstance(m, SparseLayer)]


def is_keeping(model: Any) -> bool:
    return any("_kept" in vars(layer) for layer in layers(model))


def numbers(model: Any, X: Any) -> Any:
    return np.stack(model.predict(X, return_std=True))


def fresh_numbers(model: Any, X: Any) -> Any:
    """Predictions of a copy, which keeps nothing."""
    twin = copy.deepcopy(model)
    assert not is_keeping(twin)
    return numbers(twin, X)


def test_predictions_are_those_without_kept_factors(make: Any, data: Data) -> None:
    """Bit for bit, of every estimator."""
    model = make(max_iter=1)
    if not hasattr(model, "predict"):
        dist = model.fit(data.X).predict_dist(model.transform(data.X)[:5])
        again = copy.deepcopy(model).predict_dist(model.transform(data.X)[:5])
        np.testing.assert_array_equal(again.mean(), dist.mean())
        return
    model.fit(data.X, data.y)
    desired = fresh_numbers(model, data.X_new)
    for _ in range(2):
        np.testing.assert_array_equal(numbers(model, data.X_new), desired)


def test_factors_are_computed_once(data: Data, computed: list[SparseGP]) -> None:
    twin = copy.deepcopy(small().fit(data.X, data.y))
    computed.clear()
    for _ in range(3):
        twin.predict(data.X_new)
        twin.predict_latent(data.X_new)
    assert computed == list(twin.stack_.layers)


def test_copies_pickles_and_files_are_without(
    fitted: DSPPRegressor, data: Data, tmp_path: Any
) -> None:
    desired = numbers(fitted, data.X_new)
    without = copy.deepcopy(fitted)
    assert is_keeping(fitted)
    assert not is_keeping(without)
    assert len(pickle.dumps(fitted)) == len(pickle.dumps(without))
    path = tmp_path / "model.skgp"
    save(fitted, path)
    for twin in (pickle.loads(pickle.dumps(fitted)), load(path)):
        assert not is_keeping(twin)
        np.testing.assert_array_equal(numbers(twin, data.X_new), desired)


def _through_data(model: Any) -> None:
    model.stack_.layers[0].kernel.log_lengthscale.data.add_(0.5)


def _through_numpy(model: Any) -> None:
    model.stack_.layers[1].posterior.log_scale.detach().numpy()[...] -= 0.5


def _in_place(model: Any) -> None:
    with torch.no_grad():
        model.stack_.layers[0].Z.mul_(1.1)


def _new_parameter(model: Any) -> None:
    layer = model.stack_.layers[1]
    layer.Z = torch.nn.Parameter(1.1 * layer.Z.detach())


def _jitter(model: Any) -> None:
    model.stack_.layers[0].jitter = 1e-2


def _kernel_name(model: Any) -> None:
    model.stack_.layers[0].kernel.name = "rbf"


def _working_dtype(model: Any) -> None:
    model.model_.float()


def _other_state(model: Any) -> None:
    state = {key: 0.9 * value for key, value in model.model_.state_dict().items()}
    model.model_.load_state_dict(state)


CHANGES = (
    _through_data,
    _through_numpy,
    _in_place,
    _new_parameter,
    _jitter,
    _kernel_name,
    _working_dtype,
    _other_state,
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_by_hand_is_seen(change: Any, fitted: DSPPRegressor, data: Data) -> None:
    before = numbers(fitted, data.X_new)
    change(fitted)
    after = numbers(fitted, data.X_new)
    np.testing.assert_array_equal(after, fresh_numbers(fitted, data.X_new))
    assert not np.array_equal(after, before)


def test_a_plain_attribute_of_a_users_kernel_is_seen(data: Data) -> None:
    model = SVGPRegressor(kernel=gpytorch.kernels.MaternKernel(nu=2.5), n_inducing=12, **SHORT)
    model.fit(data.X, data.y).predict(data.X_new)
    layers(model)[0].kernel.kernels[0].nu = 0.5
    np.testing.assert_array_equal(numbers(model, data.X_new), fresh_numbers(model, data.X_new))


def test_further_training_is_seen(data: Data) -> None:
    model = small(warm_start=True, batch_size=50).fit(data.X, data.y)
    for train in (model.fit, model.partial_fit):
        before = numbers(model, data.X_new)
        train(data.X, data.y)
        after = numbers(model, data.X_new)
        np.testing.assert_array_equal(after, fresh_numbers(model, data.X_new))
        assert not np.array_equal(after, before)


def test_threads_that_predict_at_once_agree(fitted: DSPPRegressor, data: Data) -> None:
    desired = numbers(fitted, data.X_new)
    twin = copy.deepcopy(fitted)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: numbers(twin, data.X_new), range(8)))
    for of_thread in found:
        np.testing.assert_array_equal(of_thread, desired)


def test_predictions_in_inference_mode_leave_usable_factors(
    fitted: DSPPRegressor, data: Data
) -> None:
    twin = copy.deepcopy(fitted)
    with torch.inference_mode():
        inside = numbers(twin, data.X_new)
    kept = layers(twin)[0].known_factors()
    assert not kept.L_inv.is_inference()
    assert not kept.L_inv.requires_grad
    np.testing.assert_array_equal(numbers(fitted, data.X_new), inside)
