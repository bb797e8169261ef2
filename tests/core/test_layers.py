"""Moments of sparse layers against dense algebra, gpytorch and finite differences."""

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.variational import (
    BatchDecoupledVariationalStrategy,
    CholeskyVariationalDistribution,
    DeltaVariationalDistribution,
    MeanFieldVariationalDistribution,
    VariationalStrategy,
)
from oracles import autograd
from oracles.models import (
    COVARIANCES,
    dense_bases,
    dense_gps,
    normal,
    random_decoupled,
    random_kernel,
    random_layer,
    random_posterior,
    to_array,
)
from oracles.sparse import Moments, layer_moments, prior_covariance
from torch import Tensor

from skgp.core.kernels.gpytorch_kernel import GPyTorchKernel
from skgp.core.layers import sparse as base
from skgp.core.layers.layer import Latent, Layer
from skgp.core.layers.posteriors import Covariance
from skgp.core.layers.projection import project
from skgp.core.layers.sparse import SparseGP
from skgp.core.layers.two_bases import DecoupledGP
from skgp.core.numerics import triangular
from skgp.core.numerics.linalg import whitening

JITTER = 1e-4


def assert_moments(latent: Latent, expected: Moments, tol: float) -> None:
    for name in Moments._fields:
        actual = to_array(getattr(latent, name))[0]
        np.testing.assert_allclose(actual, getattr(expected, name), rtol=0, atol=tol, err_msg=name)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("name", ["rbf", "matern12", "matern32", "matern52"])
def test_sparse_moments_against_dense_algebra(
    rng: np.random.Generator, name: str, covariance: Covariance
) -> None:
    """v_prior = kff - k^T K^-1 k and v_q = k^T K^-1 S K^-1 k, each on its own."""
    layer = random_layer(rng, covariance, name=name, jitter=JITTER)
    x = normal(rng, 1, 6, 3)
    latent = layer.moments(x, layer.factors())
    expected = layer_moments(dense_gps(layer), to_array(x[0]))
    assert_moments(latent, expected, 1e-11)
    assert np.min(expected.v_prior) > 1e-3
    np.testing.assert_array_equal(
        to_array(latent.f_var), to_array(latent.v_prior) + to_array(latent.v_q)
    )


def test_decoupled_moments_against_dense_algebra(rng: np.random.Generator) -> None:
    """The mean from (Z_mean, m), the variance from (Z, S), one kernel."""
    layer = random_decoupled(rng, jitter=JITTER)
    x = normal(rng, 1, 6, 3)
    for_mean, for_variance = (layer_moments(gps, to_array(x[0])) for gps in dense_bases(layer))
    expected = Moments(for_mean.f_mean, for_variance.v_prior, for_variance.v_q)
    assert_moments(layer.moments(x, layer.factors()), expected, 1e-11)


def test_decoupled_layer_with_equal_bases_is_the_diagonal_layer(rng: np.random.Generator) -> None:
    """Limit Z_mean = Z; the divergence counts the point's own constant once more."""
    decoupled = random_decoupled(rng, n_inducing=5, n_inducing_mean=5)
    joint = random_layer(rng, "diagonal")
    with torch.no_grad():
        decoupled.Z_mean.copy_(decoupled.Z)
        joint.Z.copy_(decoupled.Z)
        joint.mean.copy_(decoupled.mean)
        joint.posterior.mu.copy_(decoupled.mean_posterior.mu)
        joint.posterior.log_scale.copy_(decoupled.posterior.log_scale)
    joint.kernel.load_state_dict(decoupled.kernel.state_dict())
    x = normal(rng, 2, 4, 3)
    for ours, theirs in zip(
        decoupled.moments(x, decoupled.factors()), joint.moments(x, joint.factors()), strict=True
    ):
        np.testing.assert_allclose(to_array(ours), to_array(theirs), rtol=0, atol=1e-11)
    constant = 0.5 * decoupled.mean_posterior.mu.numel() * np.log(2.0 * np.pi)
    np.testing.assert_allclose(
        decoupled.kl(decoupled.factors()).item(),
        joint.kl(joint.factors()).item() + constant,
        rtol=1e-12,
    )


def test_decoupled_variance_posterior_keeps_a_zero_mean(rng: np.random.Generator) -> None:
    layer = random_decoupled(rng)
    latent = layer.moments(normal(rng, 1, 6, 3), layer.factors())
    (latent.f_mean.sum() + latent.f_var.sum() + layer.kl(layer.factors())).backward()
    assert layer.posterior.mu.grad is None
    assert not layer.posterior.mu.requires_grad
    for name, parameter in layer.named_parameters():
        if name != "posterior.mu":
            assert parameter.grad is not None, name
            assert torch.any(parameter.grad != 0.0), name


class ReferenceGP(gpytorch.models.ApproximateGP):
    """One gpytorch GP with the parameters of GP `w` of a layer."""

    def __init__(self, layer: Layer, w: int, strategy: type, distribution: torch.nn.Module) -> None:
        # Our jitter is relative to the diagonal of the unit-variance block, theirs is absolute.
        variance = layer.kernel.variance[w].item()
        self.jitter = layer.jitter * variance
        decoupled = strategy is BatchDecoupledVariationalStrategy
        super().__init__(strategy(self, layer.Z[w].detach(), distribution, jitter_val=self.jitter))
        batch = torch.Size([1]) if decoupled else torch.Size()
        base = {
            "rbf": lambda: RBFKernel(ard_num_dims=3, batch_shape=batch),
            "matern12": lambda: MaternKernel(nu=0.5, ard_num_dims=3, batch_shape=batch),
            "matern32": lambda: MaternKernel(nu=1.5, ard_num_dims=3, batch_shape=batch),
            "matern52": lambda: MaternKernel(nu=2.5, ard_num_dims=3, batch_shape=batch),
        }[layer.kernel.name]()
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=batch)
        self.covar_module = ScaleKernel(base, batch_shape=batch)
        self.double()
        base.lengthscale = layer.kernel.lengthscale[w].detach()
        self.covar_module.outputscale = layer.kernel.variance[w].detach()
        self.mean_module.constant.data.fill_(layer.mean[w].item())
        self.variational_strategy.variational_params_initialized.fill_(1)
        if decoupled:
            points = torch.stack([layer.Z_mean[w], layer.Z[w]])
            self.variational_strategy.inducing_points.data.copy_(points)
        self.eval()

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor, float]:
        with torch.no_grad():
            f = self(x)
            divergence = self.variational_strategy.kl_divergence().item()
            # gpytorch adds the jitter of the inducing block to the variance at the data as well.
            return f.mean, f.variance - self.jitter, divergence


def gpytorch_distribution(layer: SparseGP, w: int) -> torch.nn.Module:
    kinds = {2: MeanFieldVariationalDistribution, 3: CholeskyVariationalDistribution}
    root = layer.posterior.moments()[1]
    kind = DeltaVariationalDistribution if root is None else kinds[root.dim()]
    distribution = kind(layer.Z.shape[1]).double()
    distribution.variational_mean.data.copy_(layer.posterior.mu[w])
    if isinstance(distribution, MeanFieldVariationalDistribution):
        distribution._variational_stddev.data.copy_(root[w])
    elif isinstance(distribution, CholeskyVariationalDistribution):
        distribution.chol_variational_covar.data.copy_(root[w])
    return distribution


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("name", ["rbf", "matern12", "matern32", "matern52"])
def test_sparse_moments_and_divergence_equal_gpytorch(
    rng: np.random.Generator, name: str, covariance: Covariance
) -> None:
    layer = random_layer(rng, covariance, name=name, jitter=JITTER)
    x = normal(rng, 6, 3)
    latent = layer.moments(x.unsqueeze(0), layer.factors())
    divergence = 0.0
    for w in range(2):
        reference = ReferenceGP(layer, w, VariationalStrategy, gpytorch_distribution(layer, w))
        mean, variance, kl = reference.moments(x)
        np.testing.assert_allclose(to_array(latent.f_mean[0, :, w]), mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(to_array(latent.f_var[0, :, w]), variance, rtol=0, atol=1e-8)
        divergence += kl
    np.testing.assert_allclose(layer.kl(layer.factors()).item(), divergence, rtol=0, atol=1e-8)


def test_decoupled_moments_and_divergence_equal_gpytorch(rng: np.random.Generator) -> None:
    """Against the batch-decoupled strategy, which wants as many points in both bases."""
    layer = random_decoupled(rng, n_inducing=5, n_inducing_mean=5, jitter=JITTER)
    x = normal(rng, 6, 3)
    latent = layer.moments(x.unsqueeze(0), layer.factors())
    divergence = 0.0
    for w in range(2):
        distribution = MeanFieldVariationalDistribution(5).double()
        distribution.variational_mean.data.copy_(layer.mean_posterior.mu[w])
        distribution._variational_stddev.data.copy_(layer.posterior.moments()[1][w])
        reference = ReferenceGP(layer, w, BatchDecoupledVariationalStrategy, distribution)
        mean, variance, kl = reference.moments(x)
        np.testing.assert_allclose(to_array(latent.f_mean[0, :, w]), mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(to_array(latent.f_var[0, :, w]), variance, rtol=0, atol=1e-8)
        divergence += kl
    np.testing.assert_allclose(layer.kl(layer.factors()).item(), divergence, rtol=0, atol=1e-8)


def test_node_axis_is_a_batch_of_inputs(rng: np.random.Generator) -> None:
    """x (Q, B, D) gives (Q, B, W), the same numbers as each node by itself."""
    layer = random_layer(rng)
    x = normal(rng, 3, 4, 3)
    latent = layer.moments(x, layer.factors())
    for part in latent:
        assert part.shape == (3, 4, 2)
    for q in range(3):
        expected = layer_moments(dense_gps(layer), to_array(x[q]))
        alone = Latent(*(part[q : q + 1] for part in latent))
        assert_moments(alone, expected, 1e-9)


def test_far_from_the_inducing_inputs_the_prior_returns(rng: np.random.Generator) -> None:
    layer = random_layer(rng, "full")
    latent = layer.moments(torch.full((1, 2, 3), 1e4, dtype=torch.float64), layer.factors())
    variance, mean = to_array(layer.kernel.variance), to_array(layer.mean)
    np.testing.assert_allclose(to_array(latent.f_mean[0]), [mean, mean], rtol=1e-14)
    np.testing.assert_allclose(to_array(latent.v_prior[0]), [variance, variance], rtol=1e-14)
    np.testing.assert_array_equal(to_array(latent.v_q), 0.0)


def test_at_the_inducing_inputs_q_of_u_returns(rng: np.random.Generator) -> None:
    """At x = Z: f_mean = m, v_q = diag S, v_prior = 0, up to the jitter."""
    layer = random_layer(rng, "full", n_gps=1, name="matern32", jitter=1e-13)
    latent = layer.moments(layer.Z.detach(), layer.factors())
    (gp,) = dense_gps(layer)
    np.testing.assert_allclose(to_array(latent.f_mean[0, :, 0]), gp.m, rtol=0, atol=1e-10)
    np.testing.assert_allclose(to_array(latent.v_q[0, :, 0]), np.diag(gp.S), rtol=0, atol=1e-10)
    np.testing.assert_allclose(to_array(latent.v_prior), 0.0, rtol=0, atol=1e-10)


def test_variances_are_never_negative_in_float32(rng: np.random.Generator) -> None:
    """Many close inducing inputs and a jitter near float32 rounding."""
    layer = random_layer(rng, "full", name="rbf", n_inducing=40, n_features=1, jitter=1e-7).float()
    x = torch.linspace(-2.0, 2.0, 200).reshape(1, -1, 1)
    latent = layer.moments(x, layer.factors())
    assert latent.v_prior.dtype == torch.float32
    assert latent.v_prior.min().item() >= 0.0
    assert latent.v_q.min().item() >= 0.0


def test_jitter_is_relative_to_the_variance(rng: np.random.Generator) -> None:
    """Scaling f by 1000 scales its moments exactly: the factored block has unit variance."""
    layer = random_layer(rng, "full", jitter=1e-2)
    x = normal(rng, 1, 5, 3)
    before = layer.moments(x, layer.factors())
    with torch.no_grad():
        layer.kernel.log_variance += 2.0 * np.log(1000.0)
        layer.mean *= 1000.0
    after = layer.moments(x, layer.factors())
    np.testing.assert_allclose(to_array(after.f_mean), 1e3 * to_array(before.f_mean), rtol=1e-12)
    np.testing.assert_allclose(to_array(after.v_prior), 1e6 * to_array(before.v_prior), rtol=1e-12)
    np.testing.assert_allclose(to_array(after.v_q), 1e6 * to_array(before.v_q), rtol=1e-12)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_gradient_of_the_projection(rng: np.random.Generator, kind: str) -> None:
    """Finite differences of q_mu^T A, |A|^2 and |q_sqrt^T A|^2 with A = Luu^-1 Kuf."""
    shape = (2, 4, 4) if kind == "full" else (2, 4)
    inputs = [normal(rng, 2, 4, 5), normal(rng, 2, 4, 4), normal(rng, *shape), normal(rng, 2, 4)]
    inputs = [value.requires_grad_() for value in inputs]

    def moments(Kuf: Tensor, root: Tensor, q_sqrt: Tensor, q_mu: Tensor) -> tuple[Tensor, ...]:
        q_sqrt = q_sqrt.tril() if kind == "full" else q_sqrt
        return project(Kuf, *whitening(root @ root.mT, JITTER), q_sqrt, q_mu)

    assert torch.autograd.gradcheck(moments, inputs)


def test_gradient_of_the_projection_of_a_point(rng: np.random.Generator) -> None:
    inputs = [normal(rng, 2, 4, 5), normal(rng, 2, 4, 4), normal(rng, 2, 4)]
    inputs = [value.requires_grad_() for value in inputs]

    def moments(Kuf: Tensor, root: Tensor, q_mu: Tensor) -> tuple[Tensor, Tensor]:
        white = whitening(root @ root.mT, JITTER)
        mean, explained, q = project(Kuf, *white, None, q_mu)
        assert torch.all(q == 0.0)
        return mean, explained

    assert torch.autograd.gradcheck(moments, inputs)


@pytest.mark.parametrize("name", ["rbf", "matern12", "matern32", "matern52"])
@pytest.mark.parametrize("kind", [*COVARIANCES, "decoupled"])
def test_gradient_of_the_moments_against_plain_autograd(
    rng: np.random.Generator, kind: Covariance, name: str
) -> None:
    """A random linear form of all three moments, differentiated in every parameter and in x."""
    layer: SparseGP | DecoupledGP
    if kind == "decoupled":
        layer = random_decoupled(rng, name=name, jitter=JITTER)
    else:
        layer = random_layer(rng, kind, name=name, jitter=JITTER)
    x = normal(rng, 1, 7, 3).requires_grad_()
    form = [normal(rng, 1, 7, 2) for _ in range(3)]
    wanted = {**{n: p for n, p in layer.named_parameters() if p.requires_grad}, "x": x}

    def gradients(latent: Latent) -> tuple[Tensor, ...]:
        total = sum((part * c).sum() for part, c in zip(latent, form, strict=True))
        return torch.autograd.grad(
            total, list(wanted.values()), allow_unused=True, materialize_grads=True
        )

    ours = gradients(layer.moments(x, layer.factors()))
    theirs = gradients(autograd.moments(layer, x[0]))
    for key, actual, expected in zip(wanted, ours, theirs, strict=True):
        np.testing.assert_allclose(
            to_array(actual), to_array(expected), rtol=1e-8, atol=1e-9, err_msg=key
        )


def test_gradient_of_a_general_kernel_counts_its_jitter(rng: np.random.Generator) -> None:
    """A trained outputscale scales the jitter too; the gradient has to know it."""
    kernel = GPyTorchKernel(ScaleKernel(RBFKernel()).double(), 1)
    layer = SparseGP(
        kernel, normal(rng, 1, 5, 1), random_posterior(rng, "full", 1, 5), 1e-3
    ).double()
    x = normal(rng, 1, 6, 1)
    (scale,) = (p for n, p in kernel.named_parameters() if n.endswith("raw_outputscale"))

    def value() -> Tensor:
        latent = layer.moments(x, layer.factors())
        return latent.f_mean.sum() + latent.v_prior.sum() + latent.v_q.sum()

    (gradient,) = torch.autograd.grad(value(), scale)
    ends = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            scale += step
            ends.append(value().item())
            scale -= step
    np.testing.assert_allclose(gradient.item(), (ends[0] - ends[1]) / 2e-5, rtol=1e-6)


def test_general_kernel_gives_the_moments_of_the_fused_one(rng: np.random.Generator) -> None:
    """ScaleKernel(Matern) carries the variance in its blocks, Stationary in `variance`."""
    fused = random_layer(rng, "full", name="matern52", n_gps=1, jitter=JITTER)
    base = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=3)).double()
    base.base_kernel.lengthscale = fused.kernel.lengthscale.detach()
    base.outputscale = fused.kernel.variance[0].detach()
    general = SparseGP(GPyTorchKernel(base, 1), fused.Z.detach().clone(), fused.posterior, JITTER)
    general = general.double()
    with torch.no_grad():
        general.mean.copy_(fused.mean)
    x = normal(rng, 2, 4, 3)
    for ours, theirs in zip(
        fused.moments(x, fused.factors()), general.moments(x, general.factors()), strict=True
    ):
        np.testing.assert_allclose(to_array(ours), to_array(theirs), rtol=0, atol=1e-9)


def test_factors_hold_the_inverse_of_the_jittered_block(rng: np.random.Generator) -> None:
    """L_inv (K / variance) L_inv^T = I for each GP."""
    layer = random_layer(rng, "full", jitter=JITTER)
    L_inv = to_array(layer.factors().L_inv)
    for w, gp in enumerate(dense_gps(layer)):
        K = prior_covariance(gp) / layer.kernel.variance[w].item()
        np.testing.assert_allclose(L_inv[w] @ K @ L_inv[w].T, np.eye(5), rtol=0, atol=1e-11)


def test_initial_mean_is_zero_for_each_gp(rng: np.random.Generator) -> None:
    layer = SparseGP(
        random_kernel(rng, "rbf", 3, 2),
        normal(rng, 3, 4, 2),
        random_posterior(rng, "full", 3, 4),
        1e-6,
    )
    np.testing.assert_array_equal(to_array(layer.mean), np.zeros(3))


@pytest.mark.parametrize("other", [False, True], ids=["own-inputs", "other-inputs"])
def test_linear_prior_mean_against_loops(rng: np.random.Generator, other: bool) -> None:
    """f_mean(x) = slope^T x_mean + the mean without it; the variances know nothing of it."""
    layer = random_layer(rng, "full", jitter=JITTER)
    x, x_mean = normal(rng, 3, 4, 3), normal(rng, 1, 4, 5) if other else None
    plain = layer.moments(x, layer.factors())
    slope = normal(rng, 5 if other else 3, 2)
    layer.slope = torch.nn.Parameter(slope)
    sloped = layer.moments(x, layer.factors(), x_mean)
    for q, b, w in np.ndindex(3, 4, 2):
        row = x[q, b] if x_mean is None else x_mean[0, b]
        linear = sum(row[d].item() * slope[d, w].item() for d in range(len(row)))
        actual = sloped.f_mean[q, b, w].item()
        assert actual == pytest.approx(plain.f_mean[q, b, w].item() + linear, abs=1e-12)
    np.testing.assert_array_equal(to_array(sloped.v_prior), to_array(plain.v_prior))
    np.testing.assert_array_equal(to_array(sloped.v_q), to_array(plain.v_q))


def test_inducing_variables_are_those_of_the_function_less_its_linear_mean(
    rng: np.random.Generator,
) -> None:
    """mu(x) = m(x) + k^T K^-1 (E u - m(Z)) (doubly stochastic paper, Eqn 7), E u = m(Z) + L v."""
    layer = random_layer(rng, "full", jitter=JITTER)
    slope = normal(rng, 3, 2)
    layer.slope = torch.nn.Parameter(slope)
    x = normal(rng, 6, 3)
    mean = layer.moments(x.unsqueeze(0), layer.factors()).f_mean[0]
    for w, gp in enumerate(dense_gps(layer)):
        K, s = prior_covariance(gp), to_array(slope[:, w])
        m_Z, m_x = gp.c + gp.Z @ s, gp.c + to_array(x) @ s
        L = np.linalg.cholesky(K)
        u = m_Z + L @ to_array(layer.posterior.mu[w])
        expected = m_x + gp.k(gp.Z, to_array(x)).T @ np.linalg.solve(K, u - m_Z)
        np.testing.assert_allclose(to_array(mean[:, w]), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("covariance", ["full", "diagonal", "delta"])
@pytest.mark.parametrize("n", [1, 4, 5, 13])
def test_moments_and_gradients_do_not_depend_on_chunks_or_blocks(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, covariance: Covariance, n: int
) -> None:
    layer = random_layer(rng, covariance)
    x, weights = normal(rng, 2, n, 3), normal(rng, 3, 2, n, 2)

    def results() -> list[torch.Tensor]:
        x_leaf = x.clone().requires_grad_()
        latent = layer.moments(x_leaf, layer.factors())
        total = sum((w * m).sum() for w, m in zip(weights, latent, strict=True))
        leaves = [x_leaf, *layer.parameters()]
        gradients = torch.autograd.grad(total, leaves, materialize_grads=True, allow_unused=True)
        return [*latent, *gradients]

    expected = results()
    monkeypatch.setattr(base, "_BLOCK", 1)
    monkeypatch.setattr(base, "_MIN_CHUNK", 4)
    monkeypatch.setattr(triangular, "_BLOCK", 2)
    for actual, wanted in zip(results(), expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-10, atol=1e-12)
