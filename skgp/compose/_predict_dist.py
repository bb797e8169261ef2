"""The predictive distribution of a nested scikit-learn model.

scikit-learn's meta-estimators pass on a fixed set of methods, and `predict_dist` is not among them;
so the walk looks inside.
"""

from typing import Any

from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skgp.compose._target_inverse import invert_target

_DISTRIBUTION_METHODS = ("mean", "std", "cdf", "ppf", "logpdf")


def predict_dist(model: Any, X: Any) -> Any:
    """Predictive distribution of a fitted model, however it is nested.

    Looks through searches (`GridSearchCV` and its like), `Pipeline`, `TransformedTargetRegressor`
    and `FrozenEstimator`, in any nesting. Target transformations are undone: affine ones, such as
    `StandardScaler`, exactly; other increasing ones, such as log1p and expm1, by a change of
    variables.

    Parameters
    ----------
    model : fitted estimator
        Innermost stands an estimator with a method `predict_dist`, or one whose `predict_proba`
        returns a distribution.
    X : array-like of shape (n, n_features)
        What `model.predict` accepts.

    Returns
    -------
    predictive distribution of shape (n,) or (n, P)
        In the units of the target that `model` was fitted on.

    Raises
    ------
    TypeError
        If an estimator on the way offers no predictive distribution; the message names its class.
    ValueError
        If a target transformer mixes outputs, decreases without being affine, or is undefined in
        the range of the predictions.
    sklearn.exceptions.NotFittedError
        If the model is not fitted, or is a search with ``refit=False``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator, RegressorMixin
    >>> from sklearn.compose import TransformedTargetRegressor
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skgp.compose import predict_dist
    >>> from skgp.distributions import NormalMixture
    >>> class StandardNormal(RegressorMixin, BaseEstimator):
    ...     def fit(self, X, y):
    ...         self.fitted_ = True
    ...         return self
    ...     def predict_dist(self, X):
    ...         return NormalMixture.normal(np.zeros(len(X)), np.ones(len(X)))
    ...     def predict(self, X):
    ...         return self.predict_dist(X).mean()
    >>> model = TransformedTargetRegressor(StandardNormal(), transformer=StandardScaler())
    >>> dist = predict_dist(model.fit([[0.0], [1.0]], [10.0, 30.0]), [[0.5]])
    >>> dist.mean(), dist.std()
    (array([20.]), array([10.]))
    """
    dist, transformers = _innermost(model, X)
    return invert_target(dist, transformers) if transformers else dist


def _innermost(model: Any, X: Any) -> tuple[Any, list[Any]]:
    """Distribution of the innermost estimator and target transformers, inner ones first.

    The transformers are collected rather than undone one by one because a distribution that went
    through a non-affine transformer cannot go through another.
    """
    if isinstance(model, FrozenEstimator):
        return _innermost(model.estimator, X)
    if hasattr(model, "predict_dist"):
        return model.predict_dist(X), []
    if isinstance(model, Pipeline):
        for _, step in model.steps[:-1]:
            if step is not None and step != "passthrough":
                X = step.transform(X)
        return _innermost(model.steps[-1][1], X)
    if isinstance(model, TransformedTargetRegressor):
        check_is_fitted(model)
        dist, transformers = _innermost(model.regressor_, X)
        return dist, [*transformers, model.transformer_]
    if hasattr(model, "best_estimator_"):
        return _innermost(model.best_estimator_, X)
    if hasattr(model, "refit"):
        raise NotFittedError(
            f"This {type(model).__name__} has no best_estimator_: it is not fitted yet, or has "
            "refit=False."
        )
    return _foreign_distribution(model, X), []


def _foreign_distribution(model: Any, X: Any) -> Any:
    """What `predict_proba` returns, if that is a distribution."""
    name = model if isinstance(model, str) else type(model).__name__
    if not hasattr(model, "predict_proba"):
        raise TypeError(
            f"{name} offers no predictive distribution: it has neither predict_dist nor "
            "predict_proba, and predict_dist looks inside searches, Pipeline, "
            "TransformedTargetRegressor and FrozenEstimator only."
        )
    dist = model.predict_proba(X)
    if not all(callable(getattr(dist, method, None)) for method in _DISTRIBUTION_METHODS):
        raise TypeError(
            f"{name} offers no predictive distribution: its predict_proba returns a "
            f"{type(dist).__name__}."
        )
    return dist
