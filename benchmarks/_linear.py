"""Bayesian linear regression with the predictive distributions of skgp."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skgp.distributions import NormalMixture


class LinearRegressor(BaseEstimator):
    """scikit-learn's `BayesianRidge` on standardised inputs; a row's prediction is one normal.

    An exact GP with a linear kernel, at the cost of least squares.

    Parameters
    ----------
    max_iter : int, default=300
    memory : ignored
        What the program that fits gives to every estimator.
    """

    def __init__(self, max_iter: int = 300, memory: Any = None) -> None:
        self.max_iter = max_iter
        self.memory = memory

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.model_: Pipeline = make_pipeline(
            StandardScaler(), BayesianRidge(max_iter=self.max_iter)
        ).fit(X, y)
        self.noise_variance_ = 1.0 / self.model_[-1].alpha_
        self.n_iter_ = self.model_[-1].n_iter_
        return self

    def predict_dist(self, X: np.ndarray) -> NormalMixture:
        return NormalMixture.normal(*self.model_.predict(X, return_std=True))
