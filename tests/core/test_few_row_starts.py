"""Starts of a sparse GP from an exact GP of few rows."""

import math

import numpy as np
import pytest
import scipy.optimize
import torch
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn.metrics import log_loss

from skgp import (
    DSPPClassifier,
    DSPPRegressor,
    ExactGPRegressor,
    PPGPRClassifier,
    PPGPRRegressor,
    SVGPClassifier,
    SVGPRegressor,
)
from skgp.core.kernels.stationary import Stationary
from skgp.core.layers.posteriors import DeltaPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal import exact_starts
from skgp.core.marginal.exact_starts import (
    go_on,
    is_rough,
    start_from_few,
    start_from_trial,
)
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.recipes import stack
from skgp.scoring import nll


def wide_rows(rng, n_rows):
    """Targets that depend on two of thirty inputs, x (n, 30) and y (1, n)."""
    x = torch.from_numpy(rng.uniform(-1.0, 1.0, (n_rows, 30)))
    noise = 0.1 * torch.from_numpy(rng.standard_normal(n_rows))
    return x / x.std(0), (2.0 * torch.sin(4.0 * x[:, 0]) * x[:, 1] + noise).unsqueeze(0)


def rough_rows(rng, n_rows):
    """Targets with ten periods along one of three inputs, x (n, 3) and y (1, n)."""
    x = torch.from_numpy(rng.uniform(-1.0, 1.0, (n_rows, 3)))
    noise = 0.1 * torch.from_numpy(rng.standard_normal(n_rows))
    return x / x.std(0), (1.4 * torch.sin(32.0 * x[:, 0]) + noise).unsqueeze(0)


def start_of_few(x, y, n_few, n_inducing, lengthscale, start=start_from_few):
    """A layer, and the noise variance, after a start from the first few rows."""
    kernel = Stationary("matern52", 1, x.shape[1], lengthscale).double()
    Z = x[None, -n_inducing:].clone()
    layer = SparseGP(kernel, Z, DeltaPosterior(torch.zeros(1, n_inducing)), 1e-6)
    rows = ObservedRows(x[:n_few], y[:, :n_few], torch.ones(n_few).double())
    return layer, start(layer, rows, torch.tensor([0.135], dtype=torch.float64))


def rest_of(layer, x):
    """Mean variance that the inducing variables do not explain."""
    variance = layer.kernel.variance.item()
    K = variance * layer.kernel.Kuu(layer.Z)[0].detach().numpy()
    Kuf = variance * layer.kernel.Kuf(layer.Z, x)[0].detach().numpy()
    explained = np.sum(Kuf * np.linalg.solve(K + 1e-6 * variance * np.eye(len(K)), Kuf), axis=0)
    return variance - explained.mean()


def kernel_of(layer):
    """Logarithms of the lengthscales and of the variance."""
    kernel = layer.kernel
    return np.r_[kernel.log_lengthscale.detach().numpy()[0], kernel.variance.log().detach()]


def best_of(x, y, centre, copies=1, start=None):
    """Logarithms of the lengthscales, the variance and the noise of an exact GP at its optimum.

    Of a Matern 5/2 kernel with hyperbolic secants around the centre, where the search starts if
    nothing else is given. Each row counts as its copies.
    """

    def value(at):
        z = x / np.exp(at[:-2])
        scaled = cdist(z, z) * math.sqrt(5.0)
        K = np.exp(at[-2]) * (1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled)
        noise = np.exp(at[-1]) + 1e-6
        C = K + noise / copies * np.eye(len(y))
        # SciPy's normal would refuse nearly singular matrices, which the search may try.
        log_density = -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(2.0 * np.pi * C)[1])
        # The mean of copies tells all about f, and what they are apart from it about the noise.
        apart = (copies - 1) * len(y) * np.log(noise)
        return -log_density + 0.5 * apart + np.log(np.cosh(at - centre)).sum()

    # Beyond, where its line search may look, a matrix may have no inverse.
    bounds = [(c - 15.0, c + 6.0) for c in centre]
    start = centre if start is None else start
    return scipy.optimize.minimize(value, start, method="L-BFGS-B", bounds=bounds).x


def test_an_exact_gp_of_few_rows_finds_inputs_that_the_bound_loses(rng):
    x, y = wide_rows(rng, 350)
    layer, noise_var = start_of_few(x, y, 300, 50, math.sqrt(30.0))
    lengthscale = layer.kernel.lengthscale[0].detach()
    assert lengthscale[:2].max() < 4.0 < 10.0 < lengthscale[2:].min()
    # Fifty inducing inputs explain part of it, and the rest is noise to the bound.
    rest = rest_of(layer, x[:300])
    assert rest > 0.02
    assert 0.0 < noise_var.item() - rest < 0.02


def test_the_usual_start_stays_where_few_rows_need_too_many_inducing_inputs(rng):
    x = torch.from_numpy(rng.uniform(-1.0, 1.0, (300, 1)))
    y = torch.sin(60.0 * x).mT
    layer, noise_var = start_of_few(x, y, 300, 10, 1.0)
    assert layer.kernel.lengthscale.item() == pytest.approx(1.0, rel=1e-15)
    assert noise_var.item() == 0.135


def test_few_rows_end_at_an_optimum_of_the_likelihood_and_weak_priors(rng, monkeypatch):
    x, y = wide_rows(rng, 120)
    x = x[:, :3]
    monkeypatch.setattr(exact_starts, "_CLEAR_LEAD", -math.inf)
    layer, noise_var = start_of_few(x, y, 80, 100, math.sqrt(3.0))
    usual = np.log(np.array([math.sqrt(3.0)] * 3 + [1.0, 0.135]))
    optimum = best_of(x[:80].numpy(), y[0, :80].numpy(), usual)
    np.testing.assert_allclose(kernel_of(layer), optimum[:4], atol=0.02)
    assert noise_var.item() == pytest.approx(np.exp(optimum[4]) + rest_of(layer, x[:80]), rel=0.05)


@pytest.mark.parametrize("start", [start_from_few, start_from_trial])
def test_short_lengthscales_lead_to_an_optimum_with_weak_priors_around_the_usual(
    rng, monkeypatch, start
):
    x, y = rough_rows(rng, 120)
    monkeypatch.setattr(exact_starts, "_FEW_REFINEMENTS", 100)
    monkeypatch.setattr(exact_starts, "_ROUGH_REFINEMENTS", 100)
    monkeypatch.setattr(exact_starts, "_CLEAR_LEAD", -math.inf)
    layer, noise_var = start_of_few(x, y, 120, 120, math.sqrt(3.0), start)
    usual = np.log(np.array([math.sqrt(3.0)] * 3 + [1.0, 0.135]))
    short = usual + np.log([0.3] * 3 + [1.0] * 2)
    optimum = best_of(x.numpy(), y[0].numpy(), usual, start=short)
    np.testing.assert_allclose(kernel_of(layer), optimum[:4], atol=2e-3)
    assert noise_var.item() == pytest.approx(np.exp(optimum[4]), rel=0.01)
    # From the usual lengthscales all is noise.
    assert np.exp(best_of(x.numpy(), y[0].numpy(), usual)[4]) > 0.5


def test_a_kernel_without_lengthscales_to_learn_is_left_alone(rng, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr(exact_starts, "exact_log_marginal", refuse)
    x, y = rough_rows(rng, 20)
    kernel = Stationary("matern52", 1, 3, 1.0).double()
    kernel.log_lengthscale.requires_grad_(False)
    layer = SparseGP(kernel, x[None].clone(), DeltaPosterior(torch.zeros(1, 20)), 1e-6)
    rows = ObservedRows(x, y, torch.ones(20).double())
    assert not is_rough(layer, rows, torch.tensor([0.135]))
    assert start_from_trial(layer, rows, torch.tensor([0.135])).item() == pytest.approx(0.135)
    assert kernel.lengthscale.unique().item() == 1.0


def test_a_sparse_gp_that_can_hold_a_rough_function_starts_there(rng):
    x, y = rough_rows(rng, 300)
    layer, noise_var = start_of_few(x, y, 300, 200, math.sqrt(3.0))
    lengthscale = layer.kernel.lengthscale[0].detach()
    assert lengthscale[0] < 0.3 < 2.0 < lengthscale[1:].min()
    assert noise_var.item() < 0.3


@pytest.mark.parametrize("function", [rough_rows, wide_rows])
def test_whether_a_function_is_rough_leaves_the_kernel_as_it_is(rng, function):
    x, y = function(rng, 120)
    x = x[:, :3]
    kernel = Stationary("matern52", 1, 3, math.sqrt(3.0)).double()
    layer = SparseGP(kernel, x[None].clone(), DeltaPosterior(torch.zeros(1, 120)), 1e-6)
    rows = ObservedRows(x, y, torch.ones(120).double())
    noise_var = torch.tensor([0.135], dtype=torch.float64)
    assert is_rough(layer, rows, noise_var) == (function is rough_rows)
    assert kernel.log_lengthscale.unique().tolist() == pytest.approx([0.5 * math.log(3.0)])
    assert noise_var.item() == 0.135


@pytest.mark.parametrize("copies", [1, 2])  # of two the noise goes to its floor
def test_more_rows_lead_to_an_optimum_with_weak_priors_around_that_of_few(rng, monkeypatch, copies):
    """Of rows that are copies, too: they count as one of their weight."""
    x, y = wide_rows(rng, 40)
    x = x[:, :3]
    kernel = Stationary("matern52", 1, 3, 0.4).double()
    layer = SparseGP(kernel, x[None, :10].clone(), DeltaPosterior(torch.zeros(1, 10)), 1e-6)
    all_rows = torch.arange(40).repeat(copies)
    rows = ObservedRows(x[all_rows], y[:, all_rows], torch.ones(40 * copies).double())
    first = np.log(np.array([0.4] * 3 + [1.0, 0.01 - 1e-6]))
    monkeypatch.setattr(exact_starts, "_MORE_REFINEMENTS", 100)
    noise_var = go_on(layer, rows, torch.tensor([0.01], dtype=torch.float64))
    optimum = best_of(x.numpy(), y[0].numpy(), first, copies)
    np.testing.assert_allclose(kernel_of(layer), optimum[:4], atol=2e-3)
    assert noise_var.item() == pytest.approx(np.exp(optimum[4]) + 1e-6, rel=1e-3)


def test_svgp_keeps_a_signal_in_two_of_thirty_inputs(rng):
    """From the usual values it ends at the mean, with an NLL of 1.2."""
    x, y = (part.numpy() for part in wide_rows(rng, 1000))
    model = SVGPRegressor(n_inducing=50, random_state=0).fit(x[:500], y[0, :500])
    assert nll(y[0, 500:], model.predict_dist(x[500:])) < -0.4


def test_svgp_does_not_take_a_rough_function_for_noise(rng):
    """From the usual values it ends at the mean, with an NLL of 1.4."""
    x, y = (part.numpy() for part in rough_rows(rng, 600))
    model = SVGPRegressor(random_state=0).fit(x[:300], y[0, :300])
    assert nll(y[0, 300:], model.predict_dist(x[300:])) < -0.4


def growth_curves():
    """Twenty plants of different slopes at fourteen times: their numbers tell nothing else."""
    rng = np.random.default_rng(1)
    number, time = np.repeat(np.arange(20), 14), np.tile(np.arange(14.0), 20)
    slope = 1.0 + 0.4 * rng.standard_normal(20)
    y = slope[number] * time + 0.3 * rng.standard_normal(280)
    is_test = np.isin(np.arange(280), rng.permutation(280)[:84])
    X = np.column_stack([number, time])
    return X[~is_test], y[~is_test], X[is_test], y[is_test]


@pytest.mark.parametrize("make", [SVGPRegressor, ExactGPRegressor, PPGPRRegressor])
def test_no_regressor_takes_growth_curves_for_noise(make):
    """From the usual values an exact GP has an NLL of 2.0, and PPGPR one of 1.8."""
    X, y, X_test, y_test = growth_curves()
    assert nll(y_test, make(random_state=0).fit(X, y).predict_dist(X_test)) < 0.6


@pytest.mark.parametrize(
    "make", [SVGPClassifier, PPGPRClassifier, pytest.param(DSPPClassifier, marks=pytest.mark.slow)]
)
def test_no_classifier_takes_a_rough_function_for_chance(make):
    """From the usual values all have a log loss of 0.7."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (1300, 5))
    y = rng.random(1300) < expit(10.0 * np.sin(32.0 * X[:, 0]))
    model = make(max_iter=20, random_state=0).fit(X[:300], y[:300])
    assert log_loss(y[300:], model.predict_proba(X[300:])) < 0.25


def test_a_ppgpr_without_inducing_inputs_of_the_mean_starts_at_given_values(rng, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError

    x, y = (part.numpy() for part in wide_rows(rng, 40))
    model = PPGPRRegressor(n_inducing_mean=0, n_inducing=10, max_iter=1, random_state=0)
    monkeypatch.setattr(stack, "start_hyperparameters", refuse)
    monkeypatch.setattr(stack, "start_from_few", refuse)
    assert model.fit(x, y[0]).n_iter_ == 1
    with pytest.raises(AssertionError):
        SVGPRegressor(n_inducing=10).fit(x, y[0])


@pytest.mark.parametrize(("n_rows", "seed"), [(150, 8), (300, 2)])
def test_heteroscedastic_noise_is_no_rough_function(n_rows, seed):
    """The likelihood alone prefers short lengthscales by fifteen nats."""
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.uniform(-2.0, 2.0, (n_rows, 2)))
    y = x[:, 0] + torch.exp(2.0 * x[:, 1]) * torch.from_numpy(rng.standard_normal(n_rows))
    x, y = x / x.std(0), ((y - y.mean()) / y.std()).unsqueeze(0)
    kernel = Stationary("matern52", 1, 2, math.sqrt(2.0)).double()
    layer = SparseGP(kernel, x[None].clone(), DeltaPosterior(torch.zeros(1, n_rows)), 1e-6)
    rows = ObservedRows(x, y, torch.ones(n_rows).double())
    noise_var = torch.tensor([0.135], dtype=torch.float64)
    leads = [
        exact_starts._trial(layer, rows, noise_var, 30, is_short=is_short).log_posterior
        for is_short in (True, False)
    ]
    assert leads[0] - leads[1] > 10.0
    assert not is_rough(layer, rows, noise_var)


def test_few_inputs_come_out_of_a_prior_that_pulls_lengthscales_together(rng):
    """It still counts in the posterior that is found."""
    x, y = rough_rows(rng, 150)
    kernel = Stationary("matern52", 1, 3, math.sqrt(3.0), pulled=True).double()
    layer = SparseGP(kernel, x[None].clone(), DeltaPosterior(torch.zeros(1, 150)), 1e-6)
    rows = ObservedRows(x, y, torch.ones(150).double())
    noise_var = torch.tensor([0.135], dtype=torch.float64)
    pulled = exact_starts._trial(layer, rows, noise_var, 30, is_short=True)
    assert pulled.layer.kernel.pulled
    kernel.pulled = False
    free = exact_starts._trial(layer, rows, noise_var, 30, is_short=True)
    torch.testing.assert_close(pulled.layer.kernel.lengthscale, free.layer.kernel.lengthscale)
    centred = np.log(free.layer.kernel.lengthscale.detach().numpy()[0])
    centred -= centred.mean()
    log_prior = -np.log1p((centred / 0.1) ** 2).sum()
    assert log_prior < -10.0
    assert pulled.log_posterior == pytest.approx(free.log_posterior + log_prior, abs=1e-6)


@pytest.mark.parametrize("answer", [True, False])
def test_a_search_asks_once_whether_a_function_is_rough(rng, monkeypatch, answer):
    """And each GP of all inputs that it compares training with starts as that says."""
    asked, told = [], []
    start = stack.start_hyperparameters

    def noted(*args, rough, **kwargs):
        told.append(rough)
        return start(*args, rough=rough, **kwargs)

    monkeypatch.setattr(stack, "is_rough", lambda *args: asked.append(args) or answer)
    monkeypatch.setattr(stack, "start_hyperparameters", noted)
    x, y = (part.numpy() for part in rough_rows(rng, 60))
    model = PPGPRRegressor(max_iter=1, random_state=0).fit(x, y[0])
    assert len(asked) == 1
    assert model.model_.is_rough is answer
    # The model that is trained, and that of each fold, start as usual, whatever the answer.
    assert told.count(False) >= len(told) // 2
    assert (True in told) is answer
    PPGPRRegressor(n_inducing=60, max_iter=1, random_state=0).fit(x, y[0])
    assert len(asked) == 1  # nothing is compared with it


def test_a_dspp_tests_roughness_on_its_inputs_alone(rng, monkeypatch):
    """Not on its hidden functions, which are random before training."""
    seen = []

    def noted(setup, h, latent, layer):
        seen.append(h.numpy())
        return False

    monkeypatch.setattr(stack, "starts_rough", noted)
    x, y = (part.numpy() for part in rough_rows(rng, 40))
    DSPPRegressor(width=2, max_iter=1, input_warping=False, random_state=0).fit(x, y[0])
    np.testing.assert_allclose(seen[0][:, 2:], (x - x.mean(0)) / x.std(0), rtol=1e-6)
    assert seen[0].shape == (40, 5)
    assert np.ptp(seen[0][:, :2], axis=0).max() < 0.02
    assert len(seen) == 1  # models of folds begin as that of all rows
