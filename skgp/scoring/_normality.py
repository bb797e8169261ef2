"""How close to normal predictive distributions are."""

import numpy as np
from scipy import stats

from skgp._typing import FloatArray
from skgp.distributions import ContinuousDistribution
from skgp.scoring._reduce import check_distribution

_CHUNK = 2**22  # draws held in memory at once (32 MiB)


def shapiro_wilk(
    dist: ContinuousDistribution,
    *,
    n_samples: int = 1000,
    random_state: int | np.random.Generator | None = 0,
) -> FloatArray:
    """Shapiro-Wilk statistic W of draws from each predictive distribution: how normal it is.

    It looks at the predictions alone, not at outcomes: a small W tells that the model makes use of
    a shape that a normal lacks, not that it is right to do so.

    Parameters
    ----------
    dist : predictive distribution of shape (n,) or (n, P)
    n_samples : int, default=1000
        Draws per entry, from 3 to 5000. W depends on it, so compare models at the same number.
    random_state : int, numpy.random.Generator or None, default=0
        Seed of the draws. The fixed default makes the statistic repeatable.

    Returns
    -------
    ndarray of shape (n,) or (n, P)
        W, between 0 and 1, without unit. With 1000 draws a normal has 0.998 on average and more
        than 0.995 in 99 of 100 cases; two equal normals six standard deviations apart have 0.88.

    Raises
    ------
    ValueError
        If `n_samples` is out of its range.

    Notes
    -----
    W = (sum_i a_i y_(i))^2 / sum_i (y_i - mean)^2 of the ordered draws y_(i), with the weights of
    ordered normals. [1]_ compares models by it, in the supplement.

    References
    ----------
    .. [1] H. Salimbeni, V. Dutordoir, J. Hensman and M. P. Deisenroth, "Deep Gaussian processes
       with importance-weighted variational inference", ICML 2019.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import shapiro_wilk
    >>> dist = NormalMixture([0.0, 0.0], mean=[[0.0, 0.0], [-3.0, 3.0]], std=1.0)
    >>> normal, two_peaks = shapiro_wilk(dist)
    >>> bool(normal > 0.99), bool(two_peaks < 0.9)
    (True, True)
    """
    check_distribution(dist)
    if not 3 <= n_samples <= 5000:
        raise ValueError(f"n_samples must lie between 3 and 5000, got {n_samples}.")
    rng = np.random.default_rng(random_state)
    out = np.empty(dist.shape)
    step = max(1, _CHUNK // (n_samples * int(np.prod(dist.shape[1:]))))
    for start in range(0, len(dist), step):
        draws = dist[start : start + step].rvs(n_samples, random_state=rng)
        out[start : start + step] = np.apply_along_axis(_statistic, -1, draws)
    return out


def _statistic(draws: FloatArray) -> float:
    return float(stats.shapiro(draws).statistic)
