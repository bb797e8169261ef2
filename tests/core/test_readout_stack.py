"""Stacks with a readout: the bound against dense algebra, its limits, and predictions."""

import math

import numpy as np
import pytest
import torch
from oracles import activations, readouts
from oracles import likelihoods as oracle
from oracles.models import (
    dense_gps,
    normal,
    random_kernel,
    random_layer,
    random_likelihood,
    random_posterior,
    to_array,
)
from oracles.sparse import kl as dense_kl
from oracles.sparse import layer_moments
from torch import nn

from skgp.core.data import Batch, Targets
from skgp.core.layers.layer import JointLatent
from skgp.core.layers.sparse import SparseGP
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.networks.activations import ACTIVATIONS
from skgp.core.nodes.rules import Nodes, Sampled, UnitNodes, trivial
from skgp.core.objectives.objective import ELBO, loss
from skgp.core.stacks.mixing import GPMixing, Mixing, NetworkMixing, NormalMixing
from skgp.core.stacks.readout import Readout
from skgp.core.stacks.readout_stack import ReadoutStack
from skgp.core.stacks.stack import GPStack
from skgp.core.stacks.units import IdentityUnits, NeuralUnits, NoisyUnits, Units

D, L, H, P, B = 3, 2, 3, 3, 6
MODELS = [("MOGP", "erf"), ("GPRN", "erf"), ("SBGPRN", "erf"), ("N-MOGP", "shifted_erf")]
MODELS += [("N-SBGPRN", "leaky_relu")]
DROPPING = [("dropping SBGPRN", "erf"), ("N-dropping SBGPRN", "erf")]


def shared_layer(rng: np.random.Generator, n_gps: int) -> SparseGP:
    kernel = random_kernel(rng, "rbf", 1, D)
    posterior = random_posterior(rng, "full", n_gps, 4)
    layer = SparseGP(kernel, normal(rng, 1, 4, D), posterior, 1e-6, n_gps).double()
    with torch.no_grad():
        layer.mean.copy_(normal(rng, n_gps))
    return layer


def as_separate(layer: SparseGP) -> SparseGP:
    """The same GPs with a kernel and inducing inputs each."""
    n_gps = len(layer.mean)
    kernel = random_kernel(np.random.default_rng(0), layer.kernel.name, n_gps, D)
    with torch.no_grad():
        kernel.log_lengthscale.copy_(layer.kernel.log_lengthscale.expand(n_gps, -1))
        kernel.log_variance.copy_(layer.kernel.log_variance.expand(n_gps))
    Z = layer.Z.detach().expand(n_gps, -1, -1).clone()
    separate = SparseGP(kernel, Z, layer.posterior, layer.jitter)
    separate.mean = nn.Parameter(layer.mean.detach().clone())
    return separate


def make_stack(
    rng: np.random.Generator, model: str, name: str, n_annealing: int = 0
) -> ReadoutStack:
    """One random layer and a random readout in float64."""
    units: Units = IdentityUnits(L)
    if model.startswith("N-"):
        units = NeuralUnits(ACTIVATIONS[name], normal(rng, H, L), normal(rng, H), 0.2)
    n_units = H if model.startswith("N-") else L
    mixing: Mixing = NormalMixing(normal(rng, P, n_units), 0.2)
    mixing_layer = None
    if model == "GPRN":
        units, mixing, mixing_layer = NoisyUnits(L, 0.3), GPMixing(P, L), shared_layer(rng, P * L)
    elif model.endswith("SBGPRN"):
        dropout = 0.3 if "dropping" in model else 0.0
        mixing = NetworkMixing(D, (4,), normal(rng, P, n_units).float(), 1, dropout)
        with torch.no_grad():  # it starts near zero
            mixing.network[-1].weight.mul_(50.0)
    layers = GPStack([random_layer(rng, n_gps=L, n_features=D)])
    return ReadoutStack(layers, Readout(units, mixing).double(), mixing_layer, n_annealing)


def batch_of(rng: np.random.Generator, mask: torch.Tensor | None = None) -> Batch:
    y = normal(rng, B, P)
    return Batch(normal(rng, B, D), Targets(y if mask is None else y * mask, mask), None)


def value(stack: ReadoutStack, likelihood: Gaussian, nodes: Nodes, batch: Batch) -> torch.Tensor:
    return loss(ELBO, stack, likelihood, nodes, batch, beta_reg=0.7, n_data=40.0)


@pytest.mark.parametrize(("model", "name"), MODELS + DROPPING)
def test_bound_by_dense_algebra_and_quadrature(
    model: str, name: str, rng: np.random.Generator
) -> None:
    """Eqns 9 to 13 row by row; points count with minus their log prior among the divergences."""
    stack, likelihood = make_stack(rng, model, name), random_likelihood(rng, P)
    batch = batch_of(rng)
    x = to_array(batch.x)
    gps = dense_gps(stack.below.layers[0])
    if stack.mixing_layer is not None:
        gps += dense_gps(as_separate(stack.mixing_layer))
    moments, noise = layer_moments(gps, x), to_array(likelihood.noise_var)
    expected = 0.0
    for b in range(B):
        row = moments.f_mean[b], moments.v_prior[b] + moments.v_q[b]
        mean, var = readouts.output_moments(stack.readout, name, x[b], *row)
        for k in range(P):
            y = batch.targets.y[b, k].item()
            expected -= oracle.expected_log_prob(y, mean[k], 0.0, var[k], noise[k]) / B
    divergence = sum(dense_kl(gp) for gp in gps) + stack.readout.divergence().item()
    ours = value(stack, likelihood, trivial(batch.x), batch).item()
    assert ours == pytest.approx(expected + 0.7 * divergence / 40.0, rel=1e-7)


@pytest.mark.parametrize(("model", "name"), MODELS + DROPPING)
def test_sampled_bound_is_the_analytic_one_on_average(
    model: str, name: str, rng: np.random.Generator
) -> None:
    """In four standard errors of 400 steps, whatever is missing; a step draws twice for a row."""
    stack, likelihood = make_stack(rng, model, name), random_likelihood(rng, P)
    mask = torch.ones(B, P, dtype=torch.float64)
    mask[0, 1] = mask[2, :2] = mask[5] = 0.0
    batch = batch_of(rng, mask)
    rule = UnitNodes(Sampled([stack.readout.units.n_noise], 2, 4, 0).double(), integrated=False)
    with torch.no_grad():
        steps = [value(stack, likelihood, rule(B, step), batch).item() for step in range(400)]
        rule.integrated = True
        analytic = value(stack, likelihood, rule(B, 0), batch).item()
    assert activations.within_four_errors(np.array(analytic), np.array(steps))
    assert np.std(steps) > 0.0


@pytest.mark.parametrize("n_hidden", [1, 2])
def test_hidden_layers_are_those_of_the_stack_below(
    n_hidden: int, rng: np.random.Generator
) -> None:
    """The readout sees the top layer's moments at the nodes of the layers below it."""
    layers = [random_layer(rng, n_gps=L, n_features=D if i == 0 else L) for i in range(n_hidden)]
    below = GPStack([*layers, random_layer(rng, n_gps=L, n_features=L)])
    readout = Readout(IdentityUnits(L), NormalMixing(normal(rng, P, L), 0.2)).double()
    stack, x = ReadoutStack(below, readout, None, 0), normal(rng, B, D)
    nodes = UnitNodes(Sampled([*[L] * n_hidden, L], 5, 4, 0), integrated=False)(B)
    hidden = nodes._replace(units=None)
    factors = stack.factors()
    latent = below(x, hidden, factors)
    for ours, theirs in (
        (stack(x, nodes, factors), readout.sample(latent, x, nodes.units)),
        (stack(x, hidden, factors), readout.moments(latent, x)),
    ):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(to_array(a), to_array(b))
    assert stack.top is below.top
    assert stack.layers == below.layers


def test_identity_mixing_is_independent_sparse_gps(rng: np.random.Generator) -> None:
    """MOGP with L = P: the loss is that of the GPs, up to the divergence of q(M)."""
    layer, likelihood = random_layer(rng, n_gps=P, n_features=D), random_likelihood(rng, P)
    readout = Readout(IdentityUnits(P), NormalMixing(torch.eye(P), math.exp(-60.0))).double()
    stack, batch = ReadoutStack(GPStack([layer]), readout, None, 0), batch_of(rng)
    nodes = trivial(batch.x)
    parts = likelihood, nodes, batch
    plain = loss(ELBO, GPStack([layer]), *parts, beta_reg=0.7, n_data=40.0)
    ours = value(stack, likelihood, nodes, batch) - 0.7 / 40.0 * readout.divergence()
    assert ours.item() == pytest.approx(plain.item(), rel=1e-12)


@pytest.mark.parametrize("n_missing", [1, 2])
def test_a_masked_output_is_a_dropped_output(n_missing: int, rng: np.random.Generator) -> None:
    stack, likelihood = make_stack(rng, "N-MOGP", "erf"), random_likelihood(rng, P)
    mask = torch.ones(B, P, dtype=torch.float64)
    mask[:, P - n_missing :] = 0.0
    batch = batch_of(rng, mask)
    masked = (
        value(stack, likelihood, trivial(batch.x), batch) - 0.7 / 40.0 * stack.readout.divergence()
    )
    kept = slice(P - n_missing)
    for parameter in [*stack.readout.mixing.parameters(), likelihood.log_excess_noise]:
        parameter.data = parameter.data[kept]
    fewer = batch._replace(targets=Targets(batch.targets.y[:, kept], None))
    dropped = (
        value(stack, likelihood, trivial(batch.x), fewer) - 0.7 / 40.0 * stack.readout.divergence()
    )
    assert masked.item() == pytest.approx(dropped.item(), rel=1e-12)


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_tasks_without_common_inputs_are_rows_of_one_output_each(
    model: str, name: str, rng: np.random.Generator
) -> None:
    """Eqns 9 to 13 of the one output that a row observes; what stands elsewhere plays no part."""
    stack, likelihood = make_stack(rng, model, name), random_likelihood(rng, P)
    task = np.arange(B) % P
    mask = torch.from_numpy(np.eye(P)[task])
    batch = batch_of(rng, mask)
    x, noise = to_array(batch.x), to_array(likelihood.noise_var)
    gps = dense_gps(stack.below.layers[0])
    if stack.mixing_layer is not None:
        gps += dense_gps(as_separate(stack.mixing_layer))
    moments = layer_moments(gps, x)
    of_tasks = np.zeros(P)
    for b, k in enumerate(task):
        row = moments.f_mean[b], moments.v_prior[b] + moments.v_q[b]
        mean, var = readouts.output_moments(stack.readout, name, x[b], *row)
        y = batch.targets.y[b, k].item()
        of_tasks[k] += oracle.expected_log_prob(y, mean[k], 0.0, var[k], noise[k])
    divergence = sum(dense_kl(gp) for gp in gps) + stack.readout.divergence().item()
    ours = value(stack, likelihood, trivial(batch.x), batch).item()
    assert ours == pytest.approx(0.7 * divergence / 40.0 - of_tasks.sum() / B, rel=1e-7)


@pytest.mark.parametrize(("model", "name"), DROPPING)
def test_predictions_drop_no_weights(model: str, name: str, rng: np.random.Generator) -> None:
    stack, x = make_stack(rng, model, name), normal(rng, B, D)
    factors = stack.factors()
    dropping, whole = (stack.train(mode)(x, trivial(x), factors) for mode in (True, False))
    np.testing.assert_array_equal(to_array(dropping.f_mean), to_array(whole.f_mean))
    assert bool((dropping.f_var > whole.f_var).all())
    stack.readout.mixing.dropout = 0.0
    without = stack.train()(x, trivial(x), factors)
    np.testing.assert_array_equal(to_array(without.f_var), to_array(whole.f_var))


def test_weight_of_the_divergences_rises(rng: np.random.Generator) -> None:
    """1/4, 2/4, 3/4, and then 1."""
    stack = make_stack(rng, "N-MOGP", "erf", n_annealing=4)
    shares = [stack.divergence_share(step) for step in range(6)]
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.75, 1.0, 1.0, 1.0], rtol=1e-12)
    assert make_stack(rng, "N-MOGP", "erf").divergence_share(0) == 1.0


@pytest.mark.parametrize(("model", "name"), MODELS[3:])
def test_mean_of_a_prediction_is_exact(model: str, name: str, rng: np.random.Generator) -> None:
    """Four nodes; their mixture keeps its shape."""
    stack, x = make_stack(rng, model, name), normal(rng, B, D)
    rule = UnitNodes(Sampled([stack.readout.units.n_noise], 2, 4, 0), integrated=False)
    nodes = rule.eval()(B)
    factors = stack.factors()
    exact = stack(x, trivial(x), factors).f_mean[0]
    drawn, moved = stack(x, nodes, factors), stack.eval()(x, nodes, factors)
    np.testing.assert_allclose(to_array(moved.f_mean.mean(0)), to_array(exact), rtol=1e-10)
    assert not torch.allclose(drawn.f_mean.mean(0), exact, rtol=1e-3)
    for a, b in zip(moved, drawn, strict=True):
        np.testing.assert_allclose(to_array(a - a[:1]), to_array(b - b[:1]), rtol=0, atol=1e-12)


def test_joint_moments_with_another_mean_keep_their_root() -> None:
    root = torch.rand(2, 3, 4, 2, dtype=torch.float64)
    joint = JointLatent(torch.zeros(2, 3, 4, dtype=torch.float64), root)
    other = joint._replace(f_mean=joint.f_mean + 1.0)
    assert torch.equal(other.root, root)
    assert torch.equal(other.f_mean, joint.f_mean + 1.0)
    assert torch.equal(other.f_var, root.square().sum(-1))
    with pytest.raises(ValueError, match="v_q"):
        joint._replace(v_q=joint.v_q)
