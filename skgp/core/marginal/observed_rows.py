"""Training rows of the full-batch models; each GP may have observed only some of them."""

from typing import NamedTuple

import torch
from torch import Tensor


class ObservedRows(NamedTuple):
    """Weighted rows with a target for each of W GPs.

    Attributes
    ----------
    x : Tensor of shape (n, D)
    y : Tensor of shape (W, n)
        Targets of each GP; any number where missing.
    weight : Tensor of shape (n,)
    mask : Tensor of shape (W, n) or None
        One where a target is observed, zero where it is missing; None if nothing is missing.
    known_noise : Tensor of shape (W, n) or None
        Variances of noise that the targets have beside the learned one, zero where missing; None if
        there is none.
    """

    x: Tensor
    y: Tensor
    weight: Tensor
    mask: Tensor | None = None
    known_noise: Tensor | None = None

    def residuals_and_counts(self, mean: Tensor) -> tuple[Tensor, Tensor]:
        """Residuals y - mean, and how often each counts; zero where a target is missing.

        Parameters
        ----------
        mean : Tensor of shape (W,)
            Constant prior means.

        Returns
        -------
        residual, count : Tensor of shape (W, n)
        """
        y, weight = self.y, self.weight
        count = weight.expand_as(y) if self.mask is None else weight * self.mask
        return torch.where(count > 0, y - mean.unsqueeze(-1), 0.0), count

    def all_noise(self, noise_var: Tensor) -> Tensor:
        """Noise variances (W, n) or (W, 1) of the targets, learned ones (W,) and known ones."""
        learned = noise_var.unsqueeze(-1)
        return learned if self.known_noise is None else learned + self.known_noise
