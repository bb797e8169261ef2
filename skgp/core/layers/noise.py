"""Noise whose density is a mixture of normals."""

import math
from typing import Final, NamedTuple

import torch
from torch import Tensor

from skgp.core.layers.layer import DrawnLatent, Latent


class MixtureNoise(NamedTuple):
    """Noise of mean zero with K normal components, relative to that of a likelihood.

    Attributes
    ----------
    weights : tuple of float
        Of the components; their sum is one.
    shifts : tuple of float
        Their means, in standard deviations of the noise of the likelihood.
    ratios : tuple of float
        Their variances, in variances of that noise.
    """

    weights: tuple[float, ...] = (1.0,)
    shifts: tuple[float, ...] = (0.0,)
    ratios: tuple[float, ...] = (1.0,)

    @property
    def variance(self) -> float:
        """In variances of the noise of the likelihood."""
        parts = zip(self.weights, self.shifts, self.ratios, strict=True)
        return sum(weight * (ratio + shift**2) for weight, shift, ratio in parts)

    def scaled(self, ratio: float) -> "MixtureNoise":
        """The same with so many times the variance."""
        shifts = tuple(math.sqrt(ratio) * shift for shift in self.shifts)
        return self._replace(shifts=shifts, ratios=tuple(ratio * each for each in self.ratios))

    def log_weights(self, log_omega: Tensor) -> Tensor:
        """Log-weights (Q K,) of the nodes that `split` gives, from those of the nodes (Q,)."""
        return (log_omega.unsqueeze(-1) + log_omega.new_tensor(self.weights).log()).flatten()

    def split(self, latent: Latent) -> Latent:
        """Each of Q nodes K times, with the noise of a component; those of a node in a row."""
        if self == NORMAL_NOISE:
            return latent
        n_nodes, n = len(latent.f_mean), len(self.weights)
        f_mean, v_prior, v_q = (part.repeat_interleave(n, 0) for part in latent)
        ratio, shift = (
            (torch.ones_like(latent.f_mean[:, :1, :1]) * part).repeat_interleave(n, 0)
            for part in (latent.noise_ratio, latent.noise_shift)
        )
        shifts, ratios = (
            ratio.new_tensor(part * n_nodes)[:, None, None] for part in (self.shifts, self.ratios)
        )
        return DrawnLatent(f_mean, v_prior, v_q, ratio * ratios, shift + ratio.sqrt() * shifts)


NORMAL_NOISE: Final = MixtureNoise()
