"""The ranked probability score of ordered classes."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _check_sample_weight

from skgp.scoring._class_calibration import check_probabilities


def rps(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Mean ranked probability score of ordered classes.

    The sum over thresholds between classes of the squared distance of the probability below the
    threshold from one or zero: a probability costs more the farther its class is from the true one.
    It is proper, and the CRPS of numbers of classes.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, C) or (n,)
        Probabilities of the classes, as of `predict_proba`; one-dimensional, those of the
        second of two classes.
    sample_weight : array-like of shape (n,), default=None
    labels : array-like of shape (C,), default=None
        Sorted labels that go with the columns, as `classes_`; those in `y_true` if None.

    Returns
    -------
    float
        Between 0 and C - 1, smaller is better. Of two classes it is the Brier score.

    Raises
    ------
    ValueError
        If shapes, probabilities, weights or labels are not valid.

    References
    ----------
    .. [1] E. S. Epstein, "A scoring system for probability forecasts of ranked categories",
       Journal of Applied Meteorology 8 (1969) 985-987.

    Examples
    --------
    >>> from skgp.scoring import rps
    >>> rps([0, 2], [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], labels=[0, 1, 2])
    0.375
    """
    p, codes = check_probabilities(y_true, y_proba, labels)
    weight = _check_sample_weight(sample_weight, p, dtype=np.float64, ensure_non_negative=True)
    up_to = p.cumsum(1)[:, :-1]
    is_up_to = codes[:, np.newaxis] <= np.arange(p.shape[1] - 1)
    return float(np.average(np.square(up_to - is_up_to).sum(1), weights=weight))
