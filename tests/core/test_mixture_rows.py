"""Rows of normal noise with the posterior of noise that is a mixture, against dense algebra."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax
from scipy.stats import norm

from skgp.core.kernels.stationary import Stationary
from skgp.core.layers.noise import NORMAL_NOISE, MixtureNoise
from skgp.core.layers.posteriors import DeltaPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal import mixture_rows
from skgp.core.marginal.mixture_rows import equivalent_rows
from skgp.core.marginal.observed_rows import ObservedRows

NOISE = MixtureNoise((0.2, 0.5, 0.3), (-1.5, 0.2, 0.7), (0.3, 0.1, 4.0))
NOISE_VAR = 0.2


@pytest.fixture
def problem(rng):
    """One GP with a mean, and weighted rows of a smooth function with two peaks of noise."""
    x = torch.from_numpy(rng.uniform(-2.0, 2.0, (40, 2)))
    y = torch.sin(x[:, :1].mT) + torch.from_numpy(rng.choice([-0.6, 0.3], (1, 40)))
    return _gp(x), ObservedRows(x, y, torch.from_numpy(rng.integers(1, 3, 40).astype(float)))


def _gp(x):
    kernel = Stationary("matern52", 1, 2, 1.0).double()
    kernel.log_variance.data.fill_(0.6)
    gp = SparseGP(kernel, x[None].clone(), DeltaPosterior(torch.zeros(1, len(x))), 1e-8).double()
    gp.mean.data.fill_(0.3)
    return gp


def _posterior(gp, rows):
    """Means and variances (n,) of f - mean, given targets of normal noise."""
    with torch.no_grad():
        K = (gp.kernel.Kuu(rows.x[None]) * gp.kernel.variance)[0].numpy()
        residual = (rows.y - gp.mean.item())[0].numpy()
    gain = K @ np.linalg.inv(K + np.diag(NOISE_VAR / rows.weight.numpy()))
    return gain @ residual, np.diag(K - gain @ K)


def _by_component(gp, rows, mean, var):
    """Expected log joint densities (n, 3) of the targets and of the components."""
    weights, shifts, ratios = map(np.array, NOISE)
    std = np.sqrt(ratios * NOISE_VAR)
    y = (rows.y - gp.mean.item())[0].numpy()
    at_mean = norm.logpdf(y[:, None], mean[:, None] + np.sqrt(NOISE_VAR) * shifts, std)
    return np.log(weights) + at_mean - 0.5 * var[:, None] / std**2


def test_they_are_a_fixed_point_of_variational_bayes(problem, monkeypatch) -> None:
    monkeypatch.setattr(mixture_rows, "_SETTLED", 0.0)
    monkeypatch.setattr(mixture_rows, "_MOST_ROUNDS", 500)
    gp, rows = problem
    found = equivalent_rows(gp, rows, torch.tensor([NOISE_VAR]), NOISE)
    r = softmax(_by_component(gp, rows, *_posterior(gp, found)), axis=1)
    _, shifts, ratios = map(np.array, NOISE)
    precision = (r / ratios).sum(1)
    assert_allclose(found.weight / rows.weight, precision, rtol=1e-6)
    moved = np.sqrt(NOISE_VAR) * (r * shifts / ratios).sum(1) / precision
    assert_allclose(found.y[0], rows.y[0].numpy() - moved, rtol=0, atol=1e-7)


def test_few_rounds_raise_the_bound_by_most_of_what_many_do(problem, monkeypatch) -> None:
    """The evidence lower bound: sum_i w_i log sum_k exp E log p(y_i, k) - KL(q(f), p(f))."""
    gp, rows = problem
    with torch.no_grad():
        K = (gp.kernel.Kuu(rows.x[None]) * gp.kernel.variance)[0].numpy()

    def bound(found):
        mean, var = _posterior(gp, found)
        S = np.linalg.inv(np.linalg.inv(K) + np.diag(found.weight.numpy() / NOISE_VAR))
        expected = logsumexp(_by_component(gp, rows, mean, var), axis=1) @ rows.weight.numpy()
        log_dets = np.linalg.slogdet(K)[1] - np.linalg.slogdet(S)[1]
        solved = np.linalg.solve(K, np.column_stack([S, mean]))
        return expected - 0.5 * (
            np.trace(solved[:, :-1]) + mean @ solved[:, -1] - len(K) + log_dets
        )

    bounds = [bound(rows), bound(equivalent_rows(gp, rows, torch.tensor([NOISE_VAR]), NOISE))]
    monkeypatch.setattr(mixture_rows, "_SETTLED", 0.0)
    monkeypatch.setattr(mixture_rows, "_MOST_ROUNDS", 500)
    bounds.append(bound(equivalent_rows(gp, rows, torch.tensor([NOISE_VAR]), NOISE)))
    assert bounds[2] - bounds[0] > 5.0
    assert bounds[1] - bounds[0] > 0.9 * (bounds[2] - bounds[0])


def test_normal_noise_changes_nothing(problem) -> None:
    gp, rows = problem
    found = equivalent_rows(gp, rows, torch.tensor([NOISE_VAR]), NORMAL_NOISE)
    assert_allclose(found.y, rows.y, rtol=1e-12)
    assert_allclose(found.weight, rows.weight, rtol=1e-12)


def test_weights_count_rows(problem) -> None:
    gp, rows = problem
    twice = torch.cat([torch.arange(40), torch.nonzero(rows.weight > 1.0)[:, 0]])
    copied = ObservedRows(rows.x[twice], rows.y[:, twice], torch.ones(len(twice)).double())
    of_weights, of_copies = (
        equivalent_rows(gp, each, torch.tensor([NOISE_VAR]), NOISE) for each in (rows, copied)
    )
    assert_allclose(of_copies.y[:, :40], of_weights.y, rtol=0, atol=1e-6)
    assert_allclose(of_copies.weight[:40] * rows.weight, of_weights.weight, rtol=1e-6)


def test_an_outlier_counts_for_next_to_nothing(problem) -> None:
    gp, rows = problem
    rows.y[0, 7] = 30.0
    tails = MixtureNoise((0.95, 0.05), (0.0, 0.0), (0.5, 100.0))
    found = equivalent_rows(gp, rows, torch.tensor([NOISE_VAR]), tails)
    assert found.weight[7] < 0.02 * rows.weight[7]
