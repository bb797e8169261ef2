"""Regressors with a readout between layers and noise."""

from typing import Any, ClassVar

from skgp.estimators._readout_estimator import ReadoutEstimator
from skgp.estimators._stack_regressor import StackRegressor


class ReadoutRegressor(ReadoutEstimator, StackRegressor):
    """Abstract base: a family adds its mixing matrix and, if need be, units that are no GPs."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StackRegressor._parameter_constraints,
        **ReadoutEstimator._parameter_constraints,
    }
