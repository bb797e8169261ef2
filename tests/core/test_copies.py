"""Rows that repeat the targets of others, by naive twins, and by draws of a known probability."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from skgp.core.copies import Copies, SeenRows, targets_of_others
from skgp.core.likelihoods.likelihood import Predictive
from skgp.core.subsample import row_keys

NAN = float("nan")


def _others_one_by_one(x, y, counts):
    out = []
    for i in range(len(x)):
        left = counts.astype(int).copy()
        left[i] -= 1
        targets = set(y[(x == x[i]) & (left > 0)])
        out.append(targets.pop() if len(targets) == 1 else NAN)
    return out


@pytest.mark.parametrize("seed", range(5))
def test_others_are_those_of_a_loop(seed) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(8, size=40), rng.integers(3, size=40) * 0.1
    counts = rng.choice([1.0, 2.0, 3.0], 40, p=[0.8, 0.1, 0.1])
    x[:3] = [100, 101, 102]  # alone
    found = targets_of_others(row_keys(x[:, None].astype(float)), y, counts)
    expected = _others_one_by_one(x, y, counts)
    assert_array_equal(found, expected)
    assert 5 < np.isnan(expected).sum() < 40


def _predictive(n_nodes, n_rows):
    generator = torch.Generator().manual_seed(0)
    mean, var = torch.randn(2, n_nodes, n_rows, 1, generator=generator, dtype=torch.float64)
    return Predictive(mean, var.exp(), None)


def test_components_of_seen_rows() -> None:
    log_omega = torch.tensor([0.3, 0.2, 0.5], dtype=torch.float64).log()
    before = _predictive(3, 4)
    targets = torch.tensor([NAN, 0.7, NAN, -2.0], dtype=torch.float64)
    seen = SeenRows(targets, 0.4, 0.01)
    after, y = seen.predictive(before), np.array([0.1, 0.75, -1.0, 0.3])

    def density(predictive):
        weights = predictive.log_weights(log_omega).exp().numpy()
        std = predictive.var[..., 0].sqrt().numpy()
        return weights @ norm.pdf(y, predictive.mean[..., 0].numpy(), std)

    plain = density(before)
    repeated = 0.6 * plain + 0.4 * norm.pdf(y, targets.numpy(), 0.1)
    expected = np.where(targets.isnan(), plain, repeated)
    assert_allclose(density(after), expected, rtol=1e-12)
    given = torch.from_numpy(np.log(plain)), torch.from_numpy(y)
    assert_allclose(seen.log_densities(*given), np.log(expected), rtol=1e-12)
    assert_array_equal(seen.repeated(2).targets, torch.cat([targets, targets]))


def test_covariance_is_that_of_draws() -> None:
    rng, n = np.random.default_rng(0), 1_000_000
    root = rng.standard_normal((3, 3))
    mean, cov = np.array([0.5, -1.0, 2.0]), root @ root.T + np.eye(3)
    seen = SeenRows(torch.tensor([1.5, NAN, 0.0], dtype=torch.float64), 0.3, 0.04)
    found = seen.covariance(torch.from_numpy(mean), torch.from_numpy(cov)).numpy()
    y = rng.multivariate_normal(mean, cov, n)
    for row, target in ((0, 1.5), (2, 0.0)):
        repeats = rng.random(n) < 0.3
        y[:, row] = np.where(repeats, target + 0.2 * rng.standard_normal(n), y[:, row])
    products = (y - y.mean(0))[:, :, None] * (y - y.mean(0))[:, None]
    assert_allclose(found, products.mean(0), atol=5.0 * products.std(0).max() / np.sqrt(n))


def test_rows_are_found_by_their_inputs() -> None:
    x = np.array([[0.1, 1.0], [0.2, 1.0], [0.1, 1.0], [0.2, 1.0], [-0.0, 3.0]])
    copies = Copies.of(x, np.array([5.0, 1.0, 5.0, 2.0, 7.0]), 0.5, 1e-5)
    new = torch.tensor([[0.0, 3.0], [0.1, 1.0], [0.2, 1.0], [1.0, 0.1]], dtype=torch.float64)
    expected = [7.0, 5.0, NAN, NAN]  # those of the third differ, the last has none
    assert_array_equal(copies.of_rows(new).targets, expected)
    assert_array_equal(copies.of_rows(new.float()).targets, expected)
    nearly = new + 1e-4
    assert copies.of_rows(nearly).targets.isnan().all()
