"""Natural-gradient steps: where they end, what their gradients are, when they stay normal."""

from typing import Any

import numpy as np
import pytest
import torch
from oracles.models import dense_gps, normal, random_layer, random_likelihood, to_array
from oracles.sparse import DenseGP, moments, optimal_posterior, prior_covariance
from torch import Tensor

from skgp.core.data import Batch, Targets
from skgp.core.layers.divergences import kullback_leibler
from skgp.core.layers.posteriors import FullPosterior, NaturalPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.nodes.rules import trivial
from skgp.core.objectives.objective import ELBO, VFITC, Objective, loss
from skgp.core.stacks.stack import GPStack
from skgp.core.training.optimizers import Closure, NaturalGradient, Optimizer
from skgp.fitting.model import Layers, Model
from skgp.recipes.losses import DivergenceWeight
from skgp.recipes.optimizers import natural_gradients

Array = np.ndarray
OBJECTIVES = {"elbo": ELBO, "vfitc": VFITC}


class Nothing(Optimizer):
    """Leaves everything else as it is."""

    def step(self, closure: Closure, rate: float) -> float:
        return closure().item()

    def shorten(self, factor: float) -> None:
        self.shortened = factor

    def state_dict(self) -> dict[str, Any]:
        return {"steps": 7}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loaded = state


def random_natural(rng: np.random.Generator, n_gps: int = 2, n: int = 5) -> NaturalPosterior:
    posterior = NaturalPosterior(torch.zeros(n_gps, n).double(), 0.5)
    B = normal(rng, n_gps, n, n)
    posterior.start(normal(rng, n_gps, n), B @ B.mT + torch.eye(n).double())
    return posterior


class Problem:
    """Two GPs with fixed hyper-parameters, 30 rows, and what is optimal for them."""

    def __init__(self, rng: np.random.Generator, objective: Objective, beta_reg: float) -> None:
        twin = random_layer(rng, jitter=1e-6)
        self.posterior = random_natural(rng)
        self.layer = SparseGP(twin.kernel, twin.Z.detach().clone(), self.posterior, twin.jitter)
        self.layer.mean = twin.mean
        self.likelihood: Gaussian = random_likelihood(rng, 2)
        self.x, self.y = normal(rng, 30, 3), normal(rng, 30, 2)
        self.dense = dense_gps(twin)
        self.objective, self.beta_reg = objective, beta_reg

    def loss(self, rows: Tensor) -> Tensor:
        batch = Batch(self.x[rows], Targets(self.y[rows], None), None)
        nodes = trivial(self.likelihood.noise_var)
        stack = GPStack([self.layer])
        return loss(
            self.objective, stack, self.likelihood, nodes, batch, beta_reg=self.beta_reg, n_data=30
        )

    def step(self, learning_rate: float, rows: Tensor | None = None) -> float:
        rows = torch.arange(30) if rows is None else rows
        optimizer = NaturalGradient([self.posterior], learning_rate, 30, Nothing())

        def closure() -> Tensor:
            self.posterior.zero_grad()
            value = self.loss(rows)
            value.backward()
            return value

        return optimizer.step(closure, 1.0)

    def optimum(self) -> list[tuple[Array, Array]]:
        """Whitened mean and covariance of each GP at the maximum of the objective.

        The divergence's weight beta multiplies the noise of the closed form of beta = 1, but for
        the prior's own precision, which stays: S_beta = (K^-1 + sum a a^T / (beta noise))^-1.
        """
        optima = []
        noise_var = to_array(self.likelihood.noise_var)
        for w, gp in enumerate(self.dense):
            noise = np.full(30, noise_var[w])
            if self.objective is VFITC:
                noise = noise + moments(gp, to_array(self.x)).v_prior
            m, S = optimal_posterior(
                gp, to_array(self.x), to_array(self.y[:, w]), noise * self.beta_reg
            )
            optima.append(_whiten(gp, m, S))
        return optima


def _whiten(gp: DenseGP, m: Array, S: Array) -> tuple[Array, Array]:
    L_inv = np.linalg.inv(np.linalg.cholesky(prior_covariance(gp)))
    return L_inv @ (m - gp.c), L_inv @ S @ L_inv.T


def covariance(posterior: NaturalPosterior) -> Array:
    root = to_array(posterior.moments()[1])
    return root @ root.transpose(0, 2, 1)


# ---------------------------------------------------------------------- steps


@pytest.mark.parametrize("name", list(OBJECTIVES))
@pytest.mark.parametrize("beta_reg", [1.0, 2.5])
def test_one_step_on_all_rows_ends_at_the_optimum(
    rng: np.random.Generator, name: str, beta_reg: float
) -> None:
    """Whatever q(u) was before: Titsias' optimum, with a noise of its own per row for VFITC."""
    problem = Problem(rng, OBJECTIVES[name], beta_reg)
    before = problem.loss(torch.arange(30)).item()
    assert problem.step(1.0 / beta_reg) == before
    for w, (m, S) in enumerate(problem.optimum()):
        np.testing.assert_allclose(
            to_array(problem.posterior.moments()[0][w]), m, rtol=0, atol=1e-8
        )
        np.testing.assert_allclose(covariance(problem.posterior)[w], S, rtol=0, atol=1e-8)
    best = problem.loss(torch.arange(30)).item()
    assert best < before - 0.1
    for parameter in problem.posterior.parameters():
        assert parameter.grad is not None
    problem.step(0.0)
    # Where the objective is greatest its gradient vanishes.
    for parameter in problem.posterior.parameters():
        np.testing.assert_allclose(to_array(parameter.grad), 0.0, rtol=0, atol=1e-8)


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
def test_a_step_mixes_the_natural_parameters(rng: np.random.Generator, rho: float) -> None:
    """theta <- (1 - rho) theta + rho theta*, for both natural parameters."""
    problem = Problem(rng, ELBO, 1.0)
    theta, precision = (to_array(p) for p in problem.posterior.parameters())
    problem.step(rho)
    for w, (m, S) in enumerate(problem.optimum()):
        P = np.linalg.inv(S)
        np.testing.assert_allclose(
            to_array(problem.posterior.theta[w]), (1 - rho) * theta[w] + rho * P @ m, rtol=1e-7
        )
        np.testing.assert_allclose(
            to_array(problem.posterior.precision[w]),
            (1 - rho) * precision[w] + rho * P,
            rtol=0,
            atol=1e-6 * np.abs(P).max(),
        )


def test_steps_of_mixed_functions_end_at_the_mean_of_their_joint_posterior(
    rng: np.random.Generator,
) -> None:
    """Eight functions that three outputs tie together: steps of 0.5 for all at once diverge."""
    twin = random_layer(rng, n_gps=8)
    twin.Z.data.copy_(twin.Z[:1].expand_as(twin.Z))
    likelihood = random_likelihood(rng, 3, 1.0 + 0.1 * normal(rng, 3, 8))
    with torch.no_grad():
        likelihood.log_excess_noise.add_(3.0)
    x, y = normal(rng, 30, 3), normal(rng, 30, 3)
    posterior = random_natural(rng, 8)
    layer = SparseGP(twin.kernel, twin.Z.detach().clone(), posterior, twin.jitter)
    layer.mean = twin.mean
    model = Model(Layers(GPStack([layer])), likelihood)
    batch = Batch(x, Targets(y, None), None)
    M, noise = to_array(likelihood.mixing), to_array(likelihood.noise_var)
    root = M / np.sqrt(noise)[:, None]
    scaled = root / np.sqrt((root**2).sum(0))
    assert likelihood.coupling() == pytest.approx(np.linalg.eigvalsh(scaled.T @ scaled)[-1])
    assert likelihood.coupling() > 4.0  # so that steps of a half diverge

    def closure() -> Tensor:
        model.zero_grad()
        nodes = trivial(likelihood.noise_var)
        value = loss(ELBO, model.stack, likelihood, nodes, batch, beta_reg=1.0, n_data=30)
        value.backward()
        return value.detach()

    optimizer = natural_gradients(0.0, 0.5, DivergenceWeight(1.0), model, 30, 1)
    for _ in range(1000):
        optimizer.step(closure, 1.0)
    # Of normal variables the mean of independent factors is the joint one: a ridge regression.
    gps = dense_gps(twin)
    blocks = []
    for w, gp in enumerate(gps):
        A = np.linalg.solve(np.linalg.cholesky(prior_covariance(gp)), gp.k(gp.Z, to_array(x)))
        blocks.append(np.einsum("p,mn->npm", root[:, w], A))
    design = np.concatenate(blocks, -1).reshape(90, 40)
    target = ((to_array(y) - M @ np.array([gp.c for gp in gps])) / np.sqrt(noise)).reshape(90)
    mean = np.linalg.solve(design.T @ design + np.eye(40), design.T @ target)
    np.testing.assert_allclose(to_array(posterior.moments()[0]).ravel(), mean, rtol=0, atol=1e-4)


def test_the_rate_of_the_schedule_scales_the_step(rng: np.random.Generator) -> None:
    posterior = random_natural(rng)
    before = [to_array(p) for p in posterior.parameters()]
    others = Nothing()
    optimizer = NaturalGradient([posterior], 0.4, 50.0, others)

    # Against the second one the precision grows, so that the step is taken.
    gradients = torch.ones(2, 5).double(), -torch.ones(2, 5, 5).double()

    def closure() -> Tensor:
        posterior.theta.grad, posterior.precision.grad = gradients
        return torch.tensor(3.0)

    assert optimizer.step(closure, 0.25) == 3.0
    for p, old, gradient in zip(posterior.parameters(), before, gradients, strict=True):
        desired = old - 0.4 * 0.25 * 50.0 * to_array(gradient)
        np.testing.assert_allclose(to_array(p), desired, rtol=1e-12)
    optimizer.shorten(0.5)  # both its own steps and those of the others
    posterior.theta.data, posterior.precision.data = (torch.tensor(p) for p in before)
    assert optimizer.step(closure, 0.25) == 3.0
    for p, old, gradient in zip(posterior.parameters(), before, gradients, strict=True):
        desired = old - 0.5 * 0.4 * 0.25 * 50.0 * to_array(gradient)
        np.testing.assert_allclose(to_array(p), desired, rtol=1e-12)
    assert others.shortened == 0.5
    assert optimizer.state_dict() == {"steps": 7}
    optimizer.load_state_dict({"steps": 9})
    assert others.loaded == {"steps": 9}
    assert not optimizer.is_converged


@pytest.mark.parametrize("name", list(OBJECTIVES))
@pytest.mark.parametrize("rho", [0.5, 1.0])
def test_precision_stays_above_that_of_the_prior(
    rng: np.random.Generator, name: str, rho: float
) -> None:
    """Each batch's optimum is I + something positive, and a step mixes with weights in [0, 1]."""
    problem = Problem(rng, OBJECTIVES[name], 1.0)
    least = []
    for _ in range(30):
        problem.step(rho, torch.from_numpy(rng.permutation(30)[:3]))
        least.append(np.linalg.eigvalsh(to_array(problem.posterior.precision)).min())
    assert min(least) > 1.0 - 1e-9


def test_float32_follows_float64(rng: np.random.Generator) -> None:
    ends = []
    for dtype in (torch.float64, torch.float32):
        problem = Problem(np.random.default_rng(3), ELBO, 1.0)
        for module in (problem.layer, problem.likelihood):
            module.to(dtype)
        problem.x, problem.y = problem.x.to(dtype), problem.y.to(dtype)
        for _ in range(3):
            problem.step(0.5)
        assert problem.posterior.precision.dtype == dtype
        ends.append([to_array(m) for m in problem.posterior.moments()])
    np.testing.assert_allclose(ends[1][0], ends[0][0], rtol=0, atol=1e-3)
    np.testing.assert_allclose(ends[1][1], ends[0][1], rtol=0, atol=1e-3)


# ------------------------------------------------------------------- posterior


def test_gradients_are_those_in_the_expectation_parameters(rng: np.random.Generator) -> None:
    """Finite differences of F(m, S) in eta = (m, S + m m^T): theta gets dF/d eta_1, and the
    precision -2 dF/d eta_2, because -P / 2 is the natural parameter."""
    posterior = random_natural(rng, n_gps=1, n=3)
    c, B, T = normal(rng, 3), normal(rng, 3, 3), normal(rng, 3, 3)
    B = B + B.mT

    def value(m: Tensor, S: Tensor) -> Tensor:
        """Neither quadratic in m nor linear in S, and no function of m and S apart."""
        return (c * m.sin()).sum() + torch.trace(B @ S @ B @ S) + (m @ S @ m) * (T @ m).sum()

    mu, root = posterior.moments()
    value(mu[0], root[0] @ root[0].mT).backward()
    m, S = mu[0].detach(), (root[0] @ root[0].mT).detach()
    eta = m, S + torch.outer(m, m)

    def at(first: Tensor, second: Tensor) -> float:
        return value(first, second - torch.outer(first, first)).item()

    step = 1e-6
    for i in range(3):
        e = step * torch.eye(3).double()[i]
        slope = (at(eta[0] + e, eta[1]) - at(eta[0] - e, eta[1])) / (2 * step)
        np.testing.assert_allclose(posterior.theta.grad[0, i].item(), slope, rtol=1e-6, atol=1e-7)
        for j in range(3):
            # Both entries of a symmetric matrix move, so each carries half of the slope.
            E = torch.zeros(3, 3).double()
            E[i, j] += 0.5 * step
            E[j, i] += 0.5 * step
            slope = (at(eta[0], eta[1] + E) - at(eta[0], eta[1] - E)) / (2 * step)
            np.testing.assert_allclose(
                posterior.precision.grad[0, i, j].item(), -2.0 * slope, rtol=1e-6, atol=1e-7
            )


def test_moments_and_divergence_equal_those_of_the_full_posterior(rng: np.random.Generator) -> None:
    """Two parametrisations of N(P^-1 theta, P^-1)."""
    natural = random_natural(rng, n_gps=3, n=4)
    theta, precision = natural.theta.detach(), natural.precision.detach()
    full = FullPosterior(torch.zeros(3, 4).double(), 1.0)
    full.start(theta, precision)
    root = full.moments()[1]
    np.testing.assert_allclose(covariance(natural), to_array(root @ root.mT), rtol=0, atol=1e-10)
    for w in range(3):
        P = to_array(precision[w])
        np.testing.assert_allclose(covariance(natural)[w], np.linalg.inv(P), rtol=0, atol=1e-10)
        m = np.linalg.solve(P, to_array(theta[w]))
        np.testing.assert_allclose(to_array(natural.moments()[0][w]), m, rtol=0, atol=1e-10)
        np.testing.assert_allclose(to_array(full.moments()[0][w]), m, rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        kullback_leibler(*natural.moments()).item(),
        kullback_leibler(*full.moments()).item(),
        rtol=1e-11,
    )


def test_initial_natural_posterior_is_its_mean_and_variance(rng: np.random.Generator) -> None:
    mu = normal(rng, 2, 3)
    posterior = NaturalPosterior(mu, 0.25)
    np.testing.assert_allclose(to_array(posterior.moments()[0]), mu.numpy(), rtol=1e-10)
    np.testing.assert_allclose(
        covariance(posterior), np.broadcast_to(0.25 * np.eye(3), (2, 3, 3)), rtol=0, atol=1e-10
    )


def test_natural_square_root_is_triangular_with_a_positive_diagonal(
    rng: np.random.Generator,
) -> None:
    """The log-determinant of the divergence is read off its diagonal."""
    root = to_array(random_natural(rng).moments()[1])
    assert np.all(np.triu(root, 1) == 0.0)
    assert np.all(root.diagonal(axis1=1, axis2=2) > 0.0)
