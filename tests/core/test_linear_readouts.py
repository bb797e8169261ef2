"""Predictions of readouts that are linear in the latent functions: one factor is integrated out."""

import numpy as np
import pytest
import torch
from oracles.models import normal, random_layer, random_likelihood, to_array
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from skgp.core.data import Targets
from skgp.core.layers.layer import JointLatent, Latent
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.nodes.rules import Nodes, Sampled, UnitNodes, trivial
from skgp.core.stacks.mixing import GPMixing, Mixing, NetworkMixing, NormalMixing
from skgp.core.stacks.readout import Readout
from skgp.core.stacks.readout_stack import ReadoutStack
from skgp.core.stacks.stack import GPStack
from skgp.core.stacks.units import IdentityUnits, NoisyUnits
from skgp.fitting.model import rows_per_chunk

D, L, P, B = 3, 2, 4, 5
ENTRIES = {"MOGP": P * L, "SBGPRN": 0}


def make_stack(rng: np.random.Generator, model: str, n_hidden: int = 0) -> ReadoutStack:
    """Random layers and a random linear readout, in evaluation mode."""
    sizes = [D, *[L] * n_hidden]
    layers = GPStack([random_layer(rng, n_gps=L, n_features=size) for size in sizes])
    start = normal(rng, P, L)
    if model == "GPRN":
        readout = Readout(NoisyUnits(L, 0.3), GPMixing(P, L))
        entries = random_layer(rng, n_gps=P * L, n_features=D)
        return ReadoutStack(layers, readout.double(), entries, 0).eval()
    mixing: Mixing = NormalMixing(start, 0.3)
    if model == "SBGPRN":
        mixing = NetworkMixing(D, (4,), start.float(), 1)
    return ReadoutStack(layers, Readout(IdentityUnits(L), mixing).double(), None, 0).eval()


def make_nodes(model: str, n_nodes: int, n_hidden: int = 0) -> Nodes:
    """Of a prediction: of the units of a GPRN, elsewhere of the entries of its matrix."""
    hidden = [L] * n_hidden
    units = Sampled([*hidden, L], 2, n_nodes, 0)
    if model == "GPRN":
        return UnitNodes(units, True).double()(B)
    return UnitNodes(units, True, Sampled([*hidden, ENTRIES[model]], 2, n_nodes, 1)).double()(B)


def factors_of_rows(
    stack: ReadoutStack, x: torch.Tensor
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean and variance of f (B, L), and of the entries of M (B, P, L), by hand."""
    latent = stack.below(x, trivial(x), stack.factors()[:1])
    mean, var = to_array(latent.f_mean[0]), to_array(latent.f_var[0])
    mixing = stack.readout.mixing
    if isinstance(mixing, NormalMixing):
        M, std = (to_array(m) for m in mixing.posterior.moments())
        return mean, var, np.tile(M, (B, 1, 1)), np.tile(std**2, (B, 1, 1))
    if isinstance(mixing, NetworkMixing):
        M = to_array(mixing.network(x)).reshape(B, P, L)
        return mean, var, M, np.zeros_like(M)
    assert stack.mixing_layer is not None
    assert isinstance(stack.readout.units, NoisyUnits)
    entries = stack.mixing_layer.moments(x.unsqueeze(0), stack.factors()[1])
    M, of_entries = (to_array(m[0]).reshape(B, P, L) for m in (entries.f_mean, entries.f_var))
    return mean, var + np.exp(to_array(stack.readout.units.log_noise)), M, of_entries


def over_nodes(latent: Latent, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each output over equal nodes, or one in the place of all."""
    mean, var = (to_array(m) for m in (latent.f_mean, latent.f_var))
    assert len(mean) in (1, n_nodes)
    return mean.mean(0), var.mean(0) + mean.var(0)


@pytest.mark.parametrize(
    ("model", "n_nodes", "n_hidden"),
    [("MOGP", 7, 0), ("MOGP", 7, 1), ("SBGPRN", 1, 0), ("SBGPRN", 7, 1), ("GPRN", 7, 0)],
)
def test_moments_of_a_prediction_are_exact(
    model: str, n_nodes: int, n_hidden: int, rng: np.random.Generator
) -> None:
    """With few nodes, mean and variance are those of all f and M given the hidden functions."""
    stack, x = make_stack(rng, model, n_hidden), normal(rng, B, D)
    nodes, factors = make_nodes(model, n_nodes, n_hidden), stack.factors()
    exact = stack(x, Nodes(nodes.xi, nodes.log_omega), factors)  # in closed form at each node
    ours = stack(x, nodes, factors)
    for a, b in zip(*(over_nodes(at, n_nodes) for at in (ours, exact)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    assert (ours.root is None) == (model == "GPRN")


def test_a_network_of_the_inputs_gives_one_normal(rng: np.random.Generator) -> None:
    """SBGPRN: N(M(x) m, M(x) diag(v) M(x)^T + noise), joint over the outputs."""
    stack, x, y = make_stack(rng, "SBGPRN"), normal(rng, B, D), normal(rng, B, P)
    likelihood = random_likelihood(rng, P)
    latent = stack(x, make_nodes("SBGPRN", 1), stack.factors())
    density = to_array(likelihood.log_marginal(latent, Targets(y, None)))
    mean, var, M, _ = factors_of_rows(stack, x)
    noise = np.diag(to_array(likelihood.noise_var))
    for b in range(B):
        cov = M[b] * var[b] @ M[b].T
        np.testing.assert_allclose(
            to_array((latent.root @ latent.root.mT)[0, b]), cov, rtol=1e-10, atol=1e-14
        )
        row = multivariate_normal(M[b] @ mean[b], cov + noise)
        assert density[0, b] == pytest.approx(row.logpdf(to_array(y[b])), rel=1e-10)


@pytest.mark.parametrize(("model", "n_nodes"), [("MOGP", 2**14), ("GPRN", 2**14)])
def test_joint_density_against_the_other_way_round(
    model: str, n_nodes: int, rng: np.random.Generator
) -> None:
    """Many nodes, against 2 10^5 draws of the factor that the nodes have integrated out.

    In four standard errors of the draws and 0.01 nats for the nodes.
    """
    stack, x = make_stack(rng, model), normal(rng, B, D)
    likelihood = random_likelihood(rng, P)
    mean, var, M, of_entries = factors_of_rows(stack, x)
    noise = to_array(likelihood.noise_var)
    y = np.einsum("bpl,bl->bp", M, mean) + rng.standard_normal((B, P))
    latent = stack(x, make_nodes(model, n_nodes), stack.factors())
    terms = likelihood.log_marginal(latent, Targets(torch.from_numpy(y), None))
    ours = to_array(torch.logsumexp(terms, 0)) - np.log(n_nodes)
    n_draws = 200_000
    for b in range(B):
        if model == "MOGP":  # f drawn, M integrated out: outputs are independent
            f = mean[b] + np.sqrt(var[b]) * rng.standard_normal((n_draws, L))
            spread = f**2 @ of_entries[b].T + noise
            values = norm.logpdf(y[b], f @ M[b].T, np.sqrt(spread)).sum(1)
        else:  # M drawn, f integrated out
            entries = M[b] + np.sqrt(of_entries[b]) * rng.standard_normal((n_draws, P, L))
            cov = (entries * var[b]) @ entries.transpose(0, 2, 1) + np.diag(noise)
            white = np.linalg.solve(np.linalg.cholesky(cov), (y[b] - entries @ mean[b])[..., None])[
                ..., 0
            ]
            log_det = np.linalg.slogdet(cov)[1]
            values = -0.5 * ((white**2).sum(1) + log_det + P * np.log(2 * np.pi))
        expected = logsumexp(values) - np.log(n_draws)
        error = np.exp(values - expected).std() / np.sqrt(n_draws)  # of the log, to first order
        assert abs(ours[b] - expected) < 4 * error + 0.01


@pytest.mark.parametrize("masked", [False, True])
def test_a_covariance_of_functions_is_a_mixing_matrix(
    masked: bool, rng: np.random.Generator
) -> None:
    """Outputs M f with covariance M diag(v) M^T, or mixed by the likelihood: the same."""
    M, latent = normal(rng, P, L), Latent(normal(rng, 3, B, L), *normal(rng, 2, 3, B, L).square())
    mixed = Gaussian(P, 0.2, 1e-4, M).double()
    outputs = JointLatent(latent.f_mean @ M.mT, M * latent.f_var.sqrt().unsqueeze(-2))
    plain = Gaussian(P, 0.2, 1e-4).double()
    mask = (torch.from_numpy(rng.random((B, P))) < 0.6).double() if masked else None
    targets = Targets(normal(rng, B, P), mask)
    for term in ("log_marginal", "expected_log_prob"):
        ours, theirs = (
            getattr(a, term)(b, targets) for a, b in ((plain, outputs), (mixed, latent))
        )
        np.testing.assert_allclose(to_array(ours), to_array(theirs), rtol=1e-10)
    for method in ("predictive", "noiseless"):
        ours, theirs = (getattr(a, method)(b) for a, b in ((plain, outputs), (mixed, latent)))
        for a, b in zip(ours[:3], theirs[:3], strict=True):
            np.testing.assert_allclose(to_array(a), to_array(b), rtol=1e-10, atol=1e-12)


def test_rows_of_a_step_have_covariances_of_bounded_size() -> None:
    log_weights = torch.zeros(32)
    assert rows_per_chunk(log_weights) == 512
    assert rows_per_chunk(log_weights, 10) == 512
    assert 1 <= rows_per_chunk(log_weights, 300) <= 2**24 / (32 * 300**2)
    assert rows_per_chunk(log_weights, 10_000) == 1
