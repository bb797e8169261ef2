"""Fitted attributes of estimators whose model is a stack of GP layers, as functions."""

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from skgp.core.layers.sparse import SparseGP, SparseLayer
from skgp.core.nodes.sigma_points import Quadrature
from skgp.fitting.model import Model
from skgp.fitting.table import Array


def stack(estimator: Any) -> torch.nn.Module:
    """The layers, a torch module in float64."""
    layers: torch.nn.Module = _model(estimator).stack
    return layers


def lengthscales(estimator: Any) -> Array:
    """Lengthscales of the first layer, (D,) or (W, D) for W functions, in units of X.

    With a feature extractor they are those of its features.
    """
    model = _model(estimator)
    lengthscale: Array = model.stack.bottom.kernel.lengthscale.detach().cpu().numpy()
    if not model.stack.has_features:
        # Latent covariates, if the layer sees any, come after the columns of X.
        lengthscale = lengthscale[:, : len(model.x_scale.unit)] * model.x_scale.unit
    return _squeezed(estimator, lengthscale)


def inducing_points(estimator: Any) -> Array:
    """Inducing inputs of the first layer, (M, D) or (W, M, D) for W functions, in units of X.

    With a feature extractor they are points among its features.
    """
    if "n_inducing" not in estimator.get_params(deep=False):
        raise AttributeError(f"{type(estimator).__name__} has no inducing inputs")
    model = _model(estimator)
    layer = model.stack.bottom
    assert isinstance(layer, SparseLayer)
    Z: Array = layer.Z.detach().cpu().numpy()
    if not model.stack.has_features:
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
