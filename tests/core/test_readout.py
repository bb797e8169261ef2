"""Readouts: moments of the outputs, and the expected log density that a Gaussian makes of them."""

import copy
import math

import numpy as np
import pytest
import torch
from oracles import activations, readouts
from oracles import likelihoods as oracle
from oracles.models import normal, random_likelihood, to_array
from torch import Tensor

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.networks.activations import ACTIVATIONS, Ramp
from skgp.core.objectives.objective import average
from skgp.core.stacks.mixing import GPMixing, Mixing, NetworkMixing, NormalMixing
from skgp.core.stacks.readout import Readout
from skgp.core.stacks.units import IdentityUnits, NeuralUnits, NoisyUnits, Units

D, L, H, P, B = 2, 2, 3, 3, 4
# Model and activation; the plain models have none.
PLAIN = [("MOGP", "erf"), ("GPRN", "erf"), ("SBGPRN", "erf")]
NEURAL = [(model, name) for model in ("N-MOGP", "N-SBGPRN") for name in ACTIVATIONS]
MODELS = PLAIN + NEURAL
FEW = [*PLAIN, ("N-MOGP", "leaky_relu"), ("N-SBGPRN", "shifted_erf")]
MASK = torch.tensor([[1, 1, 1], [1, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=torch.float64)


def make_readout(rng: np.random.Generator, model: str, name: str) -> Readout:
    """A random model in float64."""
    units: Units = IdentityUnits(L)
    if model.startswith("N-"):
        units = NeuralUnits(ACTIVATIONS[name], normal(rng, H, L), normal(rng, H), 0.3)
    n_units = H if model.startswith("N-") else L
    mixing: Mixing = NormalMixing(normal(rng, P, n_units), 0.2)
    if model == "GPRN":
        units, mixing = NoisyUnits(L, 0.4), GPMixing(P, n_units)
        units.log_noise.data += torch.arange(L)
    elif model.endswith("SBGPRN"):
        mixing = NetworkMixing(D, (5, 4), normal(rng, P, n_units).float(), 3)
    readout = Readout(units, mixing).double()
    with torch.no_grad():
        for parameter_name, parameter in readout.named_parameters():
            if parameter_name.endswith("log_scale"):
                parameter.add_(0.3 * normal(rng, *parameter.shape))
    return readout


def random_latent(rng: np.random.Generator, n_nodes: int, readout: Readout) -> Latent:
    shape = n_nodes, B, readout.n_latents
    v_prior, v_q = (0.05 + 0.3 * normal(rng, *shape).abs() for _ in range(2))
    return Latent(normal(rng, *shape), v_prior, v_q)


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_moments_against_loops_and_quadrature(
    model: str, name: str, rng: np.random.Generator
) -> None:
    readout = make_readout(rng, model, name)
    latent, x = random_latent(rng, 2, readout), normal(rng, B, D)
    value = readout.moments(latent, x)
    assert all(part.shape == (2, B, P) for part in value)
    for q, b in ((0, 0), (1, 3)):
        row = to_array(x[b]), to_array(latent.f_mean[q, b]), to_array(latent.f_var[q, b])
        mean, var = readouts.output_moments(readout, name, *row)
        np.testing.assert_allclose(to_array(value.f_mean[q, b]), mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(to_array(value.f_var[q, b]), var, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("model", "name"), MODELS)
@pytest.mark.parametrize("n", [50_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_moments_and_expected_log_density_against_samples(
    model: str, name: str, n: int, rng: np.random.Generator
) -> None:
    """Eqns 10 to 13: all of M, F and b is drawn, nothing integrated."""
    readout, likelihood = make_readout(rng, model, name), random_likelihood(rng, P)
    latent, x, y = random_latent(rng, 1, readout), normal(rng, B, D), normal(rng, B, P)
    value = readout.moments(latent, x)
    row = to_array(x[1]), to_array(latent.f_mean[0, 1]), to_array(latent.f_var[0, 1])
    draws = readouts.output_draws(readout, name, *row, n, rng)
    mean, var = to_array(value.f_mean[0, 1]), to_array(value.f_var[0, 1])
    assert activations.within_four_errors(mean, draws)
    assert activations.within_four_errors(var, (draws - mean) ** 2)
    noise, terms = to_array(likelihood.noise_var), 0.0
    for k in range(P):
        residual = y[1, k].item() - draws[:, k]
        terms = terms - 0.5 * (math.log(2.0 * math.pi * noise[k]) + residual**2 / noise[k])
    expected = likelihood.expected_log_prob(value, Targets(y, None))[0, 1].item()
    assert activations.within_four_errors(expected, terms)


@pytest.mark.parametrize(("model", "name"), MODELS)
@pytest.mark.parametrize("mask", [None, MASK], ids=["complete", "masked"])
def test_sampled_and_analytic_terms_agree_in_expectation(
    model: str, name: str, mask: Tensor | None, rng: np.random.Generator
) -> None:
    readout, likelihood = make_readout(rng, model, name), random_likelihood(rng, P)
    latent, x = random_latent(rng, 1, readout), normal(rng, B, D)
    targets = Targets(normal(rng, B, P), mask)
    xi = normal(rng, 10_000, B, readout.units.n_noise)
    sampled = likelihood.expected_log_prob(readout.sample(latent, x, xi), targets)
    analytic = likelihood.expected_log_prob(readout.moments(latent, x), targets)
    assert sampled.shape == (10_000, B)
    assert activations.within_four_errors(to_array(analytic[0]), to_array(sampled))
    log_omega = torch.full((10_000,), -math.log(10_000.0), dtype=torch.float64)
    np.testing.assert_allclose(
        to_array(average(sampled, log_omega)), to_array(sampled.mean(0)), rtol=1e-10
    )


@pytest.mark.parametrize(("model", "name"), FEW)
def test_sampled_term_integrates_the_mixing_matrix(
    model: str, name: str, rng: np.random.Generator
) -> None:
    """Given the units, E over M of log N(y; M h, noise) by quadrature for each output."""
    readout, likelihood = make_readout(rng, model, name), random_likelihood(rng, P)
    latent, x, y = random_latent(rng, 1, readout), normal(rng, B, D), normal(rng, B, P)
    xi = normal(rng, 2, B, readout.units.n_noise)
    value = likelihood.expected_log_prob(readout.sample(latent, x, xi), Targets(y, None))
    noise = to_array(likelihood.noise_var)
    f_mean, f_var = to_array(latent.f_mean[0]), to_array(latent.f_var[0])
    for q in range(2):
        for b in range(B):
            M, var = readouts.mixing_moments(readout, to_array(x[b]), f_mean[b], f_var[b])
            z = to_array(xi[q, b])
            m, v = readouts.latent_moments(readout, f_mean[b], f_var[b])
            f = m + np.sqrt(v) * z[:L]
            h = readouts.unit_draws(readout, name, f[np.newaxis], z[np.newaxis, L:])[0]
            expected = sum(
                oracle.expected_log_prob(y[b, k].item(), M[k] @ h, 0.0, var[k] @ h**2, noise[k])
                for k in range(P)
            )
            np.testing.assert_allclose(value[q, b].item(), expected, rtol=1e-9)


def keep_outputs(readout: Readout, likelihood: Gaussian, keep: list[int]) -> tuple[Readout, Tensor]:
    """The model without the other outputs, and the numbers of its latent functions."""
    smaller = copy.deepcopy(readout)
    mixing, latents = smaller.mixing, torch.arange(readout.n_latents)
    if isinstance(mixing, NormalMixing):
        for parameter in mixing.parameters():
            parameter.data = parameter.data[keep]
    elif isinstance(mixing, NetworkMixing):
        last = list(mixing.network)[-1]
        n_units = mixing.shape[1]
        for parameter in last.parameters():
            parameter.data = parameter.data.unflatten(0, (P, n_units))[keep].flatten(0, 1)
        mixing.shape = torch.Size([len(keep), n_units])
    else:
        smaller.mixing = GPMixing(len(keep), L)
        entries = latents[L:].reshape(P, L)[keep].flatten()
        latents = torch.cat([latents[:L], entries])
    return smaller, latents


@pytest.mark.parametrize(("model", "name"), FEW)
@pytest.mark.parametrize("keep", [[0, 2], [1]])
def test_a_masked_output_is_a_dropped_output(
    model: str, name: str, keep: list[int], rng: np.random.Generator
) -> None:
    """Analytic and sampled."""
    readout, likelihood = make_readout(rng, model, name), random_likelihood(rng, P)
    latent, x, y = random_latent(rng, 1, readout), normal(rng, B, D), normal(rng, B, P)
    xi = normal(rng, 5, B, readout.units.n_noise)
    mask = torch.zeros(B, P, dtype=torch.float64)
    mask[:, keep] = 1.0
    smaller, latents = keep_outputs(readout, likelihood, keep)
    kept = Latent(*(part[..., latents] for part in latent))
    fewer = Gaussian(len(keep), 0.5, likelihood.noise_floor).double()
    fewer.log_excess_noise.data = likelihood.log_excess_noise.data[keep]
    for whole, part in (
        (readout.moments(latent, x), smaller.moments(kept, x)),
        (readout.sample(latent, x, xi), smaller.sample(kept, x, xi)),
    ):
        masked = likelihood.expected_log_prob(whole, Targets(y * mask, mask))
        dropped = fewer.expected_log_prob(part, Targets(y[:, keep], None))
        np.testing.assert_allclose(to_array(masked), to_array(dropped), rtol=1e-12)


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_gradients_against_finite_differences(
    model: str, name: str, rng: np.random.Generator
) -> None:
    """In the latent moments and in every parameter, of the terms, the divergence and the prior."""
    readout, likelihood = make_readout(rng, model, name), random_likelihood(rng, P)
    latent, x = random_latent(rng, 1, readout), normal(rng, B, D)
    targets, xi = Targets(normal(rng, B, P), MASK), normal(rng, 2, B, readout.units.n_noise)
    arguments = [part.requires_grad_() for part in latent[:2]]
    parameters = list(readout.parameters())

    def terms(f_mean: Tensor, v_prior: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        moments = Latent(f_mean, v_prior, latent.v_q)  # gradcheck moves the parameters themselves
        return (
            likelihood.expected_log_prob(readout.moments(moments, x), targets),
            likelihood.expected_log_prob(readout.sample(moments, x, xi), targets),
            readout.divergence(),
        )

    assert torch.autograd.gradcheck(terms, (*arguments, *parameters), fast_mode=True)


def points_of(readout: Readout) -> list[Tensor]:
    """The weights without a posterior."""
    return [
        parameter
        for name, parameter in readout.named_parameters()
        if name == "units.weight" or "network" in name
    ]


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_divergence_against_quadrature(model: str, name: str, rng: np.random.Generator) -> None:
    """E_q log q - log p of each entry of M and b with a posterior, and half squares of points."""
    readout = make_readout(rng, model, name)
    entries = []
    for module in (readout.mixing, readout.units):
        posterior = getattr(module, "posterior", getattr(module, "bias", None))
        if posterior is not None:
            mean, scale = (to_array(part).ravel() for part in posterior.moments())
            entries += list(zip(mean, scale, strict=True))
    expected = sum(0.5 * np.square(to_array(p)).sum() for p in points_of(readout))
    for mean, scale in entries:
        expected += oracle.expectation(
            lambda w, m=mean, s=scale: (
                oracle.log_normal(w, m, s**2) - oracle.log_normal(w, 0.0, 1.0)
            ),
            mean,
            scale**2,
        )
    n_neural = H if model.startswith("N-") else 0
    n_mixing = P * (n_neural or L) if model.endswith("MOGP") else 0
    assert len(entries) == n_neural + n_mixing
    np.testing.assert_allclose(readout.divergence().item(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("model", "name"), FEW)
def test_prior_pulls_each_weight_that_is_a_point_to_zero(
    model: str, name: str, rng: np.random.Generator
) -> None:
    """The slope of the L2 penalty is the weight itself; posteriors have none."""
    readout = make_readout(rng, model, name)
    points = points_of(readout)
    assert len(points) == model.startswith("N-") + 6 * model.endswith("SBGPRN")
    if points:
        slopes = torch.autograd.grad(readout.divergence(), points)
        for slope, point in zip(slopes, points, strict=True):
            np.testing.assert_allclose(to_array(slope), to_array(point), rtol=1e-12)


def test_certain_identity_mixing_leaves_the_latent_functions(rng: np.random.Generator) -> None:
    """MOGP with as many latents as outputs is independent GPs."""
    readout = Readout(IdentityUnits(P), NormalMixing(torch.eye(P), 0.2)).double()
    with torch.no_grad():
        readout.mixing.posterior.log_scale.fill_(-math.inf)
    latent, x = random_latent(rng, 2, readout), normal(rng, B, D)
    value = readout.moments(latent, x)
    np.testing.assert_allclose(to_array(value.f_mean), to_array(latent.f_mean), rtol=1e-15)
    np.testing.assert_allclose(to_array(value.f_var), to_array(latent.f_var), rtol=1e-15)


def test_linear_units_multiply_the_mixing_matrix(rng: np.random.Generator) -> None:
    """Leaky of slope one, without biases: N-MOGP is MOGP with the matrix M W."""
    W, M = normal(rng, H, L), normal(rng, P, H)
    neural = Readout(NeuralUnits(Ramp(1.0), W, torch.zeros(H), 1.0), NormalMixing(M, 1.0))
    plain = Readout(IdentityUnits(L), NormalMixing(M @ W, 1.0))
    with torch.no_grad():
        for parameter_name, parameter in [*neural.named_parameters(), *plain.named_parameters()]:
            if parameter_name.endswith("log_scale"):
                parameter.fill_(-math.inf)
    latent, x = random_latent(rng, 2, plain), normal(rng, B, D)
    for ours, expected in zip(
        neural.double().moments(latent, x), plain.moments(latent, x), strict=True
    ):
        np.testing.assert_allclose(to_array(ours), to_array(expected), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_certain_latents_make_both_ways_the_same(
    model: str, name: str, rng: np.random.Generator
) -> None:
    """A draw of units without variance is their mean, up to the floor of its variance."""
    readout = make_readout(rng, model, name)
    with torch.no_grad():
        if isinstance(readout.units, NeuralUnits):
            readout.units.bias.log_scale.fill_(-math.inf)
        if isinstance(readout.units, NoisyUnits):
            readout.units.log_noise.fill_(-math.inf)
    latent, x = random_latent(rng, 1, readout), normal(rng, B, D)
    latent.v_prior[..., :L] = 0.0
    latent.v_q[..., :L] = 0.0
    analytic = readout.moments(latent, x)
    sampled = readout.sample(latent, x, normal(rng, 1, B, readout.units.n_noise))
    for ours, expected in zip(analytic, sampled, strict=True):
        np.testing.assert_allclose(to_array(ours), to_array(expected), rtol=0, atol=1e-6)


def test_gradient_of_a_draw_is_finite_where_a_latent_is_certain() -> None:
    var = torch.zeros(1, B, L, dtype=torch.float64, requires_grad=True)
    latent = Latent(torch.ones_like(var), var, torch.zeros_like(var))
    draw = IdentityUnits(L).sample(latent, torch.ones_like(var)).mean
    (slope,) = torch.autograd.grad(draw.sum(), var)
    assert bool(torch.isfinite(slope).all())


def test_rounding_makes_no_variance_negative(rng: np.random.Generator) -> None:
    """Fifty outputs for which the units of one latent function cancel, in float32."""
    weight = normal(rng, 4, 1)
    M = normal(rng, 50, 4)
    M = (M - M @ weight @ weight.T / weight.square().sum()).float()
    units = NeuralUnits(Ramp(1.0), weight.float(), torch.zeros(4), 1e-30)
    zero, one = torch.zeros(1, 1, 1), torch.ones(1, 1, 1)
    cov = units.moments(Latent(zero, one, zero)).cov
    assert ((M @ cov) * M).sum(-1).min().item() < 0.0
    readout = Readout(units, NormalMixing(M, 1e-30))
    assert readout.moments(Latent(zero, one, zero), zero[0]).f_var.min().item() >= 0.0


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_float32_stays_float32_and_agrees(model: str, name: str, rng: np.random.Generator) -> None:
    readout = make_readout(rng, model, name)
    latent, x = random_latent(rng, 2, readout), normal(rng, B, D)
    expected = readout.moments(latent, x)
    readout = readout.float()
    value = readout.moments(Latent(*(part.float() for part in latent)), x.float())
    for ours, theirs in zip(value, expected, strict=True):
        assert ours.dtype == torch.float32
        np.testing.assert_allclose(to_array(ours), to_array(theirs), rtol=1e-4, atol=1e-5)


def test_network_mixing_starts_at_the_given_matrix(rng: np.random.Generator) -> None:
    start = normal(rng, P, H).float()
    networks = [NetworkMixing(D, (50, 50), start, seed) for seed in (0, 0, 1)]
    x = torch.cat([torch.zeros(1, D), normal(rng, 3, D).float()])
    nothing = Latent(*(x[None, :, :0] for _ in range(3)))
    values = [network(x, nothing).mean for network in networks]
    assert values[0].shape == (4, P, H)
    np.testing.assert_array_equal(to_array(values[0][0]), to_array(start))
    np.testing.assert_array_equal(to_array(values[0]), to_array(values[1]))
    assert not torch.equal(values[0], values[2])
    kinds = [type(layer).__name__ for layer in networks[0].network]
    assert kinds == ["Linear", "Tanh", "Linear", "Tanh", "Linear"]
