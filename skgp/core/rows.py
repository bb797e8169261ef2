"""Weighted rows of which each GP may have observed a part."""

import torch
from torch import Tensor


def residuals_and_counts(
    y: Tensor, mean: Tensor, weight: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Residuals y - mean, and how often each counts; zero where a target is missing.

    Parameters
    ----------
    y : Tensor of shape (W, n)
        Targets of each GP; anything where missing.
    mean : Tensor of shape (W,)
        Constant prior means.
    weight : Tensor of shape (n,)
    mask : Tensor of shape (W, n) or None
        One where a target is observed, zero where it is missing; None if nothing is missing.

    Returns
    -------
    residual, count : Tensor of shape (W, n)
    """
    count = weight.expand_as(y) if mask is None else weight * mask
    return torch.where(count > 0, y - mean.unsqueeze(-1), 0.0), count
