"""Fits and predictions on a GPU, beside those on the CPU. They need one, and are skipped elsewhere.

Rows, starts and draws come from the CPU on both devices, so that in float64 the same steps lead to
the same model, but for the order of sums.
"""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from contract_cases import (
    CLASSIFIERS,
    EMBEDDINGS,
    FUNCTION_REGRESSORS,
    ONE_OUTPUT,
    REGRESSORS,
    REPRESENTATIVES,
    Case,
    Data,
    rows_of,
)

from skgp import DSPPRegressor, load, save
from skgp.core.numerics import elementwise
from skgp.core.training import graphs, run
from skgp.core.training.graphs import Replayed, no_replay

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
CASES = REGRESSORS + ONE_OUTPUT + CLASSIFIERS + EMBEDDINGS
_FEW = {"max_iter": 4, "dtype": "float64"}  # steps, before rounding has grown


def fitted(case: Case, data: Data, device: str) -> Any:
    model = case.make(device=device, **case.known(_FEW)).fit(*rows_of(case, data))
    places = {p.device.type for p in model.model_.parameters()}
    assert places == {device}
    return model


def predicted(case: Case, model: Any, data: Data) -> list[np.ndarray]:
    """What a user reads from the model."""
    if case in EMBEDDINGS:
        return [model.transform(data.Y[:20])]
    if case in CLASSIFIERS:
        return [model.predict_proba(data.X_new)]
    mean, std = model.predict(data.X_new, return_std=True)
    return [mean, std, model.predict_quantiles(data.X_new, [0.1, 0.9])]


def test_both_devices_give_the_same_model(case: Case, data: Data) -> None:
    on_gpu, on_cpu = (fitted(case, data, device) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(on_gpu.loss_curve_, on_cpu.loss_curve_, rtol=1e-5, atol=1e-7)
    pairs = zip(predicted(case, on_gpu, data), predicted(case, on_cpu, data), strict=True)
    for actual, desired in pairs:
        np.testing.assert_allclose(actual, desired, rtol=1e-4, atol=1e-5)


@pytest.mark.only(FUNCTION_REGRESSORS)
def test_functions_and_latents(case: Case, data: Data) -> None:
    """One model, moved: predictions of f, its covariance, its draws, and slopes in x."""
    model = fitted(case, data, "cpu")
    twin = copy.deepcopy(model)
    twin.model_.cuda()
    x = torch.tensor(data.X_new[:5], requires_grad=True)
    slopes = []
    for estimator in (model, twin):
        mean, std = estimator.posterior().mean_and_std(x)
        slopes += torch.autograd.grad((mean + std).sum(), x)
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-5, atol=1e-7)
    for read in (
        lambda m: m.predict_latent(data.X_new).std(),
        lambda m: m.predict(data.X_new[:6], return_cov=True)[1],
        lambda m: m.sample_functions(2)(data.X_new),
        lambda m: m.sample_prior_functions(2)(data.X_new),
    ):
        np.testing.assert_allclose(read(twin), read(model), rtol=1e-4, atol=1e-5)
    mean, std = model.predict(data.X_new[:6], return_std=True)
    draws = twin.sample_y(data.X_new[:6], n_samples=2000, random_state=0)
    np.testing.assert_allclose(draws.mean(1), mean, rtol=0, atol=6.0 * std.max() / 2000**0.5)


@pytest.mark.only(REPRESENTATIVES)
def test_files_pickles_and_going_on(case: Case, data: Data, tmp_path: Any) -> None:
    model = fitted(case, data, "cuda")
    desired = model.predict(data.X_new)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(data.X_new), desired)
    save(model, tmp_path / "model.skgp")
    loaded = load(tmp_path / "model.skgp")
    assert {p.device.type for p in loaded.model_.parameters()} == {"cpu"}
    np.testing.assert_allclose(loaded.predict(data.X_new), desired, rtol=1e-6)
    if "warm_start" in model.get_params():
        for estimator in (model, loaded):
            estimator.set_params(warm_start=True).fit(data.X, data.y)
        np.testing.assert_allclose(loaded.loss_curve_, model.loss_curve_, rtol=1e-6, atol=1e-8)
    if hasattr(model, "partial_fit"):
        streams = [case.make(device=device, **case.known(_FEW)) for device in ("cuda", "cpu")]
        for chunk in (slice(0, 30), slice(30, None)):
            for stream in streams:
                stream.partial_fit(data.X[chunk], data.y[chunk])
        actual, desired = (stream.predict(data.X_new) for stream in streams)
        np.testing.assert_allclose(actual, desired, rtol=1e-4, atol=1e-5)


@pytest.mark.only(REGRESSORS[:1])
def test_options_of_a_fit(case: Case, data: Data) -> None:
    """Held-out rows, missing outputs, weights, restarts and the automatic choice of epochs."""
    Y = data.Y.copy()
    Y[::5, 1] = np.nan
    weight = np.linspace(0.5, 2.0, len(Y))
    params: dict[str, Any] = {"n_inducing": 12, "n_sites": 3, "random_state": 0}
    for options in ({"early_stopping": True, "n_restarts": 2, "max_iter": 6}, {"max_iter": 8}):
        model = DSPPRegressor(device="auto", dtype="float64", **params, **options)
        twin = DSPPRegressor(dtype="float64", **params, **options)
        model.fit(data.X, Y, sample_weight=weight)
        twin.fit(data.X, Y, sample_weight=weight)
        assert model.model_.log_weights.is_cuda
        assert abs(model.n_iter_ - twin.n_iter_) <= 2
        np.testing.assert_allclose(model.loss_curve_[:5], twin.loss_curve_[:5], rtol=1e-6)


def test_replayed_steps_are_computed_ones(
    case: Case, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of two sizes, of which the steps are captured after a few."""
    captured: list[int] = []
    capture = graphs.capture

    def counted(*arguments: Any) -> Any:
        results = capture(*arguments)
        captured.append(1)
        return results

    monkeypatch.setattr(graphs, "capture", counted)
    params = {"max_iter": 14, "batch_size": 29, "dtype": "float64"}
    replayed = case.make(device="cuda", **case.known(params)).fit(*rows_of(case, data))
    # Line searches are not replayed, and bounds that coincide have to be looked at.
    assert bool(captured) == (case.name not in {"fitc", "exact", "svgp-censored"})
    monkeypatch.setattr(run, "replaying", lambda loss, *_, repeats: (loss, no_replay))
    computed = case.make(device="cuda", **case.known(params)).fit(*rows_of(case, data))
    np.testing.assert_allclose(replayed.loss_curve_, computed.loss_curve_, rtol=1e-5, atol=1e-7)


@pytest.mark.only(REGRESSORS[:1])
def test_a_replayed_step_that_fails_climbs_the_ladder(
    case: Case, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kuu of smooth functions at near points is singular without more jitter."""
    params = {"kernel": "rbf", "n_inducing": 50, "jitter": 1e-16, "max_iter": 14}
    params |= {"random_state": 0, "dtype": "float64", "early_stopping": False}
    X = data.X[:, :1] * 1e-3 + 1.0
    failed: list[bool] = []
    replay = Replayed.replay

    def watched(self: Any, batch: Any, step: int) -> Any:
        loss = replay(self, batch, step)
        failed.extend(bool(c and torch.isnan(c.loss)) for c in self._captured.values())
        return loss

    monkeypatch.setattr(Replayed, "replay", watched)
    on_gpu, on_cpu = (
        DSPPRegressor(device=device, n_sites=3, **params).fit(X, data.y)
        for device in ("cuda", "cpu")
    )
    assert any(failed)
    np.testing.assert_allclose(on_gpu.loss_curve_, on_cpu.loss_curve_, rtol=1e-3, atol=1e-3)


@pytest.mark.only(REGRESSORS[:1])
def test_replayed_steps_are_not_compiled(
    case: Case, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elementwise.torch, "compile", lambda *_, **__: pytest.fail("compiled"))
    params = {"n_inducing": 12, "n_sites": 3, "max_iter": 4, "random_state": 0}
    compiled, eager = (
        DSPPRegressor(device="cuda", dtype="float64", compile=choice, **params).fit(data.X, data.y)
        for choice in (True, False)
    )
    np.testing.assert_allclose(compiled.loss_curve_, eager.loss_curve_, rtol=1e-9)
