"""Calibration: whether stated probabilities, intervals and standard deviations are right.

Arguments follow the conventions of the scores: `y_true` in the shape of `dist`, NaN targets are
skipped entrywise, `sample_weight` weighs rows, `multioutput` is that of `sklearn.metrics`. The
diagnostics `pit`, `zscores` and `noise_fraction` give one number per entry instead of an average.
"""

import numpy as np
from numpy.typing import ArrayLike

from skgp._typing import FloatArray
from skgp.distributions import ContinuousDistribution
from skgp.scoring._reduce import WeightedTargets, check_distribution, check_targets, combine_outputs
from skgp.scoring._scores import check_level


def coverage(
    y_true: ArrayLike,
    dist: ContinuousDistribution,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = 0.9,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | FloatArray:
    """Share of the targets that fall inside their central predictive interval.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, P)
        Targets; NaN entries are skipped.
    dist : predictive distribution of shape (n,) or (n, P)
    sample_weight : array-like of shape (n,), default=None
    coverage : float, default=0.9
        Nominal coverage of the central interval, in (0, 1).
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (P,)

    Returns
    -------
    float, or ndarray of shape (P,) for "raw_values"
        Between 0 and 1; near the nominal coverage for a calibrated model. Neither larger nor
        smaller is better: to select models use :func:`coverage_error`, or a proper score.

    Raises
    ------
    ValueError
        If shapes, weights, `coverage` or `multioutput` are not valid, or an output has no observed
        target.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import coverage
    >>> coverage([0.0, 1.0, 2.0, -3.0], NormalMixture.normal([0.0] * 4, [1.0] * 4))
    0.5
    """
    targets = check_targets(y_true, dist, sample_weight)
    return combine_outputs(_share_inside(targets, dist, coverage), multioutput)


def coverage_error(
    y_true: ArrayLike,
    dist: ContinuousDistribution,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = 0.9,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | FloatArray:
    """Absolute difference between the empirical and the nominal coverage of each output.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, P)
        Targets; NaN entries are skipped.
    dist : predictive distribution of shape (n,) or (n, P)
    sample_weight : array-like of shape (n,), default=None
    coverage : float, default=0.9
        Nominal coverage of the central interval, in (0, 1).
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (P,)

    Returns
    -------
    float, or ndarray of shape (P,) for "raw_values"
        Between 0 and 1, smaller is better.

    Raises
    ------
    ValueError
        If shapes, weights, `coverage` or `multioutput` are not valid, or an output has no observed
        target.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import coverage_error
    >>> coverage_error([0.0, 2.0], NormalMixture.normal([0.0, 0.0], [1.0, 1.0]), coverage=0.75)
    0.25
    """
    targets = check_targets(y_true, dist, sample_weight)
    return combine_outputs(np.abs(_share_inside(targets, dist, coverage) - coverage), multioutput)


def _share_inside(
    targets: WeightedTargets, dist: ContinuousDistribution, nominal: float
) -> FloatArray:
    """Share of the targets inside the central interval, shape (P,)."""
    check_level("coverage", nominal)
    below, up_to = dist.cdf_ends(targets.y)
    if (below < up_to).any():
        lower, upper = dist.interval(nominal)
        return _share_below(targets, np.maximum(lower - targets.y, targets.y - upper), 0.0)
    # Where values have no probability of their own, y is in the central interval iff its PIT value
    # is, and a cdf is cheaper than two quantiles.
    return _share_below(targets, np.abs(up_to - 0.5), 0.5 * nominal)


def _share_below(targets: WeightedTargets, values: FloatArray, bound: float) -> FloatArray:
    """Share of the values up to `bound`, shape (P,); NaN values stay NaN and so are noticed."""
    return targets.mean_over_rows(np.where(np.isnan(values), np.nan, values <= bound))


def calibration_error(
    y_true: ArrayLike,
    dist: ContinuousDistribution,
    *,
    sample_weight: ArrayLike | None = None,
    n_levels: int = 99,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | FloatArray:
    """Mean absolute difference between empirical and nominal quantile levels.

    The average over the levels p = 1 / (n_levels + 1), ..., n_levels / (n_levels + 1) of
    ``abs(share of targets below their predictive p-quantile - p)``. A count, or an atom, that is
    its p-quantile itself is below it in part: to the share of its probability that p has reached.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, P)
        Targets; NaN entries are skipped.
    dist : predictive distribution of shape (n,) or (n, P)
    sample_weight : array-like of shape (n,), default=None
    n_levels : int, default=99
        Number of equally spaced levels, at least 1; 99 are the percentiles.
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (P,)

    Returns
    -------
    float, or ndarray of shape (P,) for "raw_values"
        Between 0 and 0.5, smaller is better. It is not a proper score: a model that ignores X can
        be calibrated. With n targets a perfect model scores about 0.3 / sqrt(n), not 0.

    Raises
    ------
    ValueError
        If shapes, weights, `n_levels` or `multioutput` are not valid, or an output has no observed
        target.

    Notes
    -----
    The absolute form of the calibration error in [1]_ section 3.5; of counts by the nonrandomized
    PIT of [2]_ equation 2.

    References
    ----------
    .. [1] V. Kuleshov, N. Fenner and S. Ermon, "Accurate uncertainties for deep learning using
       calibrated regression", ICML 2018.
    .. [2] C. Czado, T. Gneiting and L. Held, "Predictive model assessment for count data",
       Biometrics 65 (2009) 1254-1261.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import calibration_error
    >>> dist = NormalMixture.normal([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    >>> round(calibration_error(dist.ppf(0.5), dist), 4)  # every target is its own median
    0.2525
    """
    if n_levels < 1:
        raise ValueError(f"n_levels must be at least 1, got {n_levels}.")
    targets = check_targets(y_true, dist, sample_weight)
    below, up_to = dist.cdf_ends(targets.y)
    levels = np.arange(1, n_levels + 1) / (n_levels + 1)
    shares = [targets.mean_over_rows(share_of_jump(level, below, up_to)) for level in levels]
    gaps = [np.abs(share - level) for share, level in zip(shares, levels, strict=True)]
    return combine_outputs(np.mean(gaps, axis=0), multioutput)


def share_of_jump(level: float | FloatArray, below: FloatArray, up_to: FloatArray) -> FloatArray:
    """Share of each jump of a cdf, from `below` to `up_to`, that lies below a level; NaN stays.

    The nonrandomized PIT of Czado, Gneiting and Held (2009), equation 2; 0 or 1 without a jump.
    """
    jump = up_to - below
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(jump > 0.0, np.clip((level - below) / jump, 0.0, 1.0), up_to <= level)
    return np.where(np.isnan(up_to), np.nan, share)


def pit_ends(y_true: ArrayLike, dist: ContinuousDistribution) -> FloatArray:
    """The PIT of each entry, in the shape of `dist`; where some jump, the ends of all, (..., 2)."""
    targets = check_targets(y_true, dist, None)
    below, up_to = dist.cdf_ends(targets.y)
    targets.counted(up_to)
    return np.stack([below, up_to], axis=-1) if (below < up_to).any() else up_to


def pit(y_true: ArrayLike, dist: ContinuousDistribution) -> FloatArray:
    """Probability integral transform: the predictive cdf at each target.

    At a count y the cdf jumps, from F(y - 1) to F(y), and the value is the middle of both; so it is
    at an atom of a transformed distribution.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, P)
        Targets; NaN entries give NaN.
    dist : predictive distribution of shape (n,) or (n, P)

    Returns
    -------
    ndarray of shape (n,) or (n, P)
        Between 0 and 1; uniform for a calibrated model. Of counts only the mean is that of a
        uniform distribution, 1/2: rare counts lie in few places.

    Raises
    ------
    ValueError
        If the shapes differ, an output has no observed target, or a value of an observed target
        is NaN.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import pit
    >>> pit([0.0, -3.0], NormalMixture.normal([0.0, 0.0], [1.0, 1.0])).round(4)
    array([0.5   , 0.0013])
    """
    targets = check_targets(y_true, dist, None)
    below, up_to = dist.cdf_ends(targets.y)
    values: FloatArray = 0.5 * (below + up_to)
    targets.counted(values)
    return values


def zscores(y_true: ArrayLike, dist: ContinuousDistribution) -> FloatArray:
    """Errors of the predictive mean in predictive standard deviations, (y - mean) / std.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, P)
        Targets; NaN entries give NaN.
    dist : predictive distribution of shape (n,) or (n, P)

    Returns
    -------
    ndarray of shape (n,) or (n, P)
        Standard normal for a calibrated model with normal predictive distributions.

    Raises
    ------
    ValueError
        If the shapes differ, an output has no observed target, or a value of an observed target
        is NaN.

    Notes
    -----
    [1]_ figure 5 shows their empirical cdf against the normal one.

    References
    ----------
    .. [1] M. Jankowiak, G. Pleiss and J. R. Gardner, "Parametric Gaussian process regressors",
       ICML 2020.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import zscores
    >>> zscores([1.0, 2.0], NormalMixture.normal([0.0, 0.0], [2.0, 4.0]))
    array([0.5, 0.5])
    """
    targets = check_targets(y_true, dist, None)
    z: FloatArray = (targets.y - dist.mean()) / dist.std()
    targets.counted(z)
    return z


def noise_fraction(dist: ContinuousDistribution, noise_variance: ArrayLike) -> FloatArray:
    """Share of the predictive variance that is observation noise.

    Values near 1 tell that the model makes no use of the uncertainty of its function, as
    variational Gaussian processes tend to do.

    Parameters
    ----------
    dist : predictive distribution of shape (n,) or (n, P)
        Of y, noise included.
    noise_variance : float, or array-like of shape (P,), (n,) or (n, P)
        Variance of the observation noise in squared units of y: one number, one per output (the
        `noise_variance_` of a regressor), or one per entry of `dist`.

    Returns
    -------
    ndarray of shape (n,) or (n, P)
        Between 0 and 1. Its mean over rows is what [1]_ figure 4 shows.

    Raises
    ------
    ValueError
        If the shape of `noise_variance` does not fit, or it is negative or larger than the
        predictive variance.

    References
    ----------
    .. [1] M. Jankowiak, G. Pleiss and J. R. Gardner, "Parametric Gaussian process regressors",
       ICML 2020.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import noise_fraction
    >>> noise_fraction(NormalMixture.normal([0.0, 0.0], [1.0, 2.0]), 0.5)
    array([0.5  , 0.125])
    """
    check_distribution(dist)
    noise = np.asarray(noise_variance, dtype=np.float64)
    n_outputs = dist.shape[1] if len(dist.shape) == 2 else 1
    if noise.shape not in ((), (n_outputs,), dist.shape):
        raise ValueError(
            f"noise_variance has shape {noise.shape}, expected (), ({n_outputs},) or {dist.shape}."
        )
    fraction: FloatArray = noise / dist.var()
    # The margin admits rounding in the sum of function and noise variance.
    if not ((fraction >= 0.0) & (fraction <= 1.0 + 1e-6)).all():
        raise ValueError(
            "noise_variance must lie between 0 and the predictive variance; are both in the units "
            "of y?"
        )
    return np.minimum(fraction, 1.0)
