"""Noise fitted to the residuals of rows that a GP has not seen."""

from typing import Final

import numpy as np
from scipy.optimize import Bounds, minimize
from scipy.special import log_softmax, logsumexp, softmax

from skgp._typing import Array
from skgp.core.layers.noise import MixtureNoise

# Variances, relative to that of the noise of the GP. On discrete targets a density can grow
# without bound.
_LEAST_RATIO: Final = 0.01
_LARGEST_RATIO: Final = 100.0
_PRIOR_STD: Final = 2.0  # of the logarithms of variances, and of the means
# Logits, means and logarithms of variances to start from: of tails, and of several peaks.
_STARTS: Final = (
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.2, 0.0, 1.2),
    (0.0, 0.0, 0.0, -0.7, 0.0, 0.7, -0.5, -0.5, -0.5),
)


def noise_of_residuals(rows: Array, least_var: float) -> MixtureNoise:
    """The most probable mixture of three normals, with mean zero, given residuals.

    y - f_mean = g + sqrt(noise_var) e, where g ~ N(0, f_var) and e has the density that is found.
    Its parameters have weak priors around those of a standard normal.

    Parameters
    ----------
    rows : array of shape (4, n)
        Residuals y - f_mean, variances f_var and noise_var, and weights that count rows.
    least_var : float
        Below the variances of the components.
    """
    lowest = np.log(max(_LEAST_RATIO, least_var / rows[2].min()))
    free = np.full(3, np.inf)
    low = np.concatenate([-free, -free, np.full(3, min(lowest, 0.0))])
    high = np.concatenate([free, free, np.full(3, np.log(_LARGEST_RATIO))])
    found = [
        minimize(_loss, start, tuple(rows), jac=True, bounds=Bounds(low, high)) for start in _STARTS
    ]
    best = min(found, key=lambda result: float(result.fun)).x
    logits, means, log_ratios = best.reshape(3, 3)
    shares = softmax(logits)
    shifts, ratios = means - shares @ means, np.exp(log_ratios)
    return MixtureNoise(tuple(shares.tolist()), tuple(shifts.tolist()), tuple(ratios.tolist()))


def _loss(parameters: Array, *rows: Array) -> tuple[float, Array]:
    """Minus the log posterior density of the parameters, and its gradient."""
    residual, f_var, noise_var, weights = rows
    scale = np.sqrt(noise_var)
    logits, means, log_ratios = parameters.reshape(3, 3)
    shares, ratios = softmax(logits), np.exp(log_ratios)
    centred = means - shares @ means  # noise has mean zero
    var = f_var[:, None] + ratios * noise_var[:, None]
    z = (residual[:, None] - scale[:, None] * centred) / np.sqrt(var)
    log_joint = log_softmax(logits) - 0.5 * (np.log(2.0 * np.pi * var) + np.square(z))
    of_rows = logsumexp(log_joint, axis=1)
    share_of_row = weights[:, None] * np.exp(log_joint - of_rows[:, None])
    by_mean = (share_of_row * z * (scale[:, None] / np.sqrt(var))).sum(0)
    slack = ratios * noise_var[:, None] / var
    by_ratio = 0.5 * (share_of_row * (np.square(z) - 1.0) * slack).sum(0)
    by_logit = share_of_row.sum(0) - weights.sum() * shares - by_mean.sum() * shares * centred
    prior = log_softmax(logits).sum() - 0.5 * np.square(parameters[3:] / _PRIOR_STD).sum()
    of_prior = -parameters / _PRIOR_STD**2
    of_prior[:3] = 1.0 - 3.0 * shares
    slopes = np.concatenate([by_logit, by_mean - shares * by_mean.sum(), by_ratio])
    return -float(weights @ of_rows + prior), -(slopes + of_prior)
