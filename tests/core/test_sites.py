"""The optimum of the bound of a GP whose likelihood is not normal."""

import gpytorch
import numpy as np
import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.stats import norm

from skgp.core.kernels.gpytorch_kernel import GPyTorchKernel
from skgp.core.kernels.stationary import Stationary
from skgp.core.layers.layer import Latent
from skgp.core.layers.posteriors import make_posterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.likelihoods.bernoulli import Logit, Probit
from skgp.core.likelihoods.ordinal import Ordinal
from skgp.core.marginal import sites
from skgp.core.marginal.collapsed import collapsed_bound
from skgp.core.marginal.sites import Sites, moments, prior_at, start_at_bound, updated

NOISE = 0.3


def _layer(Z, lengthscale=0.8, pulled=False):
    kernel = Stationary("matern52", 1, Z.shape[1], lengthscale, pulled=pulled)
    posterior = make_posterior("full", torch.zeros(1, len(Z), dtype=torch.float32), 0.1)
    layer = SparseGP(kernel, Z[None].clone(), posterior, 1e-10).double()
    with torch.no_grad():
        layer.mean.fill_(0.4)
        layer.kernel.log_variance.fill_(0.5)
    return layer


@pytest.fixture
def x():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(12, 2, generator=generator, dtype=torch.float64)


def _normal(latent: Latent, y):
    """E log N(y; f, noise), as of a likelihood."""
    mean, var = latent.f_mean[..., 0], latent.f_var[..., 0]
    return -0.5 * (np.log(2 * np.pi * NOISE) + ((y - mean).square() + var) / NOISE)


def _terms(expected, y, weight):
    def terms(mean, var):
        latent = Latent(*(part[None, :, None] for part in (mean, torch.zeros_like(var), var)))
        return weight * expected(latent, y)[0]

    return terms


def _bound(layer, expected, x, y, weight, found: Sites) -> float:
    with torch.no_grad():
        mean, var, kl = moments(layer, prior_at(layer, x), found)
        return float(_terms(expected, y, weight)(mean, var).sum() - kl)


NOTHING = Sites(torch.zeros(12, dtype=torch.float64), torch.zeros(12, dtype=torch.float64))


@pytest.mark.parametrize("has_other_kernel", [False, True])
def test_of_normal_noise_one_update_is_exact(has_other_kernel, x):
    # Sites are the targets themselves, and the bound is that with q(u) integrated out.
    layer, y = _layer(x[:5]), x[:, 0].sin()
    if has_other_kernel:  # whose variance differs from row to row
        layer.kernel = GPyTorchKernel(gpytorch.kernels.LinearKernel(), 1).double()
    weight = torch.arange(1.0, 13.0, dtype=torch.float64)
    found = updated(layer, x, _terms(_normal, y, weight), NOTHING, 1)
    assert_allclose(found.target, y, rtol=1e-9)
    assert_allclose(found.precision, weight / NOISE, rtol=1e-9)
    noise = torch.tensor([NOISE], dtype=torch.float64)
    given = layer.kernel, layer.Z, x, (y - layer.mean).detach()[None], weight, noise, layer.jitter
    exact = collapsed_bound(*given).item()
    assert _bound(layer, _normal, x, y, weight, found) == pytest.approx(exact, rel=1e-9)


def test_the_divergence_is_that_of_torch(x):
    layer = _layer(x[:5])
    found = Sites(x[:, 0], x[:, 1].exp())
    with torch.no_grad():
        prior = prior_at(layer, x)
        A = prior.A
        H = torch.eye(5, dtype=torch.float64) + (A * found.precision) @ A.mT
        b = A @ (found.precision * (found.target - layer.mean))
        q = torch.distributions.MultivariateNormal(torch.linalg.solve(H, b), precision_matrix=H)
        p = torch.distributions.MultivariateNormal(torch.zeros_like(b), torch.eye(5).double())
        assert_allclose(moments(layer, prior, found).kl, torch.distributions.kl_divergence(q, p))


def _naive_optimum(layer, x, signs, log_link) -> float:
    """The highest bound over means and factors of q(f) at all rows, by quadrature and BFGS."""
    n = len(x)
    with torch.no_grad():
        K = (layer.kernel.variance * layer.kernel.Kuu(x[None]))[0].numpy() + 1e-10 * np.eye(n)
        mean = layer.mean.item()
    L, (z, w) = np.linalg.cholesky(K), hermegauss(80)
    lower = np.tril_indices(n)

    def loss(free):
        v, R = free[:n], np.zeros((n, n))
        R[lower] = free[n:]
        R[np.diag_indices(n)] = np.exp(R.diagonal())
        m, std = mean + L @ v, np.sqrt(np.square(L @ R).sum(1))
        terms = log_link(signs[:, None] * (m[:, None] + std[:, None] * z)) @ w / w.sum()
        kl = 0.5 * (np.square(R).sum() + v @ v - n) - np.log(R.diagonal()).sum()
        return kl - terms.sum()

    return -minimize(loss, np.zeros(n + len(lower[0])), options={"gtol": 1e-6}).fun


@pytest.mark.parametrize(
    ("likelihood", "log_link"),
    [(Probit(), norm.logcdf), (Logit(), lambda f: -np.logaddexp(0.0, -f))],
)
def test_updates_reach_the_optimum_over_q(likelihood, log_link, x):
    x = x[:6]
    y = torch.tensor([0, 1, 1, 0, 1, 1])
    layer, ones = _layer(x), torch.ones(6, dtype=torch.float64)
    nothing = Sites(torch.zeros_like(ones), torch.zeros_like(ones))
    expected = likelihood.double().expected_log_class
    found = updated(layer, x, _terms(expected, y, ones), nothing, 30)
    naive = _naive_optimum(layer, x, 2.0 * y.numpy() - 1.0, log_link)
    assert _bound(layer, expected, x, y, ones, found) == pytest.approx(naive, abs=1e-5)


def _profile(layer, likelihood, x, y, weight) -> float:
    """The bound at the best q(u), with the priors that `start_at_bound` adds."""
    expected = likelihood.expected_log_class
    nothing = Sites(torch.zeros_like(weight), torch.zeros_like(weight))
    found = updated(layer, x, _terms(expected, y, weight), nothing, 40)
    return _bound(layer, expected, x, y, weight, found) + layer.kernel.log_prior().item()


@pytest.mark.parametrize("classes", [2, 3])
def test_hyper_parameters_end_at_the_optimum_of_the_bound(classes, monkeypatch):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(60, 2, generator=generator, dtype=torch.float64)
    noise = 0.5 * torch.randn(60, generator=generator, dtype=torch.float64)
    f = 2.0 * (1.5 * x[:, 0]).sin() + noise
    y = (f > 0).long() + (f > 1.0).long() * (classes - 2)
    weight = torch.ones(60, dtype=torch.float64)
    likelihood = (Probit() if classes == 2 else Ordinal(3)).double()
    layer = _layer(x[:20], pulled=True)
    learned = list(likelihood.parameters())
    parameters = [*layer.kernel.parameters(), layer.mean, *learned]
    near = [parameter.detach().clone() for parameter in parameters]
    monkeypatch.setattr(sites, "_ROUNDS", 12)
    start_at_bound(layer, likelihood.expected_log_class, learned, x, y, weight)

    def value() -> float:
        squares = sum((p - q).square().sum().item() for p, q in zip(parameters, near, strict=True))
        return _profile(layer, likelihood, x, y, weight) - 0.5 * squares

    # Slopes by difference quotients, in nats of all 60 rows, next to zero.
    for parameter in parameters:
        for entry in parameter.detach().view(-1):
            kept = entry.clone()
            ends = []
            for step in (-0.02, 0.02):
                entry.copy_(kept + step)
                ends.append(value())
            entry.copy_(kept)
            assert abs(ends[1] - ends[0]) / 0.04 < 0.1
            assert value() > max(ends)
    # q(u) is the best one too.
    with torch.no_grad():
        latent, kl = layer.moments(x[None], layer.factors()), layer.kl(layer.factors())
        bound = likelihood.expected_log_class(latent, y).sum() - kl
    best = _profile(layer, likelihood, x, y, weight) - layer.kernel.log_prior().item()
    assert float(bound) == pytest.approx(best, abs=1e-3)


def test_weights_are_copies_in_any_order(x):
    y = torch.tensor([0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1])
    weight = torch.tensor([1, 2, 1, 3, 1, 1, 2, 1, 1, 4, 1, 1])
    rows = torch.repeat_interleave(torch.arange(12), weight).flip(0)
    weighted, copied = _layer(x[:5]), _layer(x[:5])
    expected = Probit().double().expected_log_class
    start_at_bound(weighted, expected, [], x, y, weight.double())
    start_at_bound(copied, expected, [], x[rows], y[rows], torch.ones(len(rows)).double())
    for own, others in zip(weighted.parameters(), copied.parameters(), strict=True):
        assert torch.equal(own, others)
