"""Classifiers: labels, weights of their classes, and probabilities."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import unique_labels

from skgp._typing import Array, BoolArray
from skgp._validation import check_sorted
from skgp.core.training.plan import count_batches
from skgp.distributions import Bernoulli, Categorical
from skgp.estimators import _attributes
from skgp.estimators._estimator import Estimator
from skgp.fitting.arguments import check_class_weight
from skgp.fitting.fit import TargetSpec
from skgp.fitting.predict import Chunks, arrays
from skgp.fitting.recipe import pick
from skgp.fitting.row_checks import check_labels, check_observed
from skgp.fitting.rows import Rows
from skgp.fitting.splits import split_by_class
from skgp.recipes.classes import Classes


class Classifier(ClassifierMixin, Estimator):
    """Abstract base of the classifiers that torch trains."""

    # Parameters that every family stores in its constructor.
    normalize_X: bool
    batch_size: int
    class_weight: Any
    likelihood: str

    classes_: Array
    class_weight_: Array

    # ------------------------------------------------------------------ fit

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
            each epoch and decides when to stop, where `early_stopping` says that held-out rows do.
            Without them it holds out `validation_fraction` of the rows, copies of a row together.

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
        with self._becoming() as (working, report):
            working._validate_params()
            rows = working._rows(X, y, sample_weight, reset=not working._continues())
            check_observed(rows.y)
            report += working._outliers_to_check(rows)
            rng = check_random_state(working.random_state)
            given = X_val, y_val, sample_weight_val
            split = working._split_off(
                rows, given, rng, read=working._rows_to_validate, split=split_by_class
            )
            of_targets = working._targets(), working._remembered()
            report += working._train(X, y, split, rng, *of_targets)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        n_total: float | None = None,
    ) -> Self:
        """Train one epoch on a chunk of rows, going on from the calls before.

        The first call fixes the classes. The scales and the initial inducing inputs come from the
        first rows: while there are few, the model starts anew whenever their number has doubled.
        The learning rate is `learning_rate_init`, to which it rises after a `fit`.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : array-like of shape (n,)
        classes : array-like of shape (C,), optional
            All labels that chunks may contain, in any order unless likelihood="ordinal"; those of
            the first chunk if None. Later calls need none.
        sample_weight : array-like of shape (n,), optional
        n_total : float, optional
            Rows (or sum of weights) of the whole stream, by which the divergence is divided; the
            rows seen so far if None.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `early_stopping` or class_weight="balanced" is set, if `classes` differ from those
            of the first call or, ordered, from their order when sorted, or as in `fit`.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "partial_fit does not support class_weight='balanced', for the shares of the "
                "classes in a stream are unknown: pass a dict of weights"
            )
        declared = None if classes is None else self._declared(classes)
        with self._becoming() as (working, report):
            working._check_chunk(n_total)
            rows = working._rows(
                X, y, sample_weight, declared, reset=not working.__sklearn_is_fitted__()
            )
            of_targets = working._targets(), working._remembered()
            report += working._train_chunk(rows, n_total, *of_targets)
        return self

    # -------------------------------------------------------------- predict

    def predict_log_proba(self, X: Any) -> Array:
        """Log probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        array of shape (n, C)
            Columns in the order of `classes_`; finite where the probability rounds to zero.
        """
        (log_p,) = self._snapshot()._log_probabilities(X).gather(lambda log_p: (log_p,))
        return log_p

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        array of shape (n, C)
            Columns in the order of `classes_`; rows sum to one.
        """
        (p,) = self._snapshot()._log_probabilities(X).gather(lambda log_p: (np.exp(log_p),))
        return p

    def predict(self, X: Any) -> Array:
        """Most probable class, the first one of several.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        array of shape (n,), labels
        """
        fitted = self._snapshot()
        (codes,) = fitted._log_probabilities(X).gather(lambda log_p: (log_p.argmax(1),))
        labels: Array = fitted.classes_[codes]
        return labels

    def decision_function(self, X: Any) -> Array:
        """Log odds of the second of two classes, or log probabilities of several.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        array of shape (n,) or (n, C)
        """

        def decide(log_p: Array) -> tuple[Array]:
            return (log_p if log_p.shape[1] > 2 else log_p[:, 1] - log_p[:, 0],)

        (decision,) = self._snapshot()._log_probabilities(X).gather(decide)
        return decision

    def predict_dist(self, X: Any) -> Bernoulli | Categorical:
        """Predictive distribution over the classes.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        Bernoulli for two classes, Categorical for several, with n rows
        """
        fitted = self._snapshot()
        (p,) = fitted._log_probabilities(X).gather(lambda log_p: (np.exp(log_p),))
        classes = fitted.classes_
        return (Bernoulli.of_columns if len(classes) == 2 else Categorical)(p, classes)

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
        chunks = arrays(fitted.model_, fitted._inputs(X), fitted.model_.latent_moments())
        mean, variance = chunks.gather(lambda moments: (moments[0], moments[1]))
        return (mean, variance) if fitted._output_shape else (mean[:, 0], variance[:, 0])

    # --------------------------------------------------- fitted attributes

    lengthscales_ = property(_attributes.lengthscales)
    input_powers_ = property(_attributes.input_powers)
    inducing_points_ = property(_attributes.inducing_points)
    likelihood_parameters_ = property(_attributes.class_parameters)
    stack_ = property(_attributes.stack)

    # ------------------------------------------------------------- helpers

    def _validate_params(self) -> None:
        super()._validate_params()
        if isinstance(self.class_weight, dict):
            check_class_weight(self.class_weight)

    def _log_probabilities(self, X: Any) -> Chunks[Array]:
        """Log probabilities (B, C) of the classes for chunks of rows."""
        return arrays(self.model_, self._inputs(X), self.model_.log_probabilities())

    def _rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        classes: Array | None = None,
        *,
        reset: bool,
    ) -> Rows:
        """Validated rows; `classes` are those of a stream, of which a chunk need not have all."""
        self._check_order(y, "y")
        rows = check_labels(self, X, y, sample_weight, reset=reset)
        if reset:
            self._set_classes(np.unique(rows.y) if classes is None else classes, rows)
        elif classes is not None and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"classes={classes.tolist()} are not those of the first call, "
                f"{self.classes_.tolist()}"
            )
        elif self.class_weight == "balanced":  # a warm start, whose rows are other ones
            present = np.intersect1d(self.classes_, rows.y)
            weights = compute_class_weight(
                "balanced", classes=present, y=rows.y, sample_weight=rows.weight
            )
            self.class_weight_ = self.class_weight_.copy()
            self.class_weight_[np.isin(self.classes_, present)] = weights
        return self._coded(rows, "y")

    def _rows_to_validate(self, X: Any, y: Any, sample_weight: Any, training: Rows) -> Rows:
        self._check_order(y, "y_val")
        rows = check_labels(self, X, y, sample_weight, reset=False, suffix="_val")
        return self._coded(rows, "y_val")

    def _declared(self, classes: Any) -> Array:
        """The classes of a stream, sorted."""
        self._check_order(classes, "classes")
        labels: Array = unique_labels(classes)
        if self.likelihood == "ordinal" and list(dict.fromkeys(classes)) != list(labels):
            raise ValueError(
                f"classes={list(classes)[:5]} are in another order than that of sorting, which "
                "likelihood='ordinal' learns: number the labels, or name them in that order"
            )
        return labels

    def _check_order(self, y: Any, name: str) -> None:
        if self.likelihood == "ordinal":
            check_sorted(y, name)

    def _condensed(self, rows: Rows) -> Rows:
        """In a table of one batch equal rows are one, of the sum of their weights.

        The draws of a step are those of a row: so a repeated row is what a row of weight two is,
        and the order of the rows does not matter.
        """
        return rows.merged() if count_batches(len(rows.X), self.batch_size) == 1 else rows

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

    def _targets(self) -> TargetSpec:
        return TargetSpec((self.normalize_X, False), ("y", "normalize_y"), self._members)

    def _members(self, Y: Array) -> BoolArray:
        """For numbers of classes (n, 1) whether each row is of each class, (n, C)."""
        return np.asarray(np.arange(len(self.classes_)) == Y)

    def _remembered(self) -> dict[str, Any]:
        """What a fit remembers: latent functions at a row are one, or one for each class."""
        n_latents = self._n_latents
        return {"_output_shape": () if n_latents == 1 else (n_latents,)}

    @property
    def _n_latents(self) -> int:
        """Latent functions at a row; none before there are classes."""
        classes = getattr(self, "classes_", ())
        return pick(Classes, self).n_latents(len(classes)) if len(classes) else 0
