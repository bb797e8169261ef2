"""The predictive distributions of a nested scikit-learn model."""

import inspect
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from skgp.compose._foreign import foreign_distribution, name_of
from skgp.compose._nested import keep_functions, unwrap
from skgp.compose._recalibration import floored_log
from skgp.distributions import mix


def predict_dist(model: Any, X: Any) -> Any:
    """Predictive distribution of a fitted model, however it is nested.

    Looks through searches (`GridSearchCV` and its like), `Pipeline`, `TransformedTargetRegressor`,
    `FrozenEstimator`, `FixedThresholdClassifier` and `TunedThresholdClassifierCV`, in any nesting;
    a threshold does not change probabilities. `BaggingRegressor` and `VotingRegressor` (without
    weights) have the equal mixture of their members, `StackingRegressor` has the distribution of
    its final estimator.

    Target transformations are undone: affine ones, such as `StandardScaler`, exactly; other
    increasing ones, such as log1p and expm1, by a change of variables. Of a transformer that gives
    many z one y, as `QuantileTransformer` does beyond the extremes of its training targets, there
    are atoms that densities leave out: score such a distribution by its CRPS or its quantiles, not
    by its log density, which may be infinite there and is then refused by `nll`.

    Parameters
    ----------
    model : fitted estimator
        Innermost stands an estimator with a method `predict_dist`, or one whose `predict_proba`
        returns a distribution; or another regressor that tells a mean and a standard deviation:
        by ``predict(X, return_std=True)``, as `BayesianRidge` and `GaussianProcessRegressor` do,
        by `pred_dist`, as NGBoost does with its normal distribution, or by the loss function
        "RMSEWithUncertainty" of CatBoost. These are taken for those of a normal distribution of y,
        so they must include the noise (a `WhiteKernel`). Of regressors with
        ``predict(X, quantiles=...)``, such as quantile forests, 99 quantiles are asked, and the
        distribution is a mixture of narrow normals around them.
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
        dist = _of_members(estimator, inputs)
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
            f"{name_of(nested.estimator)} offers no distribution of its function: it has no method "
            "predict_latent."
        )
    return nested.invert_target(nested.estimator.predict_latent(nested.transform(X)))


def predict_log_proba(model: Any, X: Any) -> Any:
    """Log probabilities (n, C) of a fitted classifier, however it is nested; finite."""
    nested = unwrap(model)
    if hasattr(nested.estimator, "predict_log_proba"):
        return nested.estimator.predict_log_proba(nested.transform(X))
    return floored_log(np.asarray(predict_dist(model, X)))


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
            f"return_cov asks for the covariance over rows, which {name_of(model)} does not have; "
            "predict_dist(X).cov() is the covariance over the outputs of each row"
        )
    mean, cov = estimator.predict(nested.transform(X), return_cov=True)
    return mean, cov


def sample_joint(model: Any, X: Any, n_samples: int, random_state: Any) -> Any:
    """Draws of y that are joint over the rows of X, from a fitted model, however it is nested.

    Raises
    ------
    NotImplementedError
        If the innermost estimator has no `sample_y`.
    """
    nested = unwrap(model)
    if not hasattr(nested.estimator, "sample_y"):
        raise NotImplementedError(
            f"sample_y asks for the joint distribution over rows, which {name_of(model)} does not "
            "have; predict_dist(X).rvs(n_samples) draws each row for itself"
        )
    draws = nested.estimator.sample_y(nested.transform(X), n_samples, random_state=random_state)
    return nested.invert_draws(draws)


def _of_members(model: Any, X: Any) -> Any:
    """The distribution of an ensemble from those of its members, or what another regressor says."""
    # They come with many modules, which `import skgp` does not need.
    from sklearn.ensemble import BaggingRegressor, StackingRegressor, VotingRegressor

    if isinstance(model, BaggingRegressor):
        return _mixture_of_bag(model, X)
    if isinstance(model, VotingRegressor):
        return _mixture_of_voters(model, X)
    if isinstance(model, StackingRegressor):
        return _of_final_estimator(model, X)
    return foreign_distribution(model, X)


def _mixture_of_voters(model: Any, X: Any) -> Any:
    check_is_fitted(model)
    if model.weights is not None:
        raise TypeError("VotingRegressor offers a predictive distribution only if weights=None")
    keep_functions(model, model)  # members may have been fitted in other processes
    return mix([predict_dist(member, X) for member in model.estimators_])


def _mixture_of_bag(model: Any, X: Any) -> Any:
    check_is_fitted(model)
    # Members were fitted on an array, of some of its columns, so they cannot check their names.
    X = validate_data(
        model, X, accept_sparse=["csr", "csc"], dtype=None, ensure_all_finite=False, reset=False
    )
    keep_functions(model, model)
    chosen = zip(model.estimators_, model.estimators_features_, strict=True)
    return mix([predict_dist(member, X[:, columns]) for member, columns in chosen])


def _of_final_estimator(model: Any, X: Any) -> Any:
    """The distribution of y given the means that the other estimators predict."""
    means = model.transform(X)
    try:
        return predict_dist(model.final_estimator_, means)
    except TypeError as error:
        raise TypeError(
            f"{name_of(model)} has the predictive distribution of its final estimator: {error} Set "
            "final_estimator to a regressor that has one, such as BayesianRidge()."
        ) from error
