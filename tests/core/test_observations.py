"""Likelihoods of one output, other than the normal one: quadrature, samples, limits, gradients."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad
from torch import Tensor

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.counts import NegativeBinomial, Poisson
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.likelihoods.heteroscedastic import Heteroscedastic
from skgp.core.likelihoods.likelihood import Observation
from skgp.core.likelihoods.student_t import StudentT

N_DRAWS = 1_000_000
DOF, SCALE, DISPERSION, FLOOR = 4.0, 0.5, 0.3, 1e-3
MEANS, VARIANCES = [0.3, -1.0, 2.0], [0.4, 0.05, 1.5]


def student_t(dof: float = DOF) -> StudentT:
    likelihood = StudentT(1.0, FLOOR).double()
    with torch.no_grad():
        likelihood.log_excess_dof.fill_(np.log(dof - 2.5))
        likelihood.log_excess_scale.fill_(np.log(SCALE**2 - FLOOR))
    return likelihood


def negative_binomial(dispersion: float = DISPERSION) -> NegativeBinomial:
    likelihood = NegativeBinomial().double()
    with torch.no_grad():
        likelihood.log_excess_dispersion.fill_(np.log(max(dispersion - 1e-5, 1e-12)))
    return likelihood


def log_poisson(y: float, f: float) -> float:
    return float(stats.poisson.logpmf(y, np.exp(f)))


def log_binomial(y: float, f: float) -> float:
    r = 1.0 / DISPERSION
    return float(stats.nbinom.logpmf(y, r, r / (r + np.exp(f))))


Density = Callable[[float, float], float]
# Likelihood, log density of y given f, targets.
CASES: dict[str, tuple[Callable[[], Observation], Density, list[float]]] = {
    "student-t": (
        student_t,
        lambda y, f: float(stats.t.logpdf(y, DOF, f, SCALE)),
        [0.2, -1.5, 30.0],
    ),
    "poisson": (Poisson, log_poisson, [2.0, 0.0, 500.0]),
    "negative-binomial": (negative_binomial, log_binomial, [2.0, 0.0, 500.0]),
}
every = pytest.mark.parametrize("name", CASES)


def latent(*means: float, var: Any = None) -> Latent:
    """Moments (1, B, W) of functions: one row if W > 1."""
    mean = torch.tensor(means, dtype=torch.float64).view(1, -1, 1)
    var = torch.tensor(VARIANCES if var is None else var, dtype=torch.float64).view_as(mean)
    return Latent(mean, 0.25 * var, 0.75 * var)


def two(f: tuple[float, float], g: tuple[float, float]) -> Latent:
    """Moments (1, 1, 2) of f and of g, each with mean and variance."""
    mean, var = torch.tensor([f, g], dtype=torch.float64).T.view(2, 1, 1, 2)
    return Latent(mean, 0.25 * var, 0.75 * var)


def targets(values: list[float]) -> Targets:
    return Targets(torch.tensor(values, dtype=torch.float64).unsqueeze(-1), None)


def integral(g: Callable[[float], float], mean: float, var: float, *centres: float) -> float:
    """Of g(f) N(f; mean, var), by adaptive quadrature between places of interest."""
    s = np.sqrt(var)
    low, high = min([mean - 12 * s, *centres]), max([mean + 12 * s, *centres])
    edges = sorted({low, mean, *centres, high})
    density = stats.norm(mean, s).pdf
    parts = pairwise(edges)
    return sum(
        quad(lambda f: g(f) * density(f), a, b, epsabs=0, epsrel=1e-11, limit=400)[0]
        for a, b in parts
    )


@every
def test_terms_against_quadrature(name: str) -> None:
    make, log_density, y = CASES[name]
    likelihood = make()
    for i, (mean, var) in enumerate(zip(MEANS, VARIANCES, strict=True)):
        at = latent(mean, var=[var])
        expected = integral(lambda f, y=y[i]: log_density(y, f), mean, var)
        term = likelihood.expected_log_prob(at, targets([y[i]]))
        assert term.item() == pytest.approx(expected, rel=1e-8)
        peak = float(np.log(y[i] + 0.5)) if name != "student-t" else y[i]
        places = np.clip(peak + np.array([-0.5, -0.1, 0.0, 0.1, 0.5]), mean - 11, mean + 11)
        marginal = integral(lambda f, y=y[i]: np.exp(log_density(y, f)), mean, var, *places)
        term = likelihood.log_marginal(at, targets([y[i]]))
        assert term.item() == pytest.approx(np.log(marginal), abs=1e-8)


@pytest.mark.parametrize("y", [0.3, -2.0, 6.0])
def test_heteroscedastic_terms_against_quadrature(y: float) -> None:
    (m, v), (mg, vg) = (0.4, 0.3), (-1.0, 0.4)
    likelihood = Heteroscedastic(FLOOR)

    def noise(g: float) -> float:
        return FLOOR + np.exp(g)

    def given(g: float) -> float:
        return float(stats.norm.logpdf(y, m, np.sqrt(noise(g))) - 0.5 * v / noise(g))

    at = two((m, v), (mg, vg))
    term = likelihood.expected_log_prob(at, targets([y]))
    assert term.item() == pytest.approx(integral(given, mg, vg), rel=1e-8)
    marginal = integral(lambda g: stats.norm.pdf(y, m, np.sqrt(v + noise(g))), mg, vg)
    term = likelihood.log_marginal(at, targets([y]))
    assert term.item() == pytest.approx(np.log(marginal), abs=1e-8)


@every
def test_terms_against_samples(name: str) -> None:
    make, log_density, _ = CASES[name]
    y, mean, var = 2.0, 0.5, 0.4
    f = mean + np.sqrt(var) * np.random.default_rng(0).standard_normal(N_DRAWS)
    log_p = np.vectorize(log_density)(y, f[:20_000]) if name != "student-t" else None
    if log_p is None:
        log_p = stats.t.logpdf(y, DOF, f, SCALE)
    for term, values in (
        (make().expected_log_prob, log_p),
        (lambda *args: make().log_marginal(*args).exp(), np.exp(log_p)),
    ):
        error = values.std() / np.sqrt(len(values))
        value = term(latent(mean, var=[var]), targets([y])).item()
        assert abs(value - values.mean()) < 4.0 * error


def test_student_t_of_many_degrees_is_normal() -> None:
    likelihood, y = student_t(1e6), targets([0.2, -1.5, 3.0])
    normal = Gaussian(1, 1.0, 1e-6).double()
    normal.start(torch.tensor([SCALE**2], dtype=torch.float64))
    at = latent(*MEANS)
    for term in ("expected_log_prob", "log_marginal"):
        value, desired = getattr(likelihood, term)(at, y), getattr(normal, term)(at, y)
        torch.testing.assert_close(value, desired, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dof", [2.6, 5.0, 12.0, 30.0, 100.0, 300.0, 1000.0])
def test_student_t_reaches_far_outliers(dof: float) -> None:
    """Log densities to 1,000 standard deviations, in the objective and in predictions."""
    likelihood = student_t(dof)
    gaps = [*np.linspace(0.0, 10.0, 51), *np.geomspace(10.0, 1000.0, 200)]
    y = targets([gap * likelihood.noise_var.item() ** 0.5 for gap in gaps])
    at = latent(*[0.0] * len(gaps), var=[1e-12] * len(gaps))
    desired = torch.from_numpy(stats.t.logpdf(y.y.numpy(), dof, scale=SCALE))
    value = likelihood.log_marginal(at, y)[0]
    torch.testing.assert_close(value, desired.view_as(value), rtol=1e-8, atol=1e-8)
    mean, var, _, log_share = likelihood.predictive(at)
    assert log_share is not None
    log_p = -0.5 * ((y.y - mean).square() / var + (2 * torch.pi * var).log())[..., 0]
    value = torch.logsumexp(log_share.unsqueeze(-1) + log_p, 0)
    desired = desired.view_as(value)
    torch.testing.assert_close(value, desired, rtol=1.5e-3, atol=1e-5)
    torch.testing.assert_close(value[:30], desired[:30], rtol=0, atol=1e-5)


def test_gradients_of_far_outliers() -> None:
    """Rows beyond the usual points keep the slopes of the others and have their own."""
    likelihood = student_t(100.0)
    y = targets([0.3, 300.0, -1.0])
    moments = [part.clone().requires_grad_() for part in latent(*MEANS)]

    def of(*values: Tensor) -> Tensor:
        return likelihood.log_marginal(Latent(*values[:3]), y)

    assert torch.autograd.gradcheck(of, [*moments, *likelihood.parameters()])


def test_negative_binomial_of_no_dispersion_is_poisson() -> None:
    y, at = targets([2.0, 0.0, 12.0]), latent(*MEANS)
    for term in ("expected_log_prob", "log_marginal"):
        value = getattr(negative_binomial(1e-5), term)(at, y)
        torch.testing.assert_close(value, getattr(Poisson(), term)(at, y), rtol=0, atol=1e-2)


def test_heteroscedastic_of_a_constant_is_normal() -> None:
    y, at = targets([0.7]), two((0.2, 0.3), (float(np.log(SCALE**2 - FLOOR)), 0.0))
    normal = Gaussian(1, 1.0, 1e-6).double()
    normal.start(torch.tensor([SCALE**2], dtype=torch.float64))
    likelihood = Heteroscedastic(FLOOR)
    alone = Latent(*(part[..., :1] for part in at))
    for term in ("expected_log_prob", "log_marginal"):
        value, desired = getattr(likelihood, term)(at, y), getattr(normal, term)(alone, y)
        torch.testing.assert_close(value, desired, rtol=1e-7, atol=1e-7)


def test_predictions_are_the_density_of_the_objective() -> None:
    """The mixture of a prediction has the density that training maximises."""
    for likelihood, at in (
        (student_t(), latent(*MEANS)),
        (Heteroscedastic(FLOOR), two((0.2, 0.3), (-1.0, 0.5))),
    ):
        y = targets([0.4, 3.0, -9.0][: at.f_mean.shape[1]])
        mean, var, _, log_share = likelihood.predictive(at)
        assert log_share is not None
        log_p = -0.5 * ((y.y - mean).square() / var + (2 * torch.pi * var).log())[..., 0]
        value = torch.logsumexp(log_share.unsqueeze(-1) + log_p, 0)
        torch.testing.assert_close(value, likelihood.log_marginal(at, y)[0], rtol=0, atol=3e-5)


def test_components_of_a_node_follow_each_other() -> None:
    """Weights of nodes are divided among their components in the same order."""
    at = Latent(*(torch.rand(3, 2, 1, dtype=torch.float64) for _ in range(3)))
    predictive = student_t().predictive(at)
    log_omega = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64).log()
    weights = predictive.log_weights(log_omega).exp()
    mean = weights @ predictive.mean[..., 0]
    torch.testing.assert_close(mean, log_omega.exp() @ at.f_mean[..., 0])


def test_variance_of_student_t_predictions() -> None:
    likelihood, at = student_t(), latent(*MEANS)
    predictive = likelihood.predictive(at)
    assert predictive.log_share is not None
    var = predictive.log_share.exp() @ predictive.var[..., 0]
    desired = at.f_var[0, :, 0] + likelihood.noise_var
    assert likelihood.noise_var.item() == pytest.approx(SCALE**2 * DOF / (DOF - 2.0))
    torch.testing.assert_close(var, desired, rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", [*CASES, "heteroscedastic"])
@pytest.mark.parametrize("term", ["expected_log_prob", "log_marginal"])
def test_gradients(name: str, term: str) -> None:
    """In the moments and in all parameters."""
    likelihood = Heteroscedastic(FLOOR) if name == "heteroscedastic" else CASES[name][0]()
    y = targets([2.0, 1.0])
    generator = torch.Generator().manual_seed(0)
    shape = 2, 2, 1 + (name == "heteroscedastic")
    moments = [torch.rand(shape, generator=generator, dtype=torch.float64) for _ in range(3)]
    parameters = list(likelihood.parameters())

    def of(*values: Tensor) -> Tensor:
        return getattr(likelihood, term)(Latent(*values[:3]), y)

    values = [part.requires_grad_() for part in (*moments, *parameters)]
    assert torch.autograd.gradcheck(of, values)


@pytest.mark.parametrize("name", [*CASES, "heteroscedastic"])
def test_missing_targets_add_nothing(name: str) -> None:
    likelihood = Heteroscedastic(FLOOR) if name == "heteroscedastic" else CASES[name][0]()
    at = Latent(*(torch.rand(2, 3, 2, dtype=torch.float64) for _ in range(3)))
    if name != "heteroscedastic":
        at = Latent(*(part[..., :1] for part in at))
    mask = torch.tensor([[1.0], [0.0], [1.0]], dtype=torch.float64)
    y = targets([1.0, 0.0, 2.0]).y
    for term in (likelihood.expected_log_prob, likelihood.log_marginal):
        value, whole = term(at, Targets(y, mask)), term(at, Targets(y, None))
        assert (value[:, 1] == 0.0).all()
        torch.testing.assert_close(value[:, ::2], whole[:, ::2])
