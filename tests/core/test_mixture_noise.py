"""Noise that is a mixture of normals, against densities added up by SciPy."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from skgp.core.data import Targets
from skgp.core.layers.layer import DrawnLatent, Latent
from skgp.core.layers.noise import NORMAL_NOISE, MixtureNoise
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.objectives.objective import PREDICTIVE

NOISE = MixtureNoise((0.2, 0.5, 0.3), (1.5, 0.0, -1.0), (0.1, 0.5, 2.0))


@pytest.fixture
def likelihood() -> Gaussian:
    return Gaussian(1, 0.7, 1e-6).double()


@pytest.fixture
def latent() -> Latent:
    generator = torch.Generator().manual_seed(0)
    f_mean, v_prior, v_q = torch.rand(3, 2, 5, 1, generator=generator, dtype=torch.float64)
    return Latent(f_mean, v_prior, v_q)


def _density(y, mean, f_var, noise_var):
    parts = zip(*NOISE, strict=True)
    return sum(
        weight * norm.pdf(y, mean + noise_var**0.5 * shift, np.sqrt(f_var + ratio * noise_var))
        for weight, shift, ratio in parts
    )


@pytest.mark.parametrize("ratios", [None, (0.5, 3.0)])
def test_densities_are_those_of_all_components(ratios, latent, likelihood) -> None:
    """Also where each node has a noise variance already."""
    noise_vars = [0.7, 0.7] if ratios is None else [0.7 * ratio for ratio in ratios]
    if ratios is not None:
        of_nodes = torch.tensor(ratios, dtype=torch.float64)[:, None, None]
        latent = DrawnLatent(*latent, of_nodes)
    log_omega = torch.tensor([0.4, 0.6], dtype=torch.float64).log()
    y = torch.linspace(-2.0, 2.0, 5, dtype=torch.float64)[:, None]
    mean, f_var = latent.f_mean[..., 0].numpy(), latent.f_var[..., 0].numpy()
    densities = [
        weight * _density(y[:, 0].numpy(), mean[q], f_var[q], noise_vars[q])
        for q, weight in enumerate((0.4, 0.6))
    ]
    split, log_weights = NOISE.split(latent), NOISE.log_weights(log_omega)
    terms = PREDICTIVE.term(likelihood, split, Targets(y, None))
    found = PREDICTIVE.reduce(terms, log_weights).detach().exp()
    assert_allclose(found, np.sum(densities, axis=0), rtol=1e-6)
    predictive = likelihood.predictive(split)
    normals = norm.pdf(
        y[:, 0], predictive.mean[..., 0].detach(), predictive.var[..., 0].detach() ** 0.5
    )
    assert_allclose(log_weights.exp().numpy() @ normals, found, rtol=1e-6)
    assert_allclose(likelihood.noiseless(split).mean[::3].detach(), latent.f_mean)
    moved = split._replace(f_mean=split.f_mean + 1.0)
    assert_allclose(likelihood.predictive(moved).mean.detach(), predictive.mean.detach() + 1.0)


def test_its_variance_is_that_of_its_density() -> None:
    centre = sum(weight * shift for weight, shift in zip(*NOISE[:2], strict=True))
    assert centre == pytest.approx(0.0)
    for noise, ratio in ((NOISE, 1.0), (NOISE.scaled(2.5), 2.5)):
        unit = ratio**0.5
        second, _ = quad(lambda e, unit=unit: e**2 * _density(e / unit, 0, 0, 1) / unit, -20, 20)
        assert noise.variance == pytest.approx(second, rel=1e-5)


def test_normal_noise_changes_nothing(latent) -> None:
    assert NORMAL_NOISE.split(latent) is latent
    assert NORMAL_NOISE.variance == 1.0
