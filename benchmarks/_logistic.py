"""Logistic regression as programs of benchmarks fit it."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler


class LogisticClassifier(ClassifierMixin, BaseEstimator):
    """scikit-learn's `LogisticRegression` with its defaults on standardised inputs.

    Parameters
    ----------
    max_iter : int, default=1000
    memory : ignored
        What the program that fits gives to every estimator.
    """

    def __init__(self, max_iter: int = 1000, memory: Any = None) -> None:
        self.max_iter = max_iter
        self.memory = memory

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.model_: Pipeline = make_pipeline(
            StandardScaler(), LogisticRegression(max_iter=self.max_iter)
        ).fit(X, y)
        self.classes_ = self.model_.classes_
        self.n_iter_ = int(self.model_[-1].n_iter_.max())
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(X)
