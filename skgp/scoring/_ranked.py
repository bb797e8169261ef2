"""The ranked probability score of ordered classes."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skgp._validation import ordered_categories
from skgp.scoring._class_calibration import check_probabilities
from skgp.scoring._reduce import check_weights


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
        Labels that go with the columns, in their order, as `classes_`. If None, the `classes` of
        `y_proba`, or the sorted labels in `y_true`.

    Returns
    -------
    float
        Between 0 and C - 1, smaller is better. Of two classes it is the Brier score.

    Raises
    ------
    ValueError
        If shapes, probabilities, weights or labels are not valid, or the labels have another order
        than the ordered categories of `y_true`.

    Notes
    -----
    The score of [1]_ is 1 - rps / (C - 1), so that greater is better there.

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
    _check_order(y_true, codes)
    weight = np.ones(len(p)) if sample_weight is None else check_weights(sample_weight, len(p))
    up_to = p.cumsum(1)[:, :-1]
    is_up_to = codes[:, np.newaxis] <= np.arange(p.shape[1] - 1)
    return float(np.average(np.square(up_to - is_up_to).sum(1), weights=weight))


def _check_order(y_true: Any, codes: Any) -> None:
    """Refuse numbers of columns (n,) that do not rise with the ordered categories of the labels."""
    categories = ordered_categories(y_true)
    if categories is None:
        return
    numbers = {label: number for number, label in enumerate(categories.tolist())}
    theirs = np.array([numbers[label] for label in np.asarray(y_true).tolist()])
    pairs = np.unique(np.column_stack([theirs, codes]), axis=0)
    if (np.diff(pairs[:, 1]) <= 0).any():
        order = " < ".join(map(str, categories[:5]))
        raise ValueError(
            f"y_true has ordered categories, {order}, and the columns of y_proba another order: "
            "fit and score the numbers of the classes, their codes."
        )
