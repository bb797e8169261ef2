"""Joint distributions over rows of the estimators whose model has them."""

from numbers import Integral
from typing import Any

from sklearn.utils import check_random_state, check_scalar

from skgp.fitting.draws import joint_draws
from skgp.fitting.joint import joint_covariance
from skgp.fitting.table import Array


def sample_y(estimator: Any, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
    """Draws of y, noise included: joint over rows and outputs, as in scikit-learn.

    A draw is one function at all rows, plus the noise of each row. Up to 1,000 rows it comes from
    their joint distribution. For more rows, and for models that sample their hidden functions, it
    comes from draws of functions. `predict_dist(X).rvs(n_samples)` draws each row for itself,
    which is faster.

    Parameters
    ----------
    X : array-like of shape (n, D)
    n_samples : int
    random_state : int, RandomState or None

    Returns
    -------
    array of shape (n, n_samples) or (n, P, n_samples)

    Raises
    ------
    NotImplementedError
        If the model is not one of GP layers alone: if it has a readout, latent covariates or no
        GPs; or if functions are to be drawn of a kernel without a known spectral density.
    """
    fitted = estimator._snapshot()
    X = fitted._inputs(X)
    check_scalar(n_samples, "n_samples", Integral, min_val=0)
    if not fitted.model_.has_gp_latents:
        raise NotImplementedError(
            f"sample_y asks for the joint distribution over rows, which {type(estimator).__name__} "
            "does not have; predict_dist(X).rvs(n_samples) draws each row for itself"
        )
    rng, shape = check_random_state(random_state), fitted._output_shape
    return joint_draws(fitted.model_, X, int(n_samples), rng, shape, fitted._observed)


def covariance_over_rows(estimator: Any, X: Any) -> Array:
    """Covariance of y over the rows of X, noise included."""
    fitted = estimator._snapshot()
    model, name = fitted.model_, type(estimator).__name__
    if not model.has_gp_outputs:
        if model.has_gp_latents:
            name += f" with the {type(model.likelihood).__name__} likelihood"
        raise NotImplementedError(
            f"return_cov asks for the covariance over rows, which {name} does not have; "
            "predict_dist(X).cov() is the covariance over the outputs of each row"
        )
    return joint_covariance(model, fitted._inputs(X), fitted._output_shape)
