"""Regressors with hidden units between layers and noise."""

from typing import Any, ClassVar

from skgp.estimators._neural_estimator import NeuralEstimator
from skgp.estimators._readout_regressor import ReadoutRegressor


class NeuralRegressor(NeuralEstimator, ReadoutRegressor):
    """Abstract base: y = M g(W f + b) + e, where the latent functions have no prior mean."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ReadoutRegressor._parameter_constraints,
        **NeuralEstimator._parameter_constraints,
    }
