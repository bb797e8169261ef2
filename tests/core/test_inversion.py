"""Latent inputs: the training objective, the posteriors of further rows, and their densities."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from oracles import activations, readouts
from oracles.models import dense_gps, normal, random_layer, random_likelihood, to_array
from oracles.sparse import kl as dense_kl
from oracles.sparse import layer_moments
from scipy.optimize import minimize

from skgp.core.data import Batch, Targets
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.nodes.rules import Sampled, Trivial, UnitNodes
from skgp.core.objectives.objective import ELBO, loss
from skgp.core.stacks.mixing import NormalMixing
from skgp.core.stacks.readout import Readout
from skgp.core.stacks.readout_stack import ReadoutStack
from skgp.core.stacks.row_posterior import RowMoments
from skgp.core.stacks.stack import GPStack
from skgp.core.stacks.units import IdentityUnits
from skgp.core.training.inversion import Inversion, LatentInputs

pytestmark = pytest.mark.usefixtures("short_start")

L, P, N = 2, 3, 6
BETA, N_DATA = 0.7, 40.0


class Tiny:
    """A random MOGP of C latent inputs, and its terms by loops and dense algebra."""

    def __init__(self, rng: np.random.Generator, n_inputs: int = 1, n_outputs: int = P) -> None:
        layer = random_layer(rng, n_gps=L, n_features=n_inputs, name="rbf")
        self.mixing = NormalMixing(normal(rng, n_outputs, L), 0.1)
        readout = Readout(IdentityUnits(L), self.mixing).double()
        self.stack = ReadoutStack(GPStack([layer]), readout, None, 0)
        self.likelihood = random_likelihood(rng, n_outputs)
        self.gps = dense_gps(layer)

    def moments(self, x: Any) -> tuple[Any, Any]:
        """Mean and variance (n, P) of the noiseless outputs at x (n, C)."""
        moments = layer_moments(self.gps, x)
        rows = [
            readouts.output_moments(self.stack.readout, "erf", x[i], f, v)
            for i, (f, v) in enumerate(
                zip(moments.f_mean, moments.v_prior + moments.v_q, strict=True)
            )
        ]
        return np.stack([mean for mean, _ in rows]), np.stack([var for _, var in rows])

    def expected_log_prob(self, x: Any, y: Any) -> Any:
        """Sum over the observed outputs of y (P,), NaN where missing, at each x (n, C)."""
        mean, var = self.moments(x)
        noise = to_array(self.likelihood.noise_var)
        # Eqn 10
        terms = -0.5 * (np.log(2.0 * np.pi * noise) + ((y - mean) ** 2 + var) / noise)
        return np.nansum(terms, axis=1)

    def log_density(self, x: Any, y: Any) -> Any:
        """log p(y | x) of the observed outputs at each x (n, C)."""
        mean, var = self.moments(x)
        var = var + to_array(self.likelihood.noise_var)
        terms = -0.5 * (np.log(2.0 * np.pi * var) + (y - mean) ** 2 / var)
        return np.nansum(terms, axis=1)

    def divergence(self) -> float:
        return sum(dense_kl(gp) for gp in self.gps) + self.stack.readout.divergence().item()

    def inversion(self) -> Inversion:
        """With the units integrated out."""
        nodes = Trivial().double()
        for module in (self.stack, self.likelihood, nodes):
            module.requires_grad_(False)
        return Inversion(ELBO, self.stack, self.likelihood, nodes)


def as_targets(Y: Any) -> Targets:
    y = torch.from_numpy(Y)
    return Targets(y.nan_to_num(), (~y.isnan()).double())


def local_kl(mean: Any, std: Any) -> float:
    """KL(N(mean, std^2) || N(0, 1)), entry by entry."""
    return sum(0.5 * (s**2 + m**2 - 1.0) - math.log(s) for m, s in zip(mean, std, strict=True))


def random_inputs(rng: np.random.Generator, n_inputs: int) -> LatentInputs:
    inputs = LatentInputs(normal(rng, N, n_inputs), seed=3).double()
    with torch.no_grad():
        inputs.posterior.log_std.copy_(0.3 * normal(rng, N, n_inputs) - 0.7)
    return inputs


def step_loss(tiny: Tiny, inputs: LatentInputs, Y: Any, rows: list[int], step: int) -> float:
    """That of a training step."""
    index = torch.tensor(rows)
    x, kl = inputs(index, step)
    nodes = UnitNodes(Sampled([L], 2, 4, 0), integrated=True).double()(len(rows), step)
    batch = Batch(x, as_targets(Y[rows]), None, index)
    parts = ELBO, tiny.stack, tiny.likelihood, nodes, batch
    return loss(*parts, beta_reg=BETA, n_data=N_DATA, local_kl=kl).item()


def test_objective_of_a_batch_by_quadrature_over_the_inputs(rng: np.random.Generator) -> None:
    """A row has its own divergence in full, the batch its share 1 / n of what all rows share."""
    tiny, inputs = Tiny(rng), random_inputs(rng, 1)
    Y, rows = rng.normal(size=(N, P)), [4, 1]
    Y[4, 2] = np.nan
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    expected = BETA * tiny.divergence() / N_DATA
    for row in rows:
        mean, std = (to_array(m[row]) for m in inputs.posterior.of_rows(slice(None)))
        std = np.exp(std)
        terms = tiny.expected_log_prob((mean + std * nodes[:, None]), Y[row])
        fit = weights @ terms / weights.sum() - local_kl(mean, std)
        expected -= fit / len(rows)
    steps = [step_loss(tiny, inputs, Y, rows, step) for step in range(600)]
    assert activations.within_four_errors(np.array(expected), np.array(steps))
    assert np.std(steps) > 0.0


def test_objective_of_certain_inputs_is_exact(rng: np.random.Generator) -> None:
    """Draws with next to no deviation: nothing is left to chance."""
    tiny, inputs = Tiny(rng, n_inputs=2), random_inputs(rng, 2)
    with torch.no_grad():
        inputs.posterior.log_std.fill_(-20.0)
    Y, rows = rng.normal(size=(N, P)), [0, 5, 2]
    mean, std = to_array(inputs.posterior.mean), np.full(2, math.exp(-20.0))
    expected = BETA * tiny.divergence() / N_DATA
    for row in rows:
        fit = tiny.expected_log_prob(mean[[row]], Y[row])[0] - local_kl(mean[row], std)
        expected -= fit / len(rows)
    assert step_loss(tiny, inputs, Y, rows, 0) == pytest.approx(expected, rel=1e-6)


def test_each_step_has_draws_of_its_own(rng: np.random.Generator) -> None:
    inputs = LatentInputs(normal(rng, N, 2), 3)
    rows = torch.arange(N)
    first, second, again = (inputs(rows, step)[0] for step in (0, 1, 0))
    assert not torch.equal(first, second)
    assert torch.equal(again, first)
    moved = (first - inputs.posterior.mean) / inputs.posterior.log_std.exp()
    assert moved.unique().numel() == N * 2  # every entry has a draw of its own


def test_posterior_of_a_row_maximises_its_bound(rng: np.random.Generator) -> None:
    """Mean and deviation against a simplex search on the bound by quadrature."""
    tiny = Tiny(rng)
    Y = tiny.moments(np.array([[0.0], [0.4], [0.7]]))[0] + 0.1 * rng.normal(size=(3, P))
    Y[1, 0] = np.nan
    start = RowMoments(torch.full((3, 1), 0.3).double(), torch.full((3, 1), -1.0).double())
    found = tiny.inversion().posterior(start, as_targets(Y))
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    for row in range(3):

        def minus_bound(parameters: Any, y: Any = Y[row]) -> float:
            mean, std = parameters[:1], np.exp(parameters[1:])
            terms = tiny.expected_log_prob(mean + std * nodes[:, None], y)
            return local_kl(mean, std) - float(weights @ terms / weights.sum())

        best = minimize(minus_bound, [0.3, -1.0], method="Nelder-Mead", options={"maxiter": 80})
        ours = np.array([found.mean[row, 0].item(), found.log_std[row, 0].item()])
        assert minus_bound(ours) < best.fun + 0.01
        assert ours == pytest.approx(best.x, abs=0.1)


def test_posterior_of_a_row_depends_on_no_other(rng: np.random.Generator) -> None:
    tiny = Tiny(rng, n_inputs=2)
    Y = rng.normal(size=(5, P))
    start = RowMoments(normal(rng, 5, 2), torch.full((5, 2), -2.0).double())
    together = tiny.inversion().posterior(start, as_targets(Y))
    alone = tiny.inversion().posterior(RowMoments(*(m[[3]] for m in start)), as_targets(Y[[3]]))
    assert not torch.equal(together.mean, start.mean)
    for many, one in zip(together, alone, strict=True):
        torch.testing.assert_close(many[[3]], one, rtol=1e-8, atol=1e-10)


def test_row_that_a_step_would_make_worse_stays(rng: np.random.Generator) -> None:
    """A row in which nothing is observed, started at its posterior, which is the prior."""
    start = RowMoments(torch.zeros(1, 2).double(), torch.zeros(1, 2).double())
    found = Tiny(rng, n_inputs=2).inversion().posterior(start, as_targets(np.full((1, P), np.nan)))
    assert torch.equal(found.mean, start.mean)
    assert torch.equal(found.log_std, start.log_std)


def test_density_of_a_row_by_quadrature_over_its_input(rng: np.random.Generator) -> None:
    """In four standard errors of the mean of the importance weights, which quadrature gives."""
    tiny, n_draws = Tiny(rng), 4000
    Y = rng.normal(size=(2, P))
    Y[1, 2] = np.nan
    local = RowMoments(
        torch.tensor([[0.2], [-0.1]]).double(), torch.tensor([[0.1], [-0.1]]).double()
    )
    ours = tiny.inversion().log_density(local, as_targets(Y), n_draws).exp()
    x = np.linspace(-8.0, 8.0, 801)
    prior = np.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi)
    for row in range(2):
        mean, std = local.mean[row, 0].item(), math.exp(local.log_std[row, 0].item())
        proposal = np.exp(-0.5 * ((x - mean) / std) ** 2) / math.sqrt(2.0 * math.pi) / std
        joint = np.exp(tiny.log_density(x[:, None], Y[row])) * prior
        density = joint.sum() * 0.02
        second = (joint**2 / proposal).sum() * 0.02
        error = math.sqrt((second - density**2) / n_draws)
        assert error < 0.1 * density
        assert abs(ours[row].item() - density) < 4.0 * error


def test_masked_entry_is_a_dropped_one(rng: np.random.Generator) -> None:
    """The outputs left, in a model that has no others."""
    kept = [0, 2]
    tiny, less = Tiny(np.random.default_rng(5)), Tiny(np.random.default_rng(5))
    q = less.mixing.posterior
    for name in ("mu", "log_scale"):
        setattr(q, name, torch.nn.Parameter(getattr(q, name).detach()[kept]))
    likelihood = Gaussian(2, 0.3, 1e-4).double()
    likelihood.start(less.likelihood.noise_var[kept])
    less.likelihood = likelihood
    Y = rng.normal(size=(N, P))
    masked = np.where([True, False, True], Y, np.nan)
    start = RowMoments(normal(rng, N, 1), torch.full((N, 1), -1.0).double())
    found = tiny.inversion().posterior(start, as_targets(masked))
    expected = less.inversion().posterior(start, as_targets(Y[:, kept]))
    torch.testing.assert_close(found.mean, expected.mean, rtol=1e-6, atol=1e-8)
    density = tiny.inversion().log_density(start, as_targets(masked), 20)
    torch.testing.assert_close(
        density, less.inversion().log_density(start, as_targets(Y[:, kept]), 20)
    )
