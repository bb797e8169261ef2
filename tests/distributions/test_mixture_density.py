"""Densities, moments and samples of normal mixtures against naive twins and scipy.stats."""

import numpy as np
import pytest
import torch
from scipy import stats

from skgp.distributions import NormalMixture
from skgp.distributions._joint import transform_noise


def by_output(dist):
    """(weights, mean, std, select) of every output of every row, one naive cell at a time."""
    weights, mean, std, _ = dist.components()
    for row in range(len(dist)):
        for output in range(1 if dist.ndim == 1 else dist.shape[1]):
            at = (row, slice(None)) if dist.ndim == 1 else (row, slice(None), output)
            yield row, output, weights[row], mean[at], std[at]


def naive(dist, func):
    """`func(weights, mean, std, row, output)` cell by cell."""
    out = [func(w, m, s, row, output) for row, output, w, m, s in by_output(dist)]
    return np.reshape(out, dist.shape)


def dense_joint(dist, row, y):
    """Density of the observed outputs of a row from dense covariance matrices."""
    weights, mean, std, factor = (None if c is None else c[row] for c in dist.components())
    seen = np.flatnonzero(~np.isnan(y))
    total = 0.0
    for s, weight in enumerate(weights):
        cov = np.diag(std[s] ** 2) if factor is None else factor[s] @ factor[s].T
        normal = stats.multivariate_normal(mean[s][seen], cov[np.ix_(seen, seen)])
        total += weight * normal.pdf(y[seen])
    return np.log(total)


def test_moments_follow_the_laws_of_total_expectation_and_variance(mixture):
    def mean(w, m, s, *_):
        return sum(wi * mi for wi, mi in zip(w, m, strict=True))

    def second(w, m, s, *_):
        return sum(wi * (mi**2 + si**2) for wi, mi, si in zip(w, m, s, strict=True))

    np.testing.assert_allclose(mixture.mean(), naive(mixture, mean), rtol=1e-13)
    expected = naive(mixture, second) - naive(mixture, mean) ** 2
    np.testing.assert_allclose(mixture.var(), expected, rtol=1e-11)
    np.testing.assert_allclose(mixture.std() ** 2, expected, rtol=1e-11)


def test_variance_does_not_cancel_far_from_zero():
    dist = NormalMixture([0.0, 0.0], [[1e9, 1e9 + 2e-3]], 1e-3)
    np.testing.assert_allclose(dist.var(), [2e-6], rtol=1e-4)


def test_density_and_distribution_function(mixture):
    y = mixture.mean() + 0.7
    pdf = naive(mixture, lambda w, m, s, *at: w @ stats.norm.pdf(y.reshape(5, -1)[at], m, s))
    cdf = naive(mixture, lambda w, m, s, *at: w @ stats.norm.cdf(y.reshape(5, -1)[at], m, s))
    np.testing.assert_allclose(mixture.pdf(y), pdf, rtol=1e-12)
    np.testing.assert_allclose(mixture.logpdf(y), np.log(pdf), rtol=1e-11)
    np.testing.assert_allclose(mixture.cdf(y), cdf, rtol=1e-12)
    np.testing.assert_allclose(mixture.sf(y), 1.0 - cdf, rtol=1e-11)


def test_one_component_is_the_normal_distribution():
    mean, std = np.array([0.0, -3.0]), np.array([1.0, 0.2])
    dist, y = NormalMixture.normal(mean, std), np.array([0.3, -2.0])
    np.testing.assert_allclose(dist.logpdf(y), stats.norm.logpdf(y, mean, std), rtol=1e-14)
    np.testing.assert_allclose(dist.entropy(), stats.norm.entropy(mean, std), rtol=1e-14)
    np.testing.assert_array_equal(dist.ppf(0.1), mean + std * stats.norm.ppf(0.1))
    np.testing.assert_array_equal(dist.mode(), mean)


def test_tails_keep_their_relative_precision():
    dist = NormalMixture(np.log([0.25, 0.75]), [[0.0, 0.0]], [[1.0, 2.0]])
    np.testing.assert_allclose(dist.sf(30.0), 0.75 * stats.norm.sf(15.0), rtol=1e-11)
    np.testing.assert_allclose(
        dist.logpdf(1e3), np.log(0.75) + stats.norm.logpdf(1e3, 0, 2), rtol=1e-14
    )
    np.testing.assert_array_equal(dist.logpdf(np.inf), [-np.inf])
    np.testing.assert_array_equal(dist.logpdf(1e300), [-np.inf])
    np.testing.assert_array_equal(dist.cdf(np.inf), [1.0])


def test_nan_stays_nan(make):
    dist = make("outputs")
    y = dist.mean()
    y[1, 2] = np.nan
    for method in (dist.logpdf, dist.pdf, dist.cdf, dist.sf, dist.crps):
        np.testing.assert_array_equal(np.isnan(method(y)), np.isnan(y))


@pytest.mark.parametrize("kind", ["outputs", "outputs-joint"])
def test_joint_density_marginalises_missing_outputs(make, kind):
    dist = make(kind, n=8)
    Y = dist.mean() + np.linspace(-1, 1, 24).reshape(8, 3)
    for row in range(8):  # every pattern of missing outputs
        Y[row, [bool(row & bit) for bit in (1, 2, 4)]] = np.nan
    expected = [0.0 if np.isnan(y).all() else dense_joint(dist, i, y) for i, y in enumerate(Y)]
    np.testing.assert_allclose(dist.joint_logpdf(Y), expected, rtol=1e-10)
    # With one output observed the joint density is the marginal one.
    alone = np.full_like(Y, np.nan)
    alone[:, 1] = dist.mean()[:, 1]
    np.testing.assert_allclose(dist.joint_logpdf(alone), dist.logpdf(dist.mean())[:, 1], rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_joint_density_marginalises_in_any_units(make, scale):
    unit, dist = make("outputs-joint"), make("outputs-joint", scale=scale)
    Y = unit.mean()
    Y[:, 1] = np.nan
    np.testing.assert_allclose(
        dist.joint_logpdf(scale * Y) + 2 * np.log(scale), unit.joint_logpdf(Y), rtol=1e-9
    )


def test_joint_density_of_a_single_output_is_the_density(make):
    dist = make("single")
    y = dist.mean()
    np.testing.assert_allclose(dist.joint_logpdf(y), dist.logpdf(y), rtol=1e-13)
    assert dist.joint_logpdf(np.full(5, np.nan)).tolist() == [0.0] * 5


def test_joint_density_at_infinity(make):
    for kind in ("outputs", "outputs-joint"):
        Y = make(kind).mean()
        Y[0, 0], Y[1, 1] = np.inf, np.nan
        joint = make(kind).joint_logpdf(Y)
        assert joint[0] == -np.inf
        assert np.isfinite(joint[1:]).all()


@pytest.mark.parametrize("kind", ["single", "outputs", "outputs-joint"])
def test_covariance_by_naive_loops(make, kind):
    dist = make(kind)
    weights, mean, std, factor = dist.components()
    if kind == "single":
        np.testing.assert_allclose(dist.cov()[:, 0, 0], dist.var(), rtol=1e-12)
        return
    for row, cov in enumerate(dist.cov()):
        second = np.zeros((3, 3))
        for s, weight in enumerate(weights[row]):
            within = np.diag(std[row, s] ** 2)
            if factor is not None:
                within = factor[row, s] @ factor[row, s].T
            second += weight * (within + np.outer(mean[row, s], mean[row, s]))
        centre = dist.mean()[row]
        np.testing.assert_allclose(cov, second - np.outer(centre, centre), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.diagonal(dist.cov(), axis1=1, axis2=2), dist.var(), rtol=1e-12)


@pytest.mark.parametrize("kind", ["outputs", "outputs-joint"])
def test_samples_have_the_moments_in_standard_errors(make, kind):
    dist, size = make(kind, n=3), 100_000
    draws = dist.rvs(size, random_state=1)
    assert draws.shape == (3, 3, size)
    centred = draws - dist.mean()[..., None]
    error = centred.mean(axis=2) / (dist.std() / np.sqrt(size))
    assert np.abs(error).max() < 4.5
    products = centred[:, :, None] * centred[:, None]
    error = (products.mean(axis=3) - dist.cov()) / (products.std(axis=3) / np.sqrt(size))
    assert np.abs(error).max() < 4.5
    # Components are shared by the outputs, so the joint distribution function is theirs too.
    below = (centred < 0.0).all(axis=1).mean(axis=1)
    if kind == "outputs":
        weights, mean, std, _ = dist.components()
        inside = stats.norm.cdf((dist.mean()[:, None] - mean) / std).prod(axis=2)
        expected = (weights * inside).sum(axis=1)
        error = (below - expected) / np.sqrt(expected * (1 - expected) / size)
        assert np.abs(error).max() < 4.5


def test_samples_follow_the_distribution_function(make):
    dist = make("single-shared", n=2)
    for row, draws in enumerate(dist.rvs(20_000, random_state=np.random.default_rng(2))):
        cdf = dist[np.full(20_000, row)].cdf(draws)
        assert stats.kstest(cdf, "uniform").pvalue > 1e-3


def test_samples_never_come_from_a_component_of_weight_zero():
    dist = NormalMixture([-np.inf, 0.0, -np.inf], [[-100.0, 0.0, 100.0]], 1.0)
    assert np.abs(dist.rvs(10_000, random_state=0)).max() < 10.0


def test_rounding_never_draws_a_component_of_weight_zero():
    # Weights of 1 / 70 add up to less than the largest number that is drawn.
    log_w = np.append(np.full(70, -np.log(70)), -np.inf)[None]
    mean = np.append(np.zeros(70), 100.0)[None, :, None]
    sample, largest = np.zeros((1, 1, 1)), np.array([[np.nextafter(1.0, 0.0)]])
    transform_noise(sample, largest, log_w, mean, np.ones((1, 71, 1)), None)
    assert sample.item() == 0.0


def test_random_state_decides_the_samples(make):
    dist = make("outputs")
    first = dist.rvs(3, random_state=7)
    np.testing.assert_array_equal(first, dist.rvs(3, random_state=7))
    np.testing.assert_array_equal(first, dist.rvs(3, random_state=np.random.default_rng(7)))
    assert (first != dist.rvs(3, random_state=8)).all()
    assert (dist.rvs(3) != dist.rvs(3)).all()
    legacy = dist.rvs(3, random_state=np.random.RandomState(7))
    np.testing.assert_array_equal(legacy, dist.rvs(3, random_state=np.random.RandomState(7)))


def test_samples_do_not_depend_on_the_chunks(make, monkeypatch):
    dist = make("outputs-joint", n=20)
    whole = dist.rvs(50, random_state=3)
    monkeypatch.setattr("skgp.distributions._chunks.COPY_ELEMENTS", 100)
    monkeypatch.setattr("skgp.distributions._chunks.WORK_ELEMENTS", 500)
    np.testing.assert_array_equal(dist.rvs(50, random_state=3), whole)


@pytest.mark.parametrize("scale", [2.5, -0.3])
def test_affine_agrees_with_the_direct_construction(mixture, scale):
    loc = -4.0
    moved = mixture.affine(loc, scale)
    y = mixture.mean() + 0.3
    np.testing.assert_allclose(moved.mean(), loc + scale * mixture.mean(), rtol=1e-13)
    np.testing.assert_allclose(moved.std(), abs(scale) * mixture.std(), rtol=1e-13)
    np.testing.assert_allclose(
        moved.logpdf(loc + scale * y), mixture.logpdf(y) - np.log(abs(scale)), rtol=1e-11
    )
    np.testing.assert_allclose(moved.crps(loc + scale * y), abs(scale) * mixture.crps(y), rtol=1e-9)
    tail = mixture.cdf(y) if scale > 0 else mixture.sf(y)
    np.testing.assert_allclose(moved.cdf(loc + scale * y), tail, rtol=1e-11)
    factor = moved.components().scale_tril
    if factor is not None:
        NormalMixture([0.0] * 4, moved.components().mean, None, factor)  # still a valid factor


def test_affine_per_output_keeps_the_joint_density(make):
    dist, loc, scale = make("outputs-joint"), np.array([1.0, -2, 3]), np.array([2.0, -1e-3, 1e3])
    moved, Y = dist.affine(loc, scale), dist.mean() + 0.2
    np.testing.assert_allclose(
        moved.joint_logpdf(loc + scale * Y),
        dist.joint_logpdf(Y) - np.log(np.abs(scale)).sum(),
        rtol=1e-10,
    )
    outer = scale[:, None] * scale
    np.testing.assert_allclose(moved.cov(), outer * dist.cov(), rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_every_method_is_equivariant_in_the_units(mixture, scale):
    y = mixture.mean() + 0.4
    moved, at = mixture.affine(0.0, scale), scale * y
    for name in ("mean", "std", "median", "mode"):
        np.testing.assert_allclose(
            getattr(moved, name)(), scale * getattr(mixture, name)(), rtol=1e-8, atol=1e-9 * scale
        )
    np.testing.assert_allclose(moved.crps(at), scale * mixture.crps(y), rtol=1e-9)
    np.testing.assert_allclose(moved.cdf(at), mixture.cdf(y), rtol=1e-9)
    np.testing.assert_allclose(moved.entropy(), mixture.entropy() + np.log(scale), atol=1e-8)


def test_a_vanishing_standard_deviation():
    dist = NormalMixture([0.0, 0.0], [[0.0, 1.0]], [[1e-200, 1.0]])
    # The limit is a point mass at zero: E|X - y| - E|X - X'| / 2 by its moments.
    between = stats.foldnorm(1.0).mean()
    expected = 0.5 * between - 0.5 * (0.5 * between + 0.25 * 2 / np.sqrt(np.pi))
    np.testing.assert_allclose(dist.crps(0.0), [expected], rtol=1e-12)
    assert dist.mode().tolist() == [0.0]
    np.testing.assert_allclose(dist.mean(), [0.5])
    np.testing.assert_allclose(dist.var(), [0.75])
    np.testing.assert_allclose(dist.cdf(dist.ppf([0.1, 0.45, 0.9])[0, [2]]), [0.9])
    assert np.isfinite(dist.entropy()).all()
    assert np.isfinite(dist.logpdf(0.0)).all()


def test_a_component_of_weight_zero_changes_nothing(make):
    base = make("single")
    weights, mean, std, _ = base.components()
    n = len(base)
    dist = NormalMixture(
        np.column_stack([np.full(n, -np.inf), np.log(weights)]),
        np.column_stack([np.full(n, 1e300), mean]),
        np.column_stack([np.full(n, 1e-300), std]),
    )
    y = base.mean()
    for name in ("mean", "var", "median", "mode", "entropy"):
        np.testing.assert_allclose(getattr(dist, name)(), getattr(base, name)(), rtol=1e-9)
    for name in ("logpdf", "joint_logpdf", "cdf", "crps"):
        np.testing.assert_allclose(getattr(dist, name)(y), getattr(base, name)(y), rtol=1e-12)


@pytest.mark.parametrize("log_w", [-np.inf, -60.0])
def test_torch_has_the_weights_of_light_components(log_w):
    dist = NormalMixture([0.0, log_w], [[0.0, 5.0]], 0.1)
    log_p = dist.to_torch().log_prob(torch.tensor([5.0], dtype=torch.float64))
    np.testing.assert_allclose(log_p.numpy(), dist.logpdf(5.0), rtol=1e-12)
