"""A probabilistic regressor simple enough to check everything around it by hand."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from skgp.distributions import NormalMixture


class ToyBayesianRidge(RegressorMixin, BaseEstimator):
    """Linear regression with a N(0, noise / alpha) prior, separately for each output.

    `inflation` multiplies the predictive standard deviation, so that a search has a bad choice.
    """

    def __init__(self, alpha: float = 1.0, inflation: float = 1.0) -> None:
        self.alpha = alpha
        self.inflation = inflation

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X = validate_data(self, X, dtype=np.float64)
        y = check_array(y, dtype=np.float64, ensure_2d=False, ensure_all_finite="allow-nan")
        weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
        design = np.column_stack([np.ones(len(X)), X])
        self.coef_, self.precision_, self.noise_variance_ = [], [], []
        for column in y.reshape(len(y), -1).T:
            seen = ~np.isnan(column)
            A, w, target = design[seen], weight[seen], column[seen]
            precision = self.alpha * np.eye(A.shape[1]) + (A.T * w) @ A
            coef = np.linalg.solve(precision, A.T @ (w * target))
            self.coef_.append(coef)
            self.precision_.append(precision)
            self.noise_variance_.append(w @ (target - A @ coef) ** 2 / w.sum() + 1e-12)
        self.ndim_ = y.ndim
        return self

    def predict_dist(self, X: Any) -> NormalMixture:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        design = np.column_stack([np.ones(len(X)), X])
        mean = np.column_stack([design @ coef for coef in self.coef_])
        # Row by row, so that a row's bits do not depend on the others.
        variance = np.array(
            [
                [
                    noise * (1.0 + row @ np.linalg.solve(precision, row))
                    for noise, precision in zip(self.noise_variance_, self.precision_, strict=True)
                ]
                for row in design
            ]
        )
        std = self.inflation * np.sqrt(variance)
        if self.ndim_ == 1:
            return NormalMixture.normal(mean[:, 0], std[:, 0])
        return NormalMixture.normal(mean, std)

    predict_proba = predict_dist

    def predict(self, X: Any) -> np.ndarray:
        return self.predict_dist(X).mean()


class ForeignRegressor(RegressorMixin, BaseEstimator):
    """Regressor of another library: its distribution comes from `predict_proba` alone."""

    def fit(self, X: Any, y: Any) -> Self:
        self.inner_ = ToyBayesianRidge().fit(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.inner_.predict(X)

    def predict_proba(self, X: Any) -> NormalMixture:
        return self.inner_.predict_dist(X)


def make_data(n: int = 60, n_outputs: int | None = None, seed: int = 0) -> tuple[Any, Any]:
    """Linear data with normal noise: X (n, 2), y (n,) or (n, n_outputs) of different scales."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    k = 1 if n_outputs is None else n_outputs
    y = X @ rng.normal(size=(2, k)) + 0.5 * rng.normal(size=(n, k))
    y = (y + 3.0) * 10.0 ** np.arange(k)
    return X, y[:, 0] if n_outputs is None else y
