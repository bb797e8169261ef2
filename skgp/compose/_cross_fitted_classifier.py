"""An ensemble of classifiers, each fitted without one fold."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.utils.validation import check_is_fitted, column_or_1d

from skgp._typing import Array
from skgp._validation import check_no_label_missing, check_sorted, unmasked
from skgp.compose._cross_fitted import CrossFitted
from skgp.compose._members import Fold, check_classes_of_folds
from skgp.compose._predict_dist import predict_log_proba
from skgp.compose._recalibration import best_temperature, tempered, tempered_log


class CrossFittedClassifier(ClassifierMixin, CrossFitted):
    """K copies of a classifier, each fitted without one fold of the rows, and their mixture.

    Each member uses its fold only to stop early: if it has the parameter `early_stopping`, this is
    set to True and the fold is passed as `X_val, y_val`. A member without it is just fitted to the
    other rows. The prediction is the mean of the members' probabilities. The probabilities of each
    row by the member that left it out are kept, so that the model can be scored without a further
    split. Such scores are slightly optimistic, because early stopping used these rows.

    With `recalibrate=True` the probabilities of every member become p^(1/T), normalised, with one
    temperature T, the maximiser of the log probability of the out-of-fold labels ([1]_, section
    4.2)::

        sum_i w_i (sum_c q_i(c) log p_i(c) / T - log sum_c p_i(c)^(1/T))

    With the sum n of all weights and C classes, q_i(c) is 1 / (C (n + 1)), plus n / (n + 1) for the
    label of the row: as if one more row had each class in equal parts ([2]_, section 2.2).
    Otherwise all probabilities would become zero or one if all labels were predicted correctly.

    Parameters
    ----------
    estimator : estimator
        Classifier of which :func:`skgp.predict_dist` finds the predictive distribution: one of this
        package, or a pipeline or search around one. Of a pipeline, held-out rows go through its
        fitted steps to the last one; a search is just fitted.
    cv : int, cross-validation generator or iterable, default=5
        An integer is a number of shuffled, stratified folds, the same in each fit; with `groups`
        they are folds of whole groups. The test sets of a splitter must be a partition of the rows.
        Each class needs rows outside of each fold.
    recalibrate : bool, default=False
        Whether to change the probabilities of the members by `scale_`.
    n_jobs : int, default=None
        Number of processes that fit the members; None means 1 unless in a joblib context. Results
        do not depend on it.

    Attributes
    ----------
    estimators_ : list of estimators
        The fitted members, in the order of the folds.
    classes_ : array of shape (C,)
        Sorted labels.
    oof_dist_ : Bernoulli or Categorical of n rows
        For each training row, in the order of the rows, by the member that was fitted without it.
        Recalibrated by `scale_`.
    scale_ : float
        Temperature T, between 1/1000 and 1000; 1.0 unless `recalibrate`.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array of shape (n_features,)
        Names of the columns of X, if all are strings.

    See Also
    --------
    CrossFittedRegressor : The same for regression.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017.
    .. [2] J. Platt, "Probabilistic outputs for support vector machines and comparisons to
       regularized likelihood methods", Advances in Large Margin Classifiers, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp import SVGPClassifier
    >>> from skgp.compose import CrossFittedClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (100, 1))
    >>> y = np.where(X[:, 0] + 0.3 * rng.standard_normal(100) > 0, "right", "left")
    >>> member = SVGPClassifier(n_inducing=10, max_iter=50, random_state=0)
    >>> model = CrossFittedClassifier(member, cv=3).fit(X, y)
    >>> model.predict([[-2.0], [2.0]]).tolist()
    ['left', 'right']
    >>> bool(np.mean(model.oof_dist_.mode() == y) > 0.9)
    True
    """

    classes_: Array

    def _check_member(self) -> None:
        super()._check_member()
        if isinstance(self.estimator, FixedThresholdClassifier | TunedThresholdClassifierCV):
            raise ValueError(
                "CrossFittedClassifier predicts from the mean of probabilities and leaves out the "
                f"threshold of {type(self.estimator).__name__}: put it around CrossFittedClassifier"
            )

    # -------------------------------------------------------------- predict

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        array of shape (n, C)
            Columns in the order of `classes_`; rows sum to one.
        """
        return np.array(self.predict_dist(X))

    def predict_log_proba(self, X: Any) -> Array:
        """Log probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        array of shape (n, C)
            Columns in the order of `classes_`; finite where the probability rounds to zero.
        """
        check_is_fitted(self)
        members, scale = self.estimators_, self.scale_
        logs = [predict_log_proba(member, X) for member in members]
        if scale != 1.0:
            logs = [tempered_log(log_p, scale) for log_p in logs]
        log_mean: Array = logsumexp(logs, axis=0) - np.log(len(members))
        return log_mean

    def predict(self, X: Any) -> Array:
        """Most probable class, the first one of several.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        array of shape (n,), labels
        """
        labels: Array = self.predict_dist(X).mode()
        return labels

    # ------------------------------------------------------------- helpers

    def _checked(self, y: Any) -> Any:
        parameters = self.estimator.get_params().items()  # of a step of a pipeline, too
        if any(name.split("__")[-1] == "likelihood" and v == "ordinal" for name, v in parameters):
            check_sorted(y, "y")
        labels = column_or_1d(unmasked(y, "y"), warn=True)
        check_no_label_missing(labels, "y")
        return labels

    def _of_targets(self, y: Any, weight: Array) -> dict[str, Any]:
        return {"classes_": np.unique(y[weight > 0.0])}

    def _check_folds(self, folds: Sequence[Fold], y: Any, weight: Array) -> None:
        super()._check_folds(folds, y, weight)
        check_classes_of_folds([y[train[weight[train] > 0.0]] for train, _ in folds])

    def _best_scale(self, dist: Any, y: Any, weight: Array) -> float:
        return best_temperature(dist, y, weight)

    def _scaled(self, dist: Any, scale: float) -> Any:
        return dist if scale == 1.0 else tempered(dist, scale)
