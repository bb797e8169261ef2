"""The exact GP as an estimator: scikit-learn's own GP, limits, memory."""

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgp import ExactGPRegressor, FITCRegressor
from skgp.core.numerics import memory
from skgp.fitting.fit import next_model, scaled_table
from skgp.fitting.rows import Rows

pytestmark = pytest.mark.usefixtures("short_start")


@pytest.fixture
def table(rng):
    X = rng.uniform(-2.0, 2.0, (80, 2)) * [1.0, 10.0]
    y = 50.0 + 5.0 * np.sin(2.0 * X[:, 0]) + 0.2 * X[:, 1] + rng.standard_normal(80)
    return X, y, rng.uniform(-2.5, 2.5, (30, 2)) * [1.0, 10.0]


@pytest.fixture(scope="module", params=["rbf", "matern12", "matern32", "matern52"])
def name(request):
    return request.param


def sklearn_twin(model, name):
    """scikit-learn's GP with the hyper-parameters of a fitted model; the target is y - c."""
    gp, scale = model.stack_.top, model.model_.y_scale
    variance = gp.kernel.variance.item() * scale.unit[0] ** 2
    nu = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
    lengthscale = model.lengthscales_
    unit = RBF(lengthscale) if name == "rbf" else Matern(lengthscale, nu=nu[name])
    offset = scale.offset[0] + scale.unit[0] * gp.mean.item()
    kernel = ConstantKernel(variance) * unit
    return (
        GaussianProcessRegressor(kernel, alpha=model.noise_variance_, optimizer=None),
        offset,
    )


def test_predictions_are_those_of_scikit_learn(table, name):
    X, y, X_new = table
    model = ExactGPRegressor(kernel=name, max_iter=10, random_state=0).fit(X, y)
    twin, offset = sklearn_twin(model, name)
    mean, std = twin.fit(X, y - offset).predict(X_new, return_std=True)
    np.testing.assert_allclose(model.predict(X_new), mean + offset, rtol=0, atol=1e-6)
    latent = model.predict_latent(X_new)
    np.testing.assert_allclose(latent.std(), std, rtol=0, atol=1e-6)
    total = np.sqrt(std**2 + model.noise_variance_)
    np.testing.assert_allclose(model.predict_dist(X_new).std(), total, rtol=0, atol=1e-6)


def test_covariance_over_rows_is_that_of_scikit_learn(table, name):
    X, y, X_new = table
    model = ExactGPRegressor(kernel=name, max_iter=10, random_state=0).fit(X, y)
    twin, offset = sklearn_twin(model, name)
    twin.set_params(kernel=twin.kernel + WhiteKernel(model.noise_variance_), alpha=1e-10)
    mean, cov = twin.fit(X, y - offset).predict(X_new, return_cov=True)
    actual_mean, actual = model.predict(X_new, return_cov=True)
    np.testing.assert_allclose(actual_mean, mean + offset, rtol=0, atol=1e-6)
    np.testing.assert_allclose(actual, cov, rtol=0, atol=1e-6)


def test_samples_have_the_covariance_of_scikit_learn(table):
    """Over 100,000 draws, as its own: in standard errors of a sample covariance."""
    X, y, X_new = table
    model = ExactGPRegressor(max_iter=10, random_state=0).fit(X, y)
    rows, n = np.concatenate([X_new[:5], X_new[:2] + 0.02]), 100_000
    twin, offset = sklearn_twin(model, "matern52")
    twin.set_params(kernel=twin.kernel + WhiteKernel(model.noise_variance_), alpha=1e-10)
    mean, cov = twin.fit(X, y - offset).predict(rows, return_cov=True)
    f_cov = cov - model.noise_variance_ * np.eye(7)
    assert f_cov[0, 5] > 0.99 * f_cov[0, 0]
    of_scikit_learn = twin.sample_y(rows, n, random_state=0) + offset
    error = np.sqrt((np.outer(np.diagonal(cov), np.diagonal(cov)) + cov**2) / n)
    for draws in (model.sample_y(rows, n), of_scikit_learn):
        assert (np.abs(np.cov(draws) - cov) < 5.0 * error).all()
        assert (np.abs(draws.mean(1) - mean - offset) < 5.0 * np.sqrt(np.diagonal(cov) / n)).all()


def test_covariances_of_several_outputs_stand_beside_each_other(table):
    X, y, X_new = table
    Y = np.column_stack([y, X[:, 0] + 0.1 * y])
    model = ExactGPRegressor(max_iter=10, random_state=0).fit(X, Y)
    _, cov = model.predict(X_new, return_cov=True)
    top, scale = model.stack_.top, model.model_.y_scale
    for p, unit in enumerate(scale.unit):
        matern = Matern(model.lengthscales_[p], nu=2.5)
        variance = top.kernel.variance[p].item() * unit**2
        kernel = ConstantKernel(variance) * matern + WhiteKernel(model.noise_variance_[p])
        twin = GaussianProcessRegressor(kernel, optimizer=None).fit(X, Y[:, p])
        _, expected = twin.predict(X_new, return_cov=True)
        np.testing.assert_allclose(cov[..., p], expected, rtol=0, atol=1e-6)


def test_the_loss_is_the_marginal_likelihood_of_scikit_learn(table, name):
    """Per row, in units of the scaled target: log p(y) + n log(unit)."""
    X, y, _ = table
    model = ExactGPRegressor(kernel=name, random_state=0).fit(X, y)
    twin, offset = sklearn_twin(model, name)
    value = twin.fit(X, y - offset).log_marginal_likelihood_value_
    per_row = -value / len(y) - np.log(model.model_.y_scale.unit[0])
    # the last loss was computed before the last, converged step
    np.testing.assert_allclose(model.loss_curve_[-1], per_row, rtol=0, atol=1e-6)


def test_the_optimum_is_no_worse_than_that_of_scikit_learn(table):
    X, y, _ = table
    model = ExactGPRegressor(kernel="rbf", random_state=0).fit(X, y)
    centred = (y - y.mean()) / y.std()
    scaled = (X - X.mean(0)) / X.std(0)
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF([1.0, 1.0], (1e-2, 1e3)) + WhiteKernel(
        0.1, (1e-4, 1e1)
    )
    twin = GaussianProcessRegressor(kernel, n_restarts_optimizer=4, random_state=0)
    theirs = -twin.fit(scaled, centred).log_marginal_likelihood_value_ / len(y)
    assert model.loss_curve_[-1] < theirs + 1e-4  # theirs has no constant to fit


def test_many_rows_are_predicted_as_few(table):
    """Same hyper-parameters: the second model takes over the first one's without a step."""
    X, y, X_new = table
    direct = ExactGPRegressor(max_iter=10, random_state=0).fit(X, y)
    iterative = ExactGPRegressor(max_iter=10, random_state=0, max_cholesky_size=10).fit(X, y)
    iterative.model_.load_state_dict(
        {k: v for k, v in direct.model_.state_dict().items() if "kernel" in k or "mean" in k},
        strict=False,
    )
    iterative.model_.likelihood.load_state_dict(direct.model_.likelihood.state_dict())
    fitted = iterative.model_
    rows = scaled_table(Rows(X, y, None), fitted, torch.zeros((), dtype=torch.float64))
    iterative.model_ = iterative._recipe().conditioned(fitted, rows)
    theirs, ours = direct.predict_dist(X_new), iterative.predict_dist(X_new)
    np.testing.assert_allclose(ours.mean(), theirs.mean(), rtol=1e-7)
    np.testing.assert_allclose(ours.std(), theirs.std(), rtol=1e-7)
    assert iterative.stack_.top.L_inv is None
    assert direct.stack_.top.L_inv is not None


def test_several_outputs_are_independent_gps(table):
    X, y, X_new = table
    Y = np.column_stack([y, -3.0 * y + X[:, 0]])
    Y[::7, 1] = np.nan
    joint = ExactGPRegressor(random_state=0, max_iter=200).fit(X, Y)
    observed = ~np.isnan(Y[:, 1])
    for p, rows in enumerate([np.full(len(y), True), observed]):
        single = ExactGPRegressor(random_state=0, max_iter=200, normalize_X=False)
        scaled = (X - X.mean(0)) / X.std(0)
        single.fit(scaled[rows], Y[rows, p])
        new = (X_new - X.mean(0)) / X.std(0)
        unit = single.predict_dist(new).std()
        difference = (joint.predict(X_new)[:, p] - single.predict(new)) / unit
        np.testing.assert_allclose(difference, 0.0, atol=0.02)
        np.testing.assert_allclose(joint.predict_dist(X_new).std()[:, p] / unit, 1.0, atol=0.02)


def test_a_table_beyond_the_memory_is_refused_before_anything_is_allocated(table, monkeypatch):
    X, y, _ = table
    monkeypatch.setattr(memory, "available_memory", lambda device: 100_000)
    with pytest.raises(MemoryError, match=r"GiB.*sparse model.*rows"):
        ExactGPRegressor(random_state=0).fit(X, y)


def test_memory_that_the_fit_itself_takes_is_not_counted(table, monkeypatch):
    """There is enough at the start, and less from then on; a second fit looks again."""
    X, y, _ = table
    left = [10**9]
    monkeypatch.setattr(memory, "available_memory", lambda device: left.pop() if left else 0)
    model = ExactGPRegressor(random_state=0, max_iter=3, warm_start=True).fit(X, y)
    assert model.n_iter_ == 3
    with pytest.raises(MemoryError):
        model.fit(X, y)


def test_a_warm_start_copies_no_factor_in_training(table):
    X, y, _ = table
    model = ExactGPRegressor(max_iter=3, warm_start=True, random_state=0).fit(X, y)
    first = model.loss_curve_[0]
    rows = scaled_table(Rows(X, y, None), model.model_, torch.zeros(()))
    in_training = next_model(model._recipe(), model.model_, rows)
    assert sum(b.numel() for b in in_training.buffers()) < len(y)
    model.fit(X, y)
    assert model.loss_curve_[0] < first


def test_fitc_with_all_rows_as_inducing_inputs_starts_as_the_exact_gp(table):
    """Qff = Kff up to jitter. The first loss is that of the same start, before any step."""
    X, y, _ = table
    settings = {"kernel": "rbf", "random_state": 0, "max_iter": 1}
    exact = ExactGPRegressor(**settings).fit(X, y)
    fitc = FITCRegressor(n_inducing=80, jitter=1e-8, **settings).fit(X, y)
    np.testing.assert_allclose(fitc.loss_curve_, exact.loss_curve_, rtol=0, atol=1e-4)


def test_nothing_is_left_to_chance_below_max_cholesky_size(table):
    """But for restarts, and for the rows held out."""
    X, y = table[0], table[1]
    fits = [ExactGPRegressor(max_iter=5, random_state=seed).fit(X, y) for seed in (0, 1)]
    assert fits[0].loss_curve_ == fits[1].loss_curve_
    np.testing.assert_array_equal(fits[0].predict(X), fits[1].predict(X))
