"""Deep stacks against GPyTorch's deep GP and DSPP with the same parameters."""

from collections.abc import Iterator

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.means import ConstantMean, LinearMean
from gpytorch.mlls import DeepApproximateMLL, DeepPredictiveLogLikelihood, VariationalELBO
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from gpytorch.models.deep_gps.dspp import DSPP, DSPPLayer
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    MeanFieldVariationalDistribution,
    VariationalStrategy,
)
from oracles.deep import random_stack
from oracles.models import normal, random_likelihood, to_array
from torch import Tensor

from skgp.core.data import Batch, Targets
from skgp.core.layers.sparse import SparseGP
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.nodes.rules import Nodes, Sampled
from skgp.core.nodes.sigma_points import LearnedNodes
from skgp.core.objectives.objective import ELBO, PREDICTIVE, loss
from skgp.core.stacks.stack import GPStack

# Ours is relative to the variance, theirs absolute and added to the variance at the data as well.
JITTER = 1e-12
N_DATA = 40.0
BETA = 0.3
COVARIANCES = {2: MeanFieldVariationalDistribution, 3: CholeskyVariationalDistribution}


def copy_layer(target: DeepGPLayer, layer: SparseGP) -> None:
    """Give a layer's parameters to one of GPyTorch; both are whitened."""
    kernel, root = layer.kernel, layer.posterior.moments()[1]
    single = target.output_dims is None
    with torch.no_grad():
        target.covar_module.base_kernel.lengthscale = kernel.lengthscale.unsqueeze(-2)
        target.covar_module.outputscale = kernel.variance[0] if single else kernel.variance
        if layer.slope is None:
            target.mean_module.constant.copy_(layer.mean[0] if single else layer.mean)
        else:
            target.mean_module.weights.copy_(layer.slope.mT.unsqueeze(-1))
            target.mean_module.bias.copy_(layer.mean.unsqueeze(-1))
        distribution = target.variational_strategy._variational_distribution
        pick = (lambda t: t[0]) if single else (lambda t: t)
        distribution.variational_mean.copy_(pick(layer.posterior.mu))
        if isinstance(distribution, MeanFieldVariationalDistribution):
            distribution._variational_stddev.copy_(pick(root))
        else:
            distribution.chol_variational_covar.copy_(pick(root))
        target.variational_strategy.variational_params_initialized.fill_(1)


def make_layer(kind: type[DeepGPLayer], layer: SparseGP, n_sites: int, is_top: bool) -> DeepGPLayer:
    class Layer(kind):  # type: ignore[misc, valid-type]  # base is a variable
        def __init__(self) -> None:
            n_gps, n_inducing, n_inputs = layer.Z.shape
            batch = torch.Size([] if is_top else [n_gps])
            root = layer.posterior.moments()[1]
            distribution = COVARIANCES[root.dim()](n_inducing, batch_shape=batch)
            Z = layer.Z.detach().clone()
            strategy = VariationalStrategy(
                self, Z[0] if is_top else Z, distribution, jitter_val=JITTER
            )
            sites = {"num_quad_sites": n_sites} if kind is DSPPLayer else {}
            super().__init__(strategy, n_inputs, None if is_top else n_gps, **sites)
            base = MaternKernel(nu=2.5, ard_num_dims=n_inputs, batch_shape=batch)
            self.covar_module = ScaleKernel(base, batch_shape=batch)
            linear = layer.slope is not None
            self.mean_module = (
                LinearMean(n_inputs, batch_shape=batch)
                if linear
                else ConstantMean(batch_shape=batch)
            )

        def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
            mean, covariance = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    result = Layer().double()
    copy_layer(result, layer)
    return result


class Twin:
    """A stack's layers in GPyTorch, one above the other."""

    layers: torch.nn.ModuleList

    def stack_up(self, kind: type[DeepGPLayer], stack: GPStack, n_sites: int) -> None:
        top = stack.layers[-1]
        self.layers = torch.nn.ModuleList(
            make_layer(kind, layer, n_sites, layer is top) for layer in stack.layers
        )

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        for layer in self.layers:
            x = layer(x)
        return x


class TwinDSPP(Twin, DSPP):
    def __init__(self, stack: GPStack, rule: LearnedNodes) -> None:
        n_sites = len(rule.logits)
        DSPP.__init__(self, n_sites)
        self.stack_up(DSPPLayer, stack, n_sites)
        self.double()
        with torch.no_grad():
            self.raw_quad_weights.copy_(rule.logits)
            for layer, xi in zip(self.layers[1:], rule(1).xi, strict=True):
                layer.quad_sites.copy_(xi[:, 0])


class TwinDGP(Twin, DeepGP):
    def __init__(self, stack: GPStack) -> None:
        DeepGP.__init__(self)
        self.stack_up(DeepGPLayer, stack, 0)
        self.double()


def gpytorch_likelihood(likelihood: Gaussian) -> gpytorch.likelihoods.GaussianLikelihood:
    result = gpytorch.likelihoods.GaussianLikelihood().double()
    result.noise = likelihood.noise_var.detach()
    return result


def assert_equal_gradients(
    stack: GPStack, twin: Twin, value: Tensor, expected: Tensor, *more: tuple[Tensor, Tensor]
) -> None:
    """Of what both sides parametrise alike: inducing inputs, means of q, slopes, constants."""
    pairs = list(more)
    for layer, theirs in zip(stack.layers, twin.layers, strict=True):
        pairs.append((layer.Z, theirs.variational_strategy.inducing_points))
        pairs.append(
            (
                layer.posterior.mu,
                theirs.variational_strategy._variational_distribution.variational_mean,
            )
        )
        if layer.slope is None:
            pairs.append((layer.mean, theirs.mean_module.constant))
        else:
            pairs.append((layer.mean, theirs.mean_module.bias))
            pairs.append((layer.slope.mT, theirs.mean_module.weights))
    value.backward()
    expected.backward()
    assert len(pairs) > 3 * len(stack.layers)
    for ours, other in pairs:
        gradient = ours.grad if ours.is_leaf else None
        if gradient is None:  # a transposed slope
            gradient = ours._base.grad.mT
        assert gradient.abs().max() > 1e-6
        np.testing.assert_allclose(
            to_array(gradient).ravel(), to_array(other.grad).ravel(), rtol=1e-6, atol=1e-8
        )


@pytest.fixture(params=[[2, 1], [3, 2, 1]], ids=["two-layers", "three-layers"])
def widths(request: pytest.FixtureRequest) -> list[int]:
    return request.param


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_moments_loss_and_gradients_equal_the_dspp_of_gpytorch(
    rng: np.random.Generator, widths: list[int], covariance: str
) -> None:
    """Linear means below, a constant on top, S = 4 learned sites and weights (QR3)."""
    stack = random_stack(rng, widths, covariance=covariance, jitter=JITTER)
    likelihood = random_likelihood(rng, 1)
    rule = LearnedNodes(widths[:-1], 4, 0)
    with torch.no_grad():
        rule.logits.copy_(normal(rng, 4))
    x, y = normal(rng, 6, 3), normal(rng, 6, 1)
    twin = TwinDSPP(stack, rule).train()
    mll = DeepPredictiveLogLikelihood(gpytorch_likelihood(likelihood), twin, N_DATA, beta=BETA)

    nodes = rule(6)
    latent = stack(x, nodes, stack.factors())
    f = twin(x)
    np.testing.assert_allclose(to_array(latent.f_mean[..., 0]), to_array(f.mean), atol=1e-8)
    np.testing.assert_allclose(to_array(latent.f_var[..., 0]), to_array(f.variance), atol=1e-8)

    batch = Batch(x, Targets(y, None), None)
    value = loss(PREDICTIVE, stack, likelihood, nodes, batch, beta_reg=BETA, n_data=N_DATA)
    expected = -mll(f, y[:, 0])
    np.testing.assert_allclose(value.item(), expected.item(), rtol=0, atol=1e-8)
    weights = rule.logits, twin.raw_quad_weights
    assert_equal_gradients(stack, twin, value, expected, weights)
    sites = torch.cat([layer.quad_sites.grad for layer in twin.layers[1:]], -1)
    np.testing.assert_allclose(to_array(rule.xi.grad), to_array(sites), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_moments_loss_and_gradients_equal_the_deep_gp_of_gpytorch(
    rng: np.random.Generator, widths: list[int], covariance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides get the same base noise, a draw for each row, layer and sample."""
    stack = random_stack(rng, widths, covariance=covariance, jitter=JITTER)
    likelihood = random_likelihood(rng, 1)
    nodes: Nodes = Sampled(widths[:-1], 5, 2, 0)(6, 0)
    noise: Iterator[Tensor] = iter(nodes.xi)

    def rsample(self: torch.distributions.Normal) -> Tensor:
        return self.loc + self.scale * next(noise)

    monkeypatch.setattr(torch.distributions.Normal, "rsample", rsample)
    x, y = normal(rng, 6, 3), normal(rng, 6, 1)
    twin = TwinDGP(stack).train()
    elbo = VariationalELBO(gpytorch_likelihood(likelihood), twin, N_DATA, beta=BETA)
    with gpytorch.settings.num_likelihood_samples(5):
        f = twin(x)
    assert next(noise, None) is None
    latent = stack(x, nodes, stack.factors())
    np.testing.assert_allclose(to_array(latent.f_mean[..., 0]), to_array(f.mean), atol=1e-8)
    np.testing.assert_allclose(to_array(latent.f_var[..., 0]), to_array(f.variance), atol=1e-8)

    batch = Batch(x, Targets(y, None), None)
    value = loss(ELBO, stack, likelihood, nodes, batch, beta_reg=BETA, n_data=N_DATA)
    expected = -DeepApproximateMLL(elbo)(f, y[:, 0])
    np.testing.assert_allclose(value.item(), expected.item(), rtol=0, atol=1e-8)
    assert_equal_gradients(stack, twin, value, expected)
