"""Counts given their log rate, Poisson or negative binomial, and given a normal log rate."""

import math
from typing import Final

import numpy as np
from scipy.special import betainc, betaincc, expit, gammainc, gammaincc, gammaln, log_ndtr

from skgp._typing import BoolArray, FloatArray
from skgp.distributions._density import LOG_SQRT_2PI, logsumexp

_NEWTON_STEPS: Final = 40  # at most
_CONVERGED: Final = 1e-12
_REACH: Final = 8.0
# Points, and how fast the steps between them grow: a density in f has lighter tails than the one
# of what a count says of f.
_NARROW: Final = (64, 0.3)
_WIDE: Final = (96, 0.5)
_STIRLING: Final = 16.0  # from which the series of its error has all digits
_SMALLEST: Final = 1e-100  # dispersion that the incomplete beta function is asked for


def log_mass_given_normal(
    count: FloatArray, mean: FloatArray, std: FloatArray, a: FloatArray
) -> FloatArray:
    """log P(Y = count) if f ~ N(mean, std^2), by equal steps around the mode of the integrand."""
    var = np.maximum(std, 1e-8) ** 2
    mode = _peak(count, mean, var, a)
    width = 1.0 / np.sqrt(_slopes(mode, count, a)[1] + 1.0 / var)
    x, h = _points(*_NARROW)
    f = mode[..., None] + width[..., None] * x
    prior = -0.5 * (f - mean[..., None]) ** 2 / var[..., None]
    terms = prior + _log_mass(f, count[..., None], a[..., None])
    top = terms.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(h * np.exp(terms - top), axis=-1)) + top[..., 0]
    out = np.asarray(total + np.log(width) - 0.5 * np.log(var) - LOG_SQRT_2PI)
    # P(Y = 0) = P(Y <= 0): steps as wide as the density of f pass over the fall of exp(-exp(f)).
    at_zero = (count == 0.0) & ~_is_narrow(count, std, a)
    cells = (part[at_zero] for part in (count, mean, std, a))
    out[at_zero] = _log_over_thresholds(*cells, upper=False)
    return out


def tail_given_normal(
    count: FloatArray, mean: FloatArray, std: FloatArray, a: FloatArray, *, upper: bool
) -> FloatArray:
    """P(Y <= count), or P(Y > count), of cells (B,) with f ~ N(mean, std^2).

    Given f the probability is that of f below some T, of which the count tells; hence it is
    E[P(Y <= count | f)] and P(f <= T) = E[Phi((T - mean) / std)] alike. The points lie where the
    narrower one of the two densities is, so that what they see of the other factor is smooth.
    """
    std = np.maximum(std, 1e-8)
    out = np.empty(count.shape)
    narrow = _is_narrow(count, std, a)
    parts = count, mean, std, a
    out[narrow] = _over_rates(*(part[narrow] for part in parts), upper=upper)
    log_p = _log_over_thresholds(*(part[~narrow] for part in parts), upper=upper)
    out[~narrow] = np.exp(log_p)
    return out


def _is_narrow(count: FloatArray, std: FloatArray, a: FloatArray) -> BoolArray:
    """Whether the density of f is narrower than that of the threshold T."""
    return std * std < 1.0 / (count + 1.0) + a


def _over_rates(
    count: FloatArray, mean: FloatArray, std: FloatArray, a: FloatArray, *, upper: bool
) -> FloatArray:
    # In a tail the integrand peaks about where that of the next count does.
    mode = _peak(count + 1.0, mean, std * std, a)
    centre = np.maximum(mean, mode) if upper else np.minimum(mean, mode)
    curvature = np.where(centre == mean, 0.0, _slopes(centre, count + 1.0, a)[1])
    width = 1.0 / np.sqrt(1.0 / std**2 + curvature)
    x, h = _points(*_NARROW)
    f = centre[:, None] + width[:, None] * x
    z = (f - mean[:, None]) / std[:, None]
    p = np.exp(-0.5 * z * z) * _cumulative(count[:, None], f, a[:, None], upper)
    return np.asarray(np.sum(h * p, axis=1) * width / std / math.sqrt(2.0 * math.pi))


def _log_over_thresholds(
    count: FloatArray, mean: FloatArray, std: FloatArray, a: FloatArray, *, upper: bool
) -> FloatArray:
    # The density of T is (count + 1) P(Y = count + 1 | f = T).
    y = count + 1.0
    mode, alone = _peak(y, mean, std * std, a), np.log(y)
    centre = np.minimum(alone, mode) if upper else np.maximum(alone, mode)
    width = 1.0 / np.sqrt(1.0 / std**2 + _slopes(centre, y, a)[1])
    x, h = _points(*_WIDE)
    t = centre[:, None] + width[:, None] * x
    z = (t - mean[:, None]) / std[:, None]
    log_p = log_ndtr(-z if upper else z) + _log_mass(t, y[:, None], a[:, None])
    return logsumexp(log_p + np.log(h)) + alone + np.log(width)


def _points(size: int, stretch: float) -> tuple[FloatArray, FloatArray]:
    """Points around zero, far apart in the tails, and the steps between them."""
    u = np.linspace(-_REACH, _REACH, size)
    return np.sinh(stretch * u) / stretch, np.cosh(stretch * u) * (u[1] - u[0])


def _peak(y: FloatArray, mean: FloatArray, var: FloatArray, a: FloatArray) -> FloatArray:
    """The f of the largest P(Y = y | f) N(f; mean, var)."""
    # Right of the mode of Poisson counts, whose slope is concave: Newton's steps only go left then.
    alone = np.log(y + 0.5)
    mode = np.where(mean < alone, np.minimum(alone, mean + var * y), alone)
    for _ in range(_NEWTON_STEPS):
        slope, curvature = _slopes(mode, y, a)
        step = np.clip((slope + (mean - mode) / var) / (curvature + 1.0 / var), -2.0, 2.0)
        mode = mode + step
        if (np.abs(step) < _CONVERGED).all():
            break
    return mode


def _log_mass(f: FloatArray, y: FloatArray, a: FloatArray) -> FloatArray:
    """log P(Y = y) given the log rate f and the dispersion a.

    The saddle-point form of Loader (2000), "Fast and accurate computation of binomial
    probabilities": it has no large terms that cancel, of large counts or of a small dispersion.
    """
    is_poisson = a == 0.0
    k, r = np.where(y > 0.0, y, 1.0), 1.0 / np.where(is_poisson, 1.0, a)
    delta = f - np.log(k)
    with np.errstate(over="ignore"):
        deviance = k * np.expm1(delta) - k * delta
        at_zero = np.where(is_poisson, -np.exp(f), -r * np.log1p(a * np.exp(f)))
    if not is_poisson.all():
        deviance = np.where(is_poisson, deviance, _binomial_deviance(k, f, delta, r))
    error = np.where(is_poisson, 0.0, _stirling_error(k + r) - _stirling_error(r))
    log_p = error - _stirling_error(k) - 0.5 * np.log(k * (1.0 + a * k)) - LOG_SQRT_2PI - deviance
    return np.asarray(np.where(y > 0.0, log_p, at_zero))


def _binomial_deviance(
    k: FloatArray, f: FloatArray, delta: FloatArray, r: FloatArray
) -> FloatArray:
    """(k + r) log((r + exp(f)) / (r + k)) - k delta for f = log k + delta, in three forms.

    Of counts k that are large beside r the first one would be a difference of terms of their size,
    of which nothing is left: they have a form for rates above r, and one for rates below.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        deviance = (k + r) * np.log1p(k * np.expm1(delta) / (k + r)) - k * delta
        is_large = k > r
        if is_large.any():
            above = r * delta + (k + r) * np.log1p(r * np.expm1(-delta) / (k + r))
            below = (k + r) * (np.log1p(np.exp(f) / r) - np.log1p(k / r)) - k * delta
            deviance = np.where(is_large, np.where(f > np.log(r), above, below), deviance)
    return np.asarray(deviance)


def _stirling_error(x: FloatArray) -> FloatArray:
    """log Gamma(x + 1) less the formula of Stirling, (x + 1/2) log x - x + log(2 pi) / 2."""
    small, large = np.minimum(x, _STIRLING), np.maximum(x, _STIRLING)
    exact = gammaln(small + 1.0) - (small + 0.5) * np.log(small) + small - LOG_SQRT_2PI
    v = 1.0 / large / large
    series = (1.0 / 12.0 - v * (1.0 / 360.0 - v * (1.0 / 1260.0 - v / 1680.0))) / large
    return np.asarray(np.where(x < _STIRLING, exact, series))


def _slopes(f: FloatArray, y: FloatArray, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Slope of the log mass in f, and minus its curvature."""
    is_poisson = a == 0.0
    r = 1.0 / np.where(is_poisson, 1.0, a)
    rate, share, rest = np.exp(f), expit(f - np.log(r)), expit(np.log(r) - f)
    slope = np.where(is_poisson, y - rate, y * rest - r * share)
    return slope, np.where(is_poisson, rate, (y + r) * share * rest)


def _cumulative(y: FloatArray, f: FloatArray, a: FloatArray, upper: bool) -> FloatArray:
    """P(Y <= y), or P(Y > y), given the log rate f and the dispersion a."""
    is_poisson = a < _SMALLEST
    r = 1.0 / np.where(is_poisson, 1.0, a)
    poisson, binomial = (gammainc, betainc) if upper else (gammaincc, betaincc)
    if is_poisson.all():
        return np.asarray(poisson(y + 1.0, np.exp(f)))
    p: FloatArray = np.asarray(binomial(y + 1.0, r, expit(f - np.log(r))), dtype=np.float64)
    if is_poisson.any():
        p = np.where(is_poisson, poisson(y + 1.0, np.exp(f)), p)
    return p
