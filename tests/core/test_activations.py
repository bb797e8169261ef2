"""Moments of activations against quadrature, sampling and their limits."""

import math

import numpy as np
import pytest
import torch
from oracles import activations as oracle
from oracles.models import normal, to_array
from torch import Tensor

from skgp.core.networks.activations import ACTIVATIONS, Activation, Ramp

NAMES = list(ACTIVATIONS)
MEANS = (-2.3, -0.4, 0.0, 0.9, 3.1)
# Means, variances and correlation of pairs.
PAIRS = [
    (0.0, 1.0, 0.0, 1.0, 0.5),
    (0.7, 0.3, -0.4, 2.0, -0.8),
    (-1.5, 0.05, 0.2, 0.6, 0.95),
    (2.0, 4.0, 1.0, 9.0, 0.3),
    (0.3, 1.3, 0.31, 1.2, -0.99),
    (0.0, 25.0, 0.4, 0.01, 0.6),
]


def double(*values: float) -> list[Tensor]:
    return [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]


def pair(
    mean_1: float, var_1: float, mean_2: float, var_2: float, correlation: float
) -> tuple[float, float, float, float, float]:
    """The pair with its covariance in place of the correlation."""
    return mean_1, var_1, mean_2, var_2, correlation * math.sqrt(var_1 * var_2)


def random_covariance(rng: np.random.Generator, n_units: int, rank: int) -> Tensor:
    root = normal(rng, n_units, rank)
    return root @ root.mT


@pytest.mark.parametrize("name", NAMES)
def test_value(name: str) -> None:
    a = np.linspace(-4.0, 4.0, 41)
    value = ACTIVATIONS[name](torch.from_numpy(a))
    np.testing.assert_allclose(to_array(value), oracle.FUNCTIONS[name](a), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("var", [1e-6, 0.04, 1.0, 30.0])
def test_mean_against_quadrature(name: str, var: float) -> None:
    for m in MEANS:
        value = ACTIVATIONS[name].mean(*double(m, var)).item()
        expected = oracle.mean(oracle.FUNCTIONS[name], m, var)
        np.testing.assert_allclose(value, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["erf", "shifted_erf", "xerf"])
def test_error_functions_against_gauss_hermite(name: str) -> None:
    """Eqns 14, 15 and 19 where the paper's own rule, of 200 points, converges."""
    for m in MEANS:
        for var in (0.01, 0.2, 1.0):
            g = oracle.FUNCTIONS[name]
            mean = oracle.hermite(g, m, var)
            square = oracle.hermite(lambda a, g=g: g(a) ** 2, m, var)
            m_, v = double(m, var)
            activation = ACTIVATIONS[name]
            np.testing.assert_allclose(activation.mean(m_, v).item(), mean, rtol=0, atol=1e-8)
            variance = activation.pair_covariance(m_, v, m_, v, v).item()
            np.testing.assert_allclose(variance, square - mean**2, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("moments", PAIRS)
def test_covariance_against_quadrature(name: str, moments: tuple[float, ...]) -> None:
    m1, v1, m2, v2, cov = pair(*moments)
    value = ACTIVATIONS[name].pair_covariance(*double(m1, v1, m2, v2, cov)).item()
    expected = oracle.covariance(oracle.FUNCTIONS[name], m1, v1, m2, v2, cov)
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("var", [1e-6, 0.3, 4.0, 400.0])
def test_variance_against_quadrature(name: str, var: float) -> None:
    g = oracle.FUNCTIONS[name]
    for m in MEANS:
        mean = oracle.mean(g, m, var)
        expected = oracle.mean(lambda a, mean=mean: (g(a) - mean) ** 2, m, var)
        m_, v = double(m, var)
        value = ACTIVATIONS[name].pair_covariance(m_, v, m_, v, v).item()
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_moments_against_a_million_samples(name: str, rng: np.random.Generator) -> None:
    mean, cov = normal(rng, 2), random_covariance(rng, 2, 2)
    a = to_array(mean) + rng.normal(size=(1_000_000, 2)) @ np.linalg.cholesky(to_array(cov)).T
    g = oracle.FUNCTIONS[name](a)
    activation = ACTIVATIONS[name]
    closed_mean = to_array(activation.mean(mean, cov.diagonal()))
    assert oracle.within_four_errors(closed_mean, g)
    centred = g - closed_mean
    value = to_array(activation.covariance(mean, cov))
    for i, j in ((0, 0), (0, 1), (1, 1)):
        assert oracle.within_four_errors(value[i, j], centred[:, i] * centred[:, j])


@pytest.mark.parametrize("name", NAMES)
def test_covariance_matrix_is_that_of_its_pairs(name: str, rng: np.random.Generator) -> None:
    activation = ACTIVATIONS[name]
    mean, cov = normal(rng, 2, 3, 4), torch.stack([random_covariance(rng, 4, 4)] * 6)
    cov = (cov * torch.arange(1, 7).reshape(6, 1, 1)).reshape(2, 3, 4, 4)
    value = activation.covariance(mean, cov)
    assert value.shape == (2, 3, 4, 4)
    for q in range(2):
        for b in range(3):
            m, c = mean[q, b], cov[q, b]
            for i in range(4):
                for j in range(4):
                    expected = activation.pair_covariance(m[i], c[i, i], m[j], c[j, j], c[i, j])
                    np.testing.assert_allclose(value[q, b, i, j].item(), expected.item(), 1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rank", [1, 2, 5])
def test_covariance_matrix_has_no_negative_direction(
    name: str, rank: int, rng: np.random.Generator
) -> None:
    """Up to the error of the rule, also where fewer latent functions than units move."""
    mean, cov = normal(rng, 5), random_covariance(rng, 5, rank)
    eigenvalues = torch.linalg.eigvalsh(ACTIVATIONS[name].covariance(mean, cov))
    assert eigenvalues.min().item() > -1e-8


@pytest.mark.parametrize("name", NAMES)
def test_gradients_against_finite_differences(name: str, rng: np.random.Generator) -> None:
    activation = ACTIVATIONS[name]
    mean = normal(rng, 2, 3).requires_grad_()
    root = normal(rng, 2, 3, 3).requires_grad_()

    def moments(mean: Tensor, root: Tensor) -> tuple[Tensor, Tensor]:
        cov = root @ root.mT
        var = cov.diagonal(dim1=-2, dim2=-1)
        return activation.mean(mean, var), activation.covariance(mean, cov)

    assert torch.autograd.gradcheck(moments, (mean, root))


@pytest.mark.parametrize("name", NAMES)
def test_gradients_where_one_latent_moves_all_units(name: str, rng: np.random.Generator) -> None:
    """All correlations are 1 or -1, and stay so along this direction."""
    activation = ACTIVATIONS[name]
    mean, slope = normal(rng, 3), normal(rng, 3)
    scale = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)

    def total(scale: Tensor) -> Tensor:
        return activation.covariance(mean, scale * slope.outer(slope)).sum()

    assert torch.autograd.gradcheck(total, (scale,), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_moments_where_the_variance_vanishes(name: str, dtype: torch.dtype) -> None:
    """The mean is g(m), the covariance zero, and all gradients are finite."""
    activation = ACTIVATIONS[name]
    mean = torch.tensor([-1.0, 0.0, 2.0], dtype=dtype, requires_grad=True)
    cov = torch.zeros(3, 3, dtype=dtype, requires_grad=True)
    values = activation.mean(mean, cov.diagonal()), activation.covariance(mean, cov)
    eps = torch.finfo(dtype).eps
    np.testing.assert_allclose(to_array(values[0]), to_array(activation(mean)), 0, 4.0 * eps)
    np.testing.assert_array_equal(to_array(values[1]), 0.0)
    gradients = torch.autograd.grad(sum(value.sum() for value in values), (mean, cov))
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


@pytest.mark.parametrize("name", NAMES)
def test_small_covariance_is_linear_in_float32(name: str) -> None:
    """Cov -> g'(m1) g'(m2) c, a millionth beside means of order one: nothing cancels."""
    activation: Activation = ACTIVATIONS[name]
    m = torch.tensor([1.1, 0.8], dtype=torch.float64, requires_grad=True)
    slope = torch.autograd.grad(activation(m).sum(), m)[0].prod().item()
    mean = m.detach().float()
    var = torch.tensor([1e-6, 1e-6])
    cov = torch.tensor(0.5e-6)
    value = activation.pair_covariance(mean[0], var[0], mean[1], var[1], cov)
    np.testing.assert_allclose(value.item(), slope * 0.5e-6, rtol=1e-4)


def test_full_correlation_is_a_function_of_one_variable() -> None:
    """a2 = 2 a1 - 1: one integral, by the trapezoidal rule."""
    m, v = 0.4, 0.7
    nodes = np.linspace(-9.0, 9.0, 400_001)
    a = m + math.sqrt(v) * nodes
    weights = np.exp(-0.5 * nodes**2) / math.sqrt(2.0 * math.pi) * (nodes[1] - nodes[0])
    for name, g in oracle.FUNCTIONS.items():
        g1, g2 = g(a), g(2.0 * a - 1.0)
        expected = weights @ (g1 * g2) - (weights @ g1) * (weights @ g2)
        arguments = double(m, v, 2.0 * m - 1.0, 4.0 * v, 2.0 * v)
        value = ACTIVATIONS[name].pair_covariance(*arguments).item()
        np.testing.assert_allclose(value, expected, rtol=0, atol=1e-8)


def test_a_ramp_of_slope_one_is_the_identity(rng: np.random.Generator) -> None:
    identity = Ramp(1.0)
    mean, cov = normal(rng, 4), random_covariance(rng, 4, 2)
    np.testing.assert_allclose(to_array(identity(mean)), to_array(mean), 1e-15)
    np.testing.assert_allclose(to_array(identity.mean(mean, cov.diagonal())), to_array(mean), 1e-15)
    np.testing.assert_allclose(to_array(identity.covariance(mean, cov)), to_array(cov), 1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_linear_error_function_of_wide_units_is_the_absolute_value(dtype: torch.dtype) -> None:
    """E |a1| |a2| = 2 / pi (sqrt(1 - rho^2) + rho asin(rho)) sqrt(v1 v2) at zero means."""
    activation = ACTIVATIONS["xerf"]
    rho = torch.tensor([-1.0, -0.6, 0.0, 0.99, 1.0], dtype=dtype)
    zero, var = torch.zeros_like(rho), torch.full_like(rho, 1e8)
    size = activation.mean(zero, var) / 1e4
    np.testing.assert_allclose(to_array(size), math.sqrt(2.0 / math.pi), rtol=1e-6)
    value = activation.pair_covariance(zero, var, zero, var, rho * 1e8) / 1e8
    expected = 2.0 / math.pi * ((1.0 - rho**2).sqrt() + rho * rho.asin() - 1.0)
    np.testing.assert_allclose(to_array(value), to_array(expected), rtol=0, atol=1e-3)
