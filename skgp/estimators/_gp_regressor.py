"""What the Gaussian process regressors share: f without noise."""

from typing import Any, ClassVar

from skgp.distributions import NormalMixture
from skgp.estimators._gp_estimator import GPEstimator
from skgp.estimators._model import GPModel
from skgp.estimators._trained_regressor import TrainedRegressor


class GPRegressor(GPEstimator, TrainedRegressor):
    """Abstract base of the regressors whose model is a stack of GP layers."""

    model_: GPModel

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GPEstimator._parameter_constraints,
        **TrainedRegressor._parameter_constraints,
    }

    def predict_latent(self, X: Any) -> NormalMixture:
        """Distribution of the noiseless function f, in the units of y.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        NormalMixture with n rows
        """
        fitted = self._snapshot()
        chunks = fitted._distributions(X, fitted.model_.noiseless_predictor())
        return NormalMixture.gather(chunks.parts, chunks.n_rows)

    def _fitted_model(self) -> GPModel:
        super()._fitted_model()
        return self.model_
