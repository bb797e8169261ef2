"""Equal mixtures against their densities and probabilities, averaged in NumPy."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from skgp.distributions import (
    Bernoulli,
    Categorical,
    MonotoneTransformed,
    NormalMixture,
    concat,
    kernel_density,
    mix,
)

RNG = np.random.default_rng(0)


def mixture(n_components: int, n_outputs: int | None = None, factors: bool = False) -> Any:
    """Four rows with weights of their own; the first component of the first row has none."""
    shape = (4, n_components) if n_outputs is None else (4, n_components, n_outputs)
    log_w = RNG.normal(size=(4, n_components))
    if n_components > 1:
        log_w[0, 0] = -np.inf
    mean = RNG.normal(size=shape)
    if factors:
        scale_tril = np.tril(RNG.uniform(0.3, 1.0, size=(*shape, n_outputs)))
        return NormalMixture(log_w, mean, None, scale_tril)
    return NormalMixture(log_w, mean, RNG.uniform(0.3, 1.0, size=shape))


def test_density_is_the_mean_of_the_densities() -> None:
    parts = [mixture(1), mixture(3), mixture(2)]
    y = RNG.normal(size=4)
    expected = np.zeros(4)
    for part in parts:
        weights, mean, std, _ = part.components()
        expected += (weights * stats.norm.pdf(y[:, None], mean, std)).sum(axis=1) / 3.0
    mixed = mix(parts)
    np.testing.assert_allclose(mixed.pdf(y), expected, rtol=1e-12)
    np.testing.assert_allclose(mixed.mean(), np.mean([p.mean() for p in parts], axis=0), rtol=1e-12)
    assert mixed.components().mean.shape == (4, 6)


@pytest.mark.parametrize("factors", [(False, False), (True, False), (True, True)])
def test_joint_density_is_the_mean_of_the_joint_densities(factors: tuple[bool, ...]) -> None:
    parts = [mixture(2, 3, factors=some) for some in factors]
    Y = RNG.normal(size=(4, 3))
    Y[1, 2] = np.nan
    expected = np.mean([np.exp(part.joint_logpdf(Y)) for part in parts], axis=0)
    np.testing.assert_allclose(np.exp(mix(parts).joint_logpdf(Y)), expected, rtol=1e-12)
    assert (mix(parts).components().scale_tril is not None) == any(factors)


def test_transformed_distributions_mix_where_they_come_from() -> None:
    parts = [MonotoneTransformed(mixture(2), np.exp, np.log) for _ in range(2)]
    y = np.exp(RNG.normal(size=4))
    expected = np.mean([part.cdf(y) for part in parts], axis=0)
    np.testing.assert_allclose(mix(parts).cdf(y), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="mix needs distributions with the same transformation"):
        mix([parts[0], MonotoneTransformed(mixture(2), np.exp, lambda y: np.log(y))])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_averaged(n_classes: int) -> None:
    p = RNG.dirichlet(np.ones(n_classes), size=(2, 5))
    labels = list("cab")[:n_classes]
    kind: Any = Bernoulli if n_classes == 2 else Categorical
    mixed = mix([kind(q[:, 1] if n_classes == 2 else q, labels) for q in p])
    assert type(mixed) is kind
    assert mixed.classes.tolist() == labels
    np.testing.assert_allclose(np.asarray(mixed), p.mean(axis=0), rtol=1e-12)


def test_one_distribution_is_its_own_mixture() -> None:
    part = mixture(3)
    np.testing.assert_allclose(mix([part]).logpdf(0.5), part.logpdf(0.5), rtol=1e-12)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "at least one"),
        ([mixture(1), Bernoulli([0.5] * 4)], "Bernoulli, NormalMixture"),
        ([mixture(1), mixture(1)[:2]], "same rows"),
        ([mixture(1), mixture(1, 2)], "same rows"),
        ([Bernoulli([0.5]), Bernoulli([0.5], ["a", "b"])], "same classes"),
    ],
)
def test_what_does_not_fit_is_refused(parts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mix(parts)


def test_rows_are_mixed_and_not_put_one_after_another() -> None:
    parts = [kernel_density(RNG.normal(size=(4, 5))) for _ in range(2)]
    assert len(mix(parts)) == 4
    assert len(concat(parts)) == 8
