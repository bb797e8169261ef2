"""What the regressors of other packages that a newcomer would try have in common."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from skgp.distributions import NormalMixture


class Newcomer(BaseEstimator, ABC):
    """A method of another package, on one thread: one model for each output, independent.

    Parameters
    ----------
    memory : ignored
        What the program that fits gives to every estimator.
    """

    def __init__(self, memory: Any = None) -> None:
        self.memory = memory

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.models_ = [self._fit_output(X, output) for output in y.reshape(len(y), -1).T]
        self.row_shape_ = y.shape[1:]
        return self

    @abstractmethod
    def _fit_output(self, X: np.ndarray, y: np.ndarray) -> Any:
        """A model of one output."""

    @abstractmethod
    def predict_dist(self, X: np.ndarray) -> NormalMixture:
        """Predictive distributions of all outputs."""


class NormalNewcomer(Newcomer):
    """One whose prediction is a normal."""

    def predict_dist(self, X: np.ndarray) -> NormalMixture:
        moments = [self._moments(model, X) for model in self.models_]
        mean, std = (np.stack(m, axis=1) for m in zip(*moments, strict=True))
        return NormalMixture.normal(*(m.reshape(-1, *self.row_shape_) for m in (mean, std)))

    @abstractmethod
    def _moments(self, model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of one output at each row."""
