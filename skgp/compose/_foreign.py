"""What regressors of other packages say of the distribution of y."""

import inspect
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from skgp.distributions import NormalMixture

_DISTRIBUTION_METHODS: Final = ("mean", "std", "cdf", "ppf", "logpdf")
_LEVELS: Final = (np.arange(99) + 0.5) / 99
_NARROWEST: Final = 1e-2  # of the standard deviation of the quantiles of a row


def foreign_distribution(model: Any, X: Any) -> Any:
    """Predictive distribution of a fitted regressor without a method `predict_dist`.

    Parameters
    ----------
    model : fitted estimator
    X : array-like of shape (n, D)

    Raises
    ------
    TypeError
        If it offers none; the message names its class.
    """
    from sklearn.multioutput import MultiOutputRegressor, RegressorChain

    if isinstance(model, MultiOutputRegressor | RegressorChain):
        raise TypeError(
            f"{name_of(model)} offers no predictive distribution: regressors of skgp take a y of "
            "several columns without it."
        )
    if hasattr(model, "pred_dist"):
        return _of_ngboost(model, X)
    arguments = _arguments_of_predict(model)
    if "return_std" in arguments:
        return NormalMixture.normal(*model.predict(X, return_std=True))
    if "quantiles" in arguments:
        return _of_quantiles(model, X)
    if "prediction_type" in arguments and _loss_of(model) == "RMSEWithUncertainty":
        mean, variance = np.transpose(model.predict(X, prediction_type="RMSEWithUncertainty"))
        return NormalMixture.normal(mean, np.sqrt(variance))
    return _of_proba(model, X)


def name_of(estimator: Any) -> str:
    """Class of an estimator, or what stands in its place."""
    return estimator if isinstance(estimator, str) else type(estimator).__name__


def between_quantiles(quantiles: ArrayLike) -> NormalMixture:
    """A normal at each of K quantiles at the levels (k - 1/2) / K.

    Its standard deviation is the distance to the nearer neighbour, so that together they are smooth
    where quantiles lie evenly, and hardly wider. Equal quantiles, the atoms of a discrete
    prediction, become peaks of a hundredth of the standard deviation of their row.

    Parameters
    ----------
    quantiles : array-like of shape (n, K)

    Returns
    -------
    NormalMixture of n rows and K components
    """
    q = np.sort(np.asarray(quantiles, dtype=np.float64), axis=1)
    gaps = np.pad(np.diff(q, axis=1), ((0, 0), (1, 1)), mode="edge")
    to_nearer = np.minimum(gaps[:, 1:], gaps[:, :-1])
    floor = np.maximum(_NARROWEST * q.std(axis=1, keepdims=True), 1e-8 * np.abs(q))
    std = np.maximum(to_nearer, np.maximum(floor, np.finfo(np.float64).tiny))
    return NormalMixture(np.zeros(q.shape[1]), q, std)


def _of_ngboost(model: Any, X: Any) -> NormalMixture:
    dist = model.pred_dist(X)
    if type(dist).__name__ != "Normal":
        raise TypeError(
            f"{name_of(model)} offers no predictive distribution that is known here: its "
            f"pred_dist returns a {type(dist).__name__}, not a Normal."
        )
    return NormalMixture.normal(dist.loc, dist.scale)


def _of_quantiles(model: Any, X: Any) -> NormalMixture:
    quantiles = np.asarray(model.predict(X, quantiles=_LEVELS.tolist()))
    if quantiles.ndim != 2 or quantiles.shape[1] != len(_LEVELS):
        raise TypeError(
            f"{name_of(model)} offers no predictive distribution that is known here: its predict "
            f"returns quantiles of shape {quantiles.shape}, not (n, {len(_LEVELS)})."
        )
    return between_quantiles(quantiles)


def _of_proba(model: Any, X: Any) -> Any:
    """What `predict_proba` returns, if that is a distribution."""
    name = name_of(model)
    if not hasattr(model, "predict_proba"):
        raise TypeError(
            f"{name} offers no predictive distribution: it has neither predict_dist nor "
            "predict_proba, and its predict takes neither return_std nor quantiles."
        )
    dist = model.predict_proba(X)
    if not all(callable(getattr(dist, method, None)) for method in _DISTRIBUTION_METHODS):
        raise TypeError(
            f"{name} offers no predictive distribution: its predict_proba returns a "
            f"{type(dist).__name__}."
        )
    return dist


def _arguments_of_predict(model: Any) -> frozenset[str]:
    predict = getattr(model, "predict", None)
    return frozenset() if predict is None else frozenset(inspect.signature(predict).parameters)


def _loss_of(model: Any) -> Any:
    """The loss function that a model of CatBoost was given."""
    return model.get_params().get("loss_function") if hasattr(model, "get_params") else None
