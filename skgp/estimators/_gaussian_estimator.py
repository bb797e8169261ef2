"""What the estimators of Gaussian noise share: its variance, and normal components."""

from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import Interval

from skgp.core.likelihoods import Predictive
from skgp.distributions import NormalMixture
from skgp.estimators._model import Predictor, RegressionModel
from skgp.estimators._table import Array
from skgp.estimators._trained_estimator import TrainedEstimator


class GaussianEstimator(TrainedEstimator):
    """Abstract base of the estimators whose model predicts normal components."""

    # Parameters that every family stores in its constructor.
    noise_floor: float

    model_: RegressionModel

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TrainedEstimator._parameter_constraints,
        "noise_floor": [Interval(Real, 0, 1e30, closed="right")],  # in the range of float32
    }

    # --------------------------------------------------- fitted attributes

    @property
    def noise_variance_(self) -> float | Array:
        """Variance of the observation noise in squared units of y: a float or an array (P,)."""
        model = self._fitted_model()
        variance: Array = model.likelihood.noise_var.detach().cpu().numpy() * model.y_scale.unit**2
        return float(variance[0]) if not self._output_shape else variance

    # ------------------------------------------------------------- helpers

    def _fitted_model(self) -> RegressionModel:
        super()._fitted_model()
        return self.model_

    def _distribution(self, X: Any, predictor: Predictor) -> NormalMixture:
        """Chunks of rows through a predictor of the model, in float64."""
        model = self._fitted_model()
        parts = self._in_chunks(X, lambda x: _to_arrays(predictor(x)))
        mean, std = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        factors_of_cov = [part[2] for part in parts if part[2] is not None]
        scale_tril = np.concatenate(factors_of_cov) if factors_of_cov else None
        if not self._output_shape:
            mean, std = mean[..., 0], std[..., 0]
            offset, unit = model.y_scale.offset[0], model.y_scale.unit[0]
        else:
            offset, unit = model.y_scale.offset, model.y_scale.unit
        weights = model.log_weights.detach().cpu().numpy()
        return NormalMixture(weights, mean, std, scale_tril).affine(offset, unit)


def _to_arrays(predictive: Predictive) -> tuple[Array, Array, Array | None]:
    """Components of a chunk with rows first: mean and std (B, Q, P), scale_tril (B, Q, P, P)."""
    scale_tril = None
    if predictive.cov is not None:
        scale_tril = torch.linalg.cholesky(predictive.cov).movedim(0, 1).cpu().numpy()
    mean, std = predictive.mean.movedim(0, 1), predictive.var.sqrt().movedim(0, 1)
    return mean.cpu().numpy(), std.cpu().numpy(), scale_tril
