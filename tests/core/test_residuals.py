"""Noise found from residuals, against mixtures fitted by scikit-learn and the truth."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.stats import norm
from sklearn.mixture import GaussianMixture

from skgp.core.marginal import residuals
from skgp.core.marginal.residuals import noise_of_residuals

LEAST = 1e-6


def _log_density(noise, rows):
    residual, f_var, noise_var, weights = rows
    density = sum(
        weight * norm.pdf(residual, noise_var**0.5 * shift, np.sqrt(f_var + ratio * noise_var))
        for weight, shift, ratio in zip(*noise, strict=True)
    )
    return weights @ np.log(density)


@pytest.fixture
def rows(rng):
    f_var, noise_var = rng.uniform(0.0, 0.4, 300), rng.uniform(0.2, 0.6, 300)
    noise = np.sqrt(noise_var) * rng.choice([-1.0, 0.8], 300) + 0.2 * rng.standard_normal(300)
    residual = noise + np.sqrt(f_var) * rng.standard_normal(300)
    return np.stack([residual, f_var, noise_var, rng.integers(1, 4, 300)])


def test_slopes_are_difference_quotients(rows, rng) -> None:
    point = rng.normal(0.0, 0.5, 9)
    slopes = approx_fprime(point, lambda at: residuals._loss(at, *rows)[0], 1e-6)
    assert_allclose(residuals._loss(point, *rows)[1], slopes, rtol=1e-4, atol=1e-3)


def test_the_loss_is_that_of_the_density_and_the_priors(rows, rng) -> None:
    noise = noise_of_residuals(rows, LEAST)
    shares, shifts, ratios = map(np.asarray, noise)
    point = np.concatenate([np.log(shares), shifts, np.log(ratios)])
    prior = np.log(shares).sum() - 0.125 * np.square(point[3:]).sum()
    expected = -_log_density(noise, rows) - prior
    assert residuals._loss(point, *rows)[0] == pytest.approx(expected)
    for step in rng.normal(0.0, 0.03, (20, 9)):  # nothing near is more probable
        near = point + step
        near[6:] = np.maximum(near[6:], np.log(0.01))
        assert residuals._loss(near, *rows)[0] > expected - 1e-3


@pytest.mark.parametrize("kind", ["peaks", "tails", "skewed"])
def test_it_is_as_probable_as_a_free_mixture(kind, rng) -> None:
    noise = {
        "peaks": rng.choice([-1.0, 1.0], 2000) + 0.2 * rng.standard_normal(2000),
        "tails": rng.standard_t(3, 2000),
        "skewed": rng.gamma(3.0, 1.0, 2000) - 3.0,
    }[kind]
    free = GaussianMixture(3, n_init=5, random_state=0).fit(noise[:, None])
    rows = np.stack([noise - noise.mean(), 0.0 * noise, 1.0 + 0.0 * noise, 1.0 + 0.0 * noise])
    found = noise_of_residuals(rows, LEAST)
    assert _log_density(found, rows) > 2000 * free.score(noise[:, None]) - 20.0
    assert_allclose(np.dot(found.weights, found.shifts), 0.0, atol=1e-12)
    assert found.variance == pytest.approx(noise.var(), rel=0.1)


def test_variances_of_f_are_no_noise(rng) -> None:
    """Rows far from all others have residuals that say little."""
    f_var = np.repeat([0.0, 25.0], 400)
    noise = rng.choice([-1.0, 1.0], 800) + 0.3 * rng.standard_normal(800)
    residual = noise + np.sqrt(f_var) * rng.standard_normal(800)
    found = noise_of_residuals(np.stack([residual, f_var, np.ones(800), np.ones(800)]), LEAST)
    at = np.linspace(-2.0, 2.0, 41)
    parts = zip(*found, strict=True)
    density = sum(w * norm.pdf(at, shift, ratio**0.5) for w, shift, ratio in parts)
    assert_allclose(density, 0.5 * (norm.pdf(at, -1.0, 0.3) + norm.pdf(at, 1.0, 0.3)), atol=0.1)


def test_weights_count_rows(rows) -> None:
    copies = rows[3].astype(int)
    repeated = np.vstack([rows[:3].repeat(copies, 1), np.ones(copies.sum())])
    one, other = noise_of_residuals(rows, LEAST), noise_of_residuals(repeated, LEAST)
    assert_allclose(np.ravel(one), np.ravel(other), rtol=1e-4, atol=1e-4)


def test_no_component_is_narrower_than_it_may_be(rng) -> None:
    rows = np.stack([rng.choice([0.0, 1.0], 200), np.zeros(200), np.ones(200), np.ones(200)])
    assert min(noise_of_residuals(rows, LEAST).ratios) == pytest.approx(0.01)
    assert min(noise_of_residuals(rows, 0.2).ratios) == pytest.approx(0.2)
