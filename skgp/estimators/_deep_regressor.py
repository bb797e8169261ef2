"""What the regressors with hidden layers share."""

from typing import Any, ClassVar

from skgp.estimators._deep_estimator import DeepEstimator
from skgp.estimators._stack_regressor import StackRegressor


class DeepRegressor(DeepEstimator, StackRegressor):
    """Abstract base: a family adds its objective and its nodes."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StackRegressor._parameter_constraints,
        **DeepEstimator._parameter_constraints,
    }
