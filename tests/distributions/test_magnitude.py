"""Targets of any size in float64: what is squared on the way must not leave its range."""

import numpy as np
import pytest

from skgp.distributions import NormalMixture

SCALES = [1e-300, 1e-163, 1e160, 1e300]


def rescale(dist, scale):
    """The same mixture in other units, not by `affine`."""
    weights, mean, std, factor = dist.components()
    with np.errstate(divide="ignore"):
        log_w = np.log(weights)
    if factor is not None:
        return NormalMixture(log_w, scale * mean, None, scale * factor)
    return NormalMixture(log_w, scale * mean, scale * std)


@pytest.mark.parametrize("scale", SCALES)
def test_results_are_in_proportion_to_the_units(mixture, scale):
    large = rescale(mixture, scale)
    y = mixture.rvs(1, random_state=0)[..., 0]
    for found, desired in (
        (large.mean(), mixture.mean()),
        (large.std(), mixture.std()),
        (large.mode(), mixture.mode()),
        (large.ppf([0.01, 0.6]), mixture.ppf([0.01, 0.6])),
        (large.crps(scale * y), mixture.crps(y)),
    ):
        np.testing.assert_allclose(found / scale, desired, rtol=1e-9)
    np.testing.assert_allclose(large.cdf(scale * y), mixture.cdf(y), rtol=1e-9)


def test_deviation_is_the_root_of_the_variance_bit_for_bit(make):
    for n_components in (1, 2, 7, 40):
        dist = make("single", n=200, S=n_components)
        np.testing.assert_array_equal(dist.std(), np.sqrt(dist.var()))


@pytest.mark.parametrize(
    ("mean", "std"), [(1.0, 1e-170), (1e200, 1.0), (1e17, 1.0), (1e200, 1e-90)]
)
def test_deviation_far_below_the_mean(mean, std):
    """At its mean the score of a normal is std (sqrt(2) - 1) / sqrt(pi)."""
    dist = NormalMixture.normal([mean], [std])
    np.testing.assert_allclose(dist.std(), std, rtol=1e-15)
    np.testing.assert_allclose(dist.crps(mean), std * (2**0.5 - 1.0) / np.pi**0.5, rtol=1e-12)
