"""Likelihoods where f is much wider than what it is integrated over, against a dense trapezoid."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import expit, log_expit, ndtr
from torch import Tensor

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.bernoulli import Logit
from skgp.core.likelihoods.robust_max import RobustMax
from skgp.core.likelihoods.student_t import StudentT

Z = np.linspace(-12.0, 12.0, 400_001)


def expectation(g: Callable[[np.ndarray], np.ndarray], mean: float, std: float) -> float:
    """E g(f) for f ~ N(mean, std^2), where g changes over no less than a thousandth of std."""
    return float((stats.norm.pdf(Z) * g(mean + std * Z)).sum() * (Z[1] - Z[0]))


def latent(means: list[list[float]], deviations: list[list[float]]) -> Latent:
    """Moments (1, B, W)."""
    mean, std = (torch.tensor([part], dtype=torch.float64) for part in (means, deviations))
    return Latent(mean, 0.25 * std.square(), 0.75 * std.square())


@pytest.mark.parametrize("std", [9.0, 30.0, 100.0])
def test_logit(std: float) -> None:
    """Rows of a certain f between two of a wide one."""
    at = latent([[-3.0], [0.4], [5.0]], [[std], [0.5], [std]])
    codes = torch.tensor([1, 0, 0])
    means, stds, signs = [-3.0, 0.4, 5.0], [std, 0.5, std], [1, -1, -1]
    for term, g, after in (
        (Logit().log_class, expit, np.log),
        (Logit().expected_log_class, log_expit, float),
    ):
        rows = zip(means, stds, signs, strict=True)
        desired = [after(expectation(lambda f, s=s, g=g: g(s * f), m, d)) for m, d, s in rows]
        np.testing.assert_allclose(term(at, codes)[0], desired, rtol=0, atol=2e-5)


@pytest.mark.parametrize("ratio", [6.0, 30.0, 100.0])
@pytest.mark.parametrize("dof", [2.6, 30.0])
def test_student_t(dof: float, ratio: float) -> None:
    likelihood = StudentT(1.0, 1e-6).double()
    with torch.no_grad():
        likelihood.log_excess_dof.fill_(math.log(dof - 2.5))
    scale = likelihood.scale_var.item() ** 0.5
    y, std = [0.2, 0.6, 30.0], ratio * scale
    at = latent([[0.2]] * 3, [[std], [0.5], [std]])
    desired = [
        expectation(lambda f, y=y: stats.t.logpdf(y, dof, f, scale), 0.2, d)
        for y, d in zip(y, [std, 0.5, std], strict=True)
    ]
    with torch.no_grad():
        value = likelihood.expected_log_prob(at, Targets(torch.tensor(y).double()[:, None], None))
    np.testing.assert_allclose(value[0].flatten(), desired, rtol=0, atol=1e-5)


@pytest.mark.parametrize("others", [(0.22, 0.5), (0.1, 0.1), (0.03, 0.02), (0.01, 1.0)])
def test_robust_max(others: tuple[float, float]) -> None:
    means, deviations = [0.5, 0.0, -0.3], [1.0, *others]
    at = latent([means, means], [deviations, [1.0, 1.0, 1.0]])
    value = RobustMax(3, 1e-3).largest(at, torch.tensor([0, 0]))[0]
    for found, (one, two) in zip(value, [others, (1.0, 1.0)], strict=True):
        desired = expectation(lambda f, a=one, b=two: ndtr(f / a) * ndtr((f + 0.3) / b), 0.5, 1.0)
        assert found.item() == pytest.approx(desired, abs=2e-6)


def test_slopes() -> None:
    """In the moments, of rows with more points and of others."""
    generator = torch.Generator().manual_seed(0)
    mean, share = (torch.rand((1, 3, 3), generator=generator).double() for _ in range(2))
    wide = torch.tensor([[[50.0, 0.02, 0.1], [1.0, 1.0, 1.0], [60.0, 0.05, 1.0]]]).double()
    moments = [part.requires_grad_() for part in (mean, share * wide**2, wide**2)]
    codes, student_t = torch.tensor([0, 1, 0]), StudentT(1.0, 1e-6).double()

    def terms(*parts: Tensor) -> tuple[Tensor, ...]:
        alone = Latent(*(part[..., :1] for part in parts))
        targets = Targets(codes.double().unsqueeze(-1), None)
        return (
            Logit().log_class(alone, codes),
            student_t.expected_log_prob(alone, targets),
            RobustMax(3, 1e-3).largest(Latent(*parts), codes),
        )

    assert torch.autograd.gradcheck(terms, moments, atol=1e-5)
