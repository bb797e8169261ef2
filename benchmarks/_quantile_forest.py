"""A quantile regression forest with its defaults."""

from typing import Self

import numpy as np
from quantile_forest import RandomForestQuantileRegressor

from benchmarks._newcomer import Newcomer
from skgp import scoring
from skgp.distributions import NormalMixture


class QuantileForest(Newcomer):
    """`RandomForestQuantileRegressor`, at 99 quantiles of even levels.

    A forest predicts a discrete distribution over targets of training rows. CRPS, coverage and RMSE
    are those of its quantiles, each a normal of a thousandth of the targets' deviation.
    """

    LEVELS = (np.arange(99) + 0.5) / 99
    NARROW = 1e-3  # deviations of the training targets
    LEAST_WIDTH = 1e-2

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.deviation_ = y.reshape(len(y), -1).std(axis=0)
        return super().fit(X, y)

    def _fit_output(self, X: np.ndarray, y: np.ndarray) -> RandomForestQuantileRegressor:
        return RandomForestQuantileRegressor(random_state=0).fit(X, y)

    def predict_dist(self, X: np.ndarray) -> NormalMixture:
        quantiles = self._quantiles(X)
        std = np.broadcast_to(self.NARROW * self.deviation_, quantiles.shape)
        shape = (*quantiles.shape[:2], *self.row_shape_)
        return NormalMixture(
            np.zeros(len(self.LEVELS)), quantiles.reshape(shape), std.reshape(shape)
        )

    def nll(self, X: np.ndarray, y: np.ndarray) -> float:
        """Mean over independent outputs, of a kernel density estimate from the quantiles.

        The discrete prediction has no density, and that of the interpolated cdf is infinite where
        two quantiles are equal. So a quantile is the centre of a normal as wide as Silverman's rule
        says, and at least a hundredth of the training targets' deviation.
        """
        quantiles = self._quantiles(X)
        # deviation (3 S / 4)^(-1/5): Silverman, 1986, Eqn 4.14 with one dimension
        width = quantiles.std(axis=1, keepdims=True, ddof=1) * (0.75 * len(self.LEVELS)) ** -0.2
        std = np.maximum(width, self.LEAST_WIDTH * self.deviation_)
        dist = NormalMixture(
            np.zeros(len(self.LEVELS)), quantiles, np.broadcast_to(std, quantiles.shape)
        )
        return scoring.nll(y.reshape(len(y), -1), dist)

    def _quantiles(self, X: np.ndarray) -> np.ndarray:
        """Quantiles of each row and output, of shape (n, levels, P)."""
        levels = self.LEVELS.tolist()
        return np.stack([model.predict(X, quantiles=levels) for model in self.models_], axis=-1)
