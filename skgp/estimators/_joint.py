"""Joint distributions over rows, and functions, of the estimators whose model has them."""

from numbers import Integral
from typing import Any

from sklearn.utils import check_random_state, check_scalar

from skgp._typing import Array
from skgp.core.numerics.draws import draw_seed
from skgp.core.numerics.gradients import recorded_gradients
from skgp.fitting.draws import joint_draws
from skgp.fitting.functions import FunctionDraws
from skgp.fitting.joint import joint_covariance
from skgp.fitting.posterior import FunctionPosterior


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


def posterior(estimator: Any) -> FunctionPosterior:
    """Moments of the noiseless function f at torch tensors of rows, with gradients in them.

    Returns
    -------
    FunctionPosterior
        Its `mean_and_std` and `mean_and_cov` take rows in the units of X, in batches of any shape,
        and return tensors in the units of y.
    """
    fitted = estimator._snapshot()
    with recorded_gradients():
        return FunctionPosterior(fitted.model_, fitted._output_shape)


def sample_functions(estimator: Any, n_samples: int = 1, random_state: Any = 0) -> FunctionDraws:
    """Draws of the noiseless function f from its posterior, each one a function of x.

    A draw gives the same values in every call, and its values at two rows are as alike as f is
    there. `sample_y` draws values at given rows, noise included.

    Parameters
    ----------
    n_samples : int
        Number S of functions.
    random_state : int, RandomState or None

    Returns
    -------
    FunctionDraws
        Called with X (n, D) it returns an array of shape (n, S) or (n, P, S), in the units of
        y; its `evaluate` takes tensors and has gradients.

    Raises
    ------
    NotImplementedError
        If the model is not one of GP layers and normal noise alone: if it has a readout, latent
        covariates or another likelihood (bounds of censored targets are fine); or if a kernel that
        functions are drawn for has no known spectral density.
    """
    return _draw_functions(estimator, n_samples, random_state, prior=False)


def sample_prior_functions(
    estimator: Any, n_samples: int = 1, random_state: Any = 0
) -> FunctionDraws:
    """As `sample_functions`, from the prior with the hyper-parameters of the fit.

    All layers are drawn from their priors: the targets have a say in hyper-parameters and prior
    means alone.

    Parameters
    ----------
    n_samples : int
    random_state : int, RandomState or None

    Returns
    -------
    FunctionDraws

    Raises
    ------
    NotImplementedError
        As `sample_functions`.
    """
    return _draw_functions(estimator, n_samples, random_state, prior=True)


def _draw_functions(
    estimator: Any, n_samples: int, random_state: Any, *, prior: bool
) -> FunctionDraws:
    fitted = estimator._snapshot()
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    model = fitted.model_
    if not model.has_gp_outputs:
        between = "a readout or latent covariates stand"
        if model.has_gp_latents:
            between = f"the {type(model.likelihood).__name__} likelihood stands"
        raise NotImplementedError(
            f"{type(estimator).__name__} cannot be drawn as a function of x: {between} between its "
            "GPs and y; predict_dist(X).rvs() draws rows"
        )
    seed = draw_seed(check_random_state(random_state))
    shape = fitted._output_shape
    names = getattr(fitted, "feature_names_in_", None)
    with recorded_gradients():
        return FunctionDraws(model, shape, int(n_samples), seed, prior=prior, names=names)
