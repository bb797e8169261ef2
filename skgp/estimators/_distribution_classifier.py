"""What a classifier offers as soon as it can predict log probabilities of chunks of rows."""

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from skgp.distributions import Bernoulli, Categorical
from skgp.estimators._chunks import Chunks
from skgp.estimators._table import Array


class DistributionClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Abstract base: `predict_log_proba` and its kin, from one chunk of rows after another."""

    _doc_link_module = "skgp"

    classes_: Array

    @abstractmethod
    def _snapshot(self) -> Self:
        """The estimator as it is now, which a fit in another thread does not change."""

    @abstractmethod
    def _log_probabilities(self, X: Any) -> Chunks[Array]:
        """Log probabilities (B, C) of the classes for chunks of rows."""

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
        (log_p,) = self._snapshot()._log_probabilities(X).gather(lambda log_p: (log_p,))
        return log_p

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
        (p,) = self._snapshot()._log_probabilities(X).gather(lambda log_p: (np.exp(log_p),))
        return p

    def predict(self, X: Any) -> Array:
        """Most probable class, the first one of several.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        array of shape (n,), labels
        """
        fitted = self._snapshot()
        (codes,) = fitted._log_probabilities(X).gather(lambda log_p: (log_p.argmax(1),))
        labels: Array = fitted.classes_[codes]
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

        def decide(log_p: Array) -> tuple[Array]:
            return (log_p if log_p.shape[1] > 2 else log_p[:, 1] - log_p[:, 0],)

        (decision,) = self._snapshot()._log_probabilities(X).gather(decide)
        return decision

    def predict_dist(self, X: Any) -> Bernoulli | Categorical:
        """Predictive distribution over the classes.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        Bernoulli for two classes, Categorical for several, with n rows
        """
        fitted = self._snapshot()
        (p,) = fitted._log_probabilities(X).gather(lambda log_p: (np.exp(log_p),))
        classes = fitted.classes_
        return Bernoulli(p[:, 1], classes) if len(classes) == 2 else Categorical(p, classes)
