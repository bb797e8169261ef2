"""What the Gaussian process estimators share beyond training: kernels, features, centres."""

import math
from numbers import Integral, Real
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import Interval, StrOptions

from skgp.core.features import FeatureExtractor, make_features, start_features
from skgp.core.kernels import PROFILES, GPyTorchBase, Kernel, KernelLike
from skgp.core.layers import SparseGP, SparseLayer
from skgp.estimators._model import StackModel
from skgp.estimators._setup import Setup
from skgp.estimators._table import Array
from skgp.estimators._trained_estimator import TrainedEstimator
from skgp.estimators._validation import check_sizes

INITIAL_NOISE = math.exp(-2.0)  # in units of the variance of y


class GPEstimator(TrainedEstimator):
    """Abstract base of the estimators whose model is a stack of GP layers."""

    # Parameters that every family stores in its constructor.
    kernel: KernelLike
    feature_extractor: FeatureExtractor | None
    weight_decay: float
    jitter: float

    model_: StackModel

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TrainedEstimator._parameter_constraints,
        "kernel": [StrOptions(set(PROFILES)), GPyTorchBase],
        "feature_extractor": [None, StrOptions({"dkl", "deep-kernel"}), "array-like", callable],
        "weight_decay": [Interval(Real, 0, 1e15, closed="both")],
        "jitter": [Interval(Real, 0, 1, closed="right")],
    }

    # --------------------------------------------------- fitted attributes

    @property
    def stack_(self) -> torch.nn.Module:
        """The layers, a torch module in float64."""
        return self._fitted_model().stack

    @property
    def lengthscales_(self) -> Array:
        """Lengthscales of the first layer, (D,) or (W, D) for W functions, in units of X.

        With a feature extractor they are those of its features.
        """
        model = self._fitted_model()
        lengthscale: Array = model.stack.bottom.kernel.lengthscale.detach().cpu().numpy()
        if not model.stack.has_features:
            # Latent covariates, if the layer sees any, come after the columns of X.
            lengthscale = lengthscale[:, : len(model.x_scale.unit)] * model.x_scale.unit
        return self._squeeze(lengthscale)

    # ------------------------------------------------------------- helpers

    def _fitted_model(self) -> StackModel:
        super()._fitted_model()
        return self.model_

    def _squeeze(self, values: Array) -> Array:
        """Without the axis of the first layer's functions where there is only one by design."""
        stack = self._fitted_model().stack
        alone = stack.bottom is stack.top and not self._output_shape
        shared = isinstance(stack.bottom, SparseGP) and stack.bottom.is_shared
        return values[0] if alone or shared else values

    def _features(self, setup: Setup) -> tuple[torch.nn.Module | None, torch.Tensor]:
        """The network of a deep kernel, or None, and the features (n, F) of the setup's rows."""
        if self.feature_extractor is None:
            return None, setup.x
        extractor = self.feature_extractor
        if not isinstance(extractor, str) and not callable(extractor):
            extractor = check_sizes("feature_extractor", extractor)
        features = make_features(extractor, setup.x.shape[1], setup.seed).double()
        return features, start_features(features, setup.x)


class InducingEstimator(GPEstimator):
    """Abstract base of the estimators with inducing inputs."""

    n_inducing: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GPEstimator._parameter_constraints,
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
    }

    @property
    def inducing_points_(self) -> Array:
        """Inducing inputs of the first layer, (M, D) or (W, M, D) for W functions, in units of X.

        With a feature extractor they are points among its features.
        """
        model = self._fitted_model()
        layer = model.stack.bottom
        assert isinstance(layer, SparseLayer)
        Z: Array = layer.Z.detach().cpu().numpy()
        if not model.stack.has_features:
            Z = Z[..., : len(model.x_scale.unit)] * model.x_scale.unit + model.x_scale.offset
        return self._squeeze(Z)


def each_gp(kernel: Kernel, Z: torch.Tensor) -> torch.Tensor:
    """Inducing inputs (M, F) for each GP of a kernel, (W, M, F)."""
    return Z.expand(len(kernel.variance), -1, -1).clone()
