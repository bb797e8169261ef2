"""The mixing matrix with which several outputs start."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from skgp import SVGPRegressor
from skgp.exceptions import NotPositiveDefiniteError
from skgp.recipes import mixing
from skgp.recipes.mixing import likely_mixing
from skgp.recipes.outputs import principal_mixing


def _setup(x):
    """All that the rough GPs ask of a setup."""
    weight = torch.ones(len(x)).double()
    return SimpleNamespace(
        x=torch.from_numpy(x),
        observed_weight=weight,
        subsample=lambda: (torch.arange(len(x)), weight),
        shared_centres=lambda x, weight, n: x[:n],
        lengthscale=lambda x: x.shape[1] ** 0.5,
    )


def _standardised(Y):
    return torch.from_numpy((Y - Y.mean(0)) / Y.std(0))


def _functions(rng, n):
    x = rng.uniform(-2.0, 2.0, (n, 2))
    return x, np.stack([np.sin(3.0 * x[:, 0]), np.cos(3.0 * x[:, 1])]).T


@pytest.mark.parametrize("n_latents", [2, 4])
def test_principal_directions_reproduce_the_covariance(rng, n_latents):
    Y = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 4))
    weight = rng.uniform(0.5, 2.0, 60)
    M = principal_mixing(torch.from_numpy(Y), torch.from_numpy(weight), n_latents)
    values, directions = np.linalg.eigh((Y.T * weight) @ Y / weight.sum())
    kept = np.argsort(values)[-n_latents:]
    expected = (directions[:, kept] * values[kept]) @ directions[:, kept].T
    np.testing.assert_allclose(M @ M.mT, expected, atol=1e-10)


def test_outputs_that_have_little_in_common_start_as_they_are(rng):
    x, f = _functions(rng, 60)
    Y = _standardised(f + 0.05 * rng.standard_normal(f.shape))
    setup = _setup(x)
    principal = principal_mixing(Y, setup.observed_weight, 2)
    assert torch.equal(likely_mixing(setup, Y, principal), torch.eye(2).double())


def test_outputs_of_common_functions_start_along_their_directions(rng):
    x, f = _functions(rng, 60)
    noise = 0.05 * rng.standard_normal((60, 3))
    Y = _standardised(f @ np.array([[1.0, 1.0, 0.2], [0.1, -0.1, 1.0]]) + noise)
    setup = _setup(x)
    principal = principal_mixing(Y, setup.observed_weight, 3)
    assert likely_mixing(setup, Y, principal) is principal
    fewer = principal_mixing(Y, setup.observed_weight, 2)
    assert likely_mixing(setup, Y, fewer) is fewer  # without a comparison


@pytest.mark.parametrize("difference", [-1e-6, 1e-6])
def test_densities_are_those_of_the_outputs(rng, difference, monkeypatch):
    """y = M f has the density of f over |det M|, for rows of any functions f."""
    Y = _standardised(rng.standard_normal((50, 3)) @ rng.standard_normal((3, 3)))
    setup = _setup(rng.standard_normal((50, 2)))
    M = principal_mixing(Y, setup.observed_weight, 3)

    def bound(setup, x, functions, n_kernels):
        """Of standard normal functions, or whatever else stands for the outputs."""
        if torch.equal(functions, Y.mT):
            cov = M @ M.mT
            density = torch.distributions.MultivariateNormal(torch.zeros(3).double(), cov)
            return (density.log_prob(Y).mean() + difference).reshape(1)
        return torch.distributions.Normal(0.0, 1.0).log_prob(functions).mean(1)

    monkeypatch.setattr(mixing, "bound_of_functions", bound)
    is_identity = torch.equal(likely_mixing(setup, Y, M), torch.eye(3).double())
    assert is_identity == (difference > 0.0)


def test_without_a_bound_there_is_no_choice(rng, monkeypatch):
    def fails(*arguments):
        raise NotPositiveDefiniteError("no factor")

    monkeypatch.setattr(mixing, "bound_of_functions", fails)
    x, f = _functions(rng, 30)
    Y = _standardised(f)
    setup = _setup(x)
    principal = principal_mixing(Y, setup.observed_weight, 2)
    assert likely_mixing(setup, Y, principal) is principal


def test_a_fit_starts_with_it(rng):
    """Principal directions of outputs that do not correlate would be any two."""
    x, f = _functions(rng, 60)
    model = SVGPRegressor(max_iter=1, random_state=0).fit(x, f)
    start = model.model_.likelihood.mixing.detach()
    np.testing.assert_allclose(start, np.eye(2), atol=0.05)
