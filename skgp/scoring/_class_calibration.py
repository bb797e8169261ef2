"""Calibration of probabilities of classes."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, check_consistent_length

from skgp._typing import FloatArray
from skgp._validation import unmasked
from skgp.distributions import DiscreteDistribution
from skgp.scoring._reduce import check_weights


def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] = "uniform",
    kind: Literal["top-label", "class-wise"] = "top-label",
    labels: ArrayLike | None = None,
) -> float:
    """Mean distance between stated probabilities and observed shares, over bins of probabilities.

    The sum over bins b of ``w_b * abs(share of right labels in b - mean probability in b)``, w_b
    the share of the rows in b.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_proba : array-like of shape (n, C) or (n,)
        Probabilities of the classes, as of `predict_proba`; one-dimensional, those of the
        second of two classes.
    sample_weight : array-like of shape (n,), default=None
    n_bins : int, default=15
        Number of bins, at least 1.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equally many rows (without regard to weights).
    kind : {"top-label", "class-wise"}, default="top-label"
        "top-label" judges the probability of the most probable class ([1]_, [2]_); "class-wise"
        the probabilities of each class against all others, averaged over the classes ([3]_).
    labels : array-like of shape (C,), default=None
        Labels that go with the columns, in their order, as `classes_`. If None, the `classes` of
        `y_proba`, or the sorted labels in `y_true`.

    Returns
    -------
    float
        Between 0 and 1, smaller is better. It is not a proper score: probabilities that ignore X
        can be calibrated. It depends on the bins, and of finitely many rows it is above zero for a
        perfect model.

    Raises
    ------
    ValueError
        If shapes, probabilities, weights, labels or an option are not valid.

    References
    ----------
    .. [1] M. P. Naeini, G. F. Cooper and M. Hauskrecht, "Obtaining well calibrated probabilities
       using Bayesian binning", AAAI 2015.
    .. [2] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017.
    .. [3] M. Kull et al., "Beyond temperature scaling", NeurIPS 2019.

    Examples
    --------
    >>> from skgp.scoring import expected_calibration_error
    >>> p = [[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2]]
    >>> round(expected_calibration_error(["a", "a", "a", "b"], p), 4)
    0.05
    """
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins}.")
    if strategy not in ("uniform", "quantile"):
        raise ValueError(f"strategy must be 'uniform' or 'quantile', got {strategy!r}.")
    if kind not in ("top-label", "class-wise"):
        raise ValueError(f"kind must be 'top-label' or 'class-wise', got {kind!r}.")
    p, codes = check_probabilities(y_true, y_proba, labels)
    weight = np.ones(len(p)) if sample_weight is None else check_weights(sample_weight, len(p))
    weight = weight / weight.sum()
    if kind == "top-label":
        top = p.argmax(1)
        return _binned_error(p.max(1), codes == top, weight, n_bins, strategy)
    errors = [
        _binned_error(of_class, codes == number, weight, n_bins, strategy)
        for number, of_class in enumerate(p.T)
    ]
    return float(np.mean(errors))


def check_probabilities(
    y_true: ArrayLike, y_proba: ArrayLike, labels: ArrayLike | None
) -> tuple[FloatArray, Any]:
    """Probabilities (n, C), and the numbers of the columns that the labels belong to."""
    if labels is None and isinstance(y_proba, DiscreteDistribution):
        labels = y_proba.classes
    probabilities = unmasked(y_proba, "y_proba", fill=True)  # NaN is refused
    p = check_array(probabilities, dtype=np.float64, ensure_2d=False, input_name="y_proba")
    if p.ndim == 1:
        p = np.column_stack([1.0 - p, p])
    y = np.asarray(unmasked(y_true, "y_true"))
    check_consistent_length(y, p)
    classes = np.unique(y) if labels is None else np.asarray(labels)
    if len(np.unique(classes)) != len(classes):
        raise ValueError(f"labels must be different, got {classes.tolist()[:20]}.")
    if len(classes) != p.shape[1]:
        raise ValueError(
            f"y_proba has {p.shape[1]} columns for {len(classes)} classes: pass labels, such as "
            "the classes_ of the classifier."
        )
    if (p < 0.0).any() or not np.allclose(p.sum(1), 1.0, atol=1e-6):
        raise ValueError("y_proba must hold probabilities of at least zero whose rows sum to one.")
    unknown = np.setdiff1d(y, classes)
    if unknown.size:
        raise ValueError(f"y_true contains {unknown.tolist()[:5]}, which are not among labels.")
    order = np.argsort(classes)
    return p, order[np.searchsorted(classes, y, sorter=order)]


def _binned_error(p: FloatArray, hit: Any, weight: FloatArray, n_bins: int, strategy: str) -> float:
    """Sum over bins of |sum of weights times (hit - p)|."""
    if strategy == "uniform":
        inner = np.arange(1, n_bins) / n_bins
    else:
        inner = np.quantile(p, np.arange(1, n_bins) / n_bins)
    # A probability on an edge belongs to the bin below, as in `sklearn.calibration`.
    number = np.searchsorted(inner, p, side="left")
    gaps = np.bincount(number, weights=weight * (hit - p), minlength=n_bins)
    return float(np.abs(gaps).sum())
