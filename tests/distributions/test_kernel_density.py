"""Kernel density estimates against those of SciPy."""

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import gaussian_kde

from skgp.distributions import NormalMixture, kernel_density


def test_densities_of_one_output_are_those_of_scipy(rng: np.random.Generator) -> None:
    samples = rng.standard_normal((3, 200)) * [[1.0], [0.1], [5.0]] + [[0.0], [2.0], [-3.0]]
    dist = kernel_density(samples)
    for row, of_row in enumerate(samples):
        y = np.linspace(of_row.min() - 1.0, of_row.max() + 1.0, 7)
        expected = gaussian_kde(of_row, bw_method="silverman")(y)
        actual = [dist[row].pdf([value])[0] for value in y]
        np.testing.assert_allclose(actual, expected, rtol=1e-9)


def test_width_for_several_outputs_that_do_not_correlate() -> None:
    """SciPy's kernel has the covariance of the samples, which is diagonal here."""
    samples = np.array([[-2.0, 2.0, -2.0, 2.0], [-0.5, -0.5, 0.5, 0.5]])
    y = np.array([[0.7, -0.1]])
    expected = gaussian_kde(samples, bw_method="silverman")(y[0])
    actual = np.exp(kernel_density(samples[np.newaxis]).joint_logpdf(y))
    np.testing.assert_allclose(actual, expected, rtol=1e-9)


def test_samples_of_a_mixture_give_its_density_back_blurred() -> None:
    dist = NormalMixture([0.0, 0.0], [[-2.0, 2.0]], 0.5)
    estimate = kernel_density(dist.rvs(20_000, random_state=0))
    width = dist.std()[0] * 15_000**-0.2
    blurred = NormalMixture([0.0, 0.0], [[-2.0, 2.0]], np.hypot(0.5, width))
    for y in (-2.0, 0.0, 2.5):
        assert estimate.pdf([y])[0] == pytest.approx(blurred.pdf([y])[0], abs=0.01)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (3.0, r"shape .* got \(\)"),
        ([1.0, 2.0], r"shape .* got \(2,\)"),
        ([[1.0], [2.0]], "S at least 2"),
        ([[1.0, np.nan]], "finite"),
        ([[1.0, 2.0], [1.0, 1.0]], "must not all be equal"),
        ([[0.1, 0.1, 0.1]], "must not all be equal"),
    ],
)
def test_samples_that_have_no_density(samples: npt.ArrayLike, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernel_density(samples)
