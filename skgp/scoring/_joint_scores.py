"""Scores of the predictive distribution of whole rows: all outputs together.

Arguments follow the conventions of the scores of single outputs; there is no `multioutput`, since
a row has one score.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from skgp.distributions import ContinuousDistribution
from skgp.scoring._reduce import check_targets, refuse_infinite_density, refuse_nan

_CHUNK = 2**22  # draws held in memory at once by energy_score (32 MiB)


def joint_nll(
    y_true: ArrayLike, dist: ContinuousDistribution, *, sample_weight: ArrayLike | None = None
) -> float:
    r"""Negative log of the joint predictive density of a row, per observed entry, in nats.

    Missing entries of a row are marginalised out. With one output it equals :func:`nll`.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, P)
        Targets; NaN entries are marginalised out.
    dist : predictive distribution of shape (n,) or (n, P)
    sample_weight : array-like of shape (n,), default=None
        Weighs both the log densities and the counts of observed entries.

    Returns
    -------
    float
        In nats per observed entry.

    Raises
    ------
    ValueError
        If shapes or weights are not valid, an output has no observed target, or a density is
        infinite, as :func:`nll` explains.

    Notes
    -----
    With the joint density :math:`p_i` of the observed entries of row i, of which there are
    :math:`P_i`,

    .. math::

        - \sum_{i=1}^{n} \log p_i(y_i) \; / \; \sum_{i=1}^{n} P_i .

    With complete targets this is the multivariate NLL of [1]_.

    References
    ----------
    .. [1] M. Jankowiak, G. Pleiss and J. R. Gardner, "Deep sigma point processes", UAI 2020,
       figure 5.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import joint_nll
    >>> dist = NormalMixture.normal([[0.0, 0.0]], [[1.0, 1.0]])
    >>> round(joint_nll([[0.0, 1.0]], dist), 4)
    1.1689
    """
    targets = check_targets(y_true, dist, sample_weight)
    weight = targets.weight.max(axis=1)
    rows = np.flatnonzero(weight > 0.0)  # without the rows in which every target is missing
    log_density = np.zeros(len(weight))
    log_density[rows] = dist[rows].joint_logpdf(targets.y[rows])
    refuse_nan(log_density[:, np.newaxis])
    refuse_infinite_density(log_density[:, np.newaxis])
    return float(-log_density @ weight / targets.weight.sum())


def energy_score(
    y_true: ArrayLike,
    dist: ContinuousDistribution,
    *,
    sample_weight: ArrayLike | None = None,
    n_samples: int = 1000,
    random_state: int | np.random.Generator | None = 0,
) -> float:
    r"""Mean energy score: the CRPS of a whole row of outputs, in the units of y.

    Unlike :func:`crps` it sees the dependence between outputs. It takes the Euclidean norm over the
    outputs, so scale them to comparable units first.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, P)
        Targets; a row is scored on its observed entries, a row without any is skipped.
    dist : predictive distribution of shape (n,) or (n, P)
    sample_weight : array-like of shape (n,), default=None
    n_samples : int, default=1000
        Samples per row, at least 2. Unused with one output, where the score is exact.
    random_state : int, numpy.random.Generator or None, default=0
        Seed of the samples. The fixed default makes the score repeatable.

    Returns
    -------
    float
        In the units of y. With one output it equals :func:`crps`.

    Raises
    ------
    ValueError
        If shapes or weights are not valid, an output has no observed target, or n_samples < 2.

    Notes
    -----
    With independent :math:`Y, Y'` from the distribution of a row,

    .. math::

        \mathrm{ES} = \mathrm{E} \|Y - y\| - \frac{1}{2} \mathrm{E} \|Y - Y'\| ,

    [1]_ equation 22 with :math:`\beta = 1` and the sign changed. The second expectation is the mean
    over successive samples, unbiased and linear in `n_samples` ([2]_ equation 7).

    References
    ----------
    .. [1] T. Gneiting and A. E. Raftery, "Strictly proper scoring rules, prediction, and
       estimation", JASA 102 (2007) 359-378.
    .. [2] T. Gneiting, L. I. Stanberry, E. P. Grimit, L. Held and N. A. Johnson, "Assessing
       probabilistic forecasts of multivariate quantities", TEST 17 (2008) 211-235.

    Examples
    --------
    >>> from skgp.distributions import NormalMixture
    >>> from skgp.scoring import energy_score
    >>> dist = NormalMixture.normal([[0.0, 0.0]], [[1.0, 1.0]])
    >>> abs(energy_score([[0.0, 0.0]], dist, n_samples=20000) - 0.367) < 0.02
    True
    """
    if n_samples < 2:
        raise ValueError(f"n_samples must be at least 2, got {n_samples}.")
    targets = check_targets(y_true, dist, sample_weight)
    if math.prod(dist.shape[1:]) == 1:
        return float(targets.mean_over_rows(dist.crps(targets.y))[0])
    rng = np.random.default_rng(random_state)
    # NaN-free differences: a missing entry adds nothing to the norm, in both expectations.
    observed = ~np.isnan(targets.y)
    weight = targets.weight.max(axis=1)
    rows = np.flatnonzero(weight > 0.0)
    step = max(1, _CHUNK // (n_samples * dist.shape[1]))
    total = 0.0
    for chunk in np.split(rows, range(step, len(rows), step)):
        draws = dist[chunk].rvs(n_samples, random_state=rng)
        draws = np.where(observed[chunk, :, np.newaxis], draws, 0.0)
        y = np.where(observed[chunk], targets.y[chunk], 0.0)[:, :, np.newaxis]
        error = np.linalg.norm(draws - y, axis=1).mean(axis=1)
        spread = np.linalg.norm(np.diff(draws, axis=2), axis=1).mean(axis=1)
        total += float((error - 0.5 * spread) @ weight[chunk])
    return total / float(weight.sum())
