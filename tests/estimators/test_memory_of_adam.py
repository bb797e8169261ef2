"""How long the steps of a fit remember a far larger gradient."""

import copy

import numpy as np
import pytest
import torch

from skgp import (
    DSPPRegressor,
    GPRNRegressor,
    MOGPRegressor,
    NeuralDGPRegressor,
    NeuralSBGPRNEmbedding,
    NeuralSBGPRNRegressor,
    PPGPRRegressor,
    SBGPRNRegressor,
)
from skgp.recipes import optimizers

SMALL = {"n_inducing": 5, "max_iter": 1, "random_state": 0}


def check_memory(estimator, model, n_batches, decay):
    """Steps on a noise variance, of which the first gradient is a hundred times the others."""
    optimizer = estimator._recipe().optimizer(model, 30.0, n_batches)
    noise = model.likelihood.log_excess_noise
    before = noise.detach().clone()
    for number in range(501):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 100.0 if number == 0 else 1.0)
        before = noise.detach().clone()
        optimizer.step(lambda: torch.zeros(()), 1.0)
    # Adam's second moment, corrected for its start at zero; the first one is 1 by then.
    kept = decay**500
    moment = (100.0**2 * (1.0 - decay) * kept + 1.0 - kept) / (1.0 - decay * kept)
    step = (before - noise.detach()) / estimator.learning_rate_init
    np.testing.assert_allclose(step, moment**-0.5, rtol=1e-3)


@pytest.mark.parametrize(("n_batches", "decay"), [(1, 0.999), (2, 0.99)])
@pytest.mark.parametrize("family", [DSPPRegressor, PPGPRRegressor])
def test_several_batches_forget_a_leap_after_five_hundred_steps(family, n_batches, decay):
    X = np.linspace(-1.0, 1.0, 30)[:, None]
    y = np.sin(3.0 * X[:, 0]) + np.random.default_rng(0).standard_normal(30)
    estimator = family(early_stopping=False, **SMALL)
    check_memory(estimator, estimator.fit(X, y).model_, n_batches, decay)


@pytest.mark.parametrize(
    ("variances", "n_batches", "initial_noise", "share"),
    [
        ([0.04, 0.3], 1, None, 1.0),
        ([0.0004, 0.0004], 1, None, 0.2),
        ([0.0001, 0.0016], 1, None, 0.2),
        ([0.0004, 0.0004], 2, None, 1.0),
        ([0.0004, 0.0004], 1, 0.0004, 1.0),  # the start is no optimum
    ],
)
@pytest.mark.parametrize("family", [DSPPRegressor, PPGPRRegressor])
def test_steps_are_shorter_where_one_batch_has_little_noise(
    family, variances, n_batches, initial_noise, share
):
    """By its standard deviation in tenths, the geometric mean over the outputs."""
    X = np.linspace(-1.0, 1.0, 30)[:, None]
    Y = np.column_stack([np.sin(3.0 * X[:, 0]), np.cos(5.0 * X[:, 0])])
    params = {"early_stopping": False, "dtype": "float64", "initial_noise": initial_noise, **SMALL}
    estimator = family(**params)
    model = estimator.fit(X, Y).model_
    model.likelihood.start(torch.tensor(variances, dtype=torch.float64))
    optimizer = estimator._recipe().optimizer(model, 30.0, n_batches)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = model.likelihood.log_excess_noise.detach().clone()
    optimizer.step(lambda: torch.zeros(()), 1.0)
    moves = (before - model.likelihood.log_excess_noise.detach()).numpy()
    np.testing.assert_allclose(moves, share * estimator.learning_rate_init, rtol=1e-3)


@pytest.mark.parametrize(("n_batches", "decay"), [(1, 0.999), (2, 0.99)])
@pytest.mark.parametrize("family", [SBGPRNRegressor, NeuralSBGPRNRegressor, NeuralDGPRegressor])
def test_so_do_those_of_a_mixing_network_and_of_two_layers_and_a_readout(family, n_batches, decay):
    check_readout(family, n_batches, decay)


@pytest.mark.parametrize("family", [MOGPRegressor, GPRNRegressor, NeuralSBGPRNEmbedding])
def test_other_readouts_have_the_usual_memory(family):
    check_readout(family, 2, 0.999)


@pytest.fixture
def decays(monkeypatch):
    """Those of every Adam that a fit makes."""
    seen = []
    made = optimizers.Adam

    def recorded(parameters, learning_rate, decay=0.999):
        seen.append(decay)
        return made(parameters, learning_rate, decay)

    monkeypatch.setattr(optimizers, "Adam", recorded)
    return seen


@pytest.mark.parametrize(
    ("n", "batch_size", "weight", "decay"),
    [
        (200, 50, 0.1, 0.99),
        (60, 1000, 100.0, 0.999),
        (74, 50, None, 0.999),  # a batch and a half, which is rounded down
        (75, 50, None, 0.99),
        (50, 50, None, 0.999),
    ],
)
def test_the_memory_is_that_of_the_batches_not_of_the_weights(n, batch_size, weight, decay, decays):
    X = np.linspace(-1.0, 1.0, n)[:, None]
    model = PPGPRRegressor(batch_size=batch_size, early_stopping=False, **SMALL)
    model.fit(X, np.sin(3.0 * X[:, 0]), None if weight is None else np.full(n, weight))
    assert decays == [decay]


def test_a_stream_has_several_batches(decays):
    """Also one whose state is an older one, of torch's class with the usual memory."""
    X = np.linspace(-1.0, 1.0, 60)[:, None]
    model = PPGPRRegressor(**SMALL)
    for _ in range(2):
        model.partial_fit(X, np.sin(3.0 * X[:, 0]))
    twin = copy.deepcopy(model)
    state = twin._optimizer_state["clipped"]
    groups = [{"betas": (0.9, 0.999), "params": [0]}]
    older = {"adam": {"state": state["states"], "param_groups": groups}, "steps": state["n_steps"]}
    twin._optimizer_state["clipped"] = older
    for stream in (model, twin):
        stream.partial_fit(X, np.sin(3.0 * X[:, 0]))
    assert decays == [0.99] * 4
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))


def check_readout(family, n_batches, decay):
    X = np.linspace(-1.0, 1.0, 30)[:, None]
    Y = np.hstack([np.sin(3.0 * X), np.cos(3.0 * X), X**2])
    estimator = family(**SMALL)
    fitted = estimator.fit(Y) if "Embedding" in family.__name__ else estimator.fit(X, Y)
    check_memory(estimator, fitted.model_, n_batches, decay)
