"""Scorers of the probabilities of classes."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from skgp.distributions._given import unmasked
from skgp.scoring._class_calibration import expected_calibration_error
from skgp.scoring._ranked import rps
from skgp.scoring._reduce import FloatArray
from skgp.scoring._scorers import DistributionScorer


@final
@dataclass(frozen=True, eq=False, repr=False)
class ClassScorer(DistributionScorer):
    """Scorer that judges the `predict_proba` of a fitted classifier, of scikit-learn too.

    scikit-learn's scorers tell a score the labels of the rows alone, from which it cannot know the
    columns if a fold lacks a class. This one says them: the `classes_` of the classifier and, with
    the probability zero, labels that it has never seen.
    """

    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> float:
        """Score the probabilities of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            With `predict_proba` and `classes_`.
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        float
            Greater is better.
        """
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        p, labels = _columns(estimator, X, y)
        score = float(self.score_func(y, p, labels=labels, **self.kwargs, **weights))
        return score if self.greater_is_better else -score

    def __repr__(self) -> str:
        return super().__repr__().replace("make_dist_scorer", "ClassScorer", 1)


def _columns(estimator: Any, X: Any, y: ArrayLike) -> tuple[FloatArray, Any]:
    """Probabilities (n, C) of the classes that the estimator or the rows have, sorted, and them."""
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
    return p[:, order], labels[order]


neg_expected_calibration_error_scorer = ClassScorer(expected_calibration_error)
neg_rps_scorer = ClassScorer(rps)
