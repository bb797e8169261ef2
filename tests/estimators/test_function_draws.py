"""Draws of functions and covariances over rows of fitted models, beyond their contract."""

import numpy as np
import pytest
from gpytorch.kernels import RQKernel

from skgp import DGPRegressor, DSPPRegressor, ExactGPRegressor, SVGPRegressor
from skgp.estimators.baselines import SGHMCDGPRegressor
from skgp.fitting import functions

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


def moments_agree(draws, mean, cov, n_joint=np.inf):
    """Within five standard errors, those of a covariance over so many hidden functions too."""
    n = len(draws.T)
    var = np.diagonal(cov)
    assert (np.abs(draws.mean(1) - mean) < 5.0 * np.sqrt(var * (1.0 / n + 1.0 / n_joint))).all()
    error = np.sqrt((np.outer(var, var) + cov**2) * (1.0 / n + 1.0 / n_joint))
    assert (np.abs(np.cov(draws) - cov) < 5.0 * error).all()


def test_covariance_of_sampled_hidden_functions(table, deep):
    """Its diagonal has the error of 200 draws of the hidden functions."""
    _, _, X_new = table
    mean, std = deep.predict(X_new, return_std=True)
    _, cov = deep.predict(X_new, return_cov=True)
    np.testing.assert_allclose(np.diagonal(cov), std**2, rtol=5.0 * np.sqrt(2.0 / 200))
    f = deep.sample_functions(1000, random_state=1)
    moments_agree(f(X_new), mean, cov - deep.noise_variance_ * np.eye(4), n_joint=200)


def test_draws_of_a_chain(table):
    X, y, X_new = table
    chain = {**CHAIN, **{name: value for name, value in DEEP.items() if name != "width"}}
    model = SGHMCDGPRegressor(**chain).fit(X, y)
    mean, cov = model.predict(X_new, return_cov=True)
    draws = model.sample_functions(500)(X_new)
    moments_agree(draws, mean, cov - model.noise_variance_ * np.eye(4))


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
    with pytest.raises(ValueError, match=r"x has the shape \(60, 1\), and the functions take rows"):
        f(X[:, :1])
    with pytest.raises(ValueError, match="NaN"):
        f(np.where(X > 1.0, np.nan, X))
    with pytest.raises(ValueError, match="n_samples == 0"):
        model.sample_functions(0)
    with pytest.raises(TypeError, match="n_samples"):
        model.sample_functions(1.5)
