"""The gamma score of predictive densities against quadrature, and its limits."""

import numpy as np
import pytest
import torch
from oracles.models import normal, random_likelihood, to_array
from scipy.stats import multivariate_normal

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.gaussian import Gaussian


def latent_of(rng: np.random.Generator, n_latents: int) -> Latent:
    """Moments of one node and three rows."""
    mean, *variances = (normal(rng, 1, 3, n_latents) for _ in range(3))
    return Latent(mean, *(0.3 * v.square() + 0.05 for v in variances))


def densities(likelihood: Gaussian, latent: Latent) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mean and covariance of the outputs of each row."""
    mixing = np.eye(2) if likelihood.mixing is None else to_array(likelihood.mixing)
    noise = np.diag(to_array(likelihood.noise_var))
    return [
        (mixing @ m, mixing @ np.diag(v) @ mixing.T + noise)
        for m, v in zip(to_array(latent.f_mean[0]), to_array(latent.f_var[0]), strict=True)
    ]


@pytest.mark.parametrize("mixed", [False, True], ids=["independent", "mixed"])
@pytest.mark.parametrize("gamma", [1.05, 1.7])
def test_against_quadrature(rng: np.random.Generator, mixed: bool, gamma: float) -> None:
    """Row 0 has both outputs, rows 1 and 2 one each."""
    likelihood = random_likelihood(rng, 2, mixing=normal(rng, 2, 2) if mixed else None)
    latent = latent_of(rng, 2)
    y = normal(rng, 3, 2)
    seen = [[0, 1], [0], [1]]
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    expected = []
    for row, (mean, cov) in enumerate(densities(likelihood, latent)):
        which = seen[row]
        mean, cov = mean[which], cov[np.ix_(which, which)]
        density = multivariate_normal(mean, cov)
        reach = 12.0 * np.sqrt(np.diag(cov))
        # The trapezoidal rule converges faster than any power of the step for such an integrand.
        grid = [np.linspace(*edges, 401) for edges in zip(mean - reach, mean + reach, strict=True)]
        values = density.pdf(np.stack(np.meshgrid(*grid, indexing="ij"), -1)) ** gamma
        integral = values.sum() * np.prod([axis[1] - axis[0] for axis in grid])
        ratio = density.pdf(to_array(y[row])[which]) ** (gamma - 1.0)
        ratio /= integral ** ((gamma - 1.0) / gamma)
        expected.append(gamma / (gamma - 1.0) * (ratio - 1.0))
    found = likelihood.gamma_score(latent, Targets(y * mask, mask), gamma)
    np.testing.assert_allclose(to_array(found[0]), expected, rtol=0, atol=1e-8)


def test_tends_to_the_log_score(rng: np.random.Generator) -> None:
    likelihood, latent, y = random_likelihood(rng, 2), latent_of(rng, 2), normal(rng, 3, 2)
    targets = Targets(y, None)
    expected = to_array(likelihood.log_marginal(latent, targets))
    found = to_array(likelihood.gamma_score(latent, targets, 1.0 + 1e-7))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_is_proper(rng: np.random.Generator) -> None:
    """The expected score of y ~ N(m, s) has no slope at the density N(m, s) itself."""
    likelihood = random_likelihood(rng, 1)
    x, weights = np.polynomial.hermite_e.hermegauss(80)
    omega = torch.from_numpy(weights / weights.sum())
    mean = normal(rng, 1, 1, 1).requires_grad_()
    variance = torch.tensor([[[0.4]]], dtype=torch.float64, requires_grad=True)
    std = (variance + likelihood.noise_var).sqrt().item()
    y = torch.from_numpy(mean.item() + std * x).unsqueeze(-1)
    moments = mean.expand(1, 80, 1), variance.expand(1, 80, 1)
    latent = Latent(moments[0], moments[1], torch.zeros_like(moments[1]))
    score = likelihood.gamma_score(latent, Targets(y, None), 1.3)
    slopes = torch.autograd.grad((score @ omega).sum(), [mean, variance])
    np.testing.assert_allclose([slope.item() for slope in slopes], 0.0, atol=1e-12)


def test_gradient(rng: np.random.Generator) -> None:
    likelihood = random_likelihood(rng, 2, mixing=normal(rng, 2, 2))
    latent = [m.requires_grad_() for m in latent_of(rng, 2)]
    y = normal(rng, 3, 2)
    assert torch.autograd.gradcheck(
        lambda *moments: likelihood.gamma_score(Latent(*moments), Targets(y, None), 1.1), latent
    )
