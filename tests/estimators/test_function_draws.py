"""Draws of functions and covariances over rows of fitted models, beyond their contract."""

import numpy as np
import pandas as pd
import pytest
import torch
from gpytorch.kernels import RQKernel

from skgp import DGPRegressor, DSPPRegressor, ExactGPRegressor, PPGPRRegressor, SVGPRegressor
from skgp.core.numerics.conjugate_gradients import ConjugateGradients
from skgp.estimators.baselines import SGHMCDGPRegressor
from skgp.fitting import draws, functions

pytestmark = pytest.mark.usefixtures("short_start")

DEEP = {"width": 2, "n_inducing": 10, "max_iter": 15, "early_stopping": False, "random_state": 0}
CHAIN = {"n_layers": 1, "n_posterior_samples": 5, "thinning": 2, "n_burn_in": 10}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 2)) * [1.0, 10.0]
    y = 50.0 + 5.0 * np.sin(2.0 * X[:, 0]) + rng.standard_normal(60)
    return X, y, rng.uniform(-2.5, 2.5, (4, 2)) * [1.0, 10.0]


@pytest.fixture(scope="module")
def model(table):
    X, y, _ = table
    return SVGPRegressor(n_inducing=10, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def deep(table):
    X, y, _ = table
    return DGPRegressor(n_prediction_samples=200, **DEEP).fit(X, y)


def moments_agree(values, mean, cov, n_joint=np.inf):
    """Within five standard errors, those of a covariance over so many hidden functions too."""
    n = len(values.T)
    var = np.diagonal(cov)
    assert (np.abs(values.mean(1) - mean) < 5.0 * np.sqrt(var * (1.0 / n + 1.0 / n_joint))).all()
    # of normals; the tails of mixtures are heavier
    centred = (values - values.mean(1, keepdims=True)) / np.sqrt(var)[:, None]
    kurtosis = max(1.0, (centred**4).mean() / 3.0)
    error = np.sqrt((np.outer(var, var) + cov**2) * kurtosis * (1.0 / n + 1.0 / n_joint))
    assert (np.abs(np.cov(values) - cov) < 5.0 * error).all()


def test_covariance_of_sampled_hidden_functions(table, deep):
    """Its diagonal has the error of 200 draws of the hidden functions."""
    _, _, X_new = table
    mean, std = deep.predict(X_new, return_std=True)
    _, cov = deep.predict(X_new, return_cov=True)
    np.testing.assert_allclose(np.diagonal(cov), std**2, rtol=5.0 * np.sqrt(2.0 / 200))
    f = deep.sample_functions(1000, random_state=1)
    moments_agree(f(X_new), mean, cov - deep.noise_variance_ * np.eye(4), n_joint=200)


def samples_agree(model, X_new, n, n_joint=np.inf):
    mean, cov = model.predict(X_new, return_cov=True)
    moments_agree(model.sample_y(X_new, n, random_state=1), mean, cov, n_joint)


def test_samples_by_functions_have_the_covariance_over_rows(table, model, deep, monkeypatch):
    """Of sampled hidden functions, and of more rows than are drawn from their joint law."""
    _, _, X_new = table
    near = np.concatenate([X_new[:2], X_new[:2] + 0.01])
    samples_agree(deep, near, 500, n_joint=200)
    exact = model.sample_y(near, 1, random_state=1)
    monkeypatch.setattr(draws, "MOST_JOINT_ROWS", 3)
    assert (model.sample_y(near, 1, random_state=1) != exact).all()
    samples_agree(model, near, 1500)


@pytest.mark.usefixtures("full_start")
def test_samples_at_sigma_points_are_those_of_a_mixture(table):
    """Draws of the mixture over nodes, in a random order."""
    X, y, X_new = table
    model = DSPPRegressor(n_layers=2, n_sites=3, quadrature="qr3", **DEEP).fit(X, y)
    with torch.no_grad():  # nodes whose means differ
        model.model_.nodes.xi.mul_(9.0)
        model.stack_.top.kernel.log_lengthscale[:, :2] -= 2.0
        model.model_.nodes.logits.copy_(torch.tensor([0.0, 2.0, 1.0]))
    assert np.ptp(model.predict_dist(X_new).components().mean, axis=1).max() > 2.0
    samples_agree(model, np.concatenate([X_new[:2], X_new[:2] + 0.01]), 20_000)
    halves = model.sample_y(X_new, 20_000).reshape(4, 2, -1)
    first, second = halves.mean(-1).T
    assert (np.abs(first - second) < 5.0 * halves.std(axis=(1, 2)) * np.sqrt(2 / 10_000)).all()


def test_draws_of_a_chain(table):
    X, y, X_new = table
    chain = {**CHAIN, **{name: value for name, value in DEEP.items() if name != "width"}}
    model = SGHMCDGPRegressor(**chain).fit(X, y)
    mean, cov = model.predict(X_new, return_cov=True)
    values = model.sample_functions(500)(X_new)
    moments_agree(values, mean, cov - model.noise_variance_ * np.eye(4))
    samples_agree(model, X_new, 5000)


def test_samples_of_counts_share_their_rate(table):
    """Over draws Cov(y_i, y_j) = Cov(exp f_i, exp f_j), and more at one row by the mean."""
    X, _, X_new = table
    y = np.random.default_rng(1).poisson(np.exp(1.0 + np.sin(2.0 * X[:20, 0])))
    model = SVGPRegressor(n_inducing=10, likelihood="poisson", max_iter=20, random_state=0)
    model.fit(X[:20], y)
    rows, n = np.concatenate([X_new[:2], X_new[:2] + 1e-4]), 40_000
    y = model.sample_y(rows, n)
    f = model.predict_latent(rows)
    rate = np.exp(f.mean() + f.var() / 2.0)
    between = rate**2 * np.expm1(f.var())  # of a log-normal rate
    assert (between[:2] > 0.1 * rate[:2]).all()
    products = (y[:2] - rate[:2, None]) * (y[2:] - rate[2:, None])
    error = products.std(1) / np.sqrt(n)
    assert (np.abs(products.mean(1) - between[:2]) < 5.0 * error).all()
    np.testing.assert_allclose(y.mean(1), model.predict(rows), atol=5.0 * y.std() / np.sqrt(n))


def test_posterior_of_mixed_outputs(table):
    """The covariance over rows and outputs: rows at one output, outputs at one row."""
    X, y, X_new = table
    Y = np.column_stack([y, 3.0 * X[:, 0] - y])
    model = SVGPRegressor(n_inducing=10, max_iter=10, random_state=0).fit(X, Y)
    mean, cov = (part.numpy() for part in model.posterior().mean_and_cov(torch.tensor(X_new)))
    latent = model.predict_latent(X_new)
    np.testing.assert_allclose(mean, latent.mean(), rtol=1e-10)
    of_outputs = np.stack([cov[i, :, i] for i in range(4)])
    np.testing.assert_allclose(of_outputs, latent.cov(), rtol=1e-8, atol=1e-8)
    assert (np.abs(of_outputs[:, 0, 1]) > 1e-3).all()
    of_rows = np.stack([cov[:, p, :, p] for p in range(2)], -1)
    noise = np.eye(4)[..., None] * model.noise_variance_
    np.testing.assert_allclose(of_rows + noise, model.predict(X_new, return_cov=True)[1])
    np.testing.assert_allclose(cov, cov.transpose(2, 3, 0, 1), rtol=1e-10, atol=1e-12)


def test_posterior_of_a_system_without_a_factor(table):
    """Slopes through conjugate gradients, against those through the Cholesky factor."""
    X, y, X_new = table
    model = ExactGPRegressor(random_state=0).fit(X, y)
    x = torch.tensor(X_new, requires_grad=True)
    slopes = []
    for gp_solver in (None, ConjugateGradients(seed=0, min_rows=0, tolerance=1e-5, rank=5)):
        if gp_solver is not None:
            model.stack_.top.solver, model.stack_.top.L_inv = gp_solver, None
        posterior = model.posterior()
        (of_std,) = torch.autograd.grad(posterior.mean_and_std(x)[1].sum(), x)
        (of_cov,) = torch.autograd.grad(posterior.mean_and_cov(x)[1][0].sum(), x)
        slopes.append((of_std, of_cov))
    for factored, iterated in zip(*slopes, strict=True):
        torch.testing.assert_close(factored, iterated, rtol=1e-3, atol=1e-4)


def test_a_later_fit_leaves_the_posterior_alone(table):
    X, y, X_new = table
    model = SVGPRegressor(n_inducing=10, warm_start=True, max_iter=5, random_state=0).fit(X, y)
    posterior, x = model.posterior(), torch.tensor(X_new)
    before = posterior.mean_and_std(x)[0]
    assert posterior.is_normal
    model.fit(X, y)
    assert torch.equal(posterior.mean_and_std(x)[0], before)
    assert not torch.equal(model.posterior().mean_and_std(x)[0], before)


def test_rows_in_chunks(table, model, monkeypatch):
    X, _, _ = table
    f = model.sample_functions(3)
    whole = f(X)
    monkeypatch.setattr(functions, "_CHUNK_CELLS", 21)
    np.testing.assert_allclose(f(X), whole, rtol=1e-12)


def test_a_later_fit_leaves_draws_alone(table):
    X, y, X_new = table
    model = DSPPRegressor(n_layers=2, warm_start=True, **DEEP).fit(X, y)
    f = model.sample_functions(3)
    before = f(X_new)
    model.fit(X, y)
    np.testing.assert_array_equal(f(X_new), before)
    assert (model.sample_functions(3)(X_new) != before).all()


def test_prior_draws_have_the_variance_of_the_kernel(table):
    X, y, X_new = table
    model = ExactGPRegressor(random_state=0).fit(X, y)
    gp, scale = model.stack_.top, model.model_.y_scale
    values = model.sample_prior_functions(1000)(X_new)
    std = scale.unit[0] * gp.kernel.variance.sqrt().item()
    error = std / np.sqrt(1000)
    centre = scale.offset[0] + scale.unit[0] * gp.mean.item()
    assert (np.abs(values.mean(1) - centre) < 5.0 * error).all()
    assert (np.abs(values.std(1) - std) < 5.0 * error).all()


def test_gpytorch_kernels(table):
    """One layer has a covariance over rows with any kernel, and draws with none of these."""
    X, y, X_new = table
    model = SVGPRegressor(kernel=RQKernel(), n_inducing=10, max_iter=5, random_state=0).fit(X, y)
    _, std = model.predict(X_new, return_std=True)
    _, cov = model.predict(X_new, return_cov=True)
    np.testing.assert_allclose(np.diagonal(cov), std**2, rtol=1e-9)
    deep = DGPRegressor(kernel=RQKernel(), **{**DEEP, "max_iter": 2}).fit(X, y)
    for call in (
        model.sample_functions,
        model.sample_prior_functions,
        lambda: deep.predict(X_new, return_cov=True),
    ):
        with pytest.raises(NotImplementedError, match="gpytorch kernel RQKernel is not known"):
            call()


def test_wrong_arguments(table, model):
    X, _, _ = table
    f = model.sample_functions()
    with pytest.raises(
        ValueError, match=r"x has the shape \(60, 1\), and the functions take one row"
    ):
        f(X[:, :1])
    with pytest.raises(ValueError, match="NaN"):
        f(np.where(X > 1.0, np.nan, X))
    with pytest.raises(ValueError, match="n_samples == 0"):
        model.sample_functions(0)
    with pytest.raises(TypeError, match="n_samples"):
        model.sample_functions(1.5)
    for evaluate in (f.evaluate, model.posterior().mean_and_std):
        with pytest.raises(ValueError, match="x holds infinity"):
            evaluate(torch.tensor([[np.inf, 0.0]]))
        with pytest.raises(ValueError, match="take one row or more of 2 columns"):
            evaluate(torch.zeros(0, 2))


def test_draws_know_the_columns_of_a_data_frame() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"])
    model = SVGPRegressor(n_inducing=5, max_iter=3, random_state=0).fit(frame, frame["a"])
    f = model.sample_functions(2, random_state=0)
    expected = f(frame.to_numpy())
    np.testing.assert_array_equal(f(frame), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        f(frame[["c", "a", "b"]])
    np.testing.assert_array_equal(f(frame.to_numpy()[:, ::-1][:, ::-1]), expected)


def test_inducing_points_are_the_users_to_change() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    model = SVGPRegressor(n_inducing=5, feature_extractor=[4], max_iter=3, random_state=0)
    expected = model.fit(X, X[:, 0]).predict(X)
    model.inducing_points_[:] = 0.0
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize(
    "cls", [ExactGPRegressor, SVGPRegressor, PPGPRRegressor, DSPPRegressor, DGPRegressor]
)
def test_second_derivatives_are_refused(cls, rng):
    """They would be wrong: what is kept of a forward pass is a constant to torch."""
    X = rng.normal(size=(30, 2))
    model = cls(max_iter=3, random_state=0).fit(X, np.sin(X[:, 0]))
    x = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    values = [model.posterior().mean_and_std(x)[part].sum() for part in (0, 1)]
    values.append(model.sample_functions(1).evaluate(x).sum())
    for value in values:
        with pytest.raises(NotImplementedError, match="first order"):
            torch.autograd.grad(value, x, create_graph=True)
