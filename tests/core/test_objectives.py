"""The loss against nested loops, its limits against closed forms, its gradient against autograd."""

import math
from collections.abc import Callable

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.priors import GammaPrior
from oracles import autograd, exact
from oracles import likelihoods as oracle
from oracles import objectives as naive
from oracles.models import (
    COVARIANCES,
    dense_bases,
    dense_gps,
    normal,
    random_decoupled,
    random_layer,
    random_likelihood,
    random_posterior,
    set_posterior,
    to_array,
)
from oracles.sparse import (
    Moments,
    kl,
    layer_moments,
    moments,
    nystrom,
    optimal_posterior,
    prior_covariance,
)
from scipy import stats

from skgp.core.data import Batch, Targets
from skgp.core.kernels.gpytorch_kernel import GPyTorchKernel
from skgp.core.layers.layer import Latent
from skgp.core.layers.posteriors import Covariance
from skgp.core.layers.sparse import SparseGP
from skgp.core.layers.two_bases import DecoupledGP
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.nodes.rules import Nodes, trivial
from skgp.core.objectives.objective import (
    ELBO,
    PREDICTIVE,
    VFITC,
    Objective,
    average,
    gamma_robust,
    log_average_exp,
    loss,
)
from skgp.core.stacks.stack import GPStack

GAMMA = 1.05
ROWS: list[tuple[Objective, naive.Term, Callable[[np.ndarray, np.ndarray], float]]] = [
    (ELBO, oracle.expected_log_prob, naive.average),
    (PREDICTIVE, oracle.log_marginal, naive.log_average_exp),
    (VFITC, oracle.vfitc_bound, naive.average),
    (
        gamma_robust(GAMMA),
        lambda *args: oracle.gamma_expectation(*args, GAMMA),
        naive.average,
    ),
]
IDS = ["elbo", "predictive", "vfitc", "gamma"]


def total_loss(
    objective: Objective,
    layer: SparseGP | DecoupledGP,
    likelihood: Gaussian,
    x: torch.Tensor,
    y: torch.Tensor,
) -> torch.Tensor:
    """The loss of all rows, in nats and not per row: minus the bound."""
    batch = Batch(x, Targets(y, None), None)
    n = float(len(x))
    stack = GPStack([layer])
    return n * loss(objective, stack, likelihood, trivial(x), batch, beta_reg=1.0, n_data=n)


@pytest.mark.parametrize(("objective", "term", "reduce"), ROWS, ids=IDS)
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("masked", [False, True], ids=["complete", "masked"])
def test_two_layer_loss_against_nested_loops(
    rng: np.random.Generator,
    objective: Objective,
    term: naive.Term,
    reduce: Callable[[np.ndarray, np.ndarray], float],
    weighted: bool,
    masked: bool,
) -> None:
    """-(1/B) sum_b weight_b reduce_q(t_qb) + beta_reg KL / n_data with three nodes."""
    hidden = random_layer(rng, "diagonal", n_gps=3, n_inducing=4)
    top = random_layer(rng, "full", n_gps=2, n_inducing=4)
    likelihood = random_likelihood(rng, 2)
    x, y, xi = normal(rng, 4, 3), normal(rng, 4, 2), normal(rng, 3, 1, 3)
    omega = np.array([0.5, 0.3, 0.2])
    mask = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]) if masked else None
    weight = np.array([0.5, 2.0, 1.0, 0.7]) if weighted else None
    value = loss(
        objective,
        GPStack([hidden, top]),
        likelihood,
        Nodes((xi,), torch.from_numpy(omega).log()),
        Batch(
            x,
            Targets(y, None if mask is None else torch.from_numpy(mask)),
            None if weight is None else torch.from_numpy(weight),
        ),
        beta_reg=0.3,
        n_data=50.0,
    )

    below = layer_moments(dense_gps(hidden), to_array(x))
    deviation = np.sqrt(below.v_prior + below.v_q)
    per_node = [
        layer_moments(dense_gps(top), below.f_mean + deviation * to_array(xi[q])) for q in range(3)
    ]
    latent = Moments(*(np.stack(parts) for parts in zip(*per_node, strict=True)))
    noise = to_array(likelihood.noise_var)
    expected = naive.loss(
        naive.terms(term, latent, to_array(y), mask, noise),
        omega,
        reduce,
        weight=weight,
        kl=sum(kl(gp) for layer in (hidden, top) for gp in dense_gps(layer)),
        log_prior=0.0,
        beta_reg=0.3,
        n_data=50.0,
    )
    np.testing.assert_allclose(value.item(), expected, rtol=0, atol=1e-8)


def test_loss_counts_the_log_prior_once_whatever_beta_reg(rng: np.random.Generator) -> None:
    """Priors of hyper-parameters enter with weight 1 / n_data, not beta_reg / n_data."""
    base = gpytorch.kernels.RBFKernel(lengthscale_prior=GammaPrior(3.0, 6.0)).double()
    base.lengthscale = 0.9
    layer = SparseGP(
        GPyTorchKernel(base, 2), normal(rng, 2, 4, 3), random_posterior(rng, "full", 2, 4), 1e-6
    ).double()
    plain = GPStack([layer])
    likelihood = random_likelihood(rng, 2)
    x = normal(rng, 5, 3)
    batch = Batch(x, Targets(normal(rng, 5, 2), None), None)
    values = [
        loss(ELBO, plain, likelihood, trivial(x), batch, beta_reg=beta, n_data=n).item()
        for beta, n in ((0.0, 10.0), (0.5, 10.0), (0.0, 1e300))
    ]
    prior = 2.0 * stats.gamma(3.0, scale=1.0 / 6.0).logpdf(0.9)
    np.testing.assert_allclose(values[0] - values[2], -prior / 10.0, rtol=1e-6)
    np.testing.assert_allclose(
        values[1] - values[0], 0.05 * plain.kl(plain.factors()).item(), rtol=1e-10
    )


@pytest.mark.parametrize("reduce", [average, log_average_exp])
def test_reductions_against_loops(
    rng: np.random.Generator, reduce: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> None:
    values, omega = rng.normal(size=(4, 6)), rng.dirichlet(np.ones(4))
    loop = {average: naive.average, log_average_exp: naive.log_average_exp}[reduce]
    actual = reduce(torch.from_numpy(values), torch.from_numpy(np.log(omega)))
    expected = [loop(values[:, b], omega) for b in range(6)]
    np.testing.assert_allclose(actual.numpy(), expected, rtol=0, atol=1e-14)


def test_log_average_exp_survives_densities_that_underflow() -> None:
    """log(0.25 e^-2000 + 0.75 e^-2001) = -2000 + log(0.25 + 0.75 / e)."""
    values = torch.tensor([[-2000.0], [-2001.0]], dtype=torch.float64)
    omega = torch.tensor([0.25, 0.75], dtype=torch.float64)
    expected = -2000.0 + math.log(0.25 + 0.75 / math.e)
    np.testing.assert_allclose(log_average_exp(values, omega.log()).item(), expected, rtol=1e-15)


def test_averaging_logs_never_exceeds_the_log_of_the_average(rng: np.random.Generator) -> None:
    """Jensen, with equality where all nodes agree."""
    values, omega = rng.normal(size=(5, 8)), rng.dirichlet(np.ones(5))
    t, log_omega = torch.from_numpy(values), torch.from_numpy(np.log(omega))
    assert torch.all(average(t, log_omega) < log_average_exp(t, log_omega))
    same = t[:1].expand(5, 8)
    np.testing.assert_allclose(
        average(same, log_omega).numpy(), log_average_exp(same, log_omega).numpy(), rtol=1e-13
    )


def test_predictive_and_vfitc_are_the_elbo_where_the_latent_variance_is_zero(
    rng: np.random.Generator,
) -> None:
    likelihood = random_likelihood(rng, 2)
    f, zero = normal(rng, 1, 5, 2), torch.zeros(1, 5, 2, dtype=torch.float64)
    latent, targets = Latent(f, zero, zero), Targets(normal(rng, 5, 2), None)
    elbo = to_array(ELBO.term(likelihood, latent, targets))
    for objective in (PREDICTIVE, VFITC):
        value = to_array(objective.term(likelihood, latent, targets))
        np.testing.assert_allclose(value, elbo, rtol=1e-14)


def test_predictive_bounds_vfitc_which_bounds_the_elbo(rng: np.random.Generator) -> None:
    """Jensen twice: integrating less of f inside the logarithm lowers the objective."""
    layer, likelihood = random_layer(rng, "full", n_gps=1), random_likelihood(rng, 1)
    x, y = normal(rng, 6, 3), normal(rng, 6, 1)
    predictive, vfitc, elbo = (
        total_loss(objective, layer, likelihood, x, y).item()
        for objective in (PREDICTIVE, VFITC, ELBO)
    )
    assert predictive < vfitc < elbo


def test_gamma_to_one_is_the_elbo(rng: np.random.Generator) -> None:
    layer, likelihood = random_layer(rng, "full", n_gps=1), random_likelihood(rng, 1)
    x, y = normal(rng, 6, 3), normal(rng, 6, 1)
    elbo = total_loss(ELBO, layer, likelihood, x, y).item()
    gaps = [
        total_loss(gamma_robust(1.0 + step), layer, likelihood, x, y).item() - elbo
        for step in (1e-4, 1e-5)
    ]
    assert abs(gaps[0]) < 1e-1
    np.testing.assert_allclose(gaps[1], 0.1 * gaps[0], rtol=1e-2)


def test_map_is_equation_three_with_the_density_of_the_whitened_point(
    rng: np.random.Generator,
) -> None:
    """sum_i [log N(y_i; k_i^T K^-1 u, s2) - Ktilde_ii / (2 s2)] + log p(u) + log|K| / 2.

    The last term makes log p(u) that of v = Luu^-1 u, in which the point is sought.
    """
    layer = random_layer(rng, "delta", n_gps=1, name="matern32")
    likelihood = random_likelihood(rng, 1)
    x, y = normal(rng, 6, 3), normal(rng, 6, 1)
    value = -total_loss(ELBO, layer, likelihood, x, y).item()
    (gp,) = dense_gps(layer)
    K, s2 = prior_covariance(gp), likelihood.noise_var.item()
    K_inv = np.linalg.inv(K)
    expected = 0.0
    for i in range(6):
        point = to_array(x[i : i + 1])
        k = gp.k(gp.Z, point)[:, 0]
        f = gp.c + k @ K_inv @ (gp.m - gp.c)
        expected += oracle.log_normal(y[i].item(), f, s2)
        expected -= 0.5 * (gp.k(point, point)[0, 0] - k @ K_inv @ k) / s2
    d = gp.m - gp.c
    log_det = np.linalg.slogdet(K)[1]
    expected += -0.5 * (d @ K_inv @ d + len(d) * math.log(2.0 * math.pi) + log_det)
    np.testing.assert_allclose(value, expected + 0.5 * log_det, rtol=0, atol=1e-8)


def test_predictive_of_a_point_is_ppgpr_delta(rng: np.random.Generator) -> None:
    """sum_i log N(y_i; mean, Ktilde_ii + s2) + beta_reg log p(v) (PPGPR paper, footnote 9)."""
    layer = random_layer(rng, "delta", n_gps=1, name="matern32")
    likelihood = random_likelihood(rng, 1)
    x, y = normal(rng, 6, 3), normal(rng, 6, 1)
    batch = Batch(x, Targets(y, None), None)
    stack = GPStack([layer])
    value = loss(PREDICTIVE, stack, likelihood, trivial(x), batch, beta_reg=0.2, n_data=6.0)
    (gp,) = dense_gps(layer)
    latent = moments(gp, to_array(x))
    s2 = likelihood.noise_var.item()
    expected = 0.2 * stats.norm.logpdf(to_array(layer.posterior.mu)).sum()
    for i in range(6):
        expected += oracle.log_normal(y[i].item(), latent.f_mean[i], latent.v_prior[i] + s2)
    np.testing.assert_allclose(-6.0 * value.item(), expected, rtol=0, atol=1e-9)


def test_decoupled_predictive_against_loops(rng: np.random.Generator) -> None:
    """PPGPR-MFD: KL = -log N(m; 0, I) + KL(N(0, S) || N(0, I)) in the whitened variables."""
    layer, likelihood = random_decoupled(rng, n_gps=1), random_likelihood(rng, 1)
    x, y = normal(rng, 6, 3), normal(rng, 6, 1)
    for_mean, for_variance = (gps[0] for gps in dense_bases(layer))
    f_mean = moments(for_mean, to_array(x)).f_mean
    variance = moments(for_variance, to_array(x))
    s2 = likelihood.noise_var.item()
    expected = stats.norm.logpdf(to_array(layer.mean_posterior.mu)).sum()
    expected -= kl(for_variance)
    for i in range(6):
        total = variance.v_prior[i] + variance.v_q[i] + s2
        expected += oracle.log_normal(y[i].item(), f_mean[i], total)
    value = -total_loss(PREDICTIVE, layer, likelihood, x, y).item()
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-8)


def optimised(
    rng: np.random.Generator, at_data: bool, fitc: bool
) -> tuple[SparseGP, Gaussian, torch.Tensor, torch.Tensor]:
    """A model with the optimal q(u) for its data, at Z = X or elsewhere."""
    jitter = 1e-13 if at_data else 1e-6
    layer = random_layer(rng, "full", name="matern32", n_gps=1, n_inducing=8, jitter=jitter)
    likelihood = random_likelihood(rng, 1)
    x = layer.Z[0].detach().clone() if at_data else normal(rng, 12, 3)
    y = normal(rng, len(x), 1)
    (gp,) = dense_gps(layer)
    noise = np.full(len(x), likelihood.noise_var.item())
    if fitc:
        noise += moments(gp, to_array(x)).v_prior
    set_posterior(layer, 0, *optimal_posterior(gp, to_array(x), to_array(y)[:, 0], noise))
    return layer, likelihood, x, y


def test_optimal_posterior_at_the_data_is_the_exact_gp(rng: np.random.Generator) -> None:
    """Z = X: the bound is the log marginal likelihood, the moments those of the exact GP."""
    layer, likelihood, x, y = optimised(rng, at_data=True, fitc=False)
    (gp,) = dense_gps(layer)
    X, s2 = to_array(x), likelihood.noise_var.item()
    Kxx, target = gp.k(X, X), to_array(y)[:, 0] - gp.c
    expected = exact.log_marginal_likelihood(Kxx, target, s2)
    bound = -total_loss(ELBO, layer, likelihood, x, y).item()
    np.testing.assert_allclose(bound, expected, rtol=0, atol=1e-8)

    new = normal(rng, 1, 5, 3)
    Xs = to_array(new[0])
    mean, variance = exact.posterior(Kxx, gp.k(X, Xs), np.diag(gp.k(Xs, Xs)), target, s2)
    latent = layer.moments(new, layer.factors())
    np.testing.assert_allclose(to_array(latent.f_mean[0, :, 0]), gp.c + mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(to_array(latent.f_var[0, :, 0]), variance, rtol=0, atol=1e-9)


def test_optimal_elbo_is_the_collapsed_bound(rng: np.random.Generator) -> None:
    """log N(y; c, Q + s2 I) - tr(Kff - Q) / (2 s2) (Titsias, 2009), and q is stationary there."""
    layer, likelihood, x, y = optimised(rng, at_data=False, fitc=False)
    (gp,) = dense_gps(layer)
    X, s2 = to_array(x), likelihood.noise_var.item()
    Q = nystrom(gp, X)
    expected = exact.log_marginal_likelihood(Q, to_array(y)[:, 0] - gp.c, s2)
    expected -= 0.5 * np.trace(gp.k(X, X) - Q) / s2
    value = total_loss(ELBO, layer, likelihood, x, y)
    np.testing.assert_allclose(-value.item(), expected, rtol=0, atol=1e-8)
    gradients = torch.autograd.grad(value, list(layer.posterior.parameters()))
    for gradient in gradients:
        np.testing.assert_allclose(to_array(gradient), 0.0, rtol=0, atol=1e-7)


def test_optimal_vfitc_is_the_fitc_marginal_likelihood(rng: np.random.Generator) -> None:
    """log N(y; c, Q + diag(Kff - Q) + s2 I) (Snelson and Ghahramani, 2006)."""
    layer, likelihood, x, y = optimised(rng, at_data=False, fitc=True)
    (gp,) = dense_gps(layer)
    X, s2 = to_array(x), likelihood.noise_var.item()
    Q = nystrom(gp, X)
    K = Q + np.diag(np.diag(gp.k(X, X) - Q))
    expected = exact.log_marginal_likelihood(K, to_array(y)[:, 0] - gp.c, s2)
    value = total_loss(VFITC, layer, likelihood, x, y).item()
    np.testing.assert_allclose(-value, expected, rtol=0, atol=1e-8)


def test_minibatches_are_unbiased(rng: np.random.Generator) -> None:
    """The mean of the losses of a partition is the loss of all rows, as n_data is that of all."""
    layer, likelihood = random_layer(rng, "full"), random_likelihood(rng, 2)
    stack = GPStack([layer])
    x, y = normal(rng, 6, 3), normal(rng, 6, 2)

    def value(rows: slice) -> float:
        batch = Batch(x[rows], Targets(y[rows], None), None)
        result = loss(ELBO, stack, likelihood, trivial(x), batch, beta_reg=1.0, n_data=6.0)
        return result.item()

    halves = 0.5 * (value(slice(0, 3)) + value(slice(3, 6)))
    np.testing.assert_allclose(value(slice(0, 6)), halves, rtol=1e-13)


def test_weights_are_repetitions(rng: np.random.Generator) -> None:
    """Weights (3, 1) / 2 on two rows give the loss of the rows repeated thrice and once."""
    layer, likelihood = random_layer(rng, "full"), random_likelihood(rng, 2)
    stack = GPStack([layer])
    x, y = normal(rng, 2, 3), normal(rng, 2, 2)
    weight = torch.tensor([1.5, 0.5], dtype=torch.float64)
    weighted = Batch(x, Targets(y, None), weight)
    rows = torch.tensor([0, 0, 0, 1])
    repeated = Batch(x[rows], Targets(y[rows], None), None)
    values = [
        loss(PREDICTIVE, stack, likelihood, trivial(x), batch, beta_reg=1.0, n_data=4.0).item()
        for batch in (weighted, repeated)
    ]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-13)


@pytest.mark.parametrize("objective", [row[0] for row in ROWS], ids=IDS)
@pytest.mark.parametrize("kind", [*COVARIANCES, "decoupled"])
def test_gradient_of_the_loss_against_plain_autograd(
    rng: np.random.Generator, objective: Objective, kind: Covariance
) -> None:
    """Every parameter of layer and likelihood, coincident inducing inputs among the data."""
    layer: SparseGP | DecoupledGP
    layer = random_decoupled(rng) if kind == "decoupled" else random_layer(rng, kind)
    likelihood = random_likelihood(rng, 2)
    x, y = normal(rng, 8, 3), normal(rng, 8, 2)
    x[2] = layer.Z[0, 1].detach()
    batch = Batch(x, Targets(y, None), None)
    stack = GPStack([layer])
    parameters = {
        name: p
        for module in (layer, likelihood)
        for name, p in module.named_parameters()
        if p.requires_grad
    }
    ours = loss(objective, stack, likelihood, trivial(x), batch, beta_reg=0.7, n_data=40.0)
    fit = objective.term(likelihood, autograd.moments(layer, x), batch.targets)[0]
    theirs = -fit.mean() + 0.7 * layer.kl(layer.factors()) / 40.0
    np.testing.assert_allclose(ours.item(), theirs.item(), rtol=1e-10)
    for name, actual, expected in zip(
        parameters,
        torch.autograd.grad(ours, list(parameters.values())),
        torch.autograd.grad(theirs, list(parameters.values())),
        strict=True,
    ):
        np.testing.assert_allclose(
            to_array(actual), to_array(expected), rtol=1e-7, atol=1e-9, err_msg=name
        )
