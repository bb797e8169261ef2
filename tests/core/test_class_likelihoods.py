"""Likelihoods of classes against adaptive quadrature, samples and limits."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracles import classes as oracle
from oracles.models import normal, to_array
from scipy.special import expit, log_expit, log_ndtr, ndtr
from torch import Tensor

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods import robust_max, softmax
from skgp.core.likelihoods.bernoulli import Bernoulli, Logit, Probit
from skgp.core.likelihoods.classes import ClassLikelihood
from skgp.core.likelihoods.robust_max import RobustMax
from skgp.core.likelihoods.softmax import Softmax
from skgp.core.nodes.rules import Sampled
from skgp.core.numerics.draws import make_generator
from skgp.core.numerics.normal import log_ndtr as tensor_log_ndtr
from skgp.core.numerics.normal import normal_rule
from skgp.core.objectives.objective import ELBO, PREDICTIVE

Link = Callable[[float], float]
LINKS: list[tuple[type[Bernoulli], Link, Link]] = [
    (Probit, ndtr, log_ndtr),
    (Logit, expit, log_expit),
]
N_DRAWS = 1_000_000


def make(name: str) -> ClassLikelihood:
    """A likelihood whose expectations are deterministic."""
    likelihoods: dict[str, Callable[[], ClassLikelihood]] = {
        "probit": Probit,
        "logit": Logit,
        "robust-max": lambda: RobustMax(4, 1e-3),
        "softmax": lambda: Softmax(4, 3, 64, 0),
    }
    return likelihoods[name]().double().eval()


every = pytest.mark.parametrize("name", ["probit", "logit", "robust-max", "softmax"])


def random_latent(rng: np.random.Generator, *shape: int) -> Latent:
    """Moments whose deviations differ by up to three from class to class."""
    v_prior, v_q = (torch.from_numpy(rng.uniform(0.1, 1.0, shape)) for _ in range(2))
    return Latent(normal(rng, *shape), v_prior, v_q)


def targets(*codes: int) -> Targets:
    return Targets(torch.tensor(codes, dtype=torch.float64).unsqueeze(-1), None)


def test_normal_rule_has_the_moments_of_a_standard_normal() -> None:
    z, log_w = normal_rule(torch.zeros((), dtype=torch.float64))
    for power, moment in enumerate([1.0, 0.0, 1.0, 0.0, 3.0, 0.0, 15.0]):
        np.testing.assert_allclose((log_w.exp() * z**power).sum().item(), moment, atol=1e-5)


def test_log_ndtr_and_its_slope() -> None:
    """Value against SciPy's; the slope phi(x) / Phi(x) tends to -x - 1 / x, in float32 too."""
    x = torch.tensor([-1e8, -1e4, -100.0, -30.1, -29.9, -5.0, 0.0, 3.0, 60.0]).double()
    np.testing.assert_allclose(tensor_log_ndtr(x), log_ndtr(x.numpy()), rtol=1e-11)
    slope = np.exp(-0.5 * x[3:].numpy() ** 2 - log_ndtr(x[3:].numpy())) / math.sqrt(2.0 * math.pi)
    slope = [1e8, 1e4 + 1e-4, 100.0 + 1e-2, *slope]
    for dtype, rtol in ((torch.float64, 1e-6), (torch.float32, 1e-4)):
        at = x.to(dtype).requires_grad_()
        (gradient,) = torch.autograd.grad(tensor_log_ndtr(at).sum(), at)
        np.testing.assert_allclose(gradient, slope, rtol=rtol, atol=1e-30)


@pytest.mark.parametrize(("cls", "link", "log_link"), LINKS)
@pytest.mark.parametrize(
    ("variance", "atol"), [(1e-4, 1e-8), (0.5, 1e-8), (9.0, 1e-8), (100.0, 5e-4)]
)
@pytest.mark.parametrize("mean", [-3.0, 0.0, 0.4, 2.0])
def test_bernoulli_against_adaptive_quadrature(
    cls: type[Bernoulli], link: Link, log_link: Link, mean: float, variance: float, atol: float
) -> None:
    share = torch.tensor([[[variance]]], dtype=torch.float64)
    latent = Latent(torch.full_like(share, mean), 0.25 * share, 0.75 * share)
    for code, sign in ((0, -1.0), (1, 1.0)):
        value = cls().expected_log_prob(latent, targets(code)).item()
        expected = oracle.expectation(lambda f, s=sign: log_link(s * f), mean, variance)
        np.testing.assert_allclose(value, expected, rtol=0, atol=atol)
        log_marginal = cls().log_marginal(latent, targets(code)).item()
        probability = oracle.expectation(lambda f, s=sign: link(s * f), mean, variance)
        np.testing.assert_allclose(math.exp(log_marginal), probability, rtol=0, atol=atol)


def test_closed_form_of_the_probit_is_what_the_quadrature_gives(rng: np.random.Generator) -> None:
    latent, codes = random_latent(rng, 3, 6, 1), torch.tensor([0, 1, 1, 0, 1, 0])
    closed = Probit().log_class(latent, codes)
    np.testing.assert_allclose(closed, Bernoulli.log_class(Probit(), latent, codes), atol=1e-8)


def draws(rng: np.random.Generator, latent: Latent, q: int, b: int) -> np.ndarray:
    mean, scale = to_array(latent.f_mean[q, b]), to_array(latent.f_var[q, b].sqrt())
    return mean + scale * rng.standard_normal((N_DRAWS, len(mean)))


def assert_mean(value: float, sample: np.ndarray, bias: float = 0.0) -> None:
    """The value is within four standard errors of the mean of the sample."""
    error = 4.0 * sample.std() / math.sqrt(len(sample)) + bias
    np.testing.assert_allclose(value, sample.mean(), rtol=0, atol=error)


def test_robust_max_against_samples(rng: np.random.Generator) -> None:
    likelihood, latent = RobustMax(4, 0.02), random_latent(rng, 2, 3, 4)
    at = targets(0, 3, 1)
    log_prob = likelihood.expected_log_prob(latent, at)
    log_marginal = likelihood.log_marginal(latent, at)
    for q in range(2):
        for b, c in enumerate((0, 3, 1)):
            sample = oracle.robust_max(draws(rng, latent, q, b), c, 0.02)
            assert_mean(log_prob[q, b].item(), np.log(sample))
            assert_mean(log_marginal[q, b].exp().item(), sample)


def test_robust_max_of_two_classes_in_closed_form(rng: np.random.Generator) -> None:
    """P(f_1 > f_0) = Phi((m_1 - m_0) / sqrt(v_0 + v_1))."""
    latent = random_latent(rng, 2, 5, 2)
    largest = RobustMax(2, 1e-3).largest(latent, torch.tensor([1, 0, 1, 1, 0]))
    gap = latent.f_mean[..., 1] - latent.f_mean[..., 0]
    expected = ndtr(to_array(gap / latent.f_var.sum(-1).sqrt()))
    expected[:, [1, 4]] = 1.0 - expected[:, [1, 4]]
    np.testing.assert_allclose(largest, expected, rtol=0, atol=1e-7)


def test_robust_max_in_chunks(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row by row the same values and gradients, bit by bit but for the order of a sum."""
    latent, codes = random_latent(rng, 3, 5, 4), torch.tensor([0, 3, 1, 2, 2])

    def value_and_gradients() -> list[Tensor]:
        parts = [part.detach().requires_grad_() for part in latent]
        value = RobustMax(4, 1e-3).log_class(Latent(*parts), codes)
        return [value, *torch.autograd.grad((value * value).sum(), parts)]

    whole = value_and_gradients()
    sizes: list[int] = []
    integrate = robust_max._integrate

    def counted(mean: Tensor, *parts: Any) -> tuple[Tensor, ...]:
        sizes.append(mean.shape[-1])
        return integrate(mean, *parts)

    monkeypatch.setattr(robust_max, "_integrate", counted)
    value_and_gradients()
    assert sizes == [15]
    monkeypatch.setattr(robust_max, "_CELLS", 2 * 48 * 4 + 1)
    value_and_gradients()
    assert sizes[1:] == [*[2] * 7, 1]
    monkeypatch.setattr(robust_max, "_CELLS", 1)
    for part, expected in zip(value_and_gradients(), whole, strict=True):
        np.testing.assert_allclose(part.detach(), expected.detach(), rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_function_that_is_far_ahead_is_pulled_by_nothing(dtype: torch.dtype) -> None:
    """However narrow: the slope in a deviation has its square in the denominator."""
    means, variances = [1e6, 0.0, -3.0], [1e-6, 1e-6, 1.0]
    parts = [torch.tensor([[part]], dtype=dtype) for part in (means, variances, variances)]
    latent = Latent(*(part.requires_grad_() for part in parts))
    RobustMax(3, 1e-3).expected_log_class(latent, torch.tensor([0])).sum().backward()
    for part in latent:
        assert part.grad is not None
        assert torch.all(part.grad == 0.0)


def test_robust_max_keeps_nothing_of_the_size_of_its_points(rng: np.random.Generator) -> None:
    """50 classes: what a step holds for its gradient is some times the moments."""
    latent = Latent(*(part.requires_grad_() for part in random_latent(rng, 2, 7, 50)))
    sizes: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        RobustMax(50, 1e-3).expected_log_class(latent, torch.arange(7))
    assert sizes
    assert max(sizes) == latent.f_mean.numel()


def test_softmax_against_samples(rng: np.random.Generator) -> None:
    """In evaluation mode, with nodes of its own error; as many as make that small."""
    likelihood, latent = Softmax(4, 1, 4096, 0).double().eval(), random_latent(rng, 2, 3, 4)
    at = targets(0, 3, 1)
    log_prob = likelihood.expected_log_prob(latent, at)
    log_marginal = likelihood.log_marginal(latent, at)
    log_probabilities = likelihood.log_probabilities(latent)
    for q in range(2):
        for b, c in enumerate((0, 3, 1)):
            sample = oracle.softmax(draws(rng, latent, q, b), c)
            assert_mean(log_prob[q, b].item(), np.log(sample), 1e-3)
            assert_mean(log_marginal[q, b].exp().item(), sample, 2e-4)
            assert_mean(log_probabilities[q, b, c].exp().item(), sample, 2e-4)


def test_nodes_share_the_draws_of_a_softmax(rng: np.random.Generator) -> None:
    """Three nodes and eight draws: three in a row for each, and the first one again at the end."""
    likelihood, latent = Softmax(2, 1, 8, 0).double().eval(), random_latent(rng, 3, 5, 2)
    xi = to_array(likelihood.fixed)
    runs = np.concatenate([xi, xi[:1]]).reshape(3, 3, 2)
    order = torch.randperm(3, generator=make_generator(0, "runs"))
    mean, scale = to_array(latent.f_mean), to_array(latent.f_var.sqrt())
    for q in range(3):
        f = mean[q] + scale[q] * runs[order[q]][:, None]
        p = np.exp(f) / np.exp(f).sum(-1, keepdims=True)
        at = likelihood.log_probabilities(latent)[q].exp()
        np.testing.assert_allclose(at, p.mean(0), rtol=1e-12)
        value = likelihood.expected_log_prob(latent, targets(0, 1, 1, 0, 1))[q]
        expected = np.log(p).mean(0)[range(5), [0, 1, 1, 0, 1]]
        np.testing.assert_allclose(value, expected, rtol=1e-12)


def test_draws_of_a_softmax_are_independent_of_sampled_nodes() -> None:
    """With a draw for each of 512 nodes as much as with 16: both are Sobol sequences."""
    mean = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
    whole = Latent(mean.view(1, 1, 3), torch.zeros(1, 1, 3), torch.full((1, 1, 3), 8.0))
    expected = Softmax(3, 1, 2**14, 0).double().log_probabilities(whole).exp().squeeze()
    for n_nodes in (32, 512):
        errors = []
        for seed in range(10):
            nodes = Sampled([3], 1, n_nodes, seed)(1)
            f_mean = mean + 2.0 * nodes.xi[0]
            latent = Latent(f_mean, torch.zeros_like(f_mean), torch.full_like(f_mean, 4.0))
            likelihood = Softmax(3, 1, 512, 1000 + seed)
            log_p = likelihood.log_probabilities(latent).squeeze(1)
            errors.append((nodes.log_omega.exp() @ log_p.exp() - expected).abs().max())
        assert torch.stack(errors).mean() < 0.015


def test_chunks_of_a_softmax_leave_no_seam(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    latent, at = random_latent(rng, 2, 7, 4), targets(0, 3, 1, 2, 0, 1, 3)

    def values(likelihood: Softmax) -> tuple[Tensor, ...]:
        marginal = likelihood.log_marginal(latent, at)
        return (
            likelihood.expected_log_prob(latent, at),
            marginal,
            likelihood.log_probabilities(latent),
        )

    for train in (True, False):
        whole = values(Softmax(4, 3, 8, 0).double().train(train))
        for size in (1, 2 * 3 * 8 * 4):
            with monkeypatch.context() as patch:
                patch.setattr(softmax, "_CELLS", size)
                parts = values(Softmax(4, 3, 8, 0).double().train(train))
            for a, b in zip(parts, whole, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)


def test_softmax_draws_anew_in_each_step_and_for_each_row(rng: np.random.Generator) -> None:
    """The average over 4,000 rows of one step is the expectation, within four standard errors."""
    one = random_latent(rng, 1, 1, 3)
    rows = Latent(*(part.expand(1, 4000, 3) for part in one))
    likelihood = Softmax(3, 5, 4096, 0).double()
    values = [
        to_array(likelihood.at(step).expected_log_prob(rows, targets(*[2] * 4000)))
        for step in (0, 1, 0)
    ]
    expected = likelihood.expected_log_prob(one, targets(2)).item()
    assert np.unique(np.concatenate(values)).size == 8000
    np.testing.assert_array_equal(values[2], values[0])
    for value in values:
        error = 4.0 * value.std() / math.sqrt(value.size) + 1e-3
        np.testing.assert_allclose(value.mean(), expected, rtol=0, atol=error)


@every
def test_gradients_by_finite_differences(rng: np.random.Generator, name: str) -> None:
    likelihood = make(name)
    latent = random_latent(rng, 2, 3, likelihood.n_latents)
    at = targets(0, 1, likelihood.n_classes - 1)
    parts = [part.requires_grad_() for part in latent]

    def terms(*parts: Tensor) -> tuple[Tensor, ...]:
        latent = Latent(*parts)
        return (
            likelihood.expected_log_prob(latent, at),
            likelihood.log_marginal(latent, at),
            likelihood.log_probabilities(latent),
        )

    assert torch.autograd.gradcheck(terms, parts, atol=1e-6)


@every
def test_probabilities_are_those_of_the_classes_and_sum_to_one(
    rng: np.random.Generator, name: str
) -> None:
    likelihood = make(name)
    latent = random_latent(rng, 3, 5, likelihood.n_latents)
    probabilities = likelihood.log_probabilities(latent).exp()
    np.testing.assert_allclose(probabilities.sum(-1), 1.0, rtol=0, atol=1e-12)
    for c in range(likelihood.n_classes):
        each = likelihood.log_marginal(latent, targets(*[c] * 5)).exp()
        np.testing.assert_allclose(probabilities[..., c], each, rtol=0, atol=1e-6)


@every
def test_expected_log_prob_is_below_the_log_of_the_expectation(
    rng: np.random.Generator, name: str
) -> None:
    """Jensen; without variance the two are equal, and so is the objective's mixture of one."""
    likelihood = make(name)
    latent = random_latent(rng, 2, 3, likelihood.n_latents)
    at = targets(1, 0, 1)
    expected, marginal = (
        objective.term(likelihood, latent, at) for objective in (ELBO, PREDICTIVE)
    )
    assert torch.all(expected < marginal - 1e-3)
    certain = Latent(latent.f_mean, *(1e-12 * part for part in latent[1:]))
    if name != "robust-max":  # its probability is a step of the functions
        np.testing.assert_allclose(
            likelihood.expected_log_prob(certain, at), likelihood.log_marginal(certain, at),
            atol=1e-6,
        )  # fmt: skip


def test_predictive_objective_mixes_probabilities_over_nodes(rng: np.random.Generator) -> None:
    likelihood, latent = RobustMax(3, 1e-3), random_latent(rng, 4, 5, 3)
    at, omega = targets(0, 1, 2, 1, 0), torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    value = PREDICTIVE.reduce(PREDICTIVE.term(likelihood, latent, at), omega.log())
    for b in range(5):
        mixture = sum(
            omega[q].item() * likelihood.log_marginal(latent, at)[q, b].exp().item()
            for q in range(4)
        )
        np.testing.assert_allclose(value[b].item(), math.log(mixture), rtol=1e-12)


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variance", [0.0, 1e-30, 1e-3, 1e8])
@pytest.mark.parametrize("mean", [-1e6, -40.0, 0.0, 1e6])
def test_extreme_moments_give_finite_terms_and_gradients(
    name: str, mean: float, variance: float, dtype: torch.dtype
) -> None:
    likelihood = make(name).to(dtype)
    n_latents, n_classes = likelihood.n_latents, likelihood.n_classes
    f_mean = torch.zeros(1, n_classes, n_latents, dtype=dtype)
    f_mean[..., 0] = mean
    half = torch.full_like(f_mean, 0.5 * variance)
    latent = Latent(*(part.requires_grad_() for part in (f_mean, half, half.clone())))
    at = targets(*range(n_classes))
    for value in (
        likelihood.expected_log_prob(latent, at),
        likelihood.log_marginal(latent, at),
        likelihood.log_probabilities(latent),
    ):
        assert torch.isfinite(value).all()
        assert torch.all(value <= 1e-6)
        for gradient in torch.autograd.grad(value.sum(), latent, allow_unused=False):
            assert torch.isfinite(gradient).all()


def test_wrong_label_costs_no_more_than_the_log_of_the_slip() -> None:
    likelihood = RobustMax(3, 0.01)
    f_mean = torch.tensor([[[50.0, 0.0, 0.0]]], dtype=torch.float64)
    latent = Latent(f_mean, *[torch.full_like(f_mean, 0.5)] * 2)
    cost = likelihood.expected_log_prob(latent, targets(1)).item()
    np.testing.assert_allclose(cost, math.log(0.005), rtol=1e-9)


@pytest.mark.parametrize(("likelihood", "n_latents"), [(Probit(), 1), (RobustMax(7, 0.1), 7)])
def test_number_of_latent_functions(likelihood: ClassLikelihood, n_latents: int) -> None:
    assert likelihood.n_latents == n_latents
