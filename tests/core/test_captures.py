"""What is decided by numbers becomes NaN while a CUDA graph is captured."""

import math

import pytest
import torch
from oracles.models import normal
from torch import Tensor

from skgp.core.data import Targets
from skgp.core.layers import divergences
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods import gaussian, student_t
from skgp.core.likelihoods.student_t import StudentT
from skgp.core.numerics import linalg
from skgp.core.numerics import normal as normal_module
from skgp.core.numerics.captures import is_capturing, nan_where
from skgp.core.numerics.linalg import cholesky


@pytest.fixture(autouse=True)
def capturing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may look at a tensor's numbers, as in a capture."""
    for module in (divergences, gaussian, linalg, normal_module, student_t):
        monkeypatch.setattr(module, "is_capturing", lambda tensor: True)


def test_work_on_a_cpu_is_never_captured() -> None:
    assert not is_capturing(torch.ones(1))


def test_nan_where_a_flag_is_set() -> None:
    value = nan_where(torch.tensor([True, False])[:, None], torch.ones(2, 3))
    assert value.isnan().tolist() == [[True] * 3, [False] * 3]


def test_a_factor_at_the_first_rung_or_nan(rng) -> None:
    B = normal(rng, 4, 4)
    good = B @ B.mT + torch.eye(4, dtype=torch.float64)
    L = cholesky(torch.stack([good, -good]), 1e-3)
    jitter = 1e-3 * good.diagonal().mean() * torch.eye(4, dtype=torch.float64)
    torch.testing.assert_close(L[0] @ L[0].mT, good + jitter)
    assert L[1].isnan().all()


def test_integrals_that_need_shorter_steps_are_nan() -> None:
    value = torch.tensor([1.0, 2.0])

    def again(mask: Tensor, finer: float) -> Tensor:
        raise AssertionError("a graph cannot do this")

    torch.testing.assert_close(normal_module.refined(value, value, again, 2.0), value)
    assert normal_module.refined(value, value, again, 1.5).isnan().all()


@pytest.mark.parametrize(("y", "is_far"), [(1.0, False), (1e9, True)])
def test_far_outliers_of_student_t_are_nan(y: float, is_far: bool) -> None:
    likelihood = StudentT(1.0, 1e-3).double()
    latent = Latent(*(torch.full((1, 1, 1), 0.5, dtype=torch.float64) for _ in range(3)))
    targets = Targets(torch.tensor([[y]], dtype=torch.float64), None)
    assert likelihood.log_marginal(latent, targets).isnan().item() == is_far


def test_joint_densities_of_covariances_that_have_no_factor_are_nan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a failed factorisation leaves behind, here a factor that looks fine."""
    factor = torch.eye(2, dtype=torch.float64).expand(1, 2, 2, 2)
    result = factor, torch.tensor([[0, 1]])
    monkeypatch.setattr(torch.linalg, "cholesky_ex", lambda cov: result)
    second = torch.ones(1, 2, 2, 1, dtype=torch.float64)
    value = gaussian._log_joint_normal(second, None, factor, None)
    # log N(r; 0, I) with |r|^2 = 2
    assert value[0, 0].item() == pytest.approx(-math.log(2.0 * math.pi) - 1.0)
    assert value[0, 1].isnan()


def test_an_infinite_divergence_is_not_finite() -> None:
    mu = torch.zeros(1, 2, dtype=torch.float64)
    for size, is_finite in ((0.5, True), (2.0, False)):
        sqrt = torch.full((1, 2), size, dtype=torch.float64)
        assert divergences.renyi(mu, sqrt, order=2.0).isfinite().item() == is_finite
