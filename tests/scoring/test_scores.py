"""Scores against hand computation, scipy and scikit-learn."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from sklearn.metrics import mean_pinball_loss, root_mean_squared_error

from skgp.distributions import Bernoulli, Categorical, MonotoneTransformed, NormalMixture
from skgp.scoring import (
    calibration_error,
    coverage,
    coverage_error,
    crps,
    energy_score,
    interval_score,
    joint_nll,
    nll,
    noise_fraction,
    pinball_loss,
    pit,
    rmse,
    shapiro_wilk,
    zscores,
)

SCORES = [
    nll,
    crps,
    rmse,
    pinball_loss,
    interval_score,
    coverage,
    coverage_error,
    calibration_error,
]
ROW_SCORES = [joint_nll, energy_score]


def make(rng: np.random.Generator, n: int = 40, p: int = 3) -> tuple[np.ndarray, NormalMixture]:
    """Targets and normals of different scales per output."""
    scale = 10.0 ** np.arange(p)
    mean = scale * rng.normal(size=(n, p))
    std = scale * rng.uniform(0.5, 2.0, size=(n, p))
    return mean + std * rng.normal(size=(n, p)), NormalMixture.normal(mean, std)


def mixture(n: int) -> NormalMixture:
    """The same two-component mixture in n rows."""
    tile = np.ones((n, 1))
    return NormalMixture(np.log([0.3, 0.7]), tile * [-1.0, 2.0], tile * [0.5, 1.5])


def test_nll_is_that_of_scipy(rng: np.random.Generator) -> None:
    y, dist = make(rng)
    expected = -stats.norm(dist.mean(), dist.std()).logpdf(y).mean(axis=0)
    np.testing.assert_allclose(nll(y, dist, multioutput="raw_values"), expected, rtol=1e-12)
    np.testing.assert_allclose(nll(y, dist), expected.mean(), rtol=1e-12)
    np.testing.assert_allclose(
        nll(y, dist, multioutput=[1.0, 0.0, 3.0]), (expected[0] + 3 * expected[2]) / 4, rtol=1e-12
    )


def test_crps_is_the_integral_of_the_squared_cdf_error() -> None:
    dist = mixture(1)

    def cdf(x: float) -> float:
        return 0.3 * stats.norm.cdf(x, -1.0, 0.5) + 0.7 * stats.norm.cdf(x, 2.0, 1.5)

    expected = (
        integrate.quad(lambda x: cdf(x) ** 2, -15, 0.4)[0]
        + integrate.quad(lambda x: (1 - cdf(x)) ** 2, 0.4, 20)[0]
    )
    np.testing.assert_allclose(crps([0.4], dist), expected, rtol=1e-8)


def test_rmse_and_pinball_are_those_of_sklearn(rng: np.random.Generator) -> None:
    y, dist = make(rng)
    w = rng.uniform(size=len(y))
    for multioutput in ("raw_values", "uniform_average", [0.2, 0.3, 0.5]):
        options: dict[str, Any] = {"sample_weight": w, "multioutput": multioutput}
        np.testing.assert_allclose(
            rmse(y, dist, **options),
            root_mean_squared_error(y, dist.mean(), **options),
            rtol=1e-12,
        )
        np.testing.assert_allclose(
            pinball_loss(y, dist, alpha=0.2, **options),
            mean_pinball_loss(y, dist.ppf(0.2), alpha=0.2, **options),
            rtol=1e-12,
        )


def test_mean_pinball_loss_over_levels_is_half_the_crps() -> None:
    dist, y = mixture(3), np.array([-2.0, 0.5, 3.0])
    nodes, weights = np.polynomial.legendre.leggauss(200)
    total = sum(
        0.5 * w * pinball_loss(y, dist, alpha=0.5 + 0.5 * u)
        for u, w in zip(nodes, weights, strict=True)
    )
    np.testing.assert_allclose(total, crps(y, dist) / 2, rtol=1e-4)


def test_interval_score_by_hand() -> None:
    dist = NormalMixture.normal([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    u = stats.norm.ppf(0.9)  # ends of the central 80 % interval
    y = [0.0, u + 0.5, -u - 1.0]
    expected = 2 * u + np.array([0.0, 0.5, 1.0]).mean() * 2 / 0.2
    np.testing.assert_allclose(interval_score(y, dist, coverage=0.8), expected, rtol=1e-12)


@pytest.mark.parametrize("score", [nll, crps, interval_score, pinball_loss])
def test_true_distribution_has_the_best_expected_score(score: Any) -> None:
    # Equally likely quantiles stand for the expectation over the true N(1, 2).
    y = stats.norm.ppf((np.arange(4000) + 0.5) / 4000, 1.0, 2.0)
    kwargs = {"alpha": 0.2} if score is pinball_loss else {}

    def expected(mean: float, std: float) -> float:
        ones = np.ones(len(y))
        return score(y, NormalMixture.normal(mean * ones, std * ones), **kwargs)

    best = expected(1.0, 2.0)
    for mean, std in [(0.5, 2.0), (1.5, 2.0), (1.0, 1.5), (1.0, 2.6)]:
        assert expected(mean, std) > best + 1e-3


def test_joint_nll_is_the_joint_density_per_observed_entry() -> None:
    L = np.array([[1.0, 0.0], [1.2, 0.5]])
    mean = np.array([[0.0, 1.0], [2.0, -1.0]])
    cov = L @ L.T
    dist = NormalMixture(
        np.zeros(1),
        mean[:, None, :],
        np.tile(np.sqrt(np.diag(cov)), (2, 1, 1)),
        scale_tril=np.tile(L, (2, 1, 1, 1)),
    )
    y = np.array([[0.3, 1.9], [1.0, np.nan]])
    row0 = stats.multivariate_normal(mean[0], cov).logpdf(y[0])
    row1 = stats.norm(mean[1, 0], np.sqrt(cov[0, 0])).logpdf(y[1, 0])
    np.testing.assert_allclose(joint_nll(y, dist), -(row0 + row1) / 3, rtol=1e-10)
    np.testing.assert_allclose(
        joint_nll(y, dist, sample_weight=[1.0, 4.0]), -(row0 + 4 * row1) / 6, rtol=1e-10
    )
    np.testing.assert_allclose(joint_nll(y[:1], dist[:1]), -row0 / 2, rtol=1e-10)
    assert abs(joint_nll(y[:1], dist[:1]) - nll(y[:1], dist[:1])) > 0.1  # correlation matters


@pytest.mark.parametrize("columns", [(), (1,)])
def test_one_output_makes_joint_scores_marginal(columns: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    y = rng.normal(size=(20, *columns))
    y[3] = np.nan
    dist = NormalMixture.normal(np.zeros(y.shape), np.ones(y.shape))
    np.testing.assert_allclose(joint_nll(y, dist), nll(y, dist), rtol=1e-12)
    np.testing.assert_allclose(energy_score(y, dist, n_samples=2), crps(y, dist), rtol=1e-12)


def test_energy_score_of_a_standard_normal_at_its_centre() -> None:
    # E||Y|| = sqrt(pi / 2) in two dimensions, and E||Y - Y'|| = sqrt(2) E||Y||.
    n = 400
    dist = NormalMixture.normal(np.zeros((n, 2)), np.ones((n, 2)))
    exact = np.sqrt(np.pi / 2) * (1.0 - np.sqrt(0.5))
    got = energy_score(np.zeros((n, 2)), dist, n_samples=200)
    # One draw's contribution has a standard deviation of about 1: 5 standard errors.
    assert abs(got - exact) < 5.0 / np.sqrt(n * 200)
    assert energy_score(np.zeros((n, 2)), dist, n_samples=200) == got
    assert energy_score(np.zeros((n, 2)), dist, n_samples=200, random_state=1) != got


def test_energy_score_uses_observed_outputs_only_and_any_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n = 300
    scale = np.tile([1.0, 1.0, 1000.0], (n, 1))
    dist = NormalMixture.normal(np.zeros((n, 3)), scale)
    y = np.zeros((n, 3))
    y[1:, 2] = np.nan  # only row 0 sees the wide output, and row 0 is dropped by its weight
    w = np.ones(n)
    w[0] = 0.0
    w[1] = 1e-9
    y[1, 2] = 0.0
    exact = np.sqrt(np.pi / 2) * (1.0 - np.sqrt(0.5))
    monkeypatch.setattr("skgp.scoring._joint_scores._CHUNK", 3 * 200 * 7)
    got = energy_score(y, dist, sample_weight=w, n_samples=200)
    assert abs(got - exact) < 5.0 / np.sqrt(n * 200)


@pytest.mark.parametrize("score", SCORES + ROW_SCORES)
def test_missing_targets_equal_dropped_ones(score: Any, rng: np.random.Generator) -> None:
    y, dist = make(rng, p=1)
    w = rng.uniform(0.5, 2.0, size=len(y))
    y_missing = y.copy()
    y_missing[::3] = np.nan
    keep = ~np.isnan(y_missing[:, 0])
    np.testing.assert_allclose(
        score(y_missing, dist, sample_weight=w),
        score(y[keep], dist[keep], sample_weight=w[keep]),
        rtol=1e-12,
    )


@pytest.mark.parametrize("score", SCORES + ROW_SCORES)
def test_masked_targets_are_missing(score: Any, rng: np.random.Generator) -> None:
    y, dist = make(rng, p=1)
    masked = np.ma.masked_array(np.where(y > 0.5, 1e3, y), mask=y > 0.5)
    expected = score(np.where(y > 0.5, np.nan, y), dist)
    np.testing.assert_array_equal(score(masked, dist), expected)


@pytest.mark.parametrize("score", SCORES + ROW_SCORES)
def test_masked_weights_are_refused(score: Any, rng: np.random.Generator) -> None:
    y, dist = make(rng, p=1)
    weight = np.ma.masked_array(np.ones(len(y)), mask=np.arange(len(y)) == 1)
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        score(y, dist, sample_weight=weight)


@pytest.mark.parametrize("score", SCORES)
def test_missing_targets_are_dropped_entrywise(score: Any, rng: np.random.Generator) -> None:
    y, dist = make(rng)
    y[:30, 0] = np.nan
    y[5:8, 2] = np.nan
    raw = score(y, dist, multioutput="raw_values")
    for k in range(3):
        keep = ~np.isnan(y[:, k])
        one = NormalMixture.normal(dist.mean()[keep, k], dist.std()[keep, k])
        np.testing.assert_allclose(raw[k], score(y[keep, k], one), rtol=1e-12)
    np.testing.assert_allclose(score(y, dist), raw.mean(), rtol=1e-12)


@pytest.mark.parametrize("score", [*SCORES, joint_nll])
def test_weights_equal_repetition(score: Any, rng: np.random.Generator) -> None:
    y, dist = make(rng)
    y[4:9, 1] = np.nan
    counts = rng.integers(0, 4, size=len(y))
    rows = np.repeat(np.arange(len(y)), counts)
    np.testing.assert_allclose(
        score(y, dist, sample_weight=counts), score(y[rows], dist[rows]), rtol=1e-10
    )


@pytest.mark.parametrize("score", SCORES + ROW_SCORES)
def test_weight_zero_equals_dropping_even_an_infinite_score(score: Any) -> None:
    rng = np.random.default_rng(0)
    y, dist = make(rng, p=1)
    far = y.copy()
    far[0] = 1e300  # its log density is -inf
    w = np.ones(len(y))
    w[0] = 0.0
    with np.errstate(over="ignore"):
        got = score(far, dist, sample_weight=w)
    np.testing.assert_allclose(got, score(y[1:], dist[1:]), rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.floats(-8, 8), st.floats(-1e3, 1e3))
def test_scores_follow_the_units_of_y(exponent: float, loc: float) -> None:
    y, dist = make(np.random.default_rng(2), p=1)
    scale = 10.0**exponent
    moved = dist.affine(loc * scale, scale)
    z = loc * scale + scale * y
    for score in (crps, rmse, interval_score, pinball_loss):
        np.testing.assert_allclose(score(z, moved), scale * score(y, dist), rtol=1e-8)
    np.testing.assert_allclose(nll(z, moved), nll(y, dist) + np.log(scale), atol=1e-8)


@pytest.mark.parametrize("score", SCORES)
def test_frames_and_lists_give_the_score_of_arrays(score: Any, rng: np.random.Generator) -> None:
    y, dist = make(rng)
    y[2, 1] = np.nan
    expected = score(y, dist)
    assert score(y.tolist(), dist) == expected
    assert score(pd.DataFrame(y), dist) == expected
    assert score(pl.DataFrame(y, schema=["a", "b", "c"]), dist) == expected
    one = NormalMixture.normal(dist.mean()[:, 0], dist.std()[:, 0])
    expected = score(y[:, 0], one)
    assert score(pd.Series(y[:, 0], index=range(5, 45)), one) == expected
    assert score(pl.Series(y[:, 0]), one) == expected


def test_null_targets_of_frames_are_missing() -> None:
    dist = NormalMixture.normal([0.0, 0.0], [1.0, 1.0])
    assert rmse(pl.Series([None, 3.0]), dist) == 3.0
    assert rmse(pd.Series([None, 3], dtype="Int64"), dist) == 3.0


@pytest.mark.parametrize("score", SCORES + ROW_SCORES)
@pytest.mark.parametrize(
    ("y", "weight", "message"),
    [
        ([1.0, 2.0], None, r"\(2,\) but the distribution has shape \(2, 2\)"),
        ([[1.0], [2.0]], None, r"\(2, 1\) but the distribution has shape \(2, 2\)"),
        ([[1.0, np.nan], [2.0, np.nan]], None, "Output 1 has no observed target"),
        ([[1.0, np.nan], [2.0, 3.0]], [1.0, 0.0], "Output 1 has no observed target"),
        ([[1.0, np.inf], [2.0, 3.0]], None, "infinity"),
        ([["a", "b"], ["c", "d"]], None, "could not convert"),
        ([[1.0, 2.0], [2.0, 3.0]], [1.0], r"sample_weight has shape \(1,\), expected \(2,\)"),
        ([[1.0, 2.0], [2.0, 3.0]], [[1.0], [1.0]], r"sample_weight has shape \(2, 1\)"),
        ([[1.0, 2.0], [2.0, 3.0]], [1.0, -1.0], "negative"),
        ([[1.0, 2.0], [2.0, 3.0]], [0.0, 0.0], "zero for every row"),
        ([[1.0, 2.0], [2.0, 3.0]], [1.0, np.nan], "sample_weight contains NaN"),
    ],
)
def test_invalid_targets_and_weights_are_refused(
    score: Any, y: Any, weight: Any, message: str
) -> None:
    dist = NormalMixture.normal(np.zeros((2, 2)), np.ones((2, 2)))
    with pytest.raises(ValueError, match=message):
        score(y, dist, sample_weight=weight)


def test_a_column_against_one_output_gets_the_remedy() -> None:
    y, dist = np.arange(3.0), NormalMixture.normal(np.zeros((3, 1)), np.ones((3, 1)))
    remedy = r"must be equal; take np\.ravel\(y_true\) or dist\[:, 0\]\.$"
    for targets, predicted in ((y, dist), (y[:, None], dist[:, 0])):
        with pytest.raises(ValueError, match=remedy):
            crps(targets, predicted)
    assert crps(y, dist[:, 0]) == crps(y[:, None], dist)  # what the message recommends
    with pytest.raises(ValueError, match=r"must be equal\.$"):
        crps(y[:2], dist[:, 0])


def holed_exponential(z: Any) -> Any:
    """Undefined for z around zero, so that it is no valid transformation."""
    return np.where(np.abs(z) < 0.5, np.nan, np.exp(z))


@pytest.mark.parametrize(
    "score", [nll, joint_nll, crps, coverage, coverage_error, calibration_error, pit, zscores]
)
def test_a_distribution_that_gives_nan_is_named(score: Any) -> None:
    mean, std = np.full((3, 2), 3.0), np.full((3, 2), 0.1)
    mean[2, 0], std[2, 0] = 0.0, 1.0
    y = np.full((3, 2), 20.0)
    y[2, 0] = -1.0
    dist = MonotoneTransformed(NormalMixture.normal(mean, std), holed_exponential, np.log)
    with pytest.raises(ValueError, match="NaN at row 2, output 0"):
        score(y, dist)


@pytest.mark.parametrize("score", [nll, joint_nll])
def test_an_infinite_density_is_refused_where_it_counts(score: Any) -> None:
    """A target on a step of a rounded one, of probability 0.2; the CRPS by samples."""
    y = np.array([1.0, np.nan, 1.0])
    base = NormalMixture.normal([0.5, 0.0, 0.2], 1.0)
    dist = MonotoneTransformed(base, lambda z: np.round(2.0 * z) / 2.0, lambda y: y)
    with pytest.raises(ValueError, match=r"infinite at row 0, output 0.*CRPS"):
        score(y, dist)
    with pytest.raises(ValueError, match=r"infinite at row 2, output 0.*CRPS"):
        score(y, dist, sample_weight=[0.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"infinite at row 1, output 0.*CRPS"):
        nll([[0.5, 1.0], [1.0, 1.0], [0.0, 1.0]], dist)
    x = dist.rvs(200_000, random_state=0)[[0, 2]]
    expected = np.abs(x - 1.0).mean() - 0.5 * np.abs(x - x[:, ::-1]).mean()
    assert crps(y, dist) == pytest.approx(expected, abs=0.01)


def test_targets_outside_the_support_have_no_density() -> None:
    dist = MonotoneTransformed(NormalMixture.normal([0.0, 0.0], 1.0), np.exp, np.log)
    y = [-1.0, 1.0]
    assert nll(y, dist) == joint_nll(y, dist) == np.inf
    assert coverage(y, dist) == 0.5
    np.testing.assert_array_equal(pit(y, dist), [0.0, 0.5])
    assert np.isfinite(crps(y, dist))


def test_one_output_never_broadcasts() -> None:
    dist = NormalMixture.normal(np.zeros(3), np.ones(3))
    with pytest.raises(ValueError, match=r"\(3, 1\) but the distribution has shape \(3,\)"):
        crps(np.zeros((3, 1)), dist)
    with pytest.raises(TypeError, match="scalar"):
        crps(0.0, dist)


@pytest.mark.parametrize(
    ("multioutput", "message"),
    [
        ("variance_weighted", "variance_weighted"),
        ([1.0], r"shape \(1,\), expected \(3,\)"),
        ([1.0, -1.0, 1.0], "non-negative"),
        ([0.0, 0.0, 0.0], "not all zero"),
    ],
)
@pytest.mark.parametrize("score", SCORES)
def test_invalid_multioutput_is_refused(
    score: Any, multioutput: Any, message: str, rng: np.random.Generator
) -> None:
    y, dist = make(rng)
    with pytest.raises(ValueError, match=message):
        score(y, dist, multioutput=multioutput)


@pytest.mark.parametrize(
    ("score", "argument"),
    [
        (pinball_loss, {"alpha": [0.1, 0.9]}),
        (pinball_loss, {"alpha": "0.5"}),
        (interval_score, {"coverage": [0.5, 0.9]}),
        (pinball_loss, {"alpha": 0.0}),
        (pinball_loss, {"alpha": 1.0}),
        (interval_score, {"coverage": 1.0}),
        (coverage, {"coverage": 0.0}),
        (coverage_error, {"coverage": 90.0}),
        (calibration_error, {"n_levels": 0}),
        (energy_score, {"n_samples": 1}),
    ],
)
def test_invalid_levels_are_refused(score: Any, argument: dict[str, Any]) -> None:
    dist = NormalMixture.normal(np.zeros((3, 2)), np.ones((3, 2)))
    with pytest.raises(ValueError, match=f"^{next(iter(argument))}"):
        score(np.zeros((3, 2)), dist, **argument)


@pytest.mark.parametrize("score", [*SCORES, *ROW_SCORES, pit, zscores])
@pytest.mark.parametrize("of_bounds", [False, True])
def test_what_predict_returns_is_no_distribution(score: Any, of_bounds: bool) -> None:
    y, mean = np.zeros((3, 2) if of_bounds else 3), np.zeros(3)
    for means in (mean, mean.tolist(), (mean, mean + 1.0), pd.Series(mean)):
        with pytest.raises(TypeError, match=r"dist must be a predictive .*predict_dist\(X\)"):
            score(y, means)


@pytest.mark.parametrize("score", [*SCORES, *ROW_SCORES, pit, zscores])
def test_distributions_of_classes_have_other_scores(score: Any) -> None:
    for dist in (Bernoulli([0.2, 0.7]), Categorical([[0.2, 0.5, 0.3]] * 2)):
        with pytest.raises(TypeError, match=r"of a regressor, got (Ber|Cat).*: classes have rps"):
            score(np.array([0, 1]), dist)


def test_diagnoses_refuse_what_is_no_distribution() -> None:
    with pytest.raises(TypeError, match="dist must be a predictive distribution, got ndarray"):
        noise_fraction(np.zeros(3), 0.1)
    with pytest.raises(TypeError, match="dist must be a predictive distribution, got ndarray"):
        shapiro_wilk(np.zeros(3))
