"""Trained estimators whose targets are given: held-out rows of their own."""

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.utils import check_random_state

from skgp.estimators._outliers import find_outliers
from skgp.estimators._trained_estimator import TrainedEstimator
from skgp.estimators._validation import Rows, check_observed, split_rows


class SupervisedEstimator(TrainedEstimator):
    """Abstract base of what torch trains on inputs and targets."""

    @abstractmethod
    def _held_out_rows(self, X: Any, y: Any, sample_weight: Any, training: Rows) -> Rows:
        """Validated rows whose arguments end in "_val", like the training rows."""

    def _split(self, rows: Rows, rng: np.random.RandomState) -> tuple[Rows, Rows]:
        """Training rows, and those that early stopping holds out."""
        return split_rows(rows, self.validation_fraction, rng)

    def _condensed(self, rows: Rows) -> Rows:
        """Rows that give the same model: all of them by default."""
        return rows

    @with_callbacks
    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        X_val: Any,
        y_val: Any,
        sample_weight_val: Any,
    ) -> list[Warning]:
        """Validate the arguments of `fit` and train."""
        self._validate_params()
        rows = self._training_rows(X, y, sample_weight, reset=not self._continues())
        check_observed(rows.y)
        report: list[Warning] = []
        if self._continues():
            report += find_outliers(rows, *self._scales()).warning("check them")
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val must be given together")
        if X_val is None and sample_weight_val is not None:
            raise ValueError("sample_weight_val is given without X_val and y_val")
        rng = check_random_state(self.random_state)
        held_out = None
        if X_val is not None:
            held_out = self._held_out_rows(X_val, y_val, sample_weight_val, rows)
        elif self.early_stopping:
            rows, held_out = self._split(rows, rng)
        return [*report, *self._train(X, y, self._condensed(rows), held_out, rng)]
