"""SVGP on short tables: the optimum of the collapsed bound, and when that is not what is fitted."""

import copy
import time

import gpytorch
import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import hypsecant, multivariate_normal
from sklearn.callback import ProgressBar
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from skgp import SVGPRegressor
from skgp.core.data import Batch, Targets
from skgp.core.nodes.rules import trivial
from skgp.core.numerics.linalg import cholesky
from skgp.core.objectives.objective import ELBO, loss
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.rows import Rows
from skgp.fitting.table import Table
from skgp.recipes import optimum
from skgp.scoring import nll


@pytest.fixture
def table(rng):
    X = rng.uniform(-2.0, 2.0, (90, 2)) * [1.0, 10.0]
    y = 50.0 + 5.0 * np.sin(2.0 * X[:, 0]) + 0.2 * X[:, 1] + rng.standard_normal(90)
    return X, y


def scaled(model, X, y):
    """The rows in the units of the model."""
    fitted = model.model_
    parts = fitted.x_scale.apply(X), fitted.y_scale.apply(y.reshape(-1, 1))
    return tuple(torch.from_numpy(part) for part in parts)


def dense_bound(model, x, y, weight):
    """log N(y; c, Qff + noise) - tr(Kff - Qff) / (2 noise) of a fitted model, rows repeated."""
    layer, noise = model.stack_.top, model.model_.likelihood.noise_var.item()
    rows = np.repeat(np.arange(len(x)), weight)
    variance = layer.kernel.variance.item()
    K = layer.kernel.Kuu(layer.Z)[0].detach().numpy() + layer.jitter * np.eye(layer.Z.shape[1])
    Kuf = layer.kernel.Kuf(layer.Z, x[rows])[0].detach().numpy()
    Q = variance * Kuf.T @ np.linalg.solve(K, Kuf)
    density = multivariate_normal(np.full(len(rows), layer.mean.item()), Q + noise * np.eye(len(Q)))
    return density.logpdf(y[rows, 0].numpy()) - 0.5 * (variance * len(Q) - np.trace(Q)) / noise


@pytest.mark.parametrize("n_inducing", [15, 300])
def test_bound_of_the_fitted_posterior_is_the_collapsed_one(table, rng, n_inducing):
    X, y = table
    weight = rng.integers(1, 4, len(y))
    model = SVGPRegressor(n_inducing=n_inducing, random_state=0).fit(X, y, weight.astype(float))
    x, targets = scaled(model, X, y)
    n_data = float(weight.sum())
    batch = Batch(x, Targets(targets, None), torch.from_numpy(weight * len(y) / n_data))
    parts = ELBO, model.stack_, model.model_.likelihood, trivial(x), batch
    value = loss(*parts, beta_reg=1.0, n_data=n_data).item()
    assert value == pytest.approx(-dense_bound(model, x, targets, weight) / n_data, rel=1e-6)


def dense_log_marginal(model, x, y, weight):
    """log N(y; c, Kff + noise) of a fitted model, rows repeated."""
    layer, noise = model.stack_.top, model.model_.likelihood.noise_var.item()
    rows = np.repeat(np.arange(len(x)), weight)
    K = layer.kernel.Kuu(x[rows][None])[0].detach().numpy() * layer.kernel.variance.item()
    density = multivariate_normal(np.full(len(rows), layer.mean.item()), K + noise * np.eye(len(K)))
    return density.logpdf(y[rows, 0].numpy())


def test_fit_ends_at_an_optimum_of_bound_and_prior(table):
    """Moves by a hundredth of each parameter on its logarithmic scale lower their sum."""
    X, y = table
    model = SVGPRegressor(random_state=0).fit(X, y)
    x, targets = scaled(model, X, y)
    kernel, likelihood = model.stack_.top.kernel, model.model_.likelihood
    ones = np.ones(len(y), dtype=int)

    def total():
        lengthscales = kernel.lengthscale.detach().numpy().ravel()
        prior = hypsecant(0.5 * np.log(2.0)).logpdf(np.log(lengthscales)).sum()
        prior += hypsecant.logpdf(np.log(kernel.variance.item()))
        return dense_log_marginal(model, x, targets, ones) + prior

    best = total()
    parameters = [*kernel.parameters(), likelihood.log_excess_noise, model.stack_.top.mean]
    for values in (p.detach().view(-1) for p in parameters):
        for i in range(len(values)):
            slopes = []
            for move in (-0.01, 0.01):
                values[i] += move
                slopes.append(total() - best)
                values[i] -= move
            assert max(slopes) < 0.0
            assert abs(slopes[1] - slopes[0]) / 0.02 < 0.05  # nats per unit
    assert model.n_iter_ < 100
    constant = -hypsecant.logpdf(0.0) * 3  # of the prior
    assert model.loss_curve_[-1] == pytest.approx(-(best + constant) / len(y), abs=1e-8)


def test_predictions_agree_with_scikit_learn(table, rng):
    """With an inducing input at each row, and no weak prior of the kernel."""
    X, y = table
    units = X.std(axis=0)
    X, X_new = X / units, rng.uniform(-2.0, 2.0, (50, 2)) * [1.0, 10.0] / units
    kernel = ConstantKernel() * Matern(np.ones(2), nu=2.5) + WhiteKernel()
    gp = GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y)
    model = SVGPRegressor(normalize_X=False, jitter=1e-8, random_state=0).fit(X, y)
    mean, std = model.predict(X_new, return_std=True)
    other_mean, other_std = gp.predict(X_new, return_std=True)
    np.testing.assert_allclose(mean, other_mean, atol=0.02)
    np.testing.assert_allclose(std, other_std, rtol=1e-3)


def test_jitter_is_less_than_little_noise_of_an_almost_linear_function(rng):
    """Predictions are those of an exact GP without jitter."""
    X = rng.uniform(-1.0, 1.0, (210, 4))
    y = X @ np.arange(1.0, 5.0) + 0.3 * np.sin(2.0 * X[:, 0])
    model = SVGPRegressor(random_state=0).fit(X[:160], y[:160])
    layer, noise = model.stack_.top, model.model_.likelihood.noise_var.item()
    assert layer.kernel.variance.item() > 1000.0
    x, targets = scaled(model, X, y)
    K = layer.kernel.Kuu(x[None])[0].detach().numpy() * layer.kernel.variance.item()
    solved = np.linalg.solve(K[:160, :160] + noise * np.eye(160), K[:160])
    constant = layer.mean.item()
    mean = constant + solved[:, 160:].T @ (targets[:160, 0].numpy() - constant)
    std = np.sqrt(noise + np.diag(K)[160:] - (K[:160, 160:] * solved[:, 160:]).sum(0))
    predicted, predicted_std = model.predict(X[160:], return_std=True)
    predicted = model.model_.y_scale.apply(predicted.reshape(-1, 1))[:, 0]
    np.testing.assert_allclose(predicted, mean, atol=0.1 * noise**0.5)
    np.testing.assert_allclose(predicted_std / y[:160].std(), std, rtol=0.02)


def test_no_noise_is_no_trap(rng):
    X = rng.uniform(-2.0, 2.0, (120, 3))
    y = np.sin(2.0 * X[:, 0]) * X[:, 1]
    X_new = rng.uniform(-1.5, 1.5, (100, 3))
    model = SVGPRegressor(random_state=0).fit(X, y)
    error = model.predict(X_new) - np.sin(2.0 * X_new[:, 0]) * X_new[:, 1]
    assert np.sqrt(np.mean(error**2)) < 0.1 * y.std()
    assert model.noise_variance_ < 0.01 * y.var()


@pytest.mark.parametrize("n_inducing", [10, 300])
def test_rows_weighted_repeated_or_sorted_are_the_same_bits(table, rng, n_inducing):
    X, y = table
    weight = rng.integers(1, 4, len(y))
    rows = rng.permutation(np.repeat(np.arange(len(y)), weight))
    models = [SVGPRegressor(n_inducing=n_inducing, random_state=0) for _ in range(2)]
    models[0].fit(X, y, weight.astype(float))
    models[1].fit(X[rows], y[rows])
    assert models[0].loss_curve_ == models[1].loss_curve_
    for of_first, of_second in zip(*(m.predict(X, return_std=True) for m in models), strict=True):
        np.testing.assert_array_equal(of_first, of_second)


def test_inducing_inputs_move_where_they_are_few(table):
    X, y = table
    few = SVGPRegressor(n_inducing=10, random_state=0).fit(X, y)
    built = SVGPRegressor(n_inducing=10, max_iter=1, learning_rate_init=1e-9, random_state=0)
    start = built.fit(X, y).inducing_points_
    assert np.abs(few.inducing_points_ - start).max() > 0.1
    all_rows = SVGPRegressor(random_state=0).fit(np.repeat(X, 2, axis=0), np.r_[y, y + 1.0])
    np.testing.assert_allclose(all_rows.inducing_points_, np.unique(X, axis=0), rtol=1e-12)


def test_missing_targets_of_one_column_are_rows_left_out(table):
    X, y = table
    holes = np.where(np.arange(len(y)) % 4 == 0, np.nan, y)
    # Sums go over other rows, and the line searches amplify their rounding.
    parameters = {"normalize_X": False, "random_state": 0, "jitter": 1e-2}
    model = SVGPRegressor(**parameters).fit(X, holes[:, None])
    other = SVGPRegressor(**parameters).fit(X[~np.isnan(holes)], y[~np.isnan(holes)])
    np.testing.assert_allclose(model.predict(X)[:, 0], other.predict(X), rtol=1e-5)


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_iter": 100},
        {"covariance": "diagonal"},
        {"covariance": "delta"},
        {"optimizer": "natgrad"},
        {"beta_reg": 0.5},
        {"gamma": 1.05},
        {"n_orthogonal": 5},
        {"feature_extractor": (8,)},
        {"early_stopping": True},
        {"dtype": "float32"},
    ],
)
def test_other_choices_are_trained_by_minibatches(table, parameters):
    X, y = table
    recipe = SVGPRegressor(**parameters)._recipe()
    assert recipe.for_rows(Rows(X, y, None))[0] is recipe


def test_long_tables_and_several_outputs_are_trained_by_minibatches(table, monkeypatch):
    X, y = table
    recipe = SVGPRegressor()._recipe()
    assert recipe.for_rows(Rows(X, y, None))[0] is not recipe
    assert recipe.for_rows(Rows(X, np.column_stack([y, y]), None))[0] is recipe
    monkeypatch.setattr(optimum, "_FEW_ROWS", len(y) - 1)
    monkeypatch.setattr(optimum, "_MOST_ENTRIES", len(y) * 5)
    assert SVGPRegressor(n_inducing=5)._recipe().for_rows(Rows(X, y, None))[0].full_batch is None
    monkeypatch.setattr(optimum, "_MOST_ENTRIES", len(y) * 5 - 1)
    recipe = SVGPRegressor()._recipe()
    assert recipe.for_rows(Rows(X, y, None))[0] is recipe
    fitted = SVGPRegressor(n_inducing=5, random_state=0).fit(X, y)
    assert fitted.n_iter_ == 500


def test_many_rows_without_noise_are_learned():
    """Minibatches end at -3.9 here."""
    X = np.random.default_rng(0).uniform(-2, 2, (4100, 1))
    y = np.sin(3 * X[:, 0])
    model = SVGPRegressor(n_inducing=20, random_state=0).fit(X, y)
    assert nll(y, model.predict_dist(X)) < -4.5


def test_warm_start_stays_at_the_optimum(table):
    X, y = table
    model = SVGPRegressor(warm_start=True, random_state=0).fit(X, y)
    before, first = model.predict(X), model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ <= 5 < first
    np.testing.assert_allclose(model.predict(X), before, atol=1e-3)


def test_partial_fit_goes_on_by_minibatches(table):
    X, y = table
    model = SVGPRegressor(n_inducing=20, random_state=0).fit(X, y)
    before, points = model.predict(X), model.inducing_points_
    model.partial_fit(X, y + 2.0)
    assert model.n_iter_ == len(model.loss_curve_)
    assert (model.inducing_points_ != points).any()
    assert np.mean(model.predict(X) - before) > 0.0


def test_best_of_several_starts_is_fitted(table):
    X, y = table
    one = SVGPRegressor(random_state=0).fit(X, y)
    best = SVGPRegressor(n_restarts=3, random_state=0).fit(X, y)
    assert best.loss_curve_[-1] == pytest.approx(one.loss_curve_[-1], abs=1e-6)


def test_kernel_of_a_user_has_no_weak_prior(table):
    """In its own units a weak prior would mean nothing; the optimum is that of the bound."""
    X, y = table
    kernel = gpytorch.kernels.RBFKernel(ard_num_dims=2)
    model = SVGPRegressor(kernel=kernel, random_state=0).fit(X, y)
    x, targets = scaled(model, X, y)
    value = dense_log_marginal(model, x, targets, np.ones(len(y), dtype=int))
    assert model.loss_curve_[-1] == pytest.approx(-value / len(y), abs=1e-8)


def test_units_that_nobody_standardised_have_no_weak_prior(table):
    X, y = table
    model = SVGPRegressor(normalize_X=False, normalize_y=False, random_state=0).fit(X, y - 50.0)
    x, targets = scaled(model, X, y - 50.0)
    value = dense_log_marginal(model, x, targets, np.ones(len(y), dtype=int))
    assert model.loss_curve_[-1] == pytest.approx(-value / len(y), abs=1e-6)


@pytest.mark.parametrize(("n_copies", "value_of"), [(30, dense_log_marginal), (90, dense_bound)])
def test_many_rows_of_few_inputs_go_through_the_smaller_matrix(table, n_copies, value_of):
    """Either way the value is that of all rows; jitter is in the bound alone."""
    X, y = table
    X, y = np.r_[X, X[:n_copies]], np.r_[y, y[:n_copies] + 1.0] - 50.0
    parameters = {"normalize_X": False, "normalize_y": False, "input_warping": False}
    model = SVGPRegressor(**parameters, random_state=0).fit(X, y)
    x, targets = scaled(model, X, y)
    value = value_of(model, x, targets, np.ones(len(y), dtype=int))
    assert model.loss_curve_[-1] == pytest.approx(-value / len(y), abs=1e-8)


def test_progress_verbosity_and_validation_rows(table, capsys):
    X, y = table
    model = SVGPRegressor(verbose=1, random_state=0).set_callbacks(ProgressBar())
    model.fit(X[:60], y[:60], X_val=X[60:], y_val=y[60:])
    assert len(model.validation_scores_) == model.n_iter_
    density = model.predict_dist(X[60:]).logpdf(y[60:]).mean()
    assert model.validation_scores_[-1] == pytest.approx(density, rel=1e-9)
    assert f"SVGPRegressor: epoch {model.n_iter_}/100  loss" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # far lengthscales
@pytest.mark.parametrize(("n_rows", "ratio"), [(300, 2.0), (1500, 1.0)])
def test_a_fit_is_as_fast_as_that_of_scikit_learn(n_rows, ratio):
    """In process time, one thread each."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 6))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.standard_normal(n_rows)
    kernel = ConstantKernel() * Matern(np.ones(6), nu=2.5) + WhiteKernel()
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times = []
        for model in (SVGPRegressor(), GaussianProcessRegressor(kernel, normalize_y=True)):
            start = time.process_time()
            model.fit(X, y)
            times.append(time.process_time() - start)
    finally:
        torch.set_num_threads(n_threads)
    assert times[0] < ratio * times[1]


def test_lengthscales_too_short_for_the_digits_of_distances_are_raised(table):
    """Training, with noise in the matrix, may end there; the kernel matrix has no factor then."""
    X, y = table
    X[:, 1] = X[:, 1].round(-1)  # of equal ones the other input decides
    model = SVGPRegressor(random_state=0).fit(X, y)
    x, targets = (part.numpy() for part in scaled(model, X, y))
    layer, fitted = model.stack_.top, copy.copy(model)
    with torch.no_grad():
        layer.kernel.log_lengthscale[0, 1] = -18.0
    with pytest.raises(NotPositiveDefiniteError):
        cholesky(layer.kernel.Kuu(layer.Z).detach(), layer.jitter)
    scales = model.model_.x_scale, model.model_.y_scale
    rows = Table(Rows(X, y[:, None], None), *scales, model.model_.log_weights)
    fitted.model_ = optimum.with_best_posterior(model.model_, rows)
    lengthscale = fitted.stack_.top.kernel.lengthscale.detach().numpy()[0]
    kept = layer.kernel.lengthscale[0, 0].item()
    np.testing.assert_allclose(lengthscale, [kept, 3e-4 * x[:, 1].std(ddof=1)])
    noise, mean = model.model_.likelihood.noise_var.item(), layer.mean.item()
    t = np.sqrt(5.0) * cdist(x / lengthscale, x / lengthscale)
    K = layer.kernel.variance.item() * (1.0 + t + t**2 / 3.0) * np.exp(-t)
    expected = mean + K @ np.linalg.solve(K + noise * np.eye(len(K)), targets[:, 0] - mean)
    expected = expected * y.std() + y.mean()
    np.testing.assert_allclose(fitted.predict(X), expected, rtol=0.0, atol=1e-3 * y.std())
