"""Trained regressors: targets that are scaled and may be missing."""

from typing import Any, ClassVar, Self

from skgp.distributions import NormalMixture
from skgp.estimators._chunks import Chunks
from skgp.estimators._distribution_regressor import DistributionRegressor
from skgp.estimators._gaussian_estimator import GaussianEstimator
from skgp.estimators._supervised_estimator import SupervisedEstimator
from skgp.estimators._table import Array
from skgp.estimators._validation import Rows, check_rows, check_same_outputs


class TrainedRegressor(SupervisedEstimator, GaussianEstimator, DistributionRegressor):
    """Abstract base of the regressors that torch trains."""

    # Parameters that every family stores in its constructor.
    normalize_y: bool

    _output_shape: tuple[int, ...]  # (P,), empty for a one-dimensional y

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GaussianEstimator._parameter_constraints,
        "normalize_y": ["boolean"],
    }

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
            Multiplies a row's term in the objective; weight 0 equals dropping the row. Zero or
            between 1e-15 and 1e15.
        X_val, y_val, sample_weight_val : array-like, optional
            Held-out rows: their mean log density is recorded after each epoch and, with
            `early_stopping`, decides when to stop. Without them `early_stopping` holds out
            `validation_fraction` of the rows. A row counts as -20 nats per output in standardised
            units at least, so that one wrong target cannot decide.

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
        held_out = X_val, y_val, sample_weight_val
        return self._become(lambda working: working._fit(X, y, sample_weight, *held_out))

    # -------------------------------------------------------------- predict

    def _predictive(self, X: Any) -> Chunks[NormalMixture]:
        return self._distributions(X, self._fitted_model().predictor())

    # ------------------------------------------------------------- helpers

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
