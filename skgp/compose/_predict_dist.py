"""The predictive distributions of a nested scikit-learn model."""

import inspect
from typing import Any

import numpy as np
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.utils.validation import check_is_fitted

from skgp.compose._nested import unwrap
from skgp.distributions import NormalMixture, mix

_DISTRIBUTION_METHODS = ("mean", "std", "cdf", "ppf", "logpdf")


def predict_dist(model: Any, X: Any) -> Any:
    """Predictive distribution of a fitted model, however it is nested.

    Looks through searches (`GridSearchCV` and its like), `Pipeline`, `TransformedTargetRegressor`
    and `FrozenEstimator`, in any nesting. `BaggingRegressor` and `VotingRegressor` (without
    weights) have the equal mixture of their members.

    Target transformations are undone: affine ones, such as `StandardScaler`, exactly; other
    increasing ones, such as log1p and expm1, by a change of variables. Of a transformer that gives
    many z one y, as `QuantileTransformer` does beyond the extremes of its training targets, there
    are atoms that densities leave out: score such a distribution by its CRPS or its quantiles, not
    by its log density.

    Parameters
    ----------
    model : fitted estimator
        Innermost stands an estimator with a method `predict_dist`, or one whose `predict_proba`
        returns a distribution; or another regressor that tells a mean and a standard deviation:
        by ``predict(X, return_std=True)``, as `BayesianRidge` and `GaussianProcessRegressor` do,
        or by `pred_dist`, as NGBoost does with its normal distribution. These are taken for those
        of a normal distribution of y, so they must include the noise (a `WhiteKernel`).
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
    nested = unwrap(model)
    inputs, estimator = nested.transform(X), nested.estimator
    if hasattr(estimator, "predict_dist"):
        dist = estimator.predict_dist(inputs)
    else:
        dist = _foreign_distribution(estimator, inputs)
    return nested.invert_target(dist)


def predict_latent(model: Any, X: Any) -> Any:
    """Distribution of the noiseless function of a fitted model, however it is nested.

    The counterpart of :func:`predict_dist` for the method `predict_latent`.

    Parameters
    ----------
    model : fitted estimator
        Innermost stands an estimator with a method `predict_latent`.
    X : array-like of shape (n, n_features)
        What `model.predict` accepts.

    Returns
    -------
    predictive distribution of shape (n,) or (n, P)
        In the units of the target that `model` was fitted on. If the target transformation is not
        affine, the distribution of the transformed function.

    Raises
    ------
    TypeError
        If the innermost estimator has no method `predict_latent`; the message names its class.
    ValueError, sklearn.exceptions.NotFittedError
        As :func:`predict_dist`.
    """
    nested = unwrap(model)
    if not hasattr(nested.estimator, "predict_latent"):
        raise TypeError(
            f"{_name(nested.estimator)} offers no distribution of its function: it has no method "
            "predict_latent."
        )
    return nested.invert_target(nested.estimator.predict_latent(nested.transform(X)))


def predict_joint(model: Any, X: Any) -> tuple[Any, Any]:
    """Mean of a fitted model and its covariance over the rows of X, however it is nested.

    Raises
    ------
    NotImplementedError
        If the innermost estimator's `predict` has no `return_cov`, or a target is transformed.
    """
    nested = unwrap(model)
    estimator, transformers = nested.estimator, nested.target_transformers
    if transformers or "return_cov" not in inspect.signature(estimator.predict).parameters:
        raise NotImplementedError(
            f"return_cov asks for the covariance over rows, which {_name(model)} does not have; "
            "predict_dist(X).cov() is the covariance over the outputs of each row"
        )
    mean, cov = estimator.predict(nested.transform(X), return_cov=True)
    return mean, cov


def _foreign_distribution(model: Any, X: Any) -> Any:
    """What another regressor says of the distribution of y."""
    if isinstance(model, BaggingRegressor | VotingRegressor):
        return _mixture_of_members(model, X)
    if hasattr(model, "pred_dist"):
        dist = model.pred_dist(X)
        if type(dist).__name__ != "Normal":
            raise TypeError(
                f"{_name(model)} offers no predictive distribution that is known here: its "
                f"pred_dist returns a {type(dist).__name__}, not a Normal."
            )
        return NormalMixture.normal(dist.loc, dist.scale)
    if hasattr(model, "predict") and "return_std" in inspect.signature(model.predict).parameters:
        return NormalMixture.normal(*model.predict(X, return_std=True))
    return _distribution_of_proba(model, X)


def _mixture_of_members(model: Any, X: Any) -> Any:
    check_is_fitted(model)
    if isinstance(model, VotingRegressor):
        if model.weights is not None:
            raise TypeError("VotingRegressor offers a predictive distribution only if weights=None")
        return mix([predict_dist(member, X) for member in model.estimators_])
    X = np.asarray(X)  # members were fitted on an array, of some of its columns
    chosen = zip(model.estimators_, model.estimators_features_, strict=True)
    return mix([predict_dist(member, X[:, columns]) for member, columns in chosen])


def _distribution_of_proba(model: Any, X: Any) -> Any:
    """What `predict_proba` returns, if that is a distribution."""
    name = _name(model)
    if not hasattr(model, "predict_proba"):
        raise TypeError(
            f"{name} offers no predictive distribution: it has neither predict_dist nor "
            "predict_proba, its predict takes no return_std, and predict_dist looks inside "
            "searches, Pipeline, TransformedTargetRegressor and FrozenEstimator only."
        )
    dist = model.predict_proba(X)
    if not all(callable(getattr(dist, method, None)) for method in _DISTRIBUTION_METHODS):
        raise TypeError(
            f"{name} offers no predictive distribution: its predict_proba returns a "
            f"{type(dist).__name__}."
        )
    return dist


def _name(estimator: Any) -> str:
    return estimator if isinstance(estimator, str) else type(estimator).__name__
