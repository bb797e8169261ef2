"""Checks and averages shared by all scores: entrywise missing targets, row weights, outputs."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from skgp._typing import FloatArray
from skgp._validation import check_order, mask_to_nan, output_names, target_values
from skgp.distributions import ContinuousDistribution, DiscreteDistribution


@final
@dataclass(frozen=True)
class WeightedTargets:
    """Checked targets and the weight of each of their entries.

    Attributes
    ----------
    y : ndarray of shape (n,) or (n, P)
        Targets in the shape of the distribution; NaN marks a missing entry.
    weight : ndarray of shape (n, P)
        Weight of each entry; 0 where the target is missing. Every column has a positive sum.
    """

    y: FloatArray
    weight: FloatArray

    def mean_over_rows(self, values: FloatArray) -> FloatArray:
        """Weighted mean over rows of one value per target entry, separately for each output.

        Parameters
        ----------
        values : ndarray of shape (n,) or (n, P)
            Ignored where the weight is 0.

        Returns
        -------
        ndarray of shape (P,)

        Raises
        ------
        ValueError
            If a value that counts is NaN.
        """
        # Masked rather than multiplied: an infinite value in a dropped row must not give NaN.
        counted = self.counted(values)
        mean: FloatArray = (counted * self.weight).sum(axis=0) / self.weight.sum(axis=0)
        return mean

    def counted(self, values: FloatArray) -> FloatArray:
        """One value per target entry, 0 where the weight is 0.

        Parameters
        ----------
        values : ndarray of shape (n,) or (n, P)

        Returns
        -------
        ndarray of shape (n, P)

        Raises
        ------
        ValueError
            If a value that counts is NaN.
        """
        used = self.weight > 0.0
        counted = np.where(used, values.reshape(used.shape), 0.0)
        refuse_nan(counted)
        return counted


def refuse_nan(scores: FloatArray) -> None:
    """Raise for the first NaN among the scores (n, P) of target entries that count."""
    if np.isnan(scores).any():
        row, output = np.argwhere(np.isnan(scores))[0]
        raise ValueError(
            f"The score is NaN at row {row}, output {output}: the distribution is not valid there."
        )


def refuse_infinite_density(log_density: FloatArray) -> None:
    """Raise for the first infinite density among those (n, P) of target entries that count."""
    if np.isposinf(log_density).any():
        row, output = np.argwhere(np.isposinf(log_density))[0]
        raise ValueError(
            f"The density is infinite at row {row}, output {output}: the target has a probability "
            "of its own there, such as one that is repeated and went through a "
            "QuantileTransformer. Score the distribution by its CRPS (crps, neg_crps_scorer)."
        )


def check_targets(
    y_true: ArrayLike, dist: ContinuousDistribution, sample_weight: ArrayLike | None
) -> WeightedTargets:
    """Check targets and weights against a predictive distribution.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, P)
        NaN marks a missing entry, as a mask does; pandas and polars objects are accepted.
    dist : predictive distribution of shape (n,) or (n, P)
    sample_weight : array-like of shape (n,) or None
        Non-negative; None gives every row weight 1.

    Returns
    -------
    WeightedTargets

    Raises
    ------
    TypeError
        If `dist` is no distribution.
    ValueError
        If the shapes differ, y_true is infinite, the weights are not valid, or an output has no
        observed target with positive weight.
    """
    if are_bounds(y_true, dist):
        raise ValueError(
            f"y_true has shape {np.shape(y_true)} but the distribution has shape {dist.shape}: if "
            "these are lower and upper bounds of censored targets, only nll is a proper score."
        )
    check_order("y_true", output_names(y_true), dist.output_names)
    y = target_values(y_true, "y_true")
    if y.shape != dist.shape:
        # Never broadcast: (n,) against (n, 1) would silently score every pair of rows.
        one_output = y.size == np.prod(dist.shape)
        remedy = "; take np.ravel(y_true) or dist[:, 0]" if one_output else ""
        raise ValueError(
            f"y_true has shape {y.shape} but the distribution has shape {dist.shape}: they must be "
            f"equal{remedy}."
        )
    weight = np.where(np.isnan(y), 0.0, 1.0).reshape(len(y), -1)
    if sample_weight is not None:
        weight *= check_weights(sample_weight, len(y))[:, np.newaxis]
    empty = np.flatnonzero(weight.sum(axis=0) == 0.0)
    if empty.size:
        raise ValueError(
            f"Output {empty[0]} has no observed target with positive weight; "
            "leave it out of y_true and of the distribution."
        )
    return WeightedTargets(y, weight)


def check_distribution(dist: Any) -> None:
    """Refuse anything but the distribution of a regressor, such as the means of `predict`."""
    if isinstance(dist, DiscreteDistribution):
        raise TypeError(
            f"dist must be the predictive distribution of a regressor, got {type(dist).__name__}: "
            "classes have rps and expected_calibration_error, their scorers, and log_loss and "
            "brier_score_loss of scikit-learn"
        )
    if not callable(getattr(dist, "cdf", None)):
        raise TypeError(
            f"dist must be a predictive distribution, got {type(dist).__name__}: pass "
            "model.predict_dist(X), or skgp.predict_dist(model, X) of a pipeline or search"
        )


def are_bounds(y_true: ArrayLike, dist: ContinuousDistribution) -> bool:
    """Whether targets may be bounds (n, 2), for a distribution of one output (n,)."""
    check_distribution(dist)
    return dist.ndim == 1 and np.shape(y_true) == (len(dist), 2)


def check_weights(sample_weight: ArrayLike, n_rows: int) -> FloatArray:
    """Check that the weights are n_rows finite, non-negative numbers, not all of them zero."""
    given = mask_to_nan(sample_weight)  # a masked weight is refused as NaN
    weights: FloatArray = check_array(
        given, dtype=np.float64, ensure_2d=False, input_name="sample_weight"
    )
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}, expected ({n_rows},).")
    if (weights < 0.0).any():
        raise ValueError("sample_weight has negative entries.")
    if not weights.any():
        raise ValueError("sample_weight is zero for every row.")
    return weights


def combine_outputs(per_output: FloatArray, multioutput: str | ArrayLike) -> float | FloatArray:
    """Combine one score per output as scikit-learn's regression metrics do.

    Parameters
    ----------
    per_output : ndarray of shape (P,)
    multioutput : {"raw_values", "uniform_average"} or array-like of shape (P,)

    Returns
    -------
    float, or ndarray of shape (P,) for "raw_values"

    Raises
    ------
    ValueError
        If `multioutput` is none of these, or its weights are negative or all zero.
    """
    if isinstance(multioutput, str):
        if multioutput == "raw_values":
            return per_output
        if multioutput == "uniform_average":
            return float(per_output.mean())
        raise ValueError(
            "multioutput must be 'raw_values', 'uniform_average' or an array of one weight per "
            f"output, got {multioutput!r}."
        )
    weights = np.asarray(multioutput, dtype=np.float64)
    if weights.shape != per_output.shape:
        raise ValueError(
            f"multioutput has shape {weights.shape}, expected {per_output.shape}: one weight "
            "per output."
        )
    if not np.isfinite(weights).all() or (weights < 0.0).any() or not weights.any():
        raise ValueError(
            "The weights in multioutput must be finite, non-negative and not all zero."
        )
    return float(np.average(per_output, weights=weights))
