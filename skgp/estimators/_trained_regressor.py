"""Trained regressors: targets that are scaled and may be missing, normal components, noise."""

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.callback import with_callbacks
from sklearn.utils._param_validation import Interval

from skgp.core.likelihoods import Predictive
from skgp.distributions import NormalMixture
from skgp.estimators._distribution_regressor import DistributionRegressor
from skgp.estimators._model import Predictor, RegressionModel
from skgp.estimators._table import Array
from skgp.estimators._trained_estimator import TrainedEstimator
from skgp.estimators._validation import Rows, check_rows, check_same_outputs


class TrainedRegressor(TrainedEstimator, DistributionRegressor):
    """Abstract base of the regressors that torch trains."""

    # Parameters that every family stores in its constructor.
    normalize_y: bool
    noise_floor: float

    _output_shape: tuple[int, ...]  # (P,), empty for a one-dimensional y

    model_: RegressionModel

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TrainedEstimator._parameter_constraints,
        "normalize_y": ["boolean"],
        "noise_floor": [Interval(Real, 0, None, closed="neither")],
    }

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n, D)
            Inputs; finite numbers.
        y : array-like of shape (n,) or (n, P)
            Targets, in any units. NaN in an (n, P) array marks a missing entry, which is skipped.
        sample_weight : array-like of shape (n,), optional
            Multiplies a row's term in the objective; weight 0 equals dropping the row.
        X_val, y_val, sample_weight_val : array-like, optional
            Held-out rows: their mean log density is recorded after each epoch and, with
            `early_stopping`, decides when to stop. Without them `early_stopping` holds out
            `validation_fraction` of the rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument has a wrong shape, type or value; the message names it.
        NonFiniteLossError
            If training diverges and does not recover.
        """
        return self._fit(X, y, sample_weight, X_val, y_val, sample_weight_val)

    # -------------------------------------------------------------- predict

    def predict_dist(self, X: Any) -> NormalMixture:
        """Predictive distribution of y, in its units, noise included.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        NormalMixture with n rows
        """
        return self._distribution(X, self._fitted_model().predictor())

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

    def _training_rows(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Rows:
        rows = check_rows(self, X, y, sample_weight, reset=reset)
        if not reset:
            check_same_outputs("y", rows.y, self._output_shape)
        return rows

    def _held_out_rows(self, X: Any, y: Any, sample_weight: Any, training: Rows) -> Rows:
        rows = check_rows(self, X, y, sample_weight, reset=False, suffix="_val")
        check_same_outputs("y_val", rows.y, training.y.shape[1:])
        return rows

    def _scales_targets(self) -> bool:
        return self.normalize_y

    def _target_attributes(self, y: Array) -> dict[str, Any]:
        return {
            "n_outputs_": 1 if y.ndim == 1 else y.shape[1],
            "_output_shape": y.shape[1:],
        }

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
