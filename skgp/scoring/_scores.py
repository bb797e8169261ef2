"""Scores of the predictive distribution of each output.

Conventions shared by all functions here:

- arguments are `(y_true, dist)`, as `(y_true, y_pred)` in `sklearn.metrics`; smaller is better;
- `y_true` has exactly the shape of `dist`, (n,) or (n, P); NaN entries are missing and skipped
  one by one, the weights of the other entries being renormalised for each output;
- `sample_weight` weighs rows: weight 2 equals the row twice, weight 0 equals leaving it out;
- `multioutput` is that of `sklearn.metrics`: "uniform_average" (one float), "raw_values" (an array
  with one score per output) or one weight per output.
"""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skgp._typing import FloatArray
from skgp.distributions import ContinuousDistribution
from skgp.scoring._bounds import bounds_nll
from skgp.scoring._reduce import are_bounds, check_targets, combine_outputs, refuse_infinite_density


def nll(
    y_true: ArrayLike,
    dist: ContinuousDistribution,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | FloatArray:
    r"""Mean negative log predictive density of each output, in nats.

    With several outputs this scores the marginal of each output and ignores their dependence;
    :func:`joint_nll` scores the joint density of a row.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, P)
        Targets; NaN entries are skipped. For a distribution of shape (n,) also lower and upper
        bounds (n, 2), -inf and inf where there is none: a row counts with its log density where
        they are equal, else with the log probability between them. Bounds are possible values
        themselves: of counts, 3 and 5 stand for 3, 4 and 5.
    dist : predictive distribution of shape (n,) or (n, P)
    sample_weight : array-like of shape (n,), default=None
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (P,)

    Returns
    -------
    float, or ndarray of shape (P,) for "raw_values"
        In nats. A change of the units of y by a factor c adds log c.

    Raises
    ------
    ValueError
        If shapes, weights or `multioutput` are not valid, or an output has no observed target;
        or if a density is infinite, as where a transformed target has a probability of its own:
        use :func:`crps` there.

    Notes
    -----
    With the predictive density :math:`p_i` of row i,

    .. math::

        \mathrm{NLL} = - \frac{1}{n} \sum_{i=1}^{n} \log p_i(y_i) .

    This is the logarithmic score, [1]_ section 4.1, with its sign changed. It is proper for
    censored targets too, if whether one is censored says no more of it than its bounds do.

    References
    ----------
    .. [1] T. Gneiting and A. E. Raftery, "Strictly proper scoring rules, prediction, and
       estimation", JASA 102 (2007) 359-378.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import nll
    >>> round(nll([0.0, 1.0], NormalMixture.normal([0.0, 0.0], [1.0, 1.0])), 4)
    1.1689
    """
    if are_bounds(y_true, dist):
        return combine_outputs(bounds_nll(y_true, dist, sample_weight), multioutput)
    targets = check_targets(y_true, dist, sample_weight)
    log_density = targets.counted(dist.logpdf(targets.y))
    refuse_infinite_density(log_density)
    return combine_outputs(targets.mean_over_rows(-log_density), multioutput)


def crps(
    y_true: ArrayLike,
    dist: ContinuousDistribution,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | FloatArray:
    r"""Mean continuous ranked probability score, in the units of y.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, P)
        Targets; NaN entries are skipped.
    dist : predictive distribution of shape (n,) or (n, P)
    sample_weight : array-like of shape (n,), default=None
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (P,)

    Returns
    -------
    float, or ndarray of shape (P,) for "raw_values"
        In the units of y; the absolute error for a distribution without spread.

    Raises
    ------
    ValueError
        If shapes, weights or `multioutput` are not valid, or an output has no observed target.

    Notes
    -----
    With independent :math:`Y, Y'` from the distribution of a row and its distribution function F,

    .. math::

        \mathrm{CRPS}(F, y) = \mathrm{E} |Y - y| - \frac{1}{2} \mathrm{E} |Y - Y'|
        = \int \left( F(z) - 1\{y \le z\} \right)^2 dz .

    [1]_ equations 20 and 21, with the sign changed.

    References
    ----------
    .. [1] T. Gneiting and A. E. Raftery, "Strictly proper scoring rules, prediction, and
       estimation", JASA 102 (2007) 359-378.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import crps
    >>> round(crps([0.0, 1.0], NormalMixture.normal([0.0, 0.0], [1.0, 1.0])), 4)
    0.4181
    """
    targets = check_targets(y_true, dist, sample_weight)
    return combine_outputs(targets.mean_over_rows(dist.crps(targets.y)), multioutput)


def rmse(
    y_true: ArrayLike,
    dist: ContinuousDistribution,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | FloatArray:
    """Root mean squared error of the predictive mean, in the units of y.

    Its mean over outputs, the default, is the MRMSE of the literature on multi-output Gaussian
    processes.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, P)
        Targets; NaN entries are skipped.
    dist : predictive distribution of shape (n,) or (n, P)
    sample_weight : array-like of shape (n,), default=None
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (P,)

    Returns
    -------
    float, or ndarray of shape (P,) for "raw_values"
        In the units of y; `sklearn.metrics.root_mean_squared_error(y_true, dist.mean())` when no
        target is missing.

    Raises
    ------
    ValueError
        If shapes, weights or `multioutput` are not valid, or an output has no observed target.

    Notes
    -----
    The root of the mean squared Euclidean norm of a row's error is `np.linalg.norm` of the raw
    values.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import rmse
    >>> rmse([3.0, 4.0], NormalMixture.normal([0.0, 4.0], [1.0, 1.0]), sample_weight=[1.0, 8.0])
    1.0
    """
    targets = check_targets(y_true, dist, sample_weight)
    mse = targets.mean_over_rows((targets.y - dist.mean()) ** 2)
    return combine_outputs(np.sqrt(mse), multioutput)


def pinball_loss(
    y_true: ArrayLike,
    dist: ContinuousDistribution,
    *,
    sample_weight: ArrayLike | None = None,
    alpha: float = 0.5,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | FloatArray:
    r"""Mean pinball loss of the predictive quantile at level `alpha`, in the units of y.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, P)
        Targets; NaN entries are skipped.
    dist : predictive distribution of shape (n,) or (n, P)
    sample_weight : array-like of shape (n,), default=None
    alpha : float, default=0.5
        Level of the quantile, in (0, 1); 0.5 gives half the mean absolute error of the median.
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (P,)

    Returns
    -------
    float, or ndarray of shape (P,) for "raw_values"
        In the units of y; `sklearn.metrics.mean_pinball_loss(y_true, dist.ppf(alpha),
        alpha=alpha)` when no target is missing.

    Raises
    ------
    ValueError
        If shapes, weights, `alpha` or `multioutput` are not valid, or an output has no observed
        target.

    Notes
    -----
    With the quantile q at level :math:`\alpha`,

    .. math::

        \max\left( \alpha (y - q), (\alpha - 1) (y - q) \right) .

    This is the quantile score, [1]_ section 6.1, with its sign changed. Its mean over all levels is
    half the CRPS.

    References
    ----------
    .. [1] T. Gneiting and A. E. Raftery, "Strictly proper scoring rules, prediction, and
       estimation", JASA 102 (2007) 359-378.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import pinball_loss
    >>> pinball_loss([3.0, -1.0], NormalMixture.normal([0.0, 0.0], [1.0, 1.0]))
    1.0
    """
    check_level("alpha", alpha)
    targets = check_targets(y_true, dist, sample_weight)
    error = targets.y - dist.ppf(alpha)
    loss = np.maximum(alpha * error, (alpha - 1.0) * error)
    return combine_outputs(targets.mean_over_rows(loss), multioutput)


def interval_score(
    y_true: ArrayLike,
    dist: ContinuousDistribution,
    *,
    sample_weight: ArrayLike | None = None,
    coverage: float = 0.9,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | FloatArray:
    r"""Mean interval (Winkler) score of the central predictive interval, in the units of y.

    The width of the interval plus 2 / (1 - coverage) times the distance by which a target falls
    outside it.

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
        In the units of y.

    Raises
    ------
    ValueError
        If shapes, weights, `coverage` or `multioutput` are not valid, or an output has no observed
        target.

    Notes
    -----
    With the ends l and u of the interval and :math:`\alpha = 1 - \mathrm{coverage}` ([1]_ section
    6.2, equation 43),

    .. math::

        (u - l) + \frac{2}{\alpha} \max(l - y, 0) + \frac{2}{\alpha} \max(y - u, 0) .

    References
    ----------
    .. [1] T. Gneiting and A. E. Raftery, "Strictly proper scoring rules, prediction, and
       estimation", JASA 102 (2007) 359-378.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import interval_score
    >>> round(interval_score([0.0, 2.0], NormalMixture.normal([0.0, 0.0], [1.0, 1.0])), 4)
    6.8412
    """
    check_level("coverage", coverage)
    targets = check_targets(y_true, dist, sample_weight)
    lower, upper = dist.interval(coverage)
    outside = np.maximum(lower - targets.y, 0.0) + np.maximum(targets.y - upper, 0.0)
    score = upper - lower + 2.0 / (1.0 - coverage) * outside
    return combine_outputs(targets.mean_over_rows(score), multioutput)


def check_level(name: str, level: Any) -> None:
    """Check that a nominal coverage or the level of a quantile lies strictly between 0 and 1."""
    if not (isinstance(level, Real) and 0.0 < float(level) < 1.0):
        raise ValueError(
            f"{name} must be a number between 0 and 1, got {level!r}: 90 % is 0.9, and several "
            "levels need a call each"
        )
