"""Targets of which only bounds are known: their log probabilities."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from skgp._typing import FloatArray
from skgp._validation import mask_to_nan
from skgp.distributions import ContinuousDistribution
from skgp.distributions._intervals import log_probability
from skgp.scoring._reduce import check_weights, refuse_infinite_density, refuse_nan


def bounds_nll(
    y_true: ArrayLike, dist: ContinuousDistribution, sample_weight: ArrayLike | None
) -> FloatArray:
    """Mean (1,) of minus the log density where bounds (n, 2) are equal, the log probability else.

    Raises
    ------
    ValueError
        If a lower bound is above the upper one, a bound is NaN, weights are not valid, or a
        density is infinite.
    """
    given = mask_to_nan(y_true)
    bounds = check_array(given, dtype=np.float64, ensure_all_finite=False, input_name="y_true")
    lower, upper = bounds.T
    if not (lower <= upper).all():
        row = (~(lower <= upper)).argmax()
        raise ValueError(
            f"y_true has the bounds {bounds[row].tolist()} in row {row}: the first column is the "
            "lower bound, perhaps -inf, and the second the upper one, perhaps inf."
        )
    values = _log_likelihood(lower, upper, dist)
    weight = None if sample_weight is None else check_weights(sample_weight, len(lower))
    used = slice(None) if weight is None else weight > 0.0
    refuse_nan(values[used, np.newaxis])
    refuse_infinite_density(values[used, np.newaxis])
    mean = np.average(values[used], weights=None if weight is None else weight[used])
    return -np.atleast_1d(mean)


def _log_likelihood(lower: FloatArray, upper: FloatArray, dist: Any) -> FloatArray:
    """Log densities (n,) where bounds are equal, log probabilities of lower <= y <= upper else."""
    equal = lower == upper
    values = np.empty(len(lower))
    # Transformers of scikit-learn refuse to transform nothing.
    if equal.any():
        values[equal] = dist[equal].logpdf(lower[equal])
    if not equal.all():
        values[~equal] = log_probability(dist[~equal], lower[~equal], upper[~equal])
    return values
