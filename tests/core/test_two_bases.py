"""OD-SVGP: a further basis of the mean, orthogonal to that of q(u)."""

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    DeltaVariationalDistribution,
    OrthogonallyDecoupledVariationalStrategy,
    VariationalStrategy,
)
from oracles import orthogonal
from oracles.models import dense_orthogonal, normal, random_orthogonal, to_array
from oracles.sparse import DenseGP, optimal_posterior
from torch import Tensor, nn
from torch.func import functional_call

from skgp.core.layers.posteriors import Covariance, DeltaPosterior, FullPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.layers.two_bases import OrthogonalGP
from skgp.core.marginal.starts import start_posterior

JITTER = 1e-3  # large enough to be seen
TINY = 1e-12


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("name", ["rbf", "matern12", "matern52"])
def test_moments_and_divergence_against_dense_algebra(
    rng: np.random.Generator, name: str, covariance: Covariance
) -> None:
    """f_mean = (k_xg - k_xb Kbb^-1 Kbg) a + k_xb Kbb^-1 m, f_var from (b, S) alone."""
    layer = random_orthogonal(rng, covariance, name=name, jitter=JITTER)
    x = normal(rng, 2, 5, 3)
    latent, divergence = layer.moments(x, layer.factors()), 0.0
    for w, gp in enumerate(dense_orthogonal(layer)):
        expected = orthogonal.moments(gp, to_array(x.flatten(0, 1)))
        for actual, value in zip(latent, expected, strict=True):
            np.testing.assert_allclose(to_array(actual[..., w]).ravel(), value, rtol=0, atol=1e-11)
        divergence += orthogonal.kl(gp)
    np.testing.assert_allclose(layer.kl(layer.factors()).item(), divergence, rtol=1e-10)


def joint_layer(layer: OrthogonalGP) -> SparseGP:
    """Inducing inputs [Z; Z_mean] with mean (q_mu, orthogonal_mu) and covariance (S, I)."""
    n, n_orthogonal = layer.Z.shape[1], layer.Z_mean.shape[1]
    q_mu, root = layer.posterior.moments()
    assert root is not None
    posterior = FullPosterior(torch.cat([q_mu, layer.orthogonal_mu], -1).detach().clone(), 1.0)
    posterior = posterior.double()
    with torch.no_grad():
        posterior.lower[:, :n, :n] = root.tril(-1)
        diagonal = root.diagonal(dim1=-2, dim2=-1).log()
        posterior.log_diagonal.copy_(
            torch.cat([diagonal, torch.zeros(len(q_mu), n_orthogonal).double()], -1)
        )
    joint = SparseGP(layer.kernel, layer.mean_inputs.detach().clone(), posterior, layer.jitter)
    with torch.no_grad():
        joint.mean = layer.mean
    return joint


def test_equals_the_joint_layer_with_covariance_s_and_identity(rng: np.random.Generator) -> None:
    """The orthogonal part explains |A_g|^2 and gives it back: only the sum of variances agrees."""
    layer = random_orthogonal(rng, jitter=TINY)
    joint = joint_layer(layer)
    x = normal(rng, 1, 7, 3)
    ours, theirs = (model.moments(x, model.factors()) for model in (layer, joint))
    np.testing.assert_allclose(to_array(ours.f_mean), to_array(theirs.f_mean), rtol=0, atol=1e-9)
    np.testing.assert_allclose(to_array(ours.f_var), to_array(theirs.f_var), rtol=0, atol=1e-9)
    assert to_array(ours.v_prior - theirs.v_prior).min() > 1e-4
    np.testing.assert_allclose(
        layer.kl(layer.factors()).item(), joint.kl(joint.factors()).item(), rtol=1e-12
    )


@pytest.mark.parametrize("covariance", ["full", "diagonal", "delta"])
def test_without_weights_it_is_the_sparse_layer(
    rng: np.random.Generator, covariance: Covariance
) -> None:
    layer = random_orthogonal(rng, covariance, jitter=JITTER)
    with torch.no_grad():
        layer.orthogonal_mu.zero_()
    plain = SparseGP(layer.kernel, layer.Z.detach().clone(), layer.posterior, JITTER)
    plain.mean = layer.mean
    x = normal(rng, 2, 4, 3)
    for ours, theirs in zip(
        layer.moments(x, layer.factors()), plain.moments(x, plain.factors()), strict=True
    ):
        np.testing.assert_allclose(to_array(ours), to_array(theirs), rtol=0, atol=1e-15)
    assert layer.kl(layer.factors()).item() == plain.kl(plain.factors()).item()


class ReferenceGP(gpytorch.models.ApproximateGP):
    """GP `w` of a layer in gpytorch's strategy, which correlates x and gamma under q, not p.

    Its mean is k_xb Kbb^-1 m' + (k_xg - k_xb Kbb^-1 (Kbb - S) Kbb^-1 k_bg) a, so that it is ours
    for m' = m - S Kbb^-1 Kbg a; for a point (S = 0) the divergences agree too.
    """

    def __init__(self, layer: OrthogonalGP, w: int, is_point: bool) -> None:
        gp = dense_orthogonal(layer)[w]
        self.jitter = gp.jitter
        kind = DeltaVariationalDistribution if is_point else CholeskyVariationalDistribution
        distribution = kind(len(gp.beta))
        base = VariationalStrategy(
            self, torch.from_numpy(gp.beta), distribution, jitter_val=self.jitter
        )
        weights = DeltaVariationalDistribution(len(gp.gamma))
        gamma = torch.from_numpy(gp.gamma)
        super().__init__(
            OrthogonallyDecoupledVariationalStrategy(base, gamma, weights, jitter_val=TINY)
        )
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=3))
        self.double()
        self.covar_module.base_kernel.lengthscale = layer.kernel.lengthscale[w].detach()
        self.covar_module.outputscale = layer.kernel.variance[w].detach()
        self.mean_module.constant.data.fill_(gp.c)
        Kbb = orthogonal.prior_covariance(gp)
        L = np.linalg.cholesky(Kbb)
        S = np.zeros_like(gp.S) if is_point else gp.S
        m = gp.m - gp.c - S @ np.linalg.solve(Kbb, gp.k(gp.beta, gp.gamma) @ gp.a)
        distribution.variational_mean.data.copy_(torch.from_numpy(np.linalg.solve(L, m)))
        if not is_point:
            root = layer.posterior.moments()[1]
            assert root is not None
            distribution.chol_variational_covar.data.copy_(root[w])
        weights.variational_mean.data.copy_(torch.from_numpy(gp.a))
        for strategy in (self.variational_strategy, base):
            strategy.variational_params_initialized.fill_(1)
        self.eval()

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


# Both come from how linear_operator copies and interpolates a covariance.
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning")
@pytest.mark.filterwarnings("ignore:torch.sparse.SparseTensor:UserWarning")
@pytest.mark.parametrize("is_point", [False, True], ids=["full", "point"])
def test_moments_equal_gpytorch(rng: np.random.Generator, is_point: bool) -> None:
    layer = random_orthogonal(rng, "delta" if is_point else "full", jitter=1e-9)
    if is_point:  # the oracle wants a square root
        layer.posterior.moments = lambda: (layer.posterior.mu, torch.zeros(2, 4).double())
    x = normal(rng, 6, 3)
    latent = layer.moments(x.unsqueeze(0), layer.factors())
    further = 0.5 * layer.orthogonal_mu.square().sum().item()
    for w in range(2):
        reference = ReferenceGP(layer, w, is_point)
        with torch.no_grad():
            f = reference(x)
            divergence = reference.variational_strategy.kl_divergence().item()
            base = reference.variational_strategy.base_variational_strategy.kl_divergence().item()
        np.testing.assert_allclose(to_array(latent.f_mean[0, :, w]), f.mean, rtol=0, atol=1e-6)
        np.testing.assert_allclose(to_array(latent.f_var[0, :, w]), f.variance, rtol=0, atol=1e-6)
        further -= divergence - base
    if is_point:
        np.testing.assert_allclose(further, 0.0, rtol=0, atol=1e-6)


class _Everything(nn.Module):
    """Moments and divergence of a layer as functions of its parameters and of x."""

    def __init__(self, layer: OrthogonalGP) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        factors = self.layer.factors()
        return *self.layer.moments(x, factors), self.layer.kl(factors)


@pytest.mark.parametrize("covariance", ["full", "diagonal", "delta"])
def test_gradients_by_finite_differences(rng: np.random.Generator, covariance: Covariance) -> None:
    """Every moment and the divergence in every parameter and in the inputs."""
    layer = random_orthogonal(
        rng, covariance, n_gps=1, n_orthogonal=3, n_inducing=2, n_features=2, jitter=JITTER
    )
    module = _Everything(layer)
    names = [name for name, _ in module.named_parameters()]
    values = [p.detach().clone().requires_grad_() for p in module.parameters()]
    x = normal(rng, 1, 3, 2).requires_grad_()

    def function(x: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        outputs: tuple[Tensor, ...] = functional_call(
            module, dict(zip(names, parameters, strict=True)), (x,)
        )
        return outputs

    assert torch.autograd.gradcheck(function, (x, *values), atol=1e-6)
    outputs = function(x, *values)
    gradients = torch.autograd.grad(sum(o.sum() for o in outputs), [x, *values])
    assert all(bool((g != 0.0).any()) for g in gradients)


def test_start_is_the_joint_optimum(rng: np.random.Generator) -> None:
    """Mean of the optimum over [Z; Z_mean] together, covariance of the optimum over Z alone."""
    layer = random_orthogonal(rng, jitter=TINY)
    with torch.no_grad():
        layer.mean.zero_()
    x, y, noise = normal(rng, 40, 3), normal(rng, 2, 40), torch.tensor([0.1, 0.4]).double()
    start_posterior(layer, x, y, torch.ones(40).double(), noise, 1.0)
    X_new = normal(rng, 1, 8, 3)
    latent = layer.moments(X_new, layer.factors())
    for w, gp in enumerate(dense_orthogonal(layer)):
        noises = np.full(40, noise[w].item())
        optima = []
        for Z in (np.concatenate([gp.beta, gp.gamma]), gp.beta):
            prior = DenseGP(gp.k, 0.0, Z, np.zeros(len(Z)), np.eye(len(Z)), gp.jitter)
            m, S = optimal_posterior(prior, to_array(x), to_array(y[w]), noises)
            weights = np.linalg.solve(
                gp.k(Z, Z) + gp.jitter * np.eye(len(Z)), gp.k(Z, to_array(X_new[0]))
            )
            optima.append((weights.T @ m, np.einsum("mn,mk,kn->n", weights, S, weights)))
        np.testing.assert_allclose(
            to_array(latent.f_mean[0, :, w]), optima[0][0], rtol=0, atol=1e-8
        )
        np.testing.assert_allclose(to_array(latent.v_q[0, :, w]), optima[1][1], rtol=0, atol=1e-8)
        assert np.abs(optima[0][0] - optima[1][0]).max() > 0.05  # the further basis matters


def test_start_has_the_mean_of_the_joint_start(rng: np.random.Generator) -> None:
    layer = random_orthogonal(rng, jitter=TINY)
    joint = SparseGP(
        layer.kernel,
        layer.mean_inputs.detach().clone(),
        DeltaPosterior(torch.zeros(2, 10).double()),
        TINY,
    )
    joint.mean = layer.mean
    rows = normal(rng, 30, 3), normal(rng, 2, 30), torch.rand(30).double()
    noise = torch.tensor([0.1, 0.4]).double()
    x = normal(rng, 1, 6, 3)
    means = []
    for model in (layer, joint):
        start_posterior(model, *rows, noise, 7.0)
        means.append(to_array(model.moments(x, model.factors()).f_mean))
    np.testing.assert_allclose(means[0], means[1], rtol=0, atol=1e-9)


def test_initial_weights_are_zero(rng: np.random.Generator) -> None:
    layer = random_orthogonal(rng)
    fresh = OrthogonalGP(
        layer.kernel, layer.Z_mean.detach(), layer.Z.detach(), layer.posterior, JITTER
    )
    np.testing.assert_array_equal(to_array(fresh.orthogonal_mu), np.zeros((2, 6)))
