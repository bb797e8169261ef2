"""Distributions over classes."""

import numpy as np
import pytest
from scipy import stats

from skgp.distributions import Bernoulli, Categorical

PROBS = np.array([[0.1, 0.2, 0.7], [1.0, 0.0, 0.0], [0.3, 0.4, 0.3]])
CLASSES = ["low", "high", "middle"]  # not sorted


def test_probabilities_of_labels():
    dist = Categorical(PROBS, CLASSES)
    np.testing.assert_allclose(dist.pmf(["high", "low", "middle"]), [0.2, 1.0, 0.3])
    np.testing.assert_allclose(dist.pmf("high"), [0.2, 0.0, 0.4])
    np.testing.assert_allclose(dist.logpmf("high"), [np.log(0.2), -np.inf, np.log(0.4)])
    np.testing.assert_allclose(dist.cdf("high"), [0.3, 1.0, 0.7])
    np.testing.assert_array_equal(dist.cdf("middle"), [1.0, 1.0, 1.0])
    assert dist.mode().tolist() == ["middle", "low", "high"]


def test_entropy_is_scipys():
    np.testing.assert_allclose(Categorical(PROBS).entropy(), stats.entropy(PROBS, axis=1))
    p = np.array([0.0, 0.3, 1.0])
    np.testing.assert_allclose(Bernoulli(p).entropy(), stats.bernoulli.entropy(p))


def test_as_an_array_it_is_the_matrix_of_probabilities():
    np.testing.assert_array_equal(np.asarray(Bernoulli([0.25])), [[0.75, 0.25]])
    np.testing.assert_array_equal(np.asarray(Categorical(PROBS)), PROBS)


def test_bernoulli_moments():
    p = np.array([0.0, 0.3, 1.0])
    dist = Bernoulli(p)
    np.testing.assert_array_equal(dist.mean(), p)
    np.testing.assert_allclose(dist.var(), stats.bernoulli.var(p))
    np.testing.assert_allclose(dist.std(), stats.bernoulli.std(p))
    np.testing.assert_array_equal(dist.pmf(1), p)


def test_samples_have_the_frequencies_in_standard_errors():
    draws = Categorical(PROBS, CLASSES).rvs(40_000, random_state=0)
    assert draws.shape == (3, 40_000)
    for label, p in zip(CLASSES, PROBS.T, strict=True):
        error = np.abs((draws == label).mean(axis=1) - p)
        assert (error <= 4.5 * np.sqrt(p * (1 - p) / 40_000)).all()
    again = Categorical(PROBS, CLASSES).rvs(40_000, random_state=0)
    np.testing.assert_array_equal(draws, again)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Bernoulli([[0.5]]), r"probs must have shape \(n,\)"),
        (lambda: Bernoulli([1.5]), r"probs must lie in \[0, 1\]"),
        (lambda: Bernoulli([np.nan]), r"probs must lie in \[0, 1\]"),
        (lambda: Bernoulli([0.5], classes=[1]), r"classes must have shape \(2,\)"),
        (lambda: Categorical([0.5, 0.5]), r"probs must have shape \(n, C\)"),
        (lambda: Categorical([[0.5, 0.4]]), "probs must sum to one"),
        (lambda: Categorical([[1.5, -0.5]]), r"probs must lie in \[0, 1\]"),
        (lambda: Categorical([[0.5, 0.5]], classes=["a", "a"]), "classes must be different"),
        (lambda: Categorical(PROBS, CLASSES).pmf("other"), r"not in classes: \['other'\]"),
        (lambda: Categorical(PROBS).pmf([0, 1, 9]), r"not in classes: \[9\]"),
        (lambda: Categorical(PROBS).pmf([0, 1]), r"y must be a label or have shape \(3,\)"),
        (lambda: Categorical(PROBS).rvs(-1), "size must be a non-negative integer"),
    ],
)
def test_hostile_arguments(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_rounding_of_float32_probabilities_is_forgiven():
    probs = PROBS.astype(np.float32)
    np.testing.assert_allclose(np.asarray(Categorical(probs)).sum(axis=1), 1.0, rtol=1e-15)
    assert Bernoulli([1.0 + 1e-7]).mean().tolist() == [1.0]


def test_both_columns_of_two_classes_are_kept():
    dist = Bernoulli.of_columns([[1e-30, 1.0], [0.25, 0.75]], classes=["no", "yes"])
    np.testing.assert_allclose(dist.logpmf("no"), np.log([1e-30, 0.25]))
    np.testing.assert_array_equal(dist.mean(), [1.0, 0.75])
    with pytest.raises(ValueError, match="sum to one"):
        Bernoulli.of_columns([[0.5, 0.6]])
    with pytest.raises(ValueError, match="classes"):
        Bernoulli.of_columns([[0.2, 0.3, 0.5]])


def test_masked_labels_are_refused():
    dist = Categorical([[0.2, 0.8]] * 2, [1, 2])
    with pytest.raises(ValueError, match="y is a masked array with 1 masked entries"):
        dist.logpmf(np.ma.array([1, 2], mask=[False, True]))
