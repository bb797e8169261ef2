"""Whatever state torch is in: the same fit, bit for bit, and the state as it was."""

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from contract_cases import CLASSIFIERS, EMBEDDINGS, REGRESSORS, REPRESENTATIVES, Case, make_labels
from sklearn.base import is_classifier
from torch import nn

from skgp import ExactGPRegressor, GPRNRegressor, IWDGPRegressor, SVGPRegressor

pytestmark = pytest.mark.usefixtures("short_start")
CASES = [
    *REGRESSORS,
    *CLASSIFIERS,
    *EMBEDDINGS,
    # Parts that no other case has: networks, restarts, covariates of rows, annealing, solvers.
    Case("svgp-network", SVGPRegressor, {"feature_extractor": [5, 2], "n_restarts": 2}),
    Case("svgp-deep-kernel", SVGPRegressor, {"feature_extractor": "deep-kernel"}),
    Case("svgp-quadratic", SVGPRegressor, {"kernel": "rational_quadratic"}),
    Case("iwdgp-free", IWDGPRegressor, {"amortized": False, "n_prediction_samples": 8}),
    Case("gprn-annealed", GPRNRegressor, {"kl_annealing": 3, "n_prediction_samples": 8}),
    Case("exact-iterative", ExactGPRegressor, {"max_cholesky_size": 10}),
]
QUICK = (*REPRESENTATIVES, *CLASSIFIERS[:2], *EMBEDDINGS[:2], *CASES[-6:])
for_modes = pytest.mark.only((*REPRESENTATIVES, *CLASSIFIERS, *EMBEDDINGS))


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def state() -> tuple[Any, ...]:
    return (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_rng_state().sum().item(),
        np.random.get_state()[1].sum(),  # noqa: NPY002  (that nobody may touch)
        random.getstate()[1],
        np.geterr(),
    )


def results(case: Case) -> list[Any]:
    """What a fit of two epochs and, where there is one, an epoch of a stream leave behind."""
    labels, params = make_labels(40), {"max_iter": 2, "n_inducing": 8}
    model = case.make(**case.known(params))
    rows = (labels.X,)
    if case not in EMBEDDINGS:
        rows += (labels.y if is_classifier(model) else labels.X[:, :2] @ [[1.0, 0.0], [1.0, 1.0]],)
    model.fit(*rows)
    found = [model.loss_curve_]
    for _ in range(2):
        if case in EMBEDDINGS:
            found += [model.transform(labels.X_new), model.score_samples(labels.X_new)]
        elif is_classifier(model):
            found.append(model.predict_proba(labels.X_new))
        else:
            dist = model.predict_dist(labels.X_new)
            found += [dist.mean(), dist.std()]
        if not hasattr(model, "partial_fit") or not getattr(model, "amortized", True):
            break
        model.partial_fit(*rows)
    return found


def assert_equal(found: list[Any], desired: list[Any]) -> None:
    for a, b in zip(found, desired, strict=True):
        np.testing.assert_array_equal(a, b)


def test_results_do_not_depend_on_the_default_dtype(case: Case) -> None:
    desired = results(case)
    with default_dtype(torch.float64):
        before = state()
        found = results(case)
        assert state() == before
    assert_equal(found, desired)


@pytest.mark.only(CASES[:1])
def test_another_default_device_is_refused(case: Case) -> None:
    labels = make_labels(40)
    model = case.make(max_iter=1).fit(labels.X, labels.X[:, 0])
    for call in (
        lambda: case.make().fit(labels.X, labels.X[:, 0]),
        lambda: model.predict(labels.X),
    ):
        message = r"default device is 'meta'.*set_default_device\('cpu'\)"
        with torch.device("meta"), pytest.raises(RuntimeError, match=message):
            call()
    model.predict(labels.X)


@for_modes
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_fits_where_gradients_are_switched_off(
    case: Case, mode: Callable[[], AbstractContextManager[None]]
) -> None:
    desired = results(case)
    with mode():
        before = state()
        found = results(case)
        assert state() == before
    assert_equal(found, desired)


@pytest.mark.only(CASES[:1])
def test_a_model_of_inference_mode_goes_on_outside(case: Case) -> None:
    labels = make_labels(40)
    with torch.inference_mode():
        model = case.make(max_iter=2).fit(labels.X, labels.X[:, 0])
    again = case.make(max_iter=2).fit(labels.X, labels.X[:, 0])
    for each in (model, again):
        each.partial_fit(labels.X, labels.X[:, 0])
    np.testing.assert_array_equal(model.predict(labels.X_new), again.predict(labels.X_new))


@pytest.mark.only(CASES[:1])
def test_what_is_made_in_inference_mode_has_gradients_outside(case: Case) -> None:
    labels = make_labels(40)
    model = case.make(max_iter=2).fit(labels.X, labels.X[:, 0])
    with torch.inference_mode():
        moments, draws = model.posterior(), model.sample_functions(2)
    slopes = []
    for of_rows in (moments.mean_and_std, lambda x: [draws.evaluate(x)]):
        x = torch.tensor(labels.X_new, requires_grad=True)
        of_rows(x)[0].sum().backward()
        slopes.append(x.grad)
    assert all(slope.abs().min() > 0.0 for slope in slopes)


def test_the_network_of_the_user_stays_as_it_is() -> None:
    """It is neither trained nor cast, restarts do not share it, and a second fit is the first."""
    network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    labels = make_labels(40)
    params = {"n_inducing": 8, "max_iter": 2, "n_restarts": 2, "random_state": 0}
    model = SVGPRegressor(feature_extractor=lambda n_features: network, **params)
    fits = [model.fit(labels.X, labels.X[:, 0]).predict(labels.X_new) for _ in range(2)]
    np.testing.assert_array_equal(*fits)
    for name, value in network.state_dict().items():
        assert value.dtype == before[name].dtype
        assert torch.equal(value, before[name])
    assert all(p.grad is None for p in network.parameters())
    weight = model.stack_.features[0].weight
    assert not torch.equal(weight.float(), network[0].weight)
