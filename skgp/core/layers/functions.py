"""Draws of the GPs of a layer as functions: waves for the prior, and a pathwise update."""

import copy
import math
from typing import Any, Final

import torch
from torch import Tensor

from skgp.core.layers.layer import Layer

N_FEATURES: Final = 1024  # pairs of a sine and a cosine, of each draw of each GP
_BLOCK: Final = 400_000  # waves at a time, which fit in the cache


class PriorFunctions:
    """S draws of each of W GPs with mean zero and unit variance, as sums of waves.

    Each draw has frequencies of its own. So mean and covariance over draws are exactly those of the
    GP, whatever the number F of frequencies is. Given its frequencies a draw is normal, with a
    kernel that misses that of the GP by a standard error of at most 1 / sqrt(F). Enough waves are
    short for draws to spread where near rows leave little unexplained.

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
        w, weight = layer.kernel.draw_frequencies(size, generator)
        self.frequency = w.detach()
        # a cos(w^T x) + b sin(w^T x) = |(a, b)| cos(w^T x - phase), with normal a and b
        a, b = torch.randn((2, *size[:3]), generator=generator, dtype=self.frequency.dtype)
        amplitude = torch.hypot(a, b) / math.sqrt(n_features)
        self.amplitude = amplitude.to(self.frequency) * weight.sqrt()
        self.phase = torch.atan2(b, a).to(self.frequency)

    def __call__(self, x: Tensor) -> Tensor:
        """Values (S, W, N) at x (S or 1, W or 1, N, D)."""
        n_draws, n_gps, n_features = self.phase.shape
        rows = min(x.shape[-2], max(1, _BLOCK // (n_gps * n_features)))
        draws = max(1, _BLOCK // (n_gps * n_features * rows))
        own = x.expand(n_draws, -1, -1, -1), self.frequency, self.phase, self.amplitude
        parts = []
        for x_own, *waves in zip(*(of_all.split(draws) for of_all in own), strict=True):
            chunks = [_sum_of_waves(chunk, *waves) for chunk in x_own.split(rows, -2)]
            parts.append(torch.cat(chunks, -1))
        return torch.cat(parts)


def _sum_of_waves(x: Tensor, frequency: Tensor, phase: Tensor, amplitude: Tensor) -> Tensor:
    waves = (x @ frequency.mT).sub_(phase.unsqueeze(-2)).cos()
    return (waves @ amplitude.unsqueeze(-1)).squeeze(-1)


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
        self.layer = copy.deepcopy(layer).requires_grad_(False)
        self.prior = PriorFunctions(layer, n_samples, generator, n_features)
        self.bases = []
        if factors is not None:
            with torch.no_grad():
                self.bases = layer.unit_update(self.prior, factors, generator)

    def __call__(self, x: Tensor, x_mean: Tensor) -> Tensor:
        """Values (S, N, W) at x (S or 1, N, D); the prior mean sees x_mean (S or 1, N, _)."""
        f = self.prior(x.unsqueeze(1))
        for centres, weights in self.bases:
            Kuf = self.layer.kernel.Kuf(centres, x.flatten(0, 1)).unflatten(-1, x.shape[:2])
            f = f + torch.einsum("swm,wmsn->swn", weights, Kuf)
        values = (self.layer.kernel.variance.sqrt().unsqueeze(-1) * f).mT
        return self.layer.mean + values + self.layer.trend(x_mean)
