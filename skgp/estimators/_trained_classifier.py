"""Trained classifiers: labels, and weights of their classes."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils._param_validation import StrOptions

from skgp.core.subsample import BoolArray
from skgp.estimators._chunks import Chunks
from skgp.estimators._distribution_classifier import DistributionClassifier
from skgp.estimators._model import ClassModel
from skgp.estimators._supervised_estimator import SupervisedEstimator
from skgp.estimators._table import Array
from skgp.estimators._validation import (
    Rows,
    check_class_weight,
    check_labels,
    split_by_class,
)


class TrainedClassifier(SupervisedEstimator, DistributionClassifier):
    """Abstract base of the classifiers that torch trains."""

    # Parameters that every family stores in its constructor.
    class_weight: Any

    model_: ClassModel
    class_weight_: Array

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SupervisedEstimator._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
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
        y : array-like of shape (n,)
            Labels of at least two classes: strings, integers, booleans.
        sample_weight : array-like of shape (n,), optional
            Multiplies a row's term in the objective; weight 0 equals dropping the row. Zero or
            between 1e-15 and 1e15.
        X_val, y_val, sample_weight_val : array-like, optional
            Held-out rows, of classes that are in y: their mean log probability is recorded after
            each epoch and, with `early_stopping`, decides when to stop. Without them
            `early_stopping` holds out `validation_fraction` of the rows.

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

    def latent_mean_and_variance(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the latent functions, before the link.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        mean, variance : arrays of shape (n,), or (n, C) if there is a function for each class
            Without a unit. Of a deep model they are those of a mixture over its nodes.
        """
        fitted = self._snapshot()
        latent_moments = fitted.model_.latent_moments()
        chunks = fitted._in_chunks(X, lambda x: latent_moments(x).cpu().numpy())
        mean, variance = chunks.gather(tuple)
        return (mean, variance) if fitted._output_shape else (mean[:, 0], variance[:, 0])

    # ------------------------------------------------------------- helpers

    def _validate_params(self) -> None:
        super()._validate_params()
        if isinstance(self.class_weight, dict):
            check_class_weight(self.class_weight)

    def _fitted_model(self) -> ClassModel:
        super()._fitted_model()
        return self.model_

    def _log_probabilities(self, X: Any) -> Chunks[Array]:
        log_probabilities = self._fitted_model().log_probabilities()
        return self._in_chunks(X, lambda x: log_probabilities(x).cpu().numpy())

    def _training_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        reset: bool,
        classes: Array | None = None,
    ) -> Rows:
        """Validated rows; `classes` are those of a stream, of which a chunk need not have all."""
        rows = check_labels(self, X, y, sample_weight, reset=reset)
        if reset:
            self._set_classes(np.unique(rows.y) if classes is None else classes, rows)
        elif classes is not None and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"classes={classes.tolist()} are not those of the first call, "
                f"{self.classes_.tolist()}"
            )
        return self._coded(rows, "y")

    def _held_out_rows(self, X: Any, y: Any, sample_weight: Any, training: Rows) -> Rows:
        rows = check_labels(self, X, y, sample_weight, reset=False, suffix="_val")
        return self._coded(rows, "y_val")

    def _split(self, rows: Rows, rng: np.random.RandomState) -> tuple[Rows, Rows]:
        return split_by_class(rows, self.validation_fraction, rng)

    def _set_classes(self, classes: Array, rows: Rows) -> None:
        """Remember the classes and their weights."""
        if len(classes) < 2:
            raise ValueError(
                f"y has {len(classes)} class, {classes.tolist()}, and a classifier needs at least "
                "two classes: pass rows of another class, of weights above zero"
            )
        self.classes_ = classes
        self.class_weight_ = compute_class_weight(
            self.class_weight, classes=classes, y=rows.y, sample_weight=rows.weight
        )

    def _coded(self, rows: Rows, name: str) -> Rows:
        """Rows with the numbers of their classes, and weights that are those of the classes too."""
        known = np.isin(rows.y, self.classes_)
        if not known.all():
            unknown = np.unique(rows.y[~known]).tolist()
            raise ValueError(
                f"{name} contains labels {unknown[:5]} that are not among the model's classes, "
                f"{self.classes_.tolist()[:10]}"
            )
        codes = np.searchsorted(self.classes_, rows.y)
        weight = rows.weight
        if self.class_weight is not None:
            weight = self.class_weight_[codes] * (1.0 if weight is None else weight)
        return rows._replace(y=codes.astype(np.float64), weight=weight)

    def _scales_targets(self) -> bool:
        return False

    def _groups(self, Y: Array) -> BoolArray:
        return np.asarray(np.arange(len(self.classes_)) == Y)

    def _target_attributes(self, y: Array) -> dict[str, Any]:
        return {"_output_shape": self._latent_shape()}

    def _latent_shape(self) -> tuple[int, ...]:
        """Shape of the latent functions at a row: () for one function, (C,) for one per class."""
        return () if len(self.classes_) == 2 else (len(self.classes_),)
