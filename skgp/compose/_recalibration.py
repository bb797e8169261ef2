"""One number that makes predictive distributions as wide as the targets say.

It maximises the mean log density, or log probability, of rows that the distributions were not
fitted to.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from skgp._typing import FloatArray
from skgp.distributions import Bernoulli, Categorical, DiscreteDistribution, NormalMixture

_LARGEST = 1e3  # factors lie between its inverse and itself
_N_STARTS = 61  # of the one-dimensional search, over the logarithm of the factor
_XATOL = 1e-8
_TINY = np.finfo(np.float64).tiny  # stands for probabilities that round to zero


def best_scale(dist: Any, y: FloatArray, weight: FloatArray) -> float:
    """Factor c of the deviations from the mean under which y has the highest log density.

    With means m_i and densities p_i of rows of P_i observed outputs it maximises::

        sum_i weight_i (log p_i(m_i + (y_i - m_i) / c) - P_i log c)

    Of one normal per row, with the Mahalanobis distance d_i between y_i and m_i, that is::

        c^2 = sum_i weight_i d_i^2 / sum_i weight_i P_i

    Parameters
    ----------
    dist : NormalMixture of shape (n,) or (n, P)
    y : array of shape (n,) or (n, P)
        In the units of `dist`; NaN entries are missing.
    weight : array of shape (n,)

    Returns
    -------
    float
        Between 1/1000 and 1000.

    Raises
    ------
    TypeError
        If `dist` is no mixture of normals.
    ValueError
        If y is not of its shape, as bounds of censored targets are not.
    """
    if not isinstance(dist, NormalMixture):
        raise TypeError(
            f"recalibrate=True scales mixtures of normals, not a {type(dist).__name__}: keep it "
            "off, or use an affine target transformer"
        )
    used = weight > 0.0
    if y.shape != dist.shape:  # of bounds of censored targets
        raise ValueError(
            f"recalibrate=True needs targets of the shape {dist.shape} of the distributions, and y "
            f"has {y.shape}: keep it False"
        )
    dist, y, weight = dist[used], y[used], weight[used]
    mean = dist.mean()
    n_observed = (~np.isnan(y)).reshape(len(y), -1).sum(axis=1)

    def log_density(scale: float) -> FloatArray:
        return dist.joint_logpdf(mean + (y - mean) / scale)

    if dist.components().mean.shape[1] == 1:
        # log p(m) - log p(y) = d^2 / 2, of the observed outputs alone
        at_mean = dist.joint_logpdf(np.where(np.isnan(y), np.nan, mean))
        squares = 2.0 * (at_mean - log_density(1.0))
        c = np.sqrt((weight @ squares) / (weight @ n_observed))
        return float(np.clip(c, 1.0 / _LARGEST, _LARGEST))
    return _maximiser(lambda c: float(weight @ (log_density(c) - n_observed * np.log(c))))


def stretched(dist: NormalMixture, scale: float) -> NormalMixture:
    """Distribution of m + scale (Y - m), with the mean m of each row."""
    weights, mean, std, factor = dist.components()
    centre = dist.mean()[:, None]
    with np.errstate(divide="ignore"):
        log_w = np.log(weights)
    mean = centre + scale * (mean - centre)
    if factor is not None:
        wider = NormalMixture(log_w, mean, None, scale * factor)
    else:
        wider = NormalMixture(log_w, mean, scale * std)
    return wider.with_output_names(dist.output_names)


def best_temperature(dist: DiscreteDistribution, y: Any, weight: FloatArray) -> float:
    """Temperature T under which smoothed labels y have the highest log probability.

    Probabilities become p^(1/T), normalised: Guo et al. (2017), "On calibration of modern neural
    networks", section 4.2. The factor of a class is 1/T on the logits, whose scale it is. Where
    weights sum to n each label has the share n / (n + 1), and all classes the rest: Platt (1999),
    "Probabilistic outputs for support vector machines", section 2.2, with one row more in all.
    So labels that are all right do not make all probabilities zero or one.

    Parameters
    ----------
    dist : Bernoulli or Categorical of n rows
    y : array of shape (n,)
        Labels.
    weight : array of shape (n,)

    Returns
    -------
    float
        Between 1/1000 and 1000.
    """
    used = weight > 0.0
    dist, y, weight = dist[used], y[used], weight[used]
    logits = floored_log(np.asarray(dist))
    of_label = logits[np.asarray(y)[:, None] == dist.classes]
    n_rows = weight.sum()
    smoothed = (n_rows * of_label + logits.mean(axis=1)) / (n_rows + 1.0)

    def log_probability(temperature: float) -> float:
        total = logsumexp(logits / temperature, axis=1)
        return float(weight @ (smoothed / temperature - total))

    return _maximiser(log_probability)


def tempered(dist: Any, temperature: float) -> Any:
    """Distribution of the probabilities p^(1/temperature), normalised."""
    p = np.exp(tempered_log(floored_log(np.asarray(dist)), temperature))
    p /= p.sum(axis=1, keepdims=True)
    kind = Bernoulli.of_columns if type(dist) is Bernoulli else Categorical
    return kind(p, dist.classes)


def tempered_log(log_p: FloatArray, temperature: float) -> FloatArray:
    """Logarithms (n, C) of the probabilities p^(1/temperature), normalised.

    They are those of `tempered`, so the same floor stands for probabilities that round to zero.
    """
    logits = np.maximum(log_p, np.log(_TINY)) / temperature
    return np.asarray(logits - logsumexp(logits, axis=1, keepdims=True))


def floored_log(p: FloatArray) -> FloatArray:
    """Logarithm, finite where a probability rounds to zero."""
    return np.asarray(np.log(np.maximum(p, _TINY)))


def _maximiser(objective: Callable[[float], float]) -> float:
    """The positive number, at most `_LARGEST` and at least its inverse, of the highest value."""
    grid = np.linspace(-np.log(_LARGEST), np.log(_LARGEST), _N_STARTS)
    best = int(np.argmax([objective(float(np.exp(x))) for x in grid]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, _N_STARTS - 1)]
    found = minimize_scalar(
        lambda x: -objective(float(np.exp(x))), bounds=around, method="bounded",
        options={"xatol": _XATOL},
    )  # fmt: skip
    return float(np.exp(found.x))
