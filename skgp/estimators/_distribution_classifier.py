"""What a classifier offers as soon as it can predict log probabilities."""

from abc import ABCMeta, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from skgp.distributions import Bernoulli, Categorical
from skgp.estimators._table import Array


class DistributionClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Abstract base: `predict` and its kin, all derived from `predict_log_proba`."""

    _doc_link_module = "skgp"

    classes_: Array

    @abstractmethod
    def predict_log_proba(self, X: Any) -> Array:
        """Log probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        array of shape (n, C)
            Columns in the order of `classes_`; finite where the probability rounds to zero.
        """

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        array of shape (n, C)
            Columns in the order of `classes_`; rows sum to one.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Array:
        """Most probable class, the first one of several.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        array of shape (n,), labels
        """
        codes = self.predict_log_proba(X).argmax(1)
        labels: Array = self.classes_[codes]
        return labels

    def decision_function(self, X: Any) -> Array:
        """Log odds of the second of two classes, or log probabilities of several.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        array of shape (n,) or (n, C)
        """
        log_p = self.predict_log_proba(X)
        return log_p if log_p.shape[1] > 2 else log_p[:, 1] - log_p[:, 0]

    def predict_dist(self, X: Any) -> Bernoulli | Categorical:
        """Predictive distribution over the classes.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        Bernoulli for two classes, Categorical for several, with n rows
        """
        p = self.predict_proba(X)
        return (
            Bernoulli(p[:, 1], self.classes_) if p.shape[1] == 2 else Categorical(p, self.classes_)
        )
