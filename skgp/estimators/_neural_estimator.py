"""What the models with hidden units share: their number, their activation, and where they start."""

from numbers import Integral
from typing import Any, ClassVar, Final

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from skgp.core.activations import ACTIVATIONS
from skgp.core.kernels import Kernel
from skgp.core.layers import SparseLayer, certain
from skgp.core.units import NeuralUnits, Units
from skgp.estimators._readout_estimator import ReadoutEstimator
from skgp.estimators._setup import Setup

_BIAS_VAR: Final = 1e-5  # where the variances of q(b) start
_RIDGE: Final = 1e-2  # of the regression of the outputs on the units, per row


class NeuralEstimator(ReadoutEstimator):
    """Abstract base: y = M g(W f + b) + e, where the latent functions have no prior mean."""

    # Parameters that every family stores in its constructor.
    n_hidden: int | None
    activation: str

    _hidden_per_output: ClassVar[int]  # what n_hidden=None means

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ReadoutEstimator._parameter_constraints,
        "n_hidden": [Interval(Integral, 1, None, closed="left"), None],
        "activation": [StrOptions(set(ACTIVATIONS))],
    }

    def _units(self, setup: Setup, latent: Tensor, mixing: Tensor) -> tuple[Units, Tensor]:
        n_hidden, n_latents = self._n_units(len(mixing)), latent.shape[1]
        generator = torch.Generator().manual_seed(setup.seed)
        weight = torch.randn(n_hidden, n_latents, generator=generator, dtype=latent.dtype)
        bias = torch.randn(n_hidden, generator=generator, dtype=latent.dtype)
        units = NeuralUnits(ACTIVATIONS[self.activation], weight, bias, _BIAS_VAR)
        # The units are to make of the latent functions what their linear mixing would.
        with torch.no_grad():
            h = units.mean(certain(latent))
        weighted = h.mT * (setup.observed_weight / setup.observed_weight.sum())
        gram = weighted @ h + _RIDGE * torch.eye(n_hidden, dtype=h.dtype)
        start = torch.linalg.solve(gram, weighted @ (latent @ mixing.mT)).mT
        return units, start

    def _n_units(self, n_outputs: int) -> int:
        return self._hidden_per_output * n_outputs if self.n_hidden is None else self.n_hidden

    def _n_noise(self, n_outputs: int) -> int:
        return super()._n_noise(n_outputs) + self._n_units(n_outputs)

    def _layer(self, kernel: Kernel, setup: Setup, features: Tensor, n_gps: int) -> SparseLayer:
        layer = super()._layer(kernel, setup, features, n_gps)
        layer.mean.requires_grad_(False)  # the biases of the units suffice
        return layer
