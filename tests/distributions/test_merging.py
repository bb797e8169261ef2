"""Mixtures of fewer components, against a slow loop and the moments of the whole."""

import itertools

import numpy as np
import pytest

from skgp.distributions import NormalMixture


def merge_by_loop(weight, mean, var, n):
    """Runnalls (2007): the cheapest pair of neighbours, again and again."""
    parts = sorted(zip(mean, weight, var, strict=True))

    def merged(a, b):
        (m1, w1, v1), (m2, w2, v2) = a, b
        w = w1 + w2
        m = (w1 * m1 + w2 * m2) / w
        return m, w, (w1 * (v1 + (m1 - m) ** 2) + w2 * (v2 + (m2 - m) ** 2)) / w

    def cost(pair):
        (_, w1, v1), (_, w2, v2) = pair
        _, w, v = merged(*pair)
        return w * np.log(v) - w1 * np.log(v1) - w2 * np.log(v2)

    while len(parts) > n:
        costs = [cost(pair) for pair in itertools.pairwise(parts)]
        k = int(np.argmin(costs))
        parts[k : k + 2] = [merged(parts[k], parts[k + 1])]
    return np.array(parts).T


@pytest.mark.parametrize("n", [1, 2, 5, 11])
def test_merging_by_value(make, n):
    dist = make("single", n=7, S=12)
    found = dist.merged(n).components()
    for row, (weights, mean, std) in enumerate(zip(*dist.components()[:3], strict=True)):
        m, w, v = merge_by_loop(weights, mean, std**2, n)
        np.testing.assert_allclose(found.mean[row], m, rtol=1e-10)
        np.testing.assert_allclose(found.weights[row], w, rtol=1e-10)
        np.testing.assert_allclose(found.std[row], np.sqrt(v), rtol=1e-10)


@pytest.mark.parametrize("kind", ["single", "single-shared"])
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_mean_and_variance_stay(make, kind, scale):
    dist = make(kind, n=50, S=40, scale=scale)
    for n in (1, 3, 20):
        small = dist.merged(n)
        assert small.shape == dist.shape
        assert small.components().mean.shape == (50, n)
        np.testing.assert_allclose(small.mean(), dist.mean(), rtol=1e-10, atol=1e-13 * scale)
        np.testing.assert_allclose(small.std(), dist.std(), rtol=1e-12)
    assert dist.merged(40) is dist


def test_rows_are_merged_by_themselves(make):
    dist = make("single", n=3000, S=60)  # several blocks of rows
    whole = dist.merged(7).components()
    for row in (0, 1, 2999):
        for found, desired in zip(whole[:3], dist[row].merged(7).components()[:3], strict=True):
            np.testing.assert_array_equal(found[row], desired[0])


def test_equal_and_excluded_components_go_first():
    dist = NormalMixture(
        [0.0, -np.inf, 0.0, 0.0, -np.inf], [[0.0, 9.0, 5.0, 0.0, -9.0]], [[1.0, 1.0, 2.0, 1.0, 1.0]]
    )
    small = dist.merged(2)
    weights, mean, std, _ = small.components()
    np.testing.assert_allclose(mean, [[0.0, 5.0]], atol=1e-15)
    np.testing.assert_allclose(std, [[1.0, 2.0]], rtol=1e-15)
    np.testing.assert_allclose(weights, [[2 / 3, 1 / 3]], rtol=1e-15)


@pytest.mark.parametrize("n", [0, -1, 1.5])
def test_wrong_numbers_are_refused(make, n):
    with pytest.raises(ValueError, match="n_components must be a positive integer"):
        make("single").merged(n)


def test_several_outputs_are_refused(make):
    with pytest.raises(ValueError, match="several outputs"):
        make("outputs").merged(2)
