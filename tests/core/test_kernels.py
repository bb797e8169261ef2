"""Kernels against loops, against gpytorch and against finite differences."""

import math

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior, LogNormalPrior, NormalPrior
from oracles.kernels import CORRELATIONS, covariance, input_gradient
from oracles.models import normal, random_kernel, to_array
from scipy import stats
from torch import Tensor

from skgp.core.kernels.choice import make_kernel
from skgp.core.kernels.gpytorch_kernel import GPyTorchKernel
from skgp.core.kernels.stationary import PROFILES, Stationary

SMOOTH = ("rbf", "matern32", "matern52")


def gpytorch_kernel(name: str, lengthscale: Tensor) -> gpytorch.kernels.Kernel:
    kernels = {
        "rbf": lambda d: RBFKernel(ard_num_dims=d),
        "matern12": lambda d: MaternKernel(nu=0.5, ard_num_dims=d),
        "matern32": lambda d: MaternKernel(nu=1.5, ard_num_dims=d),
        "matern52": lambda d: MaternKernel(nu=2.5, ard_num_dims=d),
    }
    kernel = kernels[name](lengthscale.shape[-1]).double()
    kernel.lengthscale = lengthscale.detach()
    return kernel


def test_every_profile_has_an_oracle_and_every_oracle_a_profile() -> None:
    assert set(PROFILES) == set(CORRELATIONS) == {"rbf", "matern12", "matern32", "matern52"}


@pytest.mark.parametrize("name", PROFILES)
def test_stationary_blocks_against_loops(rng: np.random.Generator, name: str) -> None:
    """Each block times `variance` is variance * k(|(z - x) / l|)."""
    kernel = random_kernel(rng, name, 2, 3)
    Z, x = normal(rng, 2, 5, 3), normal(rng, 7, 3)
    variance = kernel.variance[:, None, None]
    Kuu, Kuf = variance * kernel.Kuu(Z), variance * kernel.Kuf(Z, x)
    kff = kernel.variance[:, None] * kernel.kff(x)
    for w in range(2):
        lengthscale, scale = to_array(kernel.lengthscale[w]), kernel.variance[w].item()
        z = to_array(Z[w])
        expected = covariance(name, z, z, lengthscale, scale)
        np.testing.assert_allclose(to_array(Kuu[w]), expected, rtol=0, atol=1e-13)
        expected = covariance(name, z, to_array(x), lengthscale, scale)
        np.testing.assert_allclose(to_array(Kuf[w]), expected, rtol=0, atol=1e-13)
        full = covariance(name, to_array(x), to_array(x), lengthscale, scale)
        expanded = kff.expand(2, 7)[w]
        np.testing.assert_allclose(to_array(expanded), np.diag(full), rtol=1e-14)


@pytest.mark.parametrize("name", PROFILES)
def test_stationary_against_gpytorch(rng: np.random.Generator, name: str) -> None:
    kernel = random_kernel(rng, name, 2, 3)
    Z, x = normal(rng, 2, 5, 3), normal(rng, 7, 3)
    for w in range(2):
        reference = gpytorch_kernel(name, kernel.lengthscale[w])
        Kuu, Kuf = reference(Z[w]).to_dense(), reference(Z[w], x).to_dense()
        # gpytorch leaves a rounding of 1e-8 on the diagonal of the exponential kernel.
        ours, theirs = to_array(kernel.Kuu(Z)[w]), to_array(Kuu)
        np.fill_diagonal(theirs, 1.0)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13)
        np.testing.assert_allclose(to_array(kernel.Kuf(Z, x)[w]), to_array(Kuf), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_diagonal_of_Kuu_is_one_exactly(
    rng: np.random.Generator, name: str, dtype: torch.dtype
) -> None:
    """k(0) = 1 = kff: the diagonal agrees with the variance that a layer subtracts from."""
    Z = normal(rng, 1, 40, 7).to(dtype)
    Kuu = Stationary(name, 1, 7, 0.7).to(dtype).Kuu(Z)
    assert torch.equal(Kuu.diagonal(dim1=-2, dim2=-1), torch.ones(1, 40, dtype=dtype))
    asymmetry = (Kuu - Kuu.mT).abs().max().item()
    assert asymmetry <= 64.0 * torch.finfo(dtype).eps


@pytest.mark.parametrize("name", SMOOTH)
def test_coincident_points_have_covariance_one(rng: np.random.Generator, name: str) -> None:
    Z = normal(rng, 1, 40, 7)
    K = Stationary(name, 1, 7, 0.5).double().Kuf(Z, Z[0])
    np.testing.assert_allclose(to_array(K[0].diagonal()), 1.0, rtol=0, atol=1e-13)


def test_coincident_points_have_covariance_one_up_to_rounding_for_the_exponential_kernel(
    rng: np.random.Generator,
) -> None:
    """Rounding of eps in r^2 is sqrt(eps) = 1.5e-8 in r, and k = 1 - r there."""
    Z = normal(rng, 1, 40, 7)
    K = Stationary("matern12", 1, 7, 0.5).double().Kuf(Z, Z[0])
    np.testing.assert_allclose(to_array(K[0].diagonal()), 1.0, rtol=0, atol=2e-7)


@pytest.mark.parametrize("name", SMOOTH)
def test_a_common_shift_of_the_inputs_changes_nothing(rng: np.random.Generator, name: str) -> None:
    kernel = Stationary(name, 1, 2, 1.0).double()
    Z, x = normal(rng, 1, 5, 2), normal(rng, 6, 2)
    shifted = kernel.Kuf(Z + 1e6, x + 1e6)
    np.testing.assert_allclose(to_array(shifted), to_array(kernel.Kuf(Z, x)), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", PROFILES)
def test_gradient_of_stationary_kernels(rng: np.random.Generator, name: str) -> None:
    """Finite differences in Z, x and the lengthscales, for both blocks."""
    kernel = random_kernel(rng, name, 2, 3)
    Z, x = normal(rng, 2, 4, 3).requires_grad_(), normal(rng, 5, 3).requires_grad_()

    def blocks(z: Tensor, x: Tensor, log_lengthscale: Tensor) -> tuple[Tensor, Tensor]:
        parameters = {"log_lengthscale": log_lengthscale}
        Kuu = torch.func.functional_call(_Block(kernel, "Kuu"), _prefixed(parameters), (z,))
        Kuf = torch.func.functional_call(_Block(kernel, "Kuf"), _prefixed(parameters), (z, x))
        return Kuu, Kuf

    log_lengthscale = kernel.log_lengthscale.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(blocks, (Z, x, log_lengthscale), atol=1e-8, rtol=1e-6)


class _Block(torch.nn.Module):
    """One block of a kernel as a module that can be called."""

    def __init__(self, kernel: Stationary, block: str) -> None:
        super().__init__()
        self.kernel = kernel
        self.block = block

    def forward(self, *args: Tensor) -> Tensor:
        result: Tensor = getattr(self.kernel, self.block)(*args)
        return result


def _prefixed(parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"kernel.{name}": value for name, value in parameters.items()}


@pytest.mark.parametrize("name", PROFILES)
def test_input_gradient_with_coincident_points_off_the_diagonal(
    rng: np.random.Generator, name: str
) -> None:
    """Points that coincide pull on nothing; the others pull as if the pair were absent."""
    Z = normal(rng, 1, 5, 2)
    Z[0, 3] = Z[0, 1]
    x = normal(rng, 6, 2)
    x[2] = Z[0, 1]
    kernel = Stationary(name, 1, 2, 1.0).double()
    atol = 1e-6 if name == "matern12" else 1e-12

    G = normal(rng, 5, 6)
    z = Z.clone().requires_grad_()
    (kernel.Kuf(z, x)[0] * G).sum().backward()
    expected = input_gradient(name, to_array(Z[0]), to_array(x), to_array(G))
    np.testing.assert_allclose(to_array(z.grad[0]), expected, rtol=0, atol=atol)

    G = normal(rng, 5, 5)
    z = Z.clone().requires_grad_()
    (kernel.Kuu(z)[0] * G).sum().backward()
    both = to_array(G + G.mT)
    expected = input_gradient(name, to_array(Z[0]), to_array(Z[0]), both)
    np.testing.assert_allclose(to_array(z.grad[0]), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradcheck_with_coincident_points(rng: np.random.Generator, name: str) -> None:
    """Finite differences agree where points coincide: the gradient there is zero, not a pole."""
    Z = normal(rng, 1, 4, 2)
    Z[0, 3] = Z[0, 1]
    x = torch.cat([normal(rng, 2, 2), Z[0, :2]]).requires_grad_()
    kernel = Stationary(name, 1, 2, 1.0).double()
    Z.requires_grad_()
    assert torch.autograd.gradcheck(kernel.Kuf, (Z, x), atol=1e-5)
    assert torch.autograd.gradcheck(kernel.Kuu, (Z,), atol=1e-5)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("far", [1e2, 1e8, 1e150])
def test_far_away_points_are_uncorrelated_and_pull_on_nothing(
    rng: np.random.Generator, name: str, far: float
) -> None:
    Z = normal(rng, 1, 3, 2).requires_grad_()
    x = normal(rng, 4, 2)
    x[1] += far
    kernel = Stationary(name, 1, 2, 0.05).double()
    K = kernel.Kuf(Z, x)
    K[0, :, 1].sum().backward()
    assert torch.all(K[0, :, 1] == 0.0)
    assert torch.all(Z.grad == 0.0)
    assert torch.all(torch.isfinite(kernel.log_lengthscale.grad))


@pytest.mark.parametrize("name", PROFILES)
def test_no_product_of_correlations_is_denormal(name: str) -> None:
    # Such numbers are some thirty times as slow, in every product that the step goes on with.
    x = torch.linspace(0.0, 200.0, 4001).unsqueeze(-1)
    K = Stationary(name, 1, 1, 1.0).Kuf(torch.zeros(1, 1, 1), x).detach()
    positive = K[K > 0.0]
    assert torch.all(1e-4 * positive**3 >= torch.finfo(torch.float32).tiny)
    # What is taken for zero is less than float32 keeps beside the variance.
    neglected = [CORRELATIONS[name](float(r)) for r in x[K[0, 0] == 0.0, 0]]
    assert max(neglected) < np.finfo(np.float32).eps


def test_initial_lengthscale_and_variance() -> None:
    kernel = Stationary("rbf", 2, 3, 0.7)
    np.testing.assert_allclose(to_array(kernel.lengthscale), np.full((2, 3), 0.7), rtol=1e-6)
    np.testing.assert_array_equal(to_array(kernel.variance), np.ones(2))
    assert kernel.log_prior() == 0.0


@pytest.mark.parametrize("name", PROFILES)
def test_general_path_equals_fused_path(rng: np.random.Generator, name: str) -> None:
    """The same kernel by gpytorch, values and gradients, without a ScaleKernel."""
    fused = Stationary(name, 2, 3, 0.8).double()
    general = GPyTorchKernel(gpytorch_kernel(name, torch.full((1, 3), 0.8)), 2).double()
    with torch.no_grad():
        fused.log_lengthscale.fill_(math.log(0.8))
    np.testing.assert_allclose(to_array(general.variance), to_array(fused.variance))
    weights = normal(rng, 2, 5, 7), normal(rng, 2, 5, 5)
    Z0, x = normal(rng, 2, 5, 3), normal(rng, 7, 3)
    gradients = []
    for kernel in (fused, general):
        Z = Z0.clone().requires_grad_()
        total = (kernel.Kuf(Z, x) * weights[0]).sum() + (kernel.Kuu(Z) * weights[1]).sum()
        total.backward()
        gradients.append((total.item(), to_array(Z.grad)))
        np.testing.assert_allclose(to_array(kernel.kff(x).expand(2, 7)), 1.0, rtol=1e-12)
    # gpytorch keeps its lengthscale in float32 until it is cast, hence no 1e-10 here.
    np.testing.assert_allclose(gradients[0][0], gradients[1][0], rtol=1e-7)
    np.testing.assert_allclose(gradients[0][1], gradients[1][1], rtol=0, atol=1e-6)


def composite() -> gpytorch.kernels.Kernel:
    """A sum of a scaled RBF with priors and a product of a periodic and a Matern kernel."""
    rbf = RBFKernel(ard_num_dims=2, lengthscale_prior=GammaPrior(3.0, 6.0))
    periodic = PeriodicKernel(
        period_length_prior=LogNormalPrior(0.0, 0.5), lengthscale_prior=NormalPrior(1.0, 0.3)
    )
    scaled = ScaleKernel(rbf, outputscale_prior=GammaPrior(2.0, 0.15))
    kernel = (scaled + periodic * MaternKernel(nu=1.5)).double()
    rbf.lengthscale = torch.tensor([[0.5, 1.3]])
    scaled.outputscale = 1.7
    periodic.period_length = 0.8
    periodic.lengthscale = 1.1
    return kernel


def test_general_kernel_against_gpytorch_itself(rng: np.random.Generator) -> None:
    reference = composite()
    kernel = make_kernel(composite(), 2, 2, 1.0)
    Z, x = normal(rng, 2, 4, 2), normal(rng, 5, 2)
    scale = to_array(kernel.variance)[:, None, None]
    for w in range(2):
        expected = to_array(reference(Z[w]).to_dense())
        np.testing.assert_allclose((scale * to_array(kernel.Kuu(Z)))[w], expected, rtol=1e-12)
        expected = to_array(reference(Z[w], x).to_dense())
        np.testing.assert_allclose((scale * to_array(kernel.Kuf(Z, x)))[w], expected, rtol=1e-12)
        expected = np.diag(to_array(reference(x).to_dense()))
        np.testing.assert_allclose((scale[:, 0] * to_array(kernel.kff(x)))[w], expected, rtol=1e-12)


def test_log_prior_is_the_sum_of_the_prior_densities() -> None:
    """Each prior once per element and GP, with densities from scipy."""
    kernel = make_kernel(composite(), 3, 2, 1.0)
    one = (
        stats.gamma(3.0, scale=1.0 / 6.0).logpdf([0.5, 1.3]).sum()
        + stats.gamma(2.0, scale=1.0 / 0.15).logpdf(1.7)
        + stats.lognorm(0.5).logpdf(0.8)
        + stats.norm(1.0, 0.3).logpdf(1.1)
    )
    np.testing.assert_allclose(kernel.log_prior().item(), 3.0 * one, rtol=1e-6)


def test_log_prior_pulls_on_the_hyper_parameters_of_each_copy() -> None:
    """d log Gamma(l; a, b) / dl = (a - 1) / l - b, by the chain rule to the raw parameter."""
    base = RBFKernel(lengthscale_prior=GammaPrior(3.0, 6.0)).double()
    base.lengthscale = 0.9
    kernel = GPyTorchKernel(base, 2)
    kernel.log_prior().backward()
    for copy in kernel.kernels:
        raw = copy.raw_lengthscale
        slope = torch.sigmoid(raw)  # of softplus
        expected = ((3.0 - 1.0) / copy.lengthscale - 6.0) * slope
        np.testing.assert_allclose(to_array(raw.grad), to_array(expected), rtol=1e-6)


def test_lengthscales_are_pulled_towards_their_mean() -> None:
    """The prior is a product of Cauchy densities, up to a constant."""
    kernel = Stationary("rbf", 2, 3, 1.0, pulled=True).double()
    assert kernel.log_prior() == 0.0
    values = np.array([[0.0, 0.3, 2.0], [1.0, 1.0, -0.5]])
    with torch.no_grad():
        kernel.log_lengthscale.copy_(torch.from_numpy(values))
    densities = stats.cauchy.logpdf(values - values.mean(1, keepdims=True), scale=0.1)
    expected = (densities - stats.cauchy.logpdf(0.0, scale=0.1)).sum()
    np.testing.assert_allclose(kernel.log_prior().item(), expected, rtol=1e-12)
    assert Stationary("rbf", 2, 3, 1.0).log_prior() == 0.0


def test_a_kernel_is_magnified_if_its_variance_is_a_parameter() -> None:
    stationary, general = Stationary("rbf", 2, 3, 1.0).double(), GPyTorchKernel(RBFKernel(), 2)
    factor = torch.tensor([2.0, 5.0], dtype=torch.float64)
    with torch.no_grad():
        for kernel in (stationary, general):
            kernel.magnify(factor)
    np.testing.assert_allclose(to_array(stationary.variance), [2.0, 5.0], rtol=1e-14)
    np.testing.assert_array_equal(to_array(general.variance), [1.0, 1.0])


def test_each_gp_trains_a_copy_of_its_own() -> None:
    base = RBFKernel()
    kernel = GPyTorchKernel(base, 2)
    kernel.kernels[0].lengthscale = 3.0
    np.testing.assert_allclose(to_array(kernel.lengthscale)[:, 0], [3.0, math.log(2.0)], rtol=1e-6)
    np.testing.assert_allclose(base.lengthscale.item(), math.log(2.0), rtol=1e-6)


def test_lengthscale_of_a_composite_is_the_first_one_and_nan_without_any() -> None:
    kernel = make_kernel(composite(), 2, 2, 1.0)
    np.testing.assert_allclose(to_array(kernel.lengthscale), [[0.5, 1.3]] * 2, rtol=1e-6)
    linear = make_kernel(gpytorch.kernels.LinearKernel(), 2, 2, 1.0)
    assert torch.all(torch.isnan(linear.lengthscale))


def test_weak_prior_of_logarithms_is_a_hyperbolic_secant(rng: np.random.Generator) -> None:
    """Lengthscales around sqrt(D), variances around one; up to the density at the centre."""
    kernel = random_kernel(rng, "matern52", 2, 3)
    lengthscales, variances = kernel.lengthscale.detach().numpy(), kernel.variance.detach().numpy()
    secant = stats.hypsecant(np.log(np.sqrt(3.0)))
    density = secant.logpdf(np.log(lengthscales)).sum() - 8 * stats.hypsecant.logpdf(0.0)
    density += stats.hypsecant.logpdf(np.log(variances)).sum()
    assert kernel.log_weak_prior().item() == pytest.approx(density, rel=1e-12)
