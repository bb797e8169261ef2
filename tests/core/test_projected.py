"""Hidden GPs of one kernel: moments by dense algebra, joint draws by their covariances."""

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from oracles.latent import random_projected, repeated, z_scores
from oracles.models import dense_gps, normal, to_array
from oracles.sparse import kl, layer_moments, prior_covariance
from torch import Tensor

from skgp.core.kernels.stationary import Stationary
from skgp.core.layers import projected
from skgp.core.layers import sparse as base
from skgp.core.layers.posteriors import Covariance, make_posterior
from skgp.core.layers.projected import ProjectedGP
from skgp.core.layers.sparse import SparseGP

Array = npt.NDArray[np.float64]
N_DRAWS = 20_000
COVARIANCES: tuple[Covariance, ...] = ("full", "diagonal")


def identity(layer: ProjectedGP) -> None:
    """Let W = F and P = I, so that a layer gives h + f."""
    width, n_features = layer.projection.shape
    assert width == n_features
    layer.projection.copy_(torch.eye(width))


# ------------------------------------------------------------------ moments


@pytest.mark.parametrize("name", ["rbf", "matern32"])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_moments_are_those_of_gps_with_a_kernel_each(
    rng: np.random.Generator, covariance: Covariance, name: str
) -> None:
    layer = random_projected(rng, covariance, width=3, name=name)
    x = normal(rng, 2, 4, 3)
    latent = layer.layer.moments(x, layer.layer.factors())
    naive = layer_moments(dense_gps(repeated(layer.layer)), to_array(x.flatten(0, 1)))
    for actual, expected in zip(latent, naive, strict=True):
        shared = np.broadcast_to(to_array(actual), (2, 4, 3))
        np.testing.assert_allclose(shared, expected.reshape(2, 4, 3), rtol=0, atol=1e-9)


def test_moments_of_a_long_table_are_those_of_its_rows(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten times as many inputs as one chunk holds."""
    monkeypatch.setattr(base, "_BLOCK", 1)
    monkeypatch.setattr(base, "_MIN_CHUNK", 250)
    layer = random_projected(rng)
    x = normal(rng, 1, 2500, 3)
    factors = layer.layer.factors()
    whole, part = layer.layer.moments(x, factors), layer.layer.moments(x[:, 2000:], factors)
    for actual, expected in zip(whole, part, strict=True):
        np.testing.assert_allclose(to_array(actual[:, 2000:]), to_array(expected), atol=1e-12)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_divergence_is_that_of_the_gps(rng: np.random.Generator, covariance: Covariance) -> None:
    layer = random_projected(rng, covariance, width=3)
    expected = sum(kl(gp) for gp in dense_gps(repeated(layer.layer)))
    np.testing.assert_allclose(layer.layer.kl(layer.layer.factors()).item(), expected, rtol=1e-8)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_propagation_moves_the_inputs_along_the_directions(
    rng: np.random.Generator, covariance: Covariance
) -> None:
    """h + sum_w (mean_w + deviation_w xi_w) P_w, row by row."""
    layer = random_projected(rng, covariance)
    h, xi = normal(rng, 3, 4, 3), normal(rng, 3, 1, 2)
    actual = to_array(layer.propagate(h, xi, layer.layer.factors()))
    gps, P = dense_gps(repeated(layer.layer)), to_array(layer.projection)
    for q, b in np.ndindex(3, 4):
        row = to_array(h[q, b])
        of_row = layer_moments(gps, row[None])
        expected = row.copy()
        for w in range(2):
            deviation = math.sqrt(of_row.v_prior[0, w] + of_row.v_q[0, w])
            expected += (of_row.f_mean[0, w] + deviation * xi[q, 0, w].item()) * P[w]
        np.testing.assert_allclose(actual[q, b], expected, rtol=0, atol=1e-8)


def test_gradient_of_the_propagation(rng: np.random.Generator) -> None:
    layer = random_projected(rng, n_inducing=3, name="rbf")
    h, xi = normal(rng, 2, 2, 3), normal(rng, 2, 1, 2)
    parameters = dict(layer.named_parameters())

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, h: Tensor) -> Tensor:
            return layer.propagate(h, xi, layer.layer.factors())

    module = Whole()

    def value(h: Tensor, *values: Tensor) -> Tensor:
        pairs = {f"layer.{k}": v for k, v in zip(parameters, values, strict=True)}
        return torch.func.functional_call(module, pairs, (h,))

    inputs = [p.detach().clone().requires_grad_() for p in (h, *parameters.values())]
    assert torch.autograd.gradcheck(value, inputs, eps=1e-6, atol=1e-6, rtol=1e-4)


# ------------------------------------------------------------------ joint draws


def joint_moments(layer: ProjectedGP, x: Array) -> tuple[Array, Array]:
    """Mean (K, W) and covariance (W, K, K) of f at inputs x (K, F), in the unwhitened variables.

    kxx - kxu K^-1 kux + kxu K^-1 S K^-1 kux, which is Kff - A^T A + A^T S A when whitened.
    """
    means, covariances = [], []
    for gp in dense_gps(repeated(layer.layer)):
        weights = np.linalg.solve(prior_covariance(gp), gp.k(gp.Z, x))
        means.append(gp.c + weights.T @ (gp.m - gp.c))
        unexplained = gp.k(x, x) - gp.k(x, gp.Z) @ weights
        covariances.append(unexplained + weights.T @ gp.S @ weights)
    return np.stack(means, -1), np.stack(covariances)


@torch.no_grad()
def draws(layer: ProjectedGP, h: Tensor, n_draws: int = N_DRAWS) -> Array:
    """f = (value - h) P^+ at h (K, B, F), (n_draws, K, B, W)."""
    generator = torch.Generator().manual_seed(11)
    tiled = h.expand(n_draws, -1, -1, -1)
    values = layer.draw(tiled, layer.layer.factors(), generator) - tiled
    return to_array(values @ torch.linalg.pinv(layer.projection))


def products(f: Array, mean: Array) -> Array:
    """Products of the deviations of all values of a draw, (S, K B W, K B W)."""
    flat = (f - mean).reshape(len(f), -1)
    return flat[:, :, None] * flat[:, None, :]


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_draws_have_the_joint_moments_of_the_inputs_of_a_row(
    rng: np.random.Generator, covariance: Covariance
) -> None:
    """Three inputs of two rows and two GPs: all 12 means and 12 x 12 covariances.

    The covariance of the inputs of a row is that of the GP, and zero between rows, though their
    inputs are the same, and between GPs. Largest of 78 distances, in standard errors: below 4.5.
    """
    layer = random_projected(rng, covariance)
    inputs = 0.5 * normal(rng, 3, 1, 3)
    h = inputs.expand(3, 2, 3)
    mean, blocks = joint_moments(layer, to_array(inputs[:, 0]))
    correlations = blocks / np.sqrt(
        np.einsum("wii->wi", blocks)[:, :, None] * np.einsum("wii->wi", blocks)[:, None, :]
    )
    assert np.abs(correlations[:, *np.triu_indices(3, 1)]).min() > 0.1
    f = draws(layer, h)
    expected_mean = np.stack([mean, mean], 1)  # (K, B, W)
    expected = np.zeros((3, 2, 2, 3, 2, 2))
    for k, b, w, other in np.ndindex(3, 2, 2, 3):
        expected[k, b, w, other, b, w] = blocks[w, k, other]
    assert np.abs(z_scores(f, expected_mean)).max() < 4.5
    distance = z_scores(products(f, expected_mean), expected.reshape(12, 12))
    assert np.abs(distance).max() < 4.5


def test_draws_of_a_row_are_one_function_also_far_from_the_inducing_inputs(
    rng: np.random.Generator,
) -> None:
    """There f is the prior: the covariance is the kernel's, in which q(u) has no part."""
    layer = random_projected(rng, width=3)
    identity(layer)
    far = torch.tensor([[50.0, 50.0, 50.0], [50.3, 50.0, 50.0], [51.5, 50.0, 49.0]]).double()
    f = draws(layer, far.unsqueeze(1))[:, :, 0]
    gp = dense_gps(repeated(layer.layer))[0]
    kernel = gp.k(to_array(far), to_array(far))
    mean = to_array(layer.layer.mean)
    assert np.abs(z_scores(f, mean)).max() < 4.5
    for w in range(3):
        distance = z_scores(products(f[..., w], mean[w]), kernel)
        assert np.abs(distance).max() < 4.5


def test_a_single_input_has_the_marginal_moments(rng: np.random.Generator) -> None:
    layer = random_projected(rng)
    h = normal(rng, 1, 3, 3)
    f = draws(layer, h)
    latent = layer.layer.moments(h, layer.layer.factors())
    f_mean, f_var = to_array(latent.f_mean), to_array(latent.f_var)
    assert np.abs(z_scores(f, f_mean)).max() < 4.5
    assert np.abs(z_scores((f - f_mean) ** 2, f_var)).max() < 4.5


def test_equal_inputs_have_equal_values(rng: np.random.Generator) -> None:
    """Up to the jitter: the difference has twice its variance, which is 1e-3 of the unexplained."""
    layer = random_projected(rng)
    inputs = normal(rng, 2, 1, 3)
    h = torch.cat([inputs, inputs[:1]])
    f = draws(layer, h)
    apart, equal = f[:, 1] - f[:, 0], f[:, 2] - f[:, 0]
    v_prior = to_array(layer.layer.moments(h, layer.layer.factors()).v_prior).mean()
    assert (equal**2).mean() < 2.1e-3 * v_prior
    assert (apart**2).mean() > 0.1 * v_prior


@torch.no_grad()
@pytest.mark.parametrize("name", ["rbf", "matern52"])
def test_crowded_inducing_inputs_leave_little_in_float32(
    rng: np.random.Generator, name: str
) -> None:
    """Rounding makes the covariances of the rest indefinite, not the draws large or impossible."""
    Z = normal(rng, 1, 128, 1)
    posterior = make_posterior("full", normal(rng, 1, 128), 1e-12)
    projection = torch.ones(1, 1, dtype=torch.float64)
    layer = ProjectedGP(SparseGP(Stationary(name, 1, 1, 1.0), Z, posterior, 1e-6, 1), projection)
    h = (Z[0, :100] + 0.01 * normal(rng, 5, 100, 1)).float()
    f_mean = to_array(layer.double().layer.moments(h.double(), layer.layer.factors()).f_mean)
    f = draws(layer.float(), h, 500)
    np.testing.assert_allclose(((f - f_mean) ** 2).mean((0, 1, 3)), 0.0, atol=5e-5)


def test_inputs_that_are_inducing_inputs_leave_nothing_unexplained(
    rng: np.random.Generator,
) -> None:
    """f(Z) = u ~ q(u): the covariance is S of the unwhitened variables."""
    layer = random_projected(rng, n_inducing=3, jitter=1e-9)
    Z = layer.layer.Z.detach()[0]
    f = draws(layer, Z.unsqueeze(1))[:, :, 0]
    for w, gp in enumerate(dense_gps(repeated(layer.layer))):
        assert np.abs(z_scores(f[..., w], gp.m)).max() < 4.5
        assert np.abs(z_scores(products(f[..., w], gp.m), gp.S)).max() < 4.5


def test_rows_of_a_large_batch_share_the_draws_of_the_inducing_variables(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two draws for three rows: between the first two there is A^T S A, with the third nothing.

    What inducing variables leave unexplained is drawn for each row, as is all in another sample.
    """
    monkeypatch.setattr(projected, "_FUNCTIONS", 2)
    layer = random_projected(rng)
    inputs = 0.5 * normal(rng, 2, 1, 3)
    h = inputs.expand(2, 3, 3)
    mean, blocks = joint_moments(layer, to_array(inputs[:, 0]))
    f = draws(layer, h)
    expected = np.zeros((2, 3, 2, 2, 3, 2))
    for w, gp in enumerate(dense_gps(repeated(layer.layer))):
        weights = np.linalg.solve(prior_covariance(gp), gp.k(gp.Z, to_array(inputs[:, 0])))
        common = weights.T @ gp.S @ weights
        assert np.abs(common).min() > 0.02
        for b in range(3):
            expected[:, b, w, :, b, w] = blocks[w]
        expected[:, 0, w, :, 1, w] = expected[:, 1, w, :, 0, w] = common
    expected_mean = np.stack([mean] * 3, 1)
    assert np.abs(z_scores(f, expected_mean)).max() < 4.5
    distance = z_scores(products(f, expected_mean), expected.reshape(12, 12))
    assert np.abs(distance).max() < 4.5
    deviation = f - expected_mean
    assert np.abs(z_scores(deviation[1:] * deviation[:-1], 0.0)).max() < 4.5


def test_gradient_of_values_at_draws_in_any_direction(rng: np.random.Generator) -> None:
    """Six rows of two inputs, of which three share a draw of v."""
    Kfu, L_inv, v = normal(rng, 12, 3), normal(rng, 3, 3).tril(), normal(rng, 2, 3, 2)
    Kff = normal(rng, 6, 2, 2) + 50.0 * torch.eye(2).double()
    A = Kfu @ L_inv.mT
    f, rest = projected._Conditional.apply(Kfu, L_inv, v, Kff)
    for row, k, other in np.ndindex(6, 2, 2):
        a, b = A[2 * row + k], A[2 * row + other]
        torch.testing.assert_close(f[row, k], a @ v[row // 3])
        torch.testing.assert_close(rest[row, k, other], Kff[row, k, other] - a @ b)
    leaves = [t.clone().requires_grad_() for t in (Kfu, L_inv, v, Kff)]
    # Perturbs single entries of the matrices of rows; the upper triangle of L_inv is no parameter.
    assert torch.autograd.gradcheck(
        lambda K, L, v, Kff: projected._Conditional.apply(K, L.tril(), v, Kff), leaves
    )


def test_draws_come_from_the_generator_and_move_along_the_directions(
    rng: np.random.Generator,
) -> None:
    """What is orthogonal to P stays where it is."""
    layer = random_projected(rng)
    h = normal(rng, 4, 3, 2, 3)
    first, again, other = (
        layer.draw(h, layer.layer.factors(), torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(to_array(first), to_array(again))
    assert (first != other).all()
    rest = torch.eye(3) - torch.linalg.pinv(layer.projection) @ layer.projection
    np.testing.assert_allclose(to_array((first - h) @ rest), 0.0, rtol=0, atol=1e-12)
