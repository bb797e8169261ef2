"""How many inducing inputs a fit takes if it may choose."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from skgp import DSPPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.core.kernels.choice import make_kernel
from skgp.core.layers.posteriors import FullPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal.starts import bound_per_row, unexplained_share
from skgp.fitting import cross_validation


def _rows(n, noise, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(4.0 * X[:, 0]) * np.cos(3.0 * X[:, 1]) + noise * rng.standard_normal(n)


def _numbers(model):
    return [layer.Z.shape[-2] for layer in model.model_.stack.layers]


def _jitters(stack):
    return [layer.jitter for layer in stack.layers]


def test_unexplained_share_is_the_trace_of_the_residual_covariance():
    rng = np.random.default_rng(1)
    x, Z = rng.standard_normal((40, 3)), rng.standard_normal((2, 5, 3))
    weight, noise = rng.uniform(0.5, 2.0, 40), np.array([0.1, 0.7])
    kernel = make_kernel("rbf", 2, 3, 1.3)
    posterior = FullPosterior(torch.zeros(2, 5, dtype=torch.float64), 1.0)
    layer = SparseGP(kernel, torch.from_numpy(Z), posterior, 1e-10).double()
    with torch.no_grad():
        layer.kernel.log_variance.copy_(torch.tensor([0.3, -0.4]))

    def rbf(a, b):
        return np.exp(-0.5 * np.square((a[:, None] - b[None]) / 1.3).sum(-1))

    expected = []
    for g in range(2):
        Kuf = rbf(Z[g], x)
        rest = 1.0 - (Kuf * np.linalg.solve(rbf(Z[g], Z[g]), Kuf)).sum(0)
        expected.append(math.exp([0.3, -0.4][g]) * np.average(rest, weights=weight) / noise[g])
    rows = torch.from_numpy(x), torch.from_numpy(weight), torch.from_numpy(noise)
    np.testing.assert_allclose(unexplained_share(layer, *rows), max(expected), rtol=1e-6)


@pytest.mark.parametrize(
    ("noise", "params", "numbers"),
    [
        (0.01, {}, [64, 200]),
        (1.0, {}, [64, 64]),
        (0.01, {"n_inducing": 64}, [64, 64]),
        (0.01, {"initial_noise": 1e-3}, [64, 64]),
    ],
)
def test_the_top_layer_has_an_input_for_each_row_where_few_leave_much_unexplained(
    noise, params, numbers
):
    model = DSPPRegressor(max_iter=1, early_stopping=False, random_state=0, **params)
    assert _numbers(model.fit(*_rows(200, noise))) == numbers
    np.testing.assert_allclose(_jitters(model.model_.stack), [1e-4, 1e-6])


@pytest.mark.parametrize(
    ("doubtful", "gain", "number"), [(0.0, 0.2, 200), (0.0, 9.0, 64), (1e9, 0.2, 64)]
)
def test_so_it_has_where_the_bound_gains_much(doubtful, gain, number, monkeypatch):
    """200 rows gain about 0.4 nats a row by 200 inducing inputs."""
    monkeypatch.setattr("skgp.recipes.stack._UNEXPLAINED", math.inf)
    monkeypatch.setattr("skgp.recipes.stack._DOUBTFUL", doubtful)
    monkeypatch.setattr("skgp.recipes.stack._GAIN", gain)
    model = DSPPRegressor(max_iter=1, early_stopping=False, random_state=0)
    assert _numbers(model.fit(*_rows(200, 0.01))) == [64, number]


def test_a_bound_without_a_gain_keeps_the_usual_number(monkeypatch):
    monkeypatch.setattr("skgp.recipes.stack._UNEXPLAINED", math.inf)
    monkeypatch.setattr("skgp.recipes.stack._DOUBTFUL", 0.0)
    model = DSPPRegressor(max_iter=1, early_stopping=False, random_state=0)
    assert _numbers(model.fit(*_rows(200, 1.0))) == [64, 64]


def test_the_bound_per_row_is_that_of_the_naive_formula():
    """A row of weight two counts as two rows."""
    rng = np.random.default_rng(2)
    x, Z, y = (rng.standard_normal(shape) for shape in [(20, 2), (2, 4, 2), (2, 20)])
    weight = np.repeat([1, 2], 10)
    x_all, y_all = np.repeat(x, weight, 0), np.repeat(y, weight, 1)
    noise = np.array([0.2, 0.5])
    kernel = make_kernel("rbf", 2, 2, 1.1)
    posterior = FullPosterior(torch.zeros(2, 4, dtype=torch.float64), 1.0)
    layer = SparseGP(kernel, torch.from_numpy(Z), posterior, 1e-10).double()

    def rbf(a, b):
        return np.exp(-0.5 * np.square((a[:, None] - b[None]) / 1.1).sum(-1))

    expected = []
    for g in range(2):
        Q = rbf(x_all, Z[g]) @ np.linalg.solve(rbf(Z[g], Z[g]), rbf(Z[g], x_all))
        density = multivariate_normal(np.zeros(30), Q + noise[g] * np.eye(30)).logpdf(y_all[g])
        expected.append((density - np.trace(np.eye(30) - Q) / (2.0 * noise[g])) / 30)
    rows = (torch.from_numpy(a) for a in (x, y, weight.astype(float), noise))
    np.testing.assert_allclose(bound_per_row(layer, *rows), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("n", "noise", "number"), [(110, 0.01, 110), (110, 0.2, 64), (620, 0.01, 64)]
)
def test_few_further_rows_have_to_gain_and_many_cost_too_much(n, noise, number):
    """110 rows gain 0.50 nats a row with the smaller noise, and 0.17 with the larger one."""
    model = DSPPRegressor(max_iter=1, early_stopping=False, random_state=0)
    assert _numbers(model.fit(*_rows(n, noise))) == [64, number]


@pytest.mark.parametrize(
    ("n", "n_outputs", "number"), [(400, 1, 400), (400, 2, 300), (620, 1, 300)]
)
def test_a_ppgpr_has_an_inducing_input_for_each_row_of_one_output(n, n_outputs, number):
    X, y = _rows(n, 0.5)
    model = PPGPRRegressor(max_iter=1, early_stopping=False, random_state=0)
    assert _numbers(model.fit(X, np.column_stack([y] * n_outputs))) == [number]


@pytest.mark.parametrize("noise", [0.0, 0.5])  # exact copies, and other targets of the same inputs
@pytest.mark.parametrize("make", [PPGPRRegressor, SVGPRegressor])
def test_copies_of_an_input_count_once(make, noise, monkeypatch):
    monkeypatch.setattr("skgp.recipes.collapsed._BOUND_ITERATIONS", 2)
    X, y = _rows(350, 0.5)
    X, y = np.tile(X, (2, 1)), np.tile(y, 2)
    y += noise * np.random.default_rng(1).standard_normal(len(y))
    params = {} if make is SVGPRegressor else {"max_iter": 1, "early_stopping": False}
    model = make(random_state=0, **params).fit(X, y)
    assert _numbers(model) == [350]
    distinct = (np.unique(X, axis=0) - X.mean(axis=0)) / X.std(axis=0)
    Z = model.model_.stack.top.Z.detach().numpy()[0]  # moved by one step
    np.testing.assert_allclose(cdist(distinct, Z).min(axis=1), 0.0, atol=0.005)


@pytest.mark.parametrize(("n_distinct", "number"), [(150, 150), (300, 64)])
def test_copies_of_an_input_count_once_at_the_top(n_distinct, number, monkeypatch):
    monkeypatch.setattr("skgp.recipes.stack.ALL_INDUCING", 200)
    X, y = _rows(n_distinct, 0.01)
    model = DSPPRegressor(max_iter=1, early_stopping=False, random_state=0)
    assert _numbers(model.fit(np.tile(X, (2, 1)), np.tile(y, 2))) == [64, number]


@pytest.mark.parametrize("make", [PPGPRRegressor, DSPPRegressor, SVGPRegressor])
def test_the_top_layer_keeps_the_jitter_beyond_one_batch(make):
    for batch_size, kept in ((60, 0.01), (50, 1.0)):
        model = make(max_iter=1, batch_size=batch_size, jitter=1e-3, random_state=0)
        jitter = model.fit(*_rows(60, 0.1)).model_.stack.top.jitter
        assert jitter == pytest.approx(1e-3 * (1.0 if make is SVGPRegressor else kept))
    model = SVGPRegressor(jitter=1e-3, random_state=0).fit(*_rows(60, 0.1))
    assert model.model_.stack.top.jitter == pytest.approx(1e-5)


def test_a_larger_top_layer_takes_shorter_steps():
    moves = []
    for n_top in (16, 64):
        params = {"n_inducing": [16, n_top], "early_stopping": False, "random_state": 0}
        X, y = _rows(100, 0.1)
        start, end = (
            DSPPRegressor(max_iter=2, learning_rate_init=rate, **params).fit(X, y).model_.likelihood
            for rate in (1e-12, 1e-3)
        )
        moves.append((end.log_excess_noise - start.log_excess_noise).abs().item())
    # Adam's first steps have the length of the rate, whatever the gradient.
    np.testing.assert_allclose(moves[0] / moves[1], 2.0, rtol=0.05)


@pytest.mark.parametrize(
    ("n", "params", "number"),
    [(400, {}, 400), (400, {"max_iter": 2}, 300), (1600, {}, 300), (400, {"n_inducing": 50}, 50)],
)
def test_an_optimum_has_an_inducing_input_for_each_row(n, params, number, monkeypatch):
    monkeypatch.setattr("skgp.recipes.collapsed._BOUND_ITERATIONS", 2)
    model = SVGPRegressor(random_state=0, **params).fit(*_rows(n, 0.5))
    assert _numbers(model) == [number]


def test_models_of_folds_are_built_as_the_model_they_are_for(monkeypatch):
    sizes, jitters, made = [], [], cross_validation.first_models

    def recorded(*args):
        models = made(*args)
        sizes.append([layer.Z.shape[-2] for layer in models[0].stack.layers])
        jitters.append(_jitters(models[0].stack))
        return models

    monkeypatch.setattr(cross_validation, "first_models", recorded)
    monkeypatch.setattr("skgp.recipes.stack._DOUBTFUL", 0.0)
    monkeypatch.setattr("skgp.recipes.stack._UNEXPLAINED", 0.0)
    model = DSPPRegressor(max_iter=1, random_state=0).fit(*_rows(150, 0.5))
    assert _numbers(model) == [64, 150]
    np.testing.assert_allclose(jitters, [[1e-4, 1e-6]] * 5)
    assert sizes == [[64, 120]] * 5  # by themselves, 120 rows would be too few for more than 64
