"""What the estimators of Gaussian noise share: its variance, and normal components."""

from numbers import Real
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import Interval

from skgp.core.likelihoods import Predictive
from skgp.core.linalg import covariance_factor
from skgp.distributions import NormalMixture
from skgp.estimators._chunks import Chunks
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
        fitted = self._snapshot()
        noise_var = fitted.model_.likelihood.noise_var.detach().cpu().numpy()
        variance: Array = noise_var * fitted.model_.y_scale.unit**2
        return float(variance[0]) if not fitted._output_shape else variance

    # ------------------------------------------------------------- helpers

    def _fitted_model(self) -> RegressionModel:
        super()._fitted_model()
        return self.model_

    def _distributions(self, X: Any, predictor: Predictor) -> Chunks[NormalMixture]:
        """Chunks of rows through a predictor of the model, in float64 and the units of y."""
        y_scale = self._fitted_model().y_scale
        select = ... if self._output_shape else (..., 0)  # one-dimensional y: no axis of outputs
        weights = self._fitted_model().log_weights.detach().cpu().numpy()

        def of_chunk(x: torch.Tensor) -> NormalMixture:
            mean, std, scale_tril = _to_arrays(predictor(x))
            dist = NormalMixture(weights, mean[select], std[select], scale_tril)
            return dist.affine(y_scale.offset[select], y_scale.unit[select])

        return self._in_chunks(X, of_chunk)


def _to_arrays(predictive: Predictive) -> tuple[Array, Array, Array | None]:
    """Components of a chunk with rows first: mean and std (B, Q, P), scale_tril (B, Q, P, P)."""
    scale_tril = None
    if predictive.cov is not None:
        scale_tril = covariance_factor(predictive.cov).movedim(0, 1).cpu().numpy()
    mean, std = predictive.mean.movedim(0, 1), predictive.var.sqrt().movedim(0, 1)
    return mean.cpu().numpy(), std.cpu().numpy(), scale_tril
