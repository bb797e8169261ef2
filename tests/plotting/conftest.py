"""Axes without a window and without global state, and small models with known predictions."""

from collections.abc import Iterator
from typing import Any, Self

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.base import BaseEstimator, RegressorMixin

from skgp.distributions import CountMixture, NormalMixture


@pytest.fixture
def ax() -> Axes:
    """Axes of a figure that pyplot does not know."""
    return Figure().subplots()


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    """No figure survives a test."""
    yield
    plt.close("all")


class Heteroscedastic(RegressorMixin, BaseEstimator):
    """Known predictions: mean sum of x, function variance x0 ** 2, noise variance 1.

    With two outputs the second is ten times the first.
    """

    def __init__(self, n_outputs: int | None = None) -> None:
        self.n_outputs = n_outputs

    def fit(self, X: Any, y: Any) -> Self:
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict_dist(self, X: Any) -> NormalMixture:
        return self._normal(X, 1.0)

    def predict_latent(self, X: Any) -> NormalMixture:
        return self._normal(X, 0.0)

    def predict(self, X: Any) -> np.ndarray:
        return self.predict_dist(X).mean()

    def _normal(self, X: Any, noise: float) -> NormalMixture:
        X = np.asarray(X, dtype=float)
        mean, std = X.sum(axis=1), np.sqrt(X[:, 0] ** 2 + noise)
        if self.n_outputs is None:
            return NormalMixture.normal(mean, std)
        scale = 10.0 ** np.arange(self.n_outputs)
        return NormalMixture.normal(mean[:, None] * scale, std[:, None] * scale)


class Counting(RegressorMixin, BaseEstimator):
    """Counts whose log rate has the mean x0 / 2 and the standard deviation 0.3."""

    dispersion = 0.2

    def fit(self, X: Any, y: Any) -> Self:
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict_dist(self, X: Any) -> CountMixture:
        return CountMixture(self.predict_latent(X), self.dispersion)

    def predict_latent(self, X: Any) -> NormalMixture:
        return NormalMixture.normal(0.5 * np.asarray(X, dtype=float)[:, 0], 0.3)

    def predict(self, X: Any) -> np.ndarray:
        return self.predict_dist(X).mean()


@pytest.fixture
def counting() -> Any:
    return Counting().fit([[1.0]], [1.0])


@pytest.fixture
def model() -> Heteroscedastic:
    return Heteroscedastic().fit([[0.0]], [0.0])


@pytest.fixture
def two_outputs() -> Heteroscedastic:
    return Heteroscedastic(2).fit([[0.0]], [[0.0, 0.0]])
