"""The factor of recalibration against closed forms, brute force and scikit-learn's own search."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from skgp.compose._recalibration import best_scale, best_temperature, stretched, tempered
from skgp.distributions import Bernoulli, Categorical, MonotoneTransformed, NormalMixture

RNG = np.random.default_rng(0)
N = 50
WEIGHT = RNG.uniform(0.5, 2.0, size=N) * (np.arange(N) != 7)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Each test draws the same numbers, whichever ones ran in this process before it."""
    RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state


def targets(n_outputs: int | None) -> Any:
    """Three times as wide as a standard normal; one entry is missing."""
    y = 3.0 * RNG.normal(size=N if n_outputs is None else (N, n_outputs))
    y[3, ...] = 1.0
    if n_outputs is not None:
        y[5, 0] = np.nan
        y[6] = np.nan
    return y


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_normals_have_a_closed_form(n_outputs: int | None) -> None:
    """Without correlations: the root mean square of (y - m) / s over observed entries."""
    y = targets(n_outputs)
    mean, std = RNG.normal(size=y.shape), RNG.uniform(0.5, 2.0, size=y.shape)
    z = ((y - mean) / std).reshape(N, -1)
    w = np.where(np.isnan(z), 0.0, WEIGHT[:, None])
    expected = np.sqrt(np.nansum(w * z**2) / w.sum())
    assert best_scale(NormalMixture.normal(mean, std), y, WEIGHT) == pytest.approx(expected, 1e-9)


def test_correlated_normals_have_the_mahalanobis_distance() -> None:
    y = targets(2)
    mean, factor = RNG.normal(size=(N, 2)), np.tril(RNG.uniform(0.5, 1.0, size=(N, 2, 2)))
    total = count = 0.0
    for i in range(N):
        seen = ~np.isnan(y[i])
        covariance = (factor[i] @ factor[i].T)[np.ix_(seen, seen)]
        r = (y[i] - mean[i])[seen]
        total += WEIGHT[i] * r @ np.linalg.solve(covariance, r)
        count += WEIGHT[i] * seen.sum()
    dist = NormalMixture.normal(mean, None, factor)
    assert best_scale(dist, y, WEIGHT) == pytest.approx(np.sqrt(total / count), 1e-9)


@pytest.mark.parametrize("n_outputs", [None, 2])
@pytest.mark.parametrize("width", [0.01, 1.0, 30.0])
def test_mixtures_agree_with_brute_force(n_outputs: int | None, width: float) -> None:
    """The log density of the stretched distribution on a fine grid of factors."""
    y = targets(n_outputs)
    shape = (N, 3) if n_outputs is None else (N, 3, n_outputs)
    parts = 0.5 * width * RNG.normal(size=shape), width * RNG.uniform(0.5, 1.0, size=shape)
    dist = NormalMixture(RNG.normal(size=3), *parts)
    found = best_scale(dist, y, WEIGHT)
    assert 0.2 < found * width / 3.0 < 5.0

    def score(c: float) -> float:
        return float(WEIGHT @ stretched(dist, c).joint_logpdf(y))

    grid = np.geomspace(1e-3, 1e3, 4001)
    best = max(grid, key=score)
    assert found == pytest.approx(best, rel=4e-3)
    assert score(found) >= score(best) - 1e-9


def test_rows_of_weight_zero_do_not_count() -> None:
    """Not even where the density is zero, times which zero is not a number."""
    y = targets(None)
    dist = NormalMixture([0.0, 0.0], [[-0.5, 0.5]] * N, 1.0)
    expected = best_scale(dist, y, WEIGHT)
    y[7] = np.inf
    assert best_scale(dist, y, WEIGHT) == expected


def test_targets_at_the_means_give_the_smallest_factor() -> None:
    dist = NormalMixture.normal(np.arange(3.0), 1.0)
    assert best_scale(dist, np.arange(3.0), np.ones(3)) == 1e-3


@pytest.mark.parametrize("factor", [False, True])
def test_stretched_is_an_affine_function_about_the_mean(factor: bool) -> None:
    shape = (1, 3, 2)
    mean, log_w = RNG.normal(size=shape), [0.0, 1.0, -np.inf]
    scale = {"std": None, "scale_tril": np.tril(RNG.uniform(0.5, 1.0, size=(*shape, 2)))}
    dist = NormalMixture(log_w, mean, **(scale if factor else {"std": 0.5}))  # type: ignore[arg-type]
    centre = dist.mean()[0]
    expected = dist.affine(centre - 1.7 * centre, [1.7, 1.7])
    y = RNG.normal(size=(1, 2))
    np.testing.assert_allclose(stretched(dist, 1.7).joint_logpdf(y), expected.joint_logpdf(y))
    np.testing.assert_allclose(stretched(dist, 1.7).mean(), dist.mean(), rtol=1e-12)
    np.testing.assert_allclose(stretched(dist, 1.7).std(), 1.7 * dist.std(), rtol=1e-12)


@pytest.mark.parametrize("factor", [False, True])
def test_stretched_keeps_the_names_of_the_outputs(factor: bool) -> None:
    scale = np.broadcast_to(np.eye(2), (3, 2, 2)) if factor else None
    dist = NormalMixture.normal(np.zeros((3, 2)), None if factor else np.ones((3, 2)), scale)
    assert stretched(dist.with_output_names(["u", "v"]), 1.7).output_names == ("u", "v")


def test_other_distributions_are_refused() -> None:
    dist = MonotoneTransformed(NormalMixture.normal([0.0], 1.0), np.exp, np.log)
    with pytest.raises(TypeError, match="MonotoneTransformed: keep it off"):
        best_scale(dist, np.ones(1), np.ones(1))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_temperature_agrees_with_a_descent(n_classes: int) -> None:
    """On the logits, of which the inverse temperature is a factor."""
    logits = 3.0 * RNG.normal(size=(N, n_classes))
    labels = np.array(list("dbca")[:n_classes])
    codes = np.array([RNG.choice(n_classes, p=np.exp(row)) for row in log_softmax(logits / 2.0, 1)])
    p = np.exp(log_softmax(logits, axis=1))
    dist: Any = Bernoulli(p[:, 1], labels) if n_classes == 2 else Categorical(p, labels)

    n = WEIGHT.sum()
    q = (n * np.eye(n_classes)[codes] + 1.0 / n_classes) / (n + 1.0)

    def loss(beta: Any) -> float:
        return -float(WEIGHT @ (q * log_softmax(beta[0] * logits, axis=1)).sum(axis=1))

    beta = minimize(loss, [1.0], tol=1e-12).x[0]
    t = best_temperature(dist, labels[codes], WEIGHT)
    assert t == pytest.approx(1.0 / beta, rel=1e-5)
    expected = np.exp(log_softmax(logits / t, axis=1))
    np.testing.assert_allclose(np.asarray(tempered(dist, t)), expected, rtol=1e-9)
    assert tempered(dist, t).classes.tolist() == labels.tolist()


@pytest.mark.parametrize("n", [10, 1000])
def test_labels_that_are_all_right_are_not_certain(n: int) -> None:
    """Equal rows of two classes get the probability of a share with half a wrong row."""
    dist = Bernoulli(np.full(n, 0.8))
    p = np.asarray(tempered(dist, best_temperature(dist, np.ones(n), np.ones(n))))
    np.testing.assert_allclose(p[:, 1], (n + 0.5) / (n + 1), rtol=1e-6)


def test_a_weight_of_three_is_a_row_three_times() -> None:
    p, y = np.array([0.7, 0.9, 0.2, 0.6]), np.array([1, 1, 0, 0])
    weighted = best_temperature(Bernoulli(p), y, np.full(4, 3.0))
    repeated = best_temperature(Bernoulli(p.repeat(3)), y.repeat(3), np.ones(12))
    assert weighted == pytest.approx(repeated, rel=1e-6)


def test_smoothing_does_not_change_the_temperature_of_many_rows() -> None:
    logits = 3.0 * RNG.normal(size=20_000)
    y = RNG.random(len(logits)) < 1.0 / (1.0 + np.exp(-logits / 2.0))
    dist = Bernoulli(1.0 / (1.0 + np.exp(-logits)))
    assert best_temperature(dist, y.astype(int), np.ones(len(y))) == pytest.approx(2.0, rel=0.04)


def test_probabilities_of_zero_have_a_temperature() -> None:
    """Their logarithm is that of the smallest number, and 0.5 of 4 rows are wrong."""
    dist = Bernoulli([0.0, 1.0, 1.0])
    right = best_temperature(dist, np.array([0, 1, 1]), np.ones(3))
    assert right == pytest.approx(-np.log(np.finfo(np.float64).tiny) / np.log(7.0), rel=1e-6)
    assert right < best_temperature(dist, np.array([0, 1, 0]), np.ones(3)) <= 1000.0


def test_temperature_does_not_depend_on_which_class_is_second() -> None:
    """One row that is certain and wrong, of the class whose probability is 1 - p."""
    rng = np.random.default_rng(0)
    logit = 3.0 * rng.standard_normal(2000)
    y = (rng.random(2000) < 1.0 / (1.0 + np.exp(-2.0 * logit))).astype(int)
    logit[0], y[0] = 30.0, 0
    second = 1.0 / (1.0 + np.exp(-logit))
    both = np.column_stack([1.0 / (1.0 + np.exp(logit)), second])
    weight = np.ones(2000)
    expected = best_temperature(Categorical(both), y, weight)
    assert 0.4 < expected < 0.7
    for probs, labels in [(both, y), (both[:, ::-1], 1 - y)]:
        dist = Bernoulli.of_columns(probs)
        np.testing.assert_allclose(best_temperature(dist, labels, weight), expected, rtol=1e-6)


def test_a_small_probability_of_the_first_class_keeps_its_digits() -> None:
    dist = Bernoulli.of_columns([[np.exp(-18.0), 1.0 - np.exp(-18.0)]])
    np.testing.assert_allclose(tempered(dist, 0.4).logpmf([0]), [-45.0], rtol=1e-6)
