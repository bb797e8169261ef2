"""Out-of-fold predictive distributions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import clone, get_config
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from skgp.compose._members import check_classes_of_folds, check_partition, in_order
from skgp.compose._nested import keep_functions
from skgp.compose._predict_dist import predict_dist
from skgp.distributions import MonotoneTransformed

_REMEDY = (
    " With TimeSeriesSplit, ShuffleSplit or repeats, predict fold by fold and join the parts by "
    "skgp.distributions.concat."
)


def cross_val_predict_dist(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = None,
    n_jobs: int | None = None,
    params: Mapping[str, Any] | None = None,
    groups: Any = None,
) -> Any:
    """Predictive distribution of every row from a model that was fitted without it.

    The counterpart of `sklearn.model_selection.cross_val_predict`.

    Parameters
    ----------
    estimator : estimator
        Anything that, once fitted, :func:`predict_dist` accepts. It is cloned, not changed.
    X : array-like of shape (n, n_features)
    y : array-like of shape (n,) or (n, P)
        Targets, NaN only if the estimator and the splitter accept it.
    cv : int, cross-validation generator or iterable, default=None
        As in scikit-learn; None means 5 folds. Its test sets must be a partition of the rows.
    n_jobs : int, default=None
        Number of processes; None means 1 unless in a joblib context.
    params : dict, default=None
        With metadata routing, metadata for `estimator.fit` and the splitter. Without, arguments of
        `estimator.fit`; those with n rows are split like y.
    groups : array-like of shape (n,), default=None
        Groups for the splitter. With metadata routing pass them in `params` instead.

    Returns
    -------
    predictive distribution of shape (n,) or (n, P)
        Row i is the prediction for row i of X.

    Raises
    ------
    ValueError
        If the test sets are no partition of the rows, if one of them has all rows of a class, if
        `groups` is given while metadata routing is on, or if the estimator learns a target
        transformation that is neither affine nor the same in all folds.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator, RegressorMixin
    >>> from skgp.compose import cross_val_predict_dist
    >>> from skgp.distributions import NormalMixture
    >>> class Marginal(RegressorMixin, BaseEstimator):
    ...     def fit(self, X, y):
    ...         self.mean_, self.std_ = np.mean(y), np.std(y)
    ...         return self
    ...     def predict_dist(self, X):
    ...         ones = np.ones(len(X))
    ...         return NormalMixture.normal(self.mean_ * ones, self.std_ * ones)
    >>> X, y = np.zeros((4, 1)), np.array([1.0, 3.0, 5.0, 9.0])
    >>> cross_val_predict_dist(Marginal(), X, y, cv=2).mean()
    array([7., 7., 2., 2.])
    """
    X, y = indexable(X, y)
    fit_params, split_params = _route(estimator, cv, dict(params or {}), groups)
    splitter = check_cv(cv, y, classifier=is_classifier(estimator))
    splits = list(splitter.split(X, y, **split_params))
    held_out, n_rows = [test for _, test in splits], _num_samples(X)
    check_partition(held_out, n_rows, _REMEDY)
    if is_classifier(estimator):
        check_classes_of_folds([_safe_indexing(y, train) for train, _ in splits])
    fits = Parallel(n_jobs=n_jobs)(
        delayed(_fit_and_predict)(clone(estimator), X, y, train, test, fit_params, n_rows)
        for train, test in splits
    )
    for _, fitted in fits:  # the distributions hold the same transformers
        keep_functions(fitted, estimator)
    return in_order([dist for dist, _ in fits], held_out)


def _route(
    estimator: Any, splitter: Any, params: dict[str, Any], groups: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of `estimator.fit` and of the splitter."""
    if not get_config()["enable_metadata_routing"]:
        return params, {"groups": groups}
    if groups is not None:
        raise ValueError("With metadata routing pass groups as params={'groups': groups}.")
    router = (
        MetadataRouter(owner="cross_val_predict_dist")
        .add(splitter=splitter, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        .add(estimator=estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
    )
    routed = process_routing(router, "fit", **params)
    return dict(routed["estimator"]["fit"]), dict(routed["splitter"]["split"])


def _fit_and_predict(
    estimator: Any,
    X: Any,
    y: Any,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    fit_params: dict[str, Any],
    n_rows: int,
) -> tuple[Any, Any]:
    """Distribution of the test rows from an estimator fitted to the training rows.

    With the fitted estimator, if the distribution depends on functions of it, else with None.
    """
    per_row = {
        name: _safe_indexing(value, train) if _has_rows(value, n_rows) else value
        for name, value in fit_params.items()
    }
    estimator.fit(_safe_indexing(X, train), _safe_indexing(y, train), **per_row)
    dist = predict_dist(estimator, _safe_indexing(X, test))
    return dist, estimator if isinstance(dist, MonotoneTransformed) else None


def _has_rows(value: Any, n_rows: int) -> bool:
    """Whether an argument of fit has one entry per row of X."""
    if isinstance(value, str | bytes | Mapping):
        return False
    shape = getattr(value, "shape", None)
    return (shape[0] if shape else len(value) if hasattr(value, "__len__") else -1) == n_rows
