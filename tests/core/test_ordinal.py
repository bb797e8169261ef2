"""Ordered classes: quadrature, samples, limits, sums, gradients."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from oracles import classes as oracle
from scipy.special import log_ndtr
from scipy.stats import norm
from torch import Tensor

from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.bernoulli import Probit
from skgp.core.likelihoods.ordinal import Ordinal

pytestmark = pytest.mark.usefixtures("short_start")

N_DRAWS = 1_000_000
THRESHOLDS = [0.0, 0.7, 1.0, 3.0]
N_CLASSES = len(THRESHOLDS) + 1


def make(thresholds: list[float] = THRESHOLDS, shift: float = 0.0) -> Ordinal:
    likelihood = Ordinal(len(thresholds) + 1).double()
    likelihood.start(torch.tensor(thresholds, dtype=torch.float64) + shift)
    return likelihood


def latent(mean: Any, variance: Any) -> Latent:
    """Moments (1, B, 1)."""
    mean, variance = (torch.tensor(part, dtype=torch.float64) for part in (mean, variance))
    mean, variance = (part.reshape(1, -1, 1) for part in torch.broadcast_tensors(mean, variance))
    return Latent(mean, 0.25 * variance, 0.75 * variance)


def probability(code: int, f: Any) -> Any:
    """By SciPy, on the side of the tail."""
    ends = [-np.inf, *THRESHOLDS, np.inf]
    low, high = ends[code] - f, ends[code + 1] - f
    return np.where(low > 0, norm.sf(low) - norm.sf(high), norm.cdf(high) - norm.cdf(low))


@pytest.mark.parametrize("mean", [-2.0, 0.8, 2.5])
@pytest.mark.parametrize("variance", [1e-3, 0.5, 4.0])
def test_terms_against_quadrature(mean: float, variance: float) -> None:
    likelihood, at = make(), latent(mean, variance)
    for code in range(N_CLASSES):
        codes = torch.tensor([code])
        expected = oracle.expectation(
            lambda f, c=code: float(np.log(probability(c, f))), mean, variance
        )
        value = likelihood.expected_log_class(at, codes).item()
        assert value == pytest.approx(expected, abs=1e-8)
        expected = oracle.expectation(lambda f, c=code: float(probability(c, f)), mean, variance)
        assert likelihood.log_class(at, codes).exp().item() == pytest.approx(expected, abs=1e-8)


def test_terms_against_samples() -> None:
    mean, variance = 0.6, 0.8
    f = mean + math.sqrt(variance) * np.random.default_rng(0).standard_normal(N_DRAWS)
    at = latent(mean, variance)
    for code in range(N_CLASSES):
        p, codes = probability(code, f), torch.tensor([code])
        for value, draws in (
            (make().expected_log_class(at, codes), np.log(p)),
            (make().log_class(at, codes).exp(), p),
        ):
            assert abs(value.item() - draws.mean()) < 4.0 * draws.std() / math.sqrt(N_DRAWS)
        # And the mechanism itself: noise of one unit that falls between the thresholds.
    noisy = f + np.random.default_rng(1).standard_normal(N_DRAWS)
    shares = np.bincount(np.searchsorted(THRESHOLDS, noisy), minlength=N_CLASSES) / N_DRAWS
    p = make().log_probabilities(at).exp()[0, 0].detach().numpy()
    assert (abs(shares - p) < 4.0 * np.sqrt(p * (1 - p) / N_DRAWS)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_classes_are_those_of_the_probit_bit_for_bit(dtype: torch.dtype) -> None:
    at = latent(np.linspace(-50, 50, 41), np.linspace(0.01, 9, 41))
    at = Latent(*(part.to(dtype) for part in at))
    codes = torch.arange(41) % 2
    likelihood = Ordinal(2).to(dtype)
    for term in ("expected_log_class", "log_class"):
        value = getattr(likelihood, term)(at, codes)
        assert torch.equal(value, getattr(Probit(), term)(at, codes))


def test_probabilities_sum_to_one_without_being_made_to() -> None:
    at = latent([-3.0, 0.5, 1.2, 9.0], [0.1, 1.0, 0.0, 4.0])
    each = [make().log_class(at, torch.full((4,), code)) for code in range(N_CLASSES)]
    torch.testing.assert_close(torch.stack(each).exp().sum(0), torch.ones(1, 4).double())
    # At a certain f they are those of the model.
    p = make().log_probabilities(at).exp()[0, 2].detach()
    np.testing.assert_allclose(p, [probability(code, 1.2) for code in range(N_CLASSES)], rtol=1e-9)


def test_thresholds_are_in_order_and_start_anywhere() -> None:
    torch.testing.assert_close(make(shift=-7.0).thresholds.tolist(), THRESHOLDS)
    missing = make([0.0, 0.0, 2.0])  # a class that no row has
    assert (missing.thresholds.diff() > 0.0).all()
    with torch.no_grad():
        missing.log_gaps.copy_(torch.tensor([-20.0, 3.0]))
    assert (missing.thresholds.diff() > 0.0).all()


def test_only_a_class_without_rows_starts_wide() -> None:
    """Of four thresholds the second pair is equal, and the third far closer than the least gap."""
    likelihood = Ordinal(5)
    likelihood.start(torch.tensor([-1.0, 0.5, 0.5, 0.5000001], dtype=torch.float64))
    np.testing.assert_allclose(likelihood.log_gaps.exp().detach(), [1.5, 0.3, 1e-3], rtol=1e-6)


def test_merged_classes_have_the_sum_of_the_probabilities() -> None:
    """Two classes as one are a model with a threshold less."""
    at = latent([-1.0, 0.5, 2.0], [0.3, 1.0, 0.2])
    fine = make().log_probabilities(at).exp()
    coarse = make([0.0, 1.0, 3.0]).log_probabilities(at).exp()
    merged = torch.cat([fine[..., :1], fine[..., 1:3].sum(-1, True), fine[..., 3:]], -1)
    torch.testing.assert_close(coarse, merged)


@pytest.mark.parametrize("term", ["expected_log_class", "log_class"])
def test_the_order_may_be_reversed(term: str) -> None:
    """With f and the thresholds mirrored, and the mean of f moved by the last threshold."""
    at, codes = latent(np.linspace(-1, 4, N_CLASSES), 0.4), torch.arange(N_CLASSES)
    mirrored = at._replace(f_mean=THRESHOLDS[-1] - at.f_mean)
    other = make([THRESHOLDS[-1] - t for t in reversed(THRESHOLDS)])
    value = getattr(other, term)(mirrored, N_CLASSES - 1 - codes)
    torch.testing.assert_close(value, getattr(make(), term)(at, codes))


@pytest.mark.parametrize("term", ["expected_log_class", "log_class"])
def test_gradients(term: str) -> None:
    """In the moments and in the thresholds."""
    likelihood, codes = make(), torch.arange(N_CLASSES)
    parameters = list(likelihood.parameters())

    def of(*values: Tensor) -> Tensor:
        return getattr(likelihood, term)(Latent(*values[:3]), codes)

    moments = latent(np.linspace(-1, 2, N_CLASSES), np.linspace(0.1, 1, N_CLASSES))
    assert torch.autograd.gradcheck(of, [*(m.requires_grad_() for m in moments), *parameters])


def test_far_from_its_class_values_and_slopes_are_finite() -> None:
    for dtype in (torch.float32, torch.float64):
        likelihood, codes = make().to(dtype), torch.arange(N_CLASSES)
        for mean in (-1e4, 40.0, 1e4):
            moments = [part.to(dtype).requires_grad_() for part in latent([mean] * 5, [0.5] * 5)]
            for term in ("expected_log_class", "log_class"):
                value = getattr(likelihood, term)(Latent(*moments), codes)
                assert value.isfinite().all()
                slopes = torch.autograd.grad(value.sum(), [*moments, *likelihood.parameters()])
                assert all(slope.isfinite().all() for slope in slopes)
    value = make().log_class(latent([40.0], [1e-9]), torch.tensor([0])).item()
    assert value == pytest.approx(log_ndtr(-40.0), rel=1e-8)
