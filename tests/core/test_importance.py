"""The bounds with latent covariates: by loops, by quadrature over w, and one against the other."""

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
import torch
from oracles.latent import random_latent_stack
from oracles.likelihoods import expected_log_prob
from oracles.models import dense_gps, normal, random_likelihood, to_array
from oracles.sparse import layer_moments
from scipy.special import logsumexp
from torch import Tensor, nn

from skgp.core.data import Batch, Targets
from skgp.core.layers.posteriors import FullPosterior
from skgp.core.layers.projected import ProjectedGP
from skgp.core.layers.sparse import SparseGP
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.objectives.importance import latent_loss
from skgp.core.objectives.objective import ELBO, Objective, importance_weighted
from skgp.core.stacks.latent_stack import LatentStack
from skgp.core.stacks.row_posterior import Amortized, Free

Array = npt.NDArray[np.float64]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch_of(rng: np.random.Generator, n_rows: int, n_outputs: int = 1) -> Batch:
    targets = Targets(normal(rng, n_rows, n_outputs), None)
    return Batch(normal(rng, n_rows, 2), targets, None, torch.arange(n_rows))


def part_of(batch: Batch, rows: list[int]) -> Batch:
    y, mask = batch.targets
    targets = Targets(y[rows], None if mask is None else mask[rows])
    rest = (None if t is None else t[rows] for t in (batch.weight, batch.rows))
    return Batch(batch.x[rows], targets, *rest)


def bound(n_importance: int | None) -> Objective:
    """The importance-weighted bound, or the variational one."""
    return ELBO if n_importance is None else importance_weighted(n_importance)


@torch.no_grad()
def bounds(
    stack: LatentStack,
    likelihood: Gaussian,
    batch: Batch,
    n_importance: int | None,
    *,
    n_draws: int = 40,
    n_samples: int = 100,
    first: int = 0,
) -> Array:
    """Minus the loss without the global divergence, for each of some seeds."""
    return np.array(
        [
            -latent_loss(
                bound(n_importance), stack, likelihood, batch, seeded(first + seed),
                n_samples=n_samples, beta_reg=0.0, n_data=1.0,
            ).item()
            for seed in range(n_draws)
        ]
    )  # fmt: skip


def standard_error(values: Array) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


# ------------------------------------------------------------------ value


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("architecture", ["LV-GP", "LV-GP-GP", "GP-LV-GP"])
@pytest.mark.parametrize("n_importance", [None, 1, 3])
def test_loss_against_loops(
    rng: np.random.Generator, n_importance: int | None, architecture: str, masked: bool
) -> None:
    """Eqns 3, 4 and 11 at given draws, row weights, and (beta KL) / n; S = 2."""
    stack = random_latent_stack(rng, architecture, n_evidence=6, n_latents=2)
    likelihood = random_likelihood(rng, 2)
    batch = batch_of(rng, 4, 2)._replace(weight=torch.tensor([0.5, 2.0, 1.0, 0.7]).double())
    mask = None
    if masked:
        mask = torch.tensor([[1, 1], [0, 1], [1, 0], [1, 1]]).double()
        batch = batch._replace(targets=Targets(batch.targets.y * mask, mask))
    parts = bound(n_importance), stack, likelihood, batch, seeded()
    actual = latent_loss(*parts, n_samples=2, beta_reg=0.4, n_data=20.0)

    draws = {"n_samples": 2, "n_importance": n_importance or 1}
    draw = stack.draw(batch, stack.factors(), seeded(), **draws)
    noise, Y = to_array(likelihood.noise_var), to_array(batch.targets.y)
    shape = 2, n_importance or 1
    parts = [to_array(part.unflatten(0, shape)) for part in draw.latent]
    ratio = to_array(draw.log_ratio.unflatten(0, shape))
    fit = 0.0
    for b in range(4):
        values = np.zeros((2, n_importance or 1))
        for s, k in np.ndindex(*values.shape):
            for p in range(2):
                if mask is None or mask[b, p] == 1.0:
                    moments = (part[s, k, b, p] for part in parts)
                    values[s, k] += expected_log_prob(Y[b, p], *moments, noise[p])
        if n_importance is None:
            of_row = values.mean() - draw.local_kl[b].item()
        else:
            summed = [
                sum(math.exp(values[s, k] + ratio[s, k, b]) for k in range(n_importance))
                for s in range(2)
            ]
            of_row = np.mean([math.log(total / n_importance) for total in summed])
        assert batch.weight is not None
        fit += batch.weight[b].item() * of_row
    expected = -fit / 4.0 + 0.4 * stack.kl(stack.factors()).item() / 20.0
    np.testing.assert_allclose(actual.item(), expected, rtol=1e-9)


def quadrature_over_w(stack: LatentStack, likelihood: Gaussian, batch: Batch) -> Array:
    """log int exp(E_q(f) log p(y | f, w)) N(w; 0, 1) dw of each row, on 1601 points of +-8."""
    assert isinstance(stack.top, SparseGP)
    gps = dense_gps(stack.top)
    grid = np.linspace(-8.0, 8.0, 1601)
    noise = likelihood.noise_var.item()
    values = np.empty(len(batch.x))
    for b, x in enumerate(to_array(batch.x)):
        table = np.column_stack([np.tile(x, (len(grid), 1)), grid])
        f_mean, v_prior, v_q = (part[:, 0] for part in layer_moments(gps, table))
        log_prior = -0.5 * (grid**2 + math.log(2.0 * math.pi))
        residual = batch.targets.y[b].item() - f_mean
        term = -0.5 * (math.log(2.0 * math.pi * noise) + (residual**2 + v_prior + v_q) / noise)
        values[b] = logsumexp(term + log_prior) + math.log(grid[1] - grid[0])
    return values


def wavy_stack(rng: np.random.Generator, architecture: str) -> LatentStack:
    """f depends on w, q(u) is rather certain and q(w) is as wide as the prior, but elsewhere."""
    stack = random_latent_stack(rng, architecture)
    for module in stack.modules():
        if isinstance(module, Free):
            with torch.no_grad():
                module.log_std.fill_(0.0)
                module.mean.copy_(0.7 * torch.sign(module.mean))
        if isinstance(module, FullPosterior):
            with torch.no_grad():
                module.lower.mul_(0.3)
                module.log_diagonal.fill_(-1.5)
    return stack


def test_bound_rises_with_k_towards_quadrature_over_the_covariate(
    rng: np.random.Generator,
) -> None:
    """VI < K = 2 < 5 < 20 < the integral, each gap of more than 4 standard errors; K = 4000.

    The bias of K draws is about Var(weight) / 2K, less than 0.002 here at K = 4000.
    """
    stack, likelihood = wavy_stack(rng, "LV-GP"), random_likelihood(rng, 1)
    batch = batch_of(rng, 4)
    target = quadrature_over_w(stack, likelihood, batch).mean()
    ladder = [bounds(stack, likelihood, batch, k, first=1000 * k) for k in (1, 2, 5, 20)]
    means, errors = [v.mean() for v in ladder], [standard_error(v) for v in ladder]
    for lower in range(3):
        gap = math.hypot(errors[lower], errors[lower + 1])
        assert means[lower + 1] - means[lower] > 4.0 * gap
    assert target - means[-1] > 4.0 * errors[-1]
    assert target - means[0] > 0.1
    many = bounds(stack, likelihood, batch, 4000, n_samples=5)
    assert standard_error(many) < 0.002
    assert abs(many.mean() - target) < 4.0 * standard_error(many) + 0.002


def test_average_of_the_weights_is_the_integral_for_every_k(rng: np.random.Generator) -> None:
    """E 1 / K sum exp(t_k) p(w_k) / q(w_k) has no bias: one row and one sample of 1500 losses."""
    stack, likelihood = wavy_stack(rng, "LV-GP"), random_likelihood(rng, 1)
    batch = part_of(batch_of(rng, 4), [2])
    target = math.exp(quadrature_over_w(stack, likelihood, batch)[0])
    weights = np.exp(bounds(stack, likelihood, batch, 3, n_draws=1500, n_samples=1))
    assert standard_error(weights) < 0.05 * target
    assert abs(weights.mean() - target) < 4.0 * standard_error(weights)


@pytest.mark.parametrize("architecture", ["LV-GP-GP", "GP-LV-GP"])
def test_bound_of_a_deep_model_rises_with_k(rng: np.random.Generator, architecture: str) -> None:
    stack, likelihood = wavy_stack(rng, architecture), random_likelihood(rng, 1)
    batch = batch_of(rng, 4)
    ladder = [bounds(stack, likelihood, batch, k, first=1000 * k) for k in (1, 2, 5, 20)]
    for lower, upper in pairwise(ladder):
        gap = math.hypot(standard_error(lower), standard_error(upper))
        assert upper.mean() - lower.mean() > 4.0 * gap


@pytest.mark.parametrize("architecture", ["LV-GP", "LV-GP-GP"])
def test_one_importance_sample_is_the_variational_bound_on_average(
    rng: np.random.Generator, architecture: str
) -> None:
    """With draws of its own for each; within 4 standard errors."""
    stack, likelihood = random_latent_stack(rng, architecture), random_likelihood(rng, 1)
    batch = batch_of(rng, 4)
    one = bounds(stack, likelihood, batch, 1)
    vi = bounds(stack, likelihood, batch, None, first=500)
    error = math.hypot(standard_error(one), standard_error(vi))
    assert error < 0.02 * abs(vi.mean())
    assert abs(one.mean() - vi.mean()) < 4.0 * error


# ------------------------------------------------------------------ batches, weights, outputs


def settled_stack(rng: np.random.Generator, n_importance: int | None) -> LatentStack:
    """LV-GP-GP without chance: the hidden functions hardly vary, and w is certain.

    With importance weights log q(w) varies by epsilon^2 all the same, so that q(w) is the prior and
    no kernel sees w.
    """
    stack = random_latent_stack(rng, "LV-GP-GP")
    covariates, hidden = stack.hidden
    assert isinstance(hidden, ProjectedGP)
    with torch.no_grad():
        hidden.layer.kernel.log_variance.fill_(-60.0)
        if n_importance is None:
            covariates.posterior.log_std.fill_(-30.0)
            return stack
        covariates.posterior.log_std.zero_()
        covariates.posterior.mean.zero_()
        for layer in (hidden.layer, stack.top):
            layer.kernel.log_lengthscale[:, -1] = 40.0
    return stack


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("n_importance", [None, 3])
def test_losses_of_batches_average_to_the_loss_of_the_table(
    rng: np.random.Generator, n_importance: int | None, weighted: bool
) -> None:
    """Two batches of three rows, in any order: local terms by the row, one divergence of q(u)."""
    stack, likelihood = settled_stack(rng, n_importance), random_likelihood(rng, 1)
    batch = batch_of(rng, 6)
    if weighted:
        batch = batch._replace(weight=torch.tensor([0.3, 2.0, 1.0, 0.7, 1.5, 0.5]).double())
    settings = {"n_samples": 2, "beta_reg": 0.6, "n_data": 6.0}

    def value(rows: list[int], seed: int) -> float:
        part = part_of(batch, rows)
        return latent_loss(
            bound(n_importance), stack, likelihood, part, seeded(seed), **settings
        ).item()

    whole = value(list(range(6)), 0)
    parts = [value([4, 0, 3], 1), value([1, 5, 2], 2)]
    assert abs(parts[0] - parts[1]) > 0.1
    np.testing.assert_allclose(np.mean(parts), whole, rtol=1e-9)


@pytest.mark.parametrize("n_importance", [None, 2])
def test_row_weights_multiply_the_terms_of_the_row(
    rng: np.random.Generator, n_importance: int | None
) -> None:
    """Its divergence of w among them: a row of weight two is the row twice."""
    stack, likelihood = settled_stack(rng, n_importance), random_likelihood(rng, 1)
    batch = batch_of(rng, 2)
    weighted = batch._replace(weight=torch.tensor([2.0, 1.0]).double())
    repeated = part_of(batch, [0, 0, 1])
    one, other = (
        latent_loss(
            bound(n_importance), stack, likelihood, b, seeded(),
            n_samples=1, beta_reg=0.0, n_data=3.0,
        ).item()
        for b in (weighted, repeated)
    )  # fmt: skip
    np.testing.assert_allclose(2.0 * one, 3.0 * other, rtol=1e-9)


def test_divergence_of_the_inducing_variables_is_divided_by_the_rows(
    rng: np.random.Generator,
) -> None:
    stack, likelihood = random_latent_stack(rng, "LV-GP-GP"), random_likelihood(rng, 1)
    batch = batch_of(rng, 3)

    def value(beta_reg: float, n_data: float) -> float:
        parts = bound(3), stack, likelihood, batch, seeded()
        return latent_loss(*parts, n_samples=1, beta_reg=beta_reg, n_data=n_data).item()

    kl = stack.kl(stack.factors()).item()
    np.testing.assert_allclose(value(0.5, 9.0) - value(0.0, 9.0), 0.5 * kl / 9.0, rtol=1e-9)
    np.testing.assert_allclose(value(1.0, 5.0) - value(1.0, 50.0), 0.18 * kl, rtol=1e-9)


@pytest.mark.parametrize("n_importance", [None, 4])
def test_masking_an_output_is_dropping_it(
    rng: np.random.Generator, n_importance: int | None
) -> None:
    """Two latent functions for three outputs; covariates with parameters of their own."""
    stack = random_latent_stack(rng, "LV-GP-GP", n_latents=2)
    mixing = normal(rng, 3, 2)
    likelihood = random_likelihood(rng, 3, mixing)
    batch = batch_of(rng, 3, 3)
    settings = {"n_samples": 2, "beta_reg": 0.6, "n_data": 6.0}
    for kept in ([0, 2], [1], [0, 1]):
        mask = torch.zeros(3, 3).double()
        mask[:, kept] = 1.0
        y = batch.targets.y
        masked = batch._replace(targets=Targets(y * mask, mask))
        dropped = batch._replace(targets=Targets(y[:, kept], None))
        alone = Gaussian(len(kept), 0.3, 1e-4, mixing[kept]).double()
        with torch.no_grad():
            alone.log_excess_noise.copy_(likelihood.log_excess_noise[kept])
        actual = latent_loss(bound(n_importance), stack, likelihood, masked, seeded(), **settings)
        expected = latent_loss(bound(n_importance), stack, alone, dropped, seeded(), **settings)
        np.testing.assert_allclose(actual.item(), expected.item(), rtol=0, atol=1e-12)


def test_a_row_without_targets_leaves_the_prior_of_its_covariates(
    rng: np.random.Generator,
) -> None:
    """It adds -KL(q(w)) to the variational bound and nothing else."""
    stack, likelihood = random_latent_stack(rng, "LV-GP"), random_likelihood(rng, 1)
    batch = part_of(batch_of(rng, 3), [1])
    batch = batch._replace(targets=Targets(torch.zeros(1, 1).double(), torch.zeros(1, 1).double()))
    value = bounds(stack, likelihood, batch, None, n_draws=1)[0]
    (covariates,) = stack.hidden
    expected = -covariates.posterior(batch.x, batch.rows).kl().item()
    np.testing.assert_allclose(value, expected, rtol=1e-12)


# ------------------------------------------------------------------ gradient


class WholeLoss(nn.Module):
    """The loss as a function of all parameters, at the draws of one seed."""

    def __init__(
        self, stack: LatentStack, likelihood: Gaussian, batch: Batch, n_importance: int | None
    ) -> None:
        super().__init__()
        self.stack, self.likelihood = stack, likelihood
        self.batch, self.objective = batch, bound(n_importance)

    def forward(self) -> Tensor:
        parts = self.objective, self.stack, self.likelihood, self.batch, seeded(4)
        return latent_loss(*parts, n_samples=2, beta_reg=0.4, n_data=20.0)


@pytest.mark.parametrize("n_evidence", [None, 4], ids=["free", "amortized"])
@pytest.mark.parametrize("n_importance", [None, 3])
def test_gradient_of_the_whole_loss(
    rng: np.random.Generator, n_importance: int | None, n_evidence: int | None
) -> None:
    """Finite differences in each parameter: kernels, inducing inputs, q(u), q(w), means, noise."""
    stack = random_latent_stack(rng, "LV-GP-GP", n_evidence=n_evidence, n_inducing=3)
    batch = batch_of(rng, 3)._replace(weight=torch.tensor([0.5, 2.0, 1.0]).double())
    module = WholeLoss(stack, random_likelihood(rng, 1), batch, n_importance)
    parameters = dict(module.named_parameters())
    assert any("posterior.log_std" in name for name in parameters) == (n_evidence is None)
    kind = Free if n_evidence is None else Amortized
    assert any(isinstance(m, kind) for m in module.modules())

    def value(*values: Tensor) -> Tensor:
        pairs = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(module, pairs, ())

    inputs = [p.detach().clone().requires_grad_() for p in parameters.values()]
    assert torch.autograd.gradcheck(value, inputs, eps=1e-6, atol=1e-6, rtol=1e-4)
