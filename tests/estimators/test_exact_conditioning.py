"""Exact GPs that take further rows, and their marginal likelihood."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skgp import ExactGPRegressor, load, save
from skgp.core.numerics import memory


@pytest.fixture
def table(rng):
    X = rng.uniform(-2.0, 2.0, (80, 2)) * [1.0, 10.0]
    y = 50.0 + 5.0 * np.sin(2.0 * X[:, 0]) + 0.2 * X[:, 1] + rng.standard_normal(80)
    return X, y, rng.uniform(-2.5, 2.5, (30, 2)) * [1.0, 10.0]


@pytest.fixture
def model(table):
    X, y, _ = table
    return ExactGPRegressor(max_iter=10, random_state=0).fit(X[:60], y[:60])


def standardised(model, y):
    scale = model.model_.y_scale
    return (y - scale.offset[0]) / scale.unit[0] - model.stack_.top.mean.item()


def sklearn_twin(model):
    """scikit-learn's GP of standardised targets with the hyper-parameters of a fitted model."""
    kernel = ConstantKernel(model.stack_.top.kernel.variance.item())
    kernel = kernel * Matern(model.lengthscales_, nu=2.5)
    noise = model.noise_variance_ / model.model_.y_scale.unit[0] ** 2
    return GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)


def assert_same(one, other, X):
    for part in ("mean", "std"):
        actual, expected = (getattr(m.predict_latent(X), part)() for m in (one, other))
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def test_marginal_likelihood_is_that_of_scikit_learn(table, model):
    X, y, _ = table
    twin = sklearn_twin(model).fit(X[:60], standardised(model, y[:60]))
    value = twin.log_marginal_likelihood_value_
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, value, rtol=1e-9)


def test_marginal_likelihood_is_the_loss_of_all_rows(rng, table):
    """Of several outputs with missing entries and weights, without the penalty of a network."""
    X, y, _ = table
    Y = np.column_stack([y, X[:, 0] ** 2 + 0.1 * y])
    Y[rng.random(Y.shape) < 0.2] = np.nan
    weight = rng.uniform(0.5, 3.0, len(y))
    model = ExactGPRegressor(max_iter=200, random_state=0).fit(X, Y, sample_weight=weight)
    assert model.n_samples_seen_ == weight[~np.isnan(Y).all(axis=1)].sum()
    per_row = -model.log_marginal_likelihood_value_ / model.n_samples_seen_
    # the last loss was computed before the last, converged step
    np.testing.assert_allclose(per_row, model.loss_curve_[-1], rtol=0, atol=1e-6)


def test_marginal_likelihood_of_many_rows_is_estimated_in_training_alone(table):
    X, y, _ = table
    exact = ExactGPRegressor(max_iter=1, random_state=0).fit(X, y)
    estimated = clone(exact).set_params(max_cholesky_size=40).fit(X, y)
    value = estimated.log_marginal_likelihood_value_
    assert abs(value - exact.log_marginal_likelihood_value_) / len(y) < 0.05
    estimated.stack_.top.load_state_dict(exact.stack_.top.state_dict(), strict=False)
    rtol = 1e-10  # of the same parameters
    np.testing.assert_allclose(
        estimated.log_marginal_likelihood_value_, exact.log_marginal_likelihood_value_, rtol=rtol
    )


def test_further_rows_are_rows_of_scikit_learn(table, model):
    X, y, X_new = table
    twin = sklearn_twin(model).fit(X, standardised(model, y))
    more = model.condition_on(X[60:70], y[60:70]).condition_on(X[70:], y[70:])
    mean, std = twin.predict(X_new, return_std=True)
    latent = more.predict_latent(X_new)
    unit, offset = model.model_.y_scale.unit[0], model.model_.y_scale.offset[0]
    level = offset + unit * model.stack_.top.mean.item()
    np.testing.assert_allclose(latent.mean(), level + unit * mean, rtol=1e-8)
    np.testing.assert_allclose(latent.std(), unit * std, rtol=1e-6)
    np.testing.assert_allclose(
        more.log_marginal_likelihood_value_, twin.log_marginal_likelihood_value_, rtol=1e-9
    )


def test_the_old_model_stays_as_it_was(table, model):
    X, y, X_new = table
    before = model.predict_dist(X_new)
    mean, std = before.mean(), before.std()
    more = model.condition_on(X[60:], y[60:])
    with torch.no_grad():
        more.stack_.top.kernel.variance.mul_(4.0)
        for parameter in more.model_.parameters():
            parameter.add_(1.0)
    after = model.predict_dist(X_new)
    np.testing.assert_array_equal(after.mean(), mean)
    np.testing.assert_array_equal(after.std(), std)


def test_rows_with_weights_and_missing_outputs(rng, table):
    """Row by row is the same as at once, and a row of weight two is two rows."""
    X, y, X_new = table
    Y = np.column_stack([y, X[:, 0] ** 2 + 0.1 * y])
    Y[np.arange(80), rng.integers(0, 2, 80)] = np.nan  # each row has one
    model = ExactGPRegressor(max_iter=5, random_state=0).fit(X[:50], Y[:50])
    weight = rng.integers(1, 3, 30).astype(float)
    at_once = model.condition_on(X[50:], Y[50:], sample_weight=weight)
    one_by_one = model
    for i in range(50, 80):
        one_by_one = one_by_one.condition_on(X[i : i + 1], Y[i : i + 1], [weight[i - 50]])
    assert_same(at_once, one_by_one, X_new)
    repeated = np.repeat(np.arange(50, 80), weight.astype(int))
    assert_same(at_once, model.condition_on(X[repeated], Y[repeated]), X_new)
    np.testing.assert_allclose(
        at_once.log_marginal_likelihood_value_, one_by_one.log_marginal_likelihood_value_, rtol=1e-9
    )


def test_more_rows_than_an_inverse_factor_is_stored_for(table, model):
    X, y, X_new = table
    expected = model.condition_on(X[60:], y[60:])
    limited = ExactGPRegressor(max_iter=10, max_cholesky_size=70, random_state=0)
    limited = limited.fit(X[:60], y[:60]).condition_on(X[60:], y[60:])
    assert limited.stack_.top.L_inv is None
    assert_same(limited, expected, X_new)


def test_many_rows_with_little_noise_leave_as_much_variance_as_few(rng):
    """Of a kernel of large variance: the rest is a billionth of it, for a row by itself too."""
    X = rng.uniform(-3.0, 3.0, (200, 2))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.03 * rng.standard_normal(200)
    few, many = (
        ExactGPRegressor(max_iter=60, max_cholesky_size=most, random_state=0)
        .fit(X[:150], y[:150])
        .condition_on(X[150:], y[150:])
        for most in (200, 150)
    )
    assert few.stack_.top.kernel.variance > 1e4
    x = rng.uniform(-3.0, 3.0, (6, 2))
    wanted = few.predict_latent(x).std()
    np.testing.assert_allclose(many.predict_latent(x).std(), wanted, rtol=1e-3)
    alone = [many.predict_latent(row[None]).std()[0] for row in x]
    np.testing.assert_allclose(alone, wanted, rtol=1e-3)


def test_a_known_row_again_halves_its_noise(table, model):
    """The posterior at a row whose target came twice is that of weight two."""
    X, y, _ = table
    weight = np.ones(60)
    weight[7] = 2.0
    gp, scale = model.stack_.top, model.model_.y_scale
    x = gp.x.numpy()
    K = gp.kernel.variance.item() * gp.kernel.Kuu(gp.x[None])[0].detach().numpy()
    noise = np.diag(model.noise_variance_ / scale.unit[0] ** 2 / weight)
    mean = K @ np.linalg.solve(K + noise, standardised(model, y[:60]))
    more = model.condition_on(X[7:8], y[7:8])
    level = scale.offset[0] + scale.unit[0] * gp.mean.item()
    np.testing.assert_allclose(more.predict(X[:60]), level + scale.unit[0] * mean, rtol=1e-8)
    assert x.shape == (60, 2)
    assert more.stack_.top.x.shape == (61, 2)


def test_deep_kernels_see_further_rows_through_their_network(table):
    X, y, X_new = table
    params = {"feature_extractor": [5, 2], "max_iter": 3, "random_state": 0}
    model = ExactGPRegressor(**params).fit(X[:60], y[:60])
    more = model.condition_on(X[60:], y[60:])
    assert more.stack_.top.x.shape == (80, 2)
    with torch.no_grad():
        features = model.stack_.features(
            torch.from_numpy((X[60:] - model.model_.x_scale.offset) / model.model_.x_scale.unit)
        )
    np.testing.assert_allclose(more.stack_.top.x[60:].numpy(), features.numpy(), rtol=1e-10)
    assert np.isfinite(more.predict(X_new)).all()


def test_files_keep_the_rows(table, model, tmp_path):
    pytest.importorskip("safetensors")
    X, y, X_new = table
    more = model.condition_on(X[60:], y[60:])
    save(more, tmp_path / "exact.skgp")
    kept = load(tmp_path / "exact.skgp")
    np.testing.assert_array_equal(kept.predict(X_new), more.predict(X_new))
    assert kept.log_marginal_likelihood_value_ == more.log_marginal_likelihood_value_
    assert_same(kept.condition_on(X[:3], y[:3]), more.condition_on(X[:3], y[:3]), X_new)


def test_messages(table, model, monkeypatch):
    X, y, _ = table
    with pytest.raises(NotFittedError):
        ExactGPRegressor().condition_on(X, y)
    assert not hasattr(ExactGPRegressor(), "log_marginal_likelihood_value_")
    with pytest.raises(ValueError, match="3 features"):
        model.condition_on(np.zeros((2, 3)), y[:2])
    with pytest.raises(ValueError, match="outputs need the shape"):
        model.condition_on(X, y[:, None])
    with pytest.raises(ValueError, match="NaN"):
        model.condition_on(X, np.full(80, np.nan))
    monkeypatch.setattr(memory, "available_memory", lambda device: 1000)
    with pytest.raises(MemoryError, match="140 rows"):
        model.condition_on(X, y)
