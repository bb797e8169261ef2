"""What estimators whose model is a stack of GP layers have in common after a fit, as functions."""

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from skgp._typing import Array
from skgp.core.layers.sparse import SparseGP, SparseLayer
from skgp.core.networks.warping import InputWarp
from skgp.core.nodes.sigma_points import Quadrature
from skgp.fitting.model import Model


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
    fitted = estimator._snapshot()
    model: Model = fitted.model_
    kernel = model.stack.bottom.kernel
    warp = _warp(model)
    if warp is None and model.stack.has_features:
        return _squeezed(fitted, kernel.lengthscale.detach().cpu().numpy())
    # Latent covariates, if the layer sees any, come after the columns of X.
    of_columns = kernel.lengthscales(len(model.x_scale.unit))
    lengthscale: Array = of_columns.detach().cpu().numpy() * model.x_scale.unit
    if warp is not None:
        lengthscale = lengthscale / warp.slope().cpu().numpy()
    return _squeezed(fitted, lengthscale)


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
    fitted = estimator._snapshot()
    model: Model = fitted.model_
    layer = model.stack.bottom
    if not isinstance(layer, SparseLayer):
        raise AttributeError(f"{type(estimator).__name__} has no inducing inputs")
    inducing, warp = layer.Z.detach(), _warp(model)
    if warp is not None:
        D = len(model.x_scale.unit)
        inducing = torch.cat([warp.inverse(inducing[..., :D]), inducing[..., D:]], -1)
    Z: Array = inducing.cpu().numpy().copy()  # a user may change it
    if warp is not None or not model.stack.has_features:
        Z = Z[..., : len(model.x_scale.unit)] * model.x_scale.unit + model.x_scale.offset
    return _squeezed(fitted, Z)


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


def stacking_weights(estimator: Any) -> Array:
    """Weights (2,) of the trained model and of the untrained GP in predictions; they sum to one."""
    check_is_fitted(estimator)
    share: float = estimator._trained_share
    return np.array([share, 1.0 - share])


def copy_probability(estimator: Any) -> float:
    """Probability that a row repeats the target of training rows with the same inputs."""
    copies = _model(estimator).copies
    return 0.0 if copies is None else copies.probability


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


def _squeezed(fitted: Any, values: Array) -> Array:
    """Without the axis of the first layer's functions where there is only one by design."""
    layers = fitted.model_.stack
    alone = layers.bottom is layers.top and not fitted._output_shape
    shared = isinstance(layers.bottom, SparseGP) and layers.bottom.is_shared
    return values[0] if alone or shared else values
