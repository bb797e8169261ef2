"""The coefficient of determination of targets that may be missing."""

from typing import Any

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_consistent_length

from skgp._typing import FloatArray, Names
from skgp._validation import check_order, mask_to_nan, output_names, target_values


def r2_of_observed(y: Any, mean: FloatArray, names: Names, sample_weight: Any = None) -> float:
    """Mean over outputs of the R^2 of their observed entries: scikit-learn's where all are.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, P)
        Entries of the second shape may be missing, by NaN or a mask.
    mean : array of the same shape
        Predictions.
    names : tuple of str or None
        Of the outputs.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float

    Raises
    ------
    ValueError
        For columns of y in another order than `names`, with fewer than two observed entries, or of
        another shape than `mean`.
    """
    check_order("y", output_names(y), names)
    values = target_values(y, "y")
    seen = ~np.isnan(values)
    if seen.all() or values.ndim == 1 or values.shape != mean.shape:
        return float(r2_score(mask_to_nan(y), mean, sample_weight=sample_weight))
    short = np.flatnonzero(seen.sum(axis=0) < 2)
    if short.size:
        raise ValueError(
            f"y has {seen[:, short[0]].sum()} observed entries in column {short[0]}, and R^2 needs "
            "two: score more rows, or that column apart"
        )
    check_consistent_length(values, sample_weight)
    weight = np.ones(len(values)) if sample_weight is None else np.asarray(sample_weight)
    per_output = [
        r2_score(values[rows, j], mean[rows, j], sample_weight=weight[rows])
        for j, rows in enumerate(seen.T)
    ]
    return float(np.mean(per_output))
