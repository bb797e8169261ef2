"""What estimators whose model is a stack of GP layers have in common after a fit, as functions."""

from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_is_fitted

from skgp.core.layers.sparse import SparseGP, SparseLayer
from skgp.core.networks.warping import InputWarp
from skgp.core.nodes.sigma_points import Quadrature
from skgp.fitting.functions import FunctionDraws
from skgp.fitting.model import Model
from skgp.fitting.posterior import FunctionPosterior
from skgp.fitting.table import Array


def stack(estimator: Any) -> torch.nn.Module:
    """The layers, a torch module in float64."""
    layers: torch.nn.Module = _model(estimator).stack
    return layers


def lengthscales(estimator: Any) -> Array:
    """Lengthscales of the first layer, (D,) or (W, D) for W functions, in units of X.

    With a feature extractor they are those of its features, with a power transform those at the
    mean of the column. Where several parts of a gpytorch kernel see a column, it is the smallest
    of theirs, NaN if none of them has any; it is infinite for columns that no part sees.
    """
    model = _model(estimator)
    kernel = model.stack.bottom.kernel
    warp = _warp(model)
    if warp is None and model.stack.has_features:
        return _squeezed(estimator, kernel.lengthscale.detach().cpu().numpy())
    # Latent covariates, if the layer sees any, come after the columns of X.
    of_columns = kernel.lengthscales(len(model.x_scale.unit))
    lengthscale: Array = of_columns.detach().cpu().numpy() * model.x_scale.unit
    if warp is not None:
        lengthscale = lengthscale / warp.slope().cpu().numpy()
    return _squeezed(estimator, lengthscale)


def input_powers(estimator: Any) -> Array:
    """Powers (D,) of the transforms of the columns of X; one where the kernel sees the column."""
    model = _model(estimator)
    warp = _warp(model)
    if warp is None:
        return np.ones(len(model.x_scale.unit))
    return np.asarray(warp.power.double().cpu().numpy().round(1))  # tenths, perhaps in float32


def _warp(model: Model) -> InputWarp | None:
    """What is between the scaled inputs and the kernel of a model without a feature extractor."""
    features = model.stack.features
    return features if isinstance(features, InputWarp) else None


def inducing_points(estimator: Any) -> Array:
    """Inducing inputs of the first layer, (M, D) or (W, M, D) for W functions, in units of X.

    With a feature extractor they are points among its features.
    """
    if "n_inducing" not in estimator.get_params(deep=False):
        raise AttributeError(f"{type(estimator).__name__} has no inducing inputs")
    model = _model(estimator)
    layer = model.stack.bottom
    assert isinstance(layer, SparseLayer)
    inducing, warp = layer.Z.detach(), _warp(model)
    if warp is not None:
        D = len(model.x_scale.unit)
        inducing = torch.cat([warp.inverse(inducing[..., :D]), inducing[..., D:]], -1)
    Z: Array = inducing.cpu().numpy().copy()  # a user may change it
    if warp is not None or not model.stack.has_features:
        Z = Z[..., : len(model.x_scale.unit)] * model.x_scale.unit + model.x_scale.offset
    return _squeezed(estimator, Z)


def noise_variance(estimator: Any) -> float | Array:
    """Variance of the observation noise in squared units of y: a float or an array (P,)."""
    fitted = estimator._snapshot()
    likelihood = fitted.model_.likelihood
    if not hasattr(likelihood, "noise_var"):
        name = type(likelihood).__name__
        raise AttributeError(f"the {name} likelihood has no noise of one variance")
    noise_var = likelihood.noise_var.detach().cpu().numpy()
    variance: Array = noise_var * fitted.model_.y_scale.unit**2
    return float(variance[0]) if not fitted._output_shape else variance


def likelihood_parameters(estimator: Any) -> dict[str, float]:
    """What a likelihood other than the normal one has learned, by name, in units of y.

    "dof" and "scale" of Student's t distribution, "dispersion" of the negative binomial one.
    """
    fitted = estimator._snapshot()
    learned: dict[str, float] = fitted.model_.likelihood.parameters_in(
        fitted.model_.y_scale.unit[0]
    )
    return learned


def class_parameters(estimator: Any) -> dict[str, Array]:
    """What the likelihood of a classifier has learned, by name."""
    learned = _model(estimator).likelihood.learned
    return {name: value.detach().cpu().numpy() for name, value in learned.items()}


def beta_reg(estimator: Any) -> float:
    """Weight of the divergences in the fit."""
    check_is_fitted(estimator)
    weight: float = estimator._beta_reg
    return weight


def quadrature_points(estimator: Any) -> Array:
    """Standardised nodes of the hidden functions, (n_layers - 1, Q, W)."""
    xi = _rule(estimator)(1).xi
    return np.stack([points[:, 0].detach().cpu().numpy() for points in xi])


def quadrature_weights(estimator: Any) -> Array:
    """Weights (Q,) of the components of a prediction; they sum to one."""
    weights: Array = _rule(estimator).log_weights().exp().detach().cpu().numpy()
    return weights


def _model(estimator: Any) -> Model:
    check_is_fitted(estimator)
    model: Model = estimator.model_
    return model


def _rule(estimator: Any) -> Quadrature:
    rule = _model(estimator).nodes
    assert isinstance(rule, Quadrature)
    return rule


def _squeezed(estimator: Any, values: Array) -> Array:
    """Without the axis of the first layer's functions where there is only one by design."""
    layers = _model(estimator).stack
    alone = layers.bottom is layers.top and not estimator._output_shape
    shared = isinstance(layers.bottom, SparseGP) and layers.bottom.is_shared
    return values[0] if alone or shared else values


def posterior(self: Any) -> FunctionPosterior:
    """Moments of the noiseless function f at torch tensors of rows, with gradients in them.

    Returns
    -------
    FunctionPosterior
        Its `mean_and_std` and `mean_and_cov` take rows in the units of X, in batches of any shape,
        and return tensors in the units of y.
    """
    fitted = self._snapshot()
    return FunctionPosterior(fitted.model_, fitted._output_shape)


def sample_functions(self: Any, n_samples: int = 1, random_state: Any = 0) -> FunctionDraws:
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
    return _draw_functions(self, n_samples, random_state, prior=False)


def sample_prior_functions(self: Any, n_samples: int = 1, random_state: Any = 0) -> FunctionDraws:
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
    return _draw_functions(self, n_samples, random_state, prior=True)


def _draw_functions(self: Any, n_samples: int, random_state: Any, *, prior: bool) -> FunctionDraws:
    fitted = self._snapshot()
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    model = fitted.model_
    if not model.has_gp_outputs:
        between = "a readout or latent covariates stand"
        if model.has_gp_latents:
            between = f"the {type(model.likelihood).__name__} likelihood stands"
        raise NotImplementedError(
            f"{type(self).__name__} cannot be drawn as a function of x: {between} between its GPs "
            "and y; predict_dist(X).rvs() draws rows"
        )
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    shape = fitted._output_shape
    names = getattr(fitted, "feature_names_in_", None)
    return FunctionDraws(model, shape, int(n_samples), seed, prior=prior, names=names)
