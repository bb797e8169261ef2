"""Draws of the GPs of a layer as functions: Fourier features of the prior, and a pathwise update."""

import copy
import math
from typing import Any, Final

import torch
from torch import Tensor

from skgp.core.layers.layer import Layer

N_FEATURES: Final = 1024  # pairs of a sine and a cosine, of each draw of each GP
_BLOCK: Final = 4_000_000  # numbers of a block of features, one row at least


class PriorFunctions:
    """S draws of each of W GPs with mean zero and unit variance, as sums of waves.

    Each draw has frequencies of its own. So the mean and the covariance of the draws are exactly
    those of the GP; a single draw is normal only in the limit of many features.

    Parameters
    ----------
    layer : Layer
    n_samples : int
        Number S.
    generator : torch.Generator
    n_features : int
        Number F of frequencies.
    """

    def __init__(
        self, layer: Layer, n_samples: int, generator: torch.Generator, n_features: int
    ) -> None:
        size = n_samples, len(layer.mean), n_features, layer.n_inputs
        self.frequency = layer.kernel.draw_frequencies(size, generator).detach()
        # a cos(w^T x) + b sin(w^T x) = |(a, b)| cos(w^T x - phase), with normal a and b
        a, b = torch.randn((2, *size[:3]), generator=generator, dtype=self.frequency.dtype)
        self.amplitude = (torch.hypot(a, b) / math.sqrt(n_features)).to(self.frequency)
        self.phase = torch.atan2(b, a).to(self.frequency)

    def __call__(self, x: Tensor) -> Tensor:
        """Values (S, W, N) at x (S or 1, W or 1, N, D)."""
        size = max(1, _BLOCK // self.phase.numel())
        return torch.cat([self._of_chunk(part) for part in x.split(size, -2)], -1)

    def _of_chunk(self, x: Tensor) -> Tensor:
        waves = (self.frequency @ x.mT - self.phase.unsqueeze(-1)).cos()
        return (self.amplitude.unsqueeze(-2) @ waves).squeeze(-2)


class LayerFunctions:
    """S draws of the W functions of a layer, without gradients in the layer's parameters.

    Parameters
    ----------
    layer : Layer
        Of a kernel whose spectral density is known.
    factors
        Of the layer; None for draws from the prior.
    n_samples : int
    generator : torch.Generator
    n_features : int
        Number F of frequencies of each draw of each GP.
    """

    def __init__(
        self,
        layer: Layer,
        factors: Any,
        n_samples: int,
        generator: torch.Generator,
        n_features: int = N_FEATURES,
    ) -> None:
        self.kernel = copy.deepcopy(layer.kernel).requires_grad_(False)
        self.mean = layer.mean.detach().clone()
        self.slope = None if layer.slope is None else layer.slope.detach().clone()
        self.prior = PriorFunctions(layer, n_samples, generator, n_features)
        self.bases = []
        if factors is not None:
            with torch.no_grad():
                self.bases = layer.unit_update(self.prior, factors, generator)

    def __call__(self, x: Tensor, x_mean: Tensor) -> Tensor:
        """Values (S, N, W) at x (S or 1, N, D); a linear prior mean sees x_mean (S or 1, N, _)."""
        f = self.prior(x.unsqueeze(1))
        for centres, weights in self.bases:
            Kuf = self.kernel.Kuf(centres, x.flatten(0, 1)).unflatten(-1, x.shape[:2])
            f = f + torch.einsum("swm,wmsn->swn", weights, Kuf)
        values = self.mean + (self.kernel.variance.sqrt().unsqueeze(-1) * f).mT
        return values if self.slope is None else values + x_mean @ self.slope
