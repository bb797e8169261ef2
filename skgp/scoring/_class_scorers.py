"""Scorers of the probabilities of classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skgp._validation import unmasked
from skgp.scoring._class_calibration import expected_calibration_error
from skgp.scoring._ranked import rps
from skgp.scoring._scorers import DistributionScorer


def class_probabilities(estimator: Any, X: Any, y: ArrayLike) -> tuple[Any, Mapping[str, Any]]:
    """Probabilities (n, C) of the classes that the estimator or the rows have, and these classes.

    scikit-learn's scorers tell a score the labels of the rows alone, from which it cannot know the
    columns if a fold lacks a class. So the `labels` are said: the `classes_` of the classifier and,
    with the probability zero, those that it has never seen.
    """
    if not hasattr(estimator, "classes_"):
        raise TypeError(
            f"{type(estimator).__name__} has no classes_: this scorer is for classifiers, and "
            "regressors have others, such as neg_crps_scorer"
        )
    p = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    unseen = np.setdiff1d(np.asarray(unmasked(y, "y_true")), estimator.classes_)
    labels = np.concatenate([estimator.classes_, unseen])
    p = np.column_stack([p, np.zeros((len(p), len(unseen)))])
    order = np.argsort(labels)
    return p[:, order], {"labels": labels[order]}


neg_expected_calibration_error_scorer = DistributionScorer(
    expected_calibration_error, predict_func=class_probabilities
)
neg_rps_scorer = DistributionScorer(rps, predict_func=class_probabilities)
