"""Cholesky ladder, whitening and their hand-written backward passes."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from oracles.models import normal, random_decoupled, random_layer, random_likelihood
from torch import Tensor

from skgp.core.data import Batch, Targets
from skgp.core.nodes.rules import trivial
from skgp.core.numerics.linalg import (
    basis_weights,
    cholesky,
    correlated,
    gram,
    inverse_cholesky,
    log_det_and_quadratic,
    log_mean_exp,
    whitening,
)
from skgp.core.objectives.objective import ELBO, loss
from skgp.core.stacks.stack import GPStack
from skgp.exceptions import NotPositiveDefiniteError


def spd(rng: np.random.Generator, *shape: int) -> Tensor:
    B = normal(rng, *shape, shape[-1])
    return B @ B.mT + torch.eye(shape[-1], dtype=torch.float64)


def symmetric(K: Tensor) -> Tensor:
    """Makes gradcheck perturb both triangles of a symmetric argument."""
    return 0.5 * (K + K.mT)


def test_cholesky_adds_jitter_relative_to_the_mean_diagonal(rng: np.random.Generator) -> None:
    """L L^T = K + jitter mean(diag K) I, each matrix of a batch with its own mean."""
    K = spd(rng, 2, 4) * torch.tensor([1.0, 1e6], dtype=torch.float64)[:, None, None]
    L = cholesky(K, 0.25)
    for k, factor in zip(K.numpy(), L.numpy(), strict=True):
        expected = k + 0.25 * np.mean(np.diag(k)) * np.eye(4)
        np.testing.assert_allclose(factor @ factor.T, expected, rtol=1e-13)
        assert np.all(np.triu(factor, 1) == 0.0)


def test_cholesky_of_a_float32_matrix_is_computed_in_float64(rng: np.random.Generator) -> None:
    K = spd(rng, 1, 4).float()
    L = cholesky(K, 1e-10)
    assert L.dtype == torch.float64
    np.testing.assert_allclose((L @ L.mT).numpy(), K.double().numpy(), rtol=1e-9)


def test_rank_deficient_matrix_gets_a_factor_from_a_higher_rung() -> None:
    """A matrix whose smallest eigenvalue is -1e-4 needs the rung 1e-3 of the ladder from 1e-6."""
    K = torch.diag(torch.tensor([1.0, 1.0, 1.0, -1e-4], dtype=torch.float64))
    L = cholesky(K, 1e-6)
    added = (L @ L.mT - K).diagonal()
    mean = float(K.diagonal().mean())
    np.testing.assert_allclose(added.numpy(), 1e-3 * mean, rtol=1e-9)


def test_duplicated_rows_get_a_factor_at_the_first_rung(rng: np.random.Generator) -> None:
    B = normal(rng, 5, 2)
    K = (B @ B.mT).unsqueeze(0)
    L = cholesky(K, 1e-8)
    np.testing.assert_allclose((L @ L.mT).numpy(), K.numpy(), rtol=0, atol=1e-7)


def test_each_matrix_of_a_batch_climbs_the_ladder_alone() -> None:
    """Matrices that need rungs 10 and 100 of the jitter get just these, in one call."""
    K = torch.eye(3, dtype=torch.float64).repeat(3, 1, 1)
    K[0, 2, 2], K[1, 2, 2] = -3e-6, -3e-5
    L = cholesky(K, 1e-6)
    added = (L @ L.mT - K).diagonal(dim1=-2, dim2=-1)
    expected = torch.tensor([1e-5, 1e-4, 1e-6]) * K.diagonal(dim1=-2, dim2=-1).mean(-1)
    np.testing.assert_allclose(added.numpy(), expected.numpy()[:, None].repeat(3, 1), rtol=1e-6)


def test_ladder_leaves_the_healthy_matrices_of_a_batch_alone(rng: np.random.Generator) -> None:
    healthy = spd(rng, 4)
    sick = torch.diag(torch.tensor([1.0, 1.0, 1.0, -1e-4], dtype=torch.float64))
    L = cholesky(torch.stack([healthy, sick, healthy]), 1e-6)
    alone = cholesky(healthy, 1e-6)
    assert torch.equal(L[0], alone)
    assert torch.equal(L[2], alone)


def test_last_rung_is_ten_thousand_times_the_jitter() -> None:
    """Smallest eigenvalue -5e-3: 1e-6 * 10^4 = 1e-2 is the first rung that helps; -2e-2: none."""
    diagonal = torch.ones(4, dtype=torch.float64)
    diagonal[3] = -5e-3
    L = cholesky(torch.diag(diagonal), 1e-6)
    mean = float(diagonal.mean())
    np.testing.assert_allclose(float(L[3, 3]) ** 2, 1e-2 * mean - 5e-3, rtol=1e-9)
    diagonal[3] = -2e-2
    with pytest.raises(NotPositiveDefiniteError, match=r"relative jitter of 0\.01;"):
        cholesky(torch.diag(diagonal), 1e-6)


def test_indefinite_matrix_is_an_error_with_its_remedy() -> None:
    K = torch.diag(torch.tensor([1.0, 1.0, -0.5], dtype=torch.float64))
    message = "3 x 3 .* not positive definite .* raise jitter, remove duplicated rows or, if"
    with pytest.raises(NotPositiveDefiniteError, match=message):
        cholesky(K, 1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_non_finite_diagonal_is_an_error_with_its_remedy(bad: float) -> None:
    K = torch.eye(3, dtype=torch.float64)
    K[1, 1] = bad
    message = "non-finite entries; scale the inputs .* outliers"
    with pytest.raises(NotPositiveDefiniteError, match=message):
        cholesky(K, 1e-6)


@pytest.mark.parametrize("function", [cholesky, inverse_cholesky])
def test_nan_off_the_diagonal_is_an_error(function: Callable[[Tensor, float], Tensor]) -> None:
    """Stationary kernels write their diagonal, so NaN inputs show off the diagonal only."""
    K = torch.full((3, 3), math.nan, dtype=torch.float64)
    K.diagonal().fill_(1.0)
    with pytest.raises(NotPositiveDefiniteError):
        function(K, 1e-6)


def test_error_is_a_numpy_linear_algebra_error() -> None:
    assert issubclass(NotPositiveDefiniteError, np.linalg.LinAlgError)


def test_inverse_cholesky_inverts_the_factor(rng: np.random.Generator) -> None:
    """Luu^-1 (K + jitter mean(diag) I) Luu^-T = I, lower triangular."""
    K = spd(rng, 2, 5)
    L_inv = inverse_cholesky(K, 1e-3).numpy()
    for k, factor in zip(K.numpy(), L_inv, strict=True):
        shifted = k + 1e-3 * np.mean(np.diag(k)) * np.eye(5)
        np.testing.assert_allclose(factor @ shifted @ factor.T, np.eye(5), rtol=0, atol=1e-12)
        assert np.all(np.triu(factor, 1) == 0.0)


def test_basis_weights_solve_with_the_transposed_factor(rng: np.random.Generator) -> None:
    """a = Luu^-T q_mu, so that a^T k(Z, x) = q_mu^T A."""
    K, q_mu = spd(rng, 2, 5), normal(rng, 2, 5)
    a = basis_weights(K, q_mu, 1e-3).numpy()
    for w in range(2):
        k = K[w].numpy()
        L = np.linalg.cholesky(k + 1e-3 * np.mean(np.diag(k)) * np.eye(5))
        np.testing.assert_allclose(a[w], np.linalg.inv(L).T @ q_mu[w].numpy(), rtol=1e-11)


def test_working_dtype_is_kept(rng: np.random.Generator) -> None:
    K = spd(rng, 1, 3).float()
    assert inverse_cholesky(K, 1e-6).dtype == torch.float32
    assert basis_weights(K, torch.ones(1, 3), 1e-6).dtype == torch.float32


@pytest.mark.parametrize("jitter", [1e-12, 0.1])
def test_gradient_of_inverse_cholesky(rng: np.random.Generator, jitter: float) -> None:
    """With its jitter, which is a share of the diagonal and moves with it."""
    K = spd(rng, 2, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda k: inverse_cholesky(symmetric(k), jitter).tril(), K)


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_gradient_by_the_relative_change(rng: np.random.Generator, share: float) -> None:
    """(I + E) Luu^-1 with E = 0: all of a gradient may come by E, or a part of it."""
    K, B = spd(rng, 2, 4).requires_grad_(), normal(rng, 2, 4, 3)

    def columns(k: Tensor) -> Tensor:
        L_inv, E = whitening(symmetric(k), 0.1)
        A = L_inv.detach() @ B
        return share * (A + E @ A) + (1.0 - share) * L_inv.tril() @ B

    assert torch.autograd.gradcheck(columns, K)


def test_an_absolute_jitter_is_that_of_a_matrix_without_one(rng: np.random.Generator) -> None:
    """And its gradient; the ladder goes up from it."""
    K, v = spd(rng, 1, 4), torch.from_numpy(rng.normal(size=(1, 4)))
    shifted = K + 0.01 * torch.eye(4, dtype=K.dtype)
    desired = basis_weights(shifted, v, 0.0)
    torch.testing.assert_close(basis_weights(K, v, 0.01, absolute=True), desired)
    K.requires_grad_()
    torch.autograd.gradcheck(lambda k: basis_weights(symmetric(k), v, 0.01, absolute=True), (K,))
    indefinite = torch.diag_embed(torch.tensor([[1e-4, -5e-5, 0.0, 0.0]], dtype=torch.float64))
    a = basis_weights(indefinite, v, 1e-6, absolute=True)
    diagonal = indefinite[0].diagonal() + 1e-4  # the third rung
    torch.testing.assert_close(a[0], v[0] / diagonal.sqrt())
    with pytest.raises(NotPositiveDefiniteError, match="even with a relative jitter of"):
        basis_weights(indefinite, v, 1e-6)
    with pytest.raises(NotPositiveDefiniteError, match="even with a jitter of"):
        basis_weights(indefinite - torch.eye(4), v, 1e-6, absolute=True)


@pytest.mark.parametrize("jitter", [1e-12, 0.1])
def test_gradient_of_basis_weights(rng: np.random.Generator, jitter: float) -> None:
    K, q_mu = spd(rng, 2, 4).requires_grad_(), normal(rng, 2, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda k, m: basis_weights(symmetric(k), m, jitter), (K, q_mu))


def test_correlated_numbers_and_their_gradient(rng: np.random.Generator) -> None:
    """L z for each matrix, whose correlations are a thousandth smaller."""
    K, z = spd(rng, 2, 4), normal(rng, 2, 4, 3)
    values = correlated(K, z)
    for g in range(2):
        k = 0.999 * K[g].numpy() + 0.001 * np.diag(np.diag(K[g]))
        np.testing.assert_allclose(values[g], np.linalg.cholesky(k) @ z[g].numpy(), rtol=1e-12)
    leaves = K.requires_grad_(), z.requires_grad_()
    assert torch.autograd.gradcheck(lambda k, z: correlated(symmetric(k), z), leaves)


@pytest.mark.parametrize(
    ("correlation", "kept"), [(0.95, 0.999), (-0.502, 0.99), (-0.54, 0.9), (-30.0, 0.0)]
)
def test_correlations_of_an_indefinite_matrix_shrink(correlation: float, kept: float) -> None:
    """Three equal correlations are possible from -1/2 to 1; the variances stay what they are."""
    deviations = torch.tensor([0.1, 1.0, 20.0], dtype=torch.float64)
    R = torch.full((3, 3), correlation, dtype=torch.float64).fill_diagonal_(1.0)
    K = torch.outer(deviations, deviations) * R
    expected = K * kept
    expected.diagonal().copy_(K.diagonal())
    healthy = torch.eye(3, dtype=torch.float64)
    both = torch.stack([K, healthy]).requires_grad_()
    z = healthy.expand(2, 3, 3)
    L = correlated(both, z)
    np.testing.assert_allclose((L[0] @ L[0].mT).detach(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(L[1].detach(), healthy)
    assert torch.autograd.gradcheck(lambda k: correlated(symmetric(k), z), both)


@pytest.mark.parametrize(
    ("bad", "message"), [(0.0, "not positive"), (-1.0, "not positive"), (math.nan, "non-finite")]
)
def test_a_covariance_needs_positive_variances(bad: float, message: str) -> None:
    K = torch.diag(torch.tensor([1.0, bad]))[None]
    with pytest.raises(NotPositiveDefiniteError, match=message):
        correlated(K, torch.ones(1, 2, 1))


def test_log_mean_exp_against_a_loop(rng: np.random.Generator) -> None:
    values = rng.normal(size=(4, 3))
    expected = [math.log(sum(math.exp(v) for v in column) / 4) for column in values.T]
    result = log_mean_exp(torch.from_numpy(values), 0)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-14)


@pytest.mark.parametrize("shift", [-1e4, 1e4])
def test_log_mean_exp_does_not_overflow(shift: float) -> None:
    values = torch.tensor([[0.0, math.log(3.0)]], dtype=torch.float64)
    result = log_mean_exp(values + shift, -1) - shift
    np.testing.assert_allclose(result.numpy(), math.log(2.0), rtol=0, atol=1e-11)


@pytest.fixture
def factorisations(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the Cholesky routines called, in order."""
    calls: list[str] = []

    def counted(name: str) -> Callable[..., object]:
        original = getattr(torch.linalg, name)

        def call(*args: object, **kwargs: object) -> object:
            calls.append(name)
            return original(*args, **kwargs)

        return call

    for name in ("cholesky", "cholesky_ex", "inv", "inv_ex", "eigh"):
        monkeypatch.setattr(torch.linalg, name, counted(name))
    return calls


@pytest.mark.parametrize(
    ("make", "count"),
    [
        pytest.param(lambda rng: [random_layer(rng)], 1, id="sparse"),
        pytest.param(lambda rng: [random_decoupled(rng)], 2, id="decoupled"),
        pytest.param(
            lambda rng: [random_layer(rng, n_gps=3), random_layer(rng)], 2, id="two-layers"
        ),
    ],
)
def test_one_factorisation_per_basis_and_step(
    rng: np.random.Generator,
    factorisations: list[str],
    make: Callable[[np.random.Generator], list[torch.nn.Module]],
    count: int,
) -> None:
    """Forward and backward pass of a step factor each Kuu once, and never a second time."""
    layers = make(rng)
    stack = GPStack(layers)
    likelihood = random_likelihood(rng, 2)
    nodes = trivial(likelihood.noise_var)
    if len(layers) > 1:
        nodes = nodes._replace(xi=(normal(rng, 1, 7, 3),))
    batch = Batch(normal(rng, 7, 3), Targets(normal(rng, 7, 2), None), None)
    value = loss(ELBO, stack, likelihood, nodes, batch, beta_reg=1.0, n_data=7.0)
    value.backward()
    assert factorisations == ["cholesky_ex"] * count


def test_log_det_and_quadratic_are_those_of_the_matrix_with_its_jitter(
    rng: np.random.Generator,
) -> None:
    K, r, jitter = spd(rng, 2, 4), normal(rng, 2, 4), 0.1
    values = log_det_and_quadratic(K, r, jitter)
    for w in range(2):
        k = K[w].numpy() + jitter * np.mean(np.diag(K[w])) * np.eye(4)
        expected = np.linalg.slogdet(k)[1], r[w].numpy() @ np.linalg.solve(k, r[w].numpy())
        np.testing.assert_allclose([value[w] for value in values], expected, rtol=1e-12)


def test_log_det_and_quadratic_gradients(rng: np.random.Generator) -> None:
    """Also through a jitter large enough for its share to show."""
    K, r = spd(rng, 2, 4).requires_grad_(), normal(rng, 2, 4).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda K, r: log_det_and_quadratic(symmetric(K), r, 0.1), (K, r)
    )


def test_gram_matrix_and_gradient(rng: np.random.Generator) -> None:
    R = normal(rng, 2, 7, 7).requires_grad_()
    torch.testing.assert_close(gram(R.tril()), torch.einsum("wij,wkj->wik", R.tril(), R.tril()))
    assert torch.autograd.gradcheck(lambda r: gram(r.tril()), R)
