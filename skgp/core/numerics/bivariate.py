"""Integrals of the bivariate normal density over its correlation.

By Price's theorem they are the covariances of functions of two normals: the derivative in the
covariance of E g(x1) g(x2) is E g'(x1) g'(x2), whose value at independence is known. Written this
way, a covariance is not the difference of two large numbers.
"""

import math
from functools import cache
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from skgp.core.numerics.normal import normal_density

_N_NODES: Final = 32


@cache  # moving it to a GPU takes time, and CUDA graphs go on reading it there
def _graded_rule(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Distances from the upper end of [0, 1] and weights of a rule that is dense at that end."""
    x, weights = np.polynomial.legendre.leggauss(_N_NODES)
    root = 0.5 * (1.0 - x)
    with torch.inference_mode(False):
        places, shares = (torch.from_numpy(part) for part in (root**2, root * weights))
        return places.to(device, dtype), shares.to(device, dtype)


def correlation_integrals(h: Tensor, k: Tensor, rho: Tensor) -> tuple[Tensor, Tensor]:
    """Integrals of phi2(h, k; r) and of (rho - r) phi2(h, k; r) over r from 0 to rho.

    phi2 is the standard bivariate normal density with correlation r. The first integral is
    P(x1 < h, x2 < k) - Phi(h) Phi(k) (Plackett 1954). Errors are below 1e-10 for the second
    integral. For the first they are below 1e-8 up to |rho| = 0.9999, and below 1e-5 beyond.

    Parameters
    ----------
    h, k : Tensor of one shape
        Standardised limits.
    rho : Tensor of that shape
        Correlations; those beyond [-1, 1] by rounding count as -1 or 1.

    Returns
    -------
    first, second : Tensor of that shape
    """
    first, second = _CorrelationIntegrals.apply(h, k, rho)
    return first, second


class _CorrelationIntegrals(torch.autograd.Function):
    """The gradients are in closed form: finite, and nothing of the size of the rule is kept."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, k: Tensor, rho: Tensor) -> tuple[Tensor, Tensor]:
        rho = rho.clamp(-1.0, 1.0)
        size = rho.abs()
        # phi2(h, k; -r) = phi2(h, -k; r), so r = sin(angle) >= 0.
        signed_k = torch.where(rho < 0.0, -k, k)
        distances, weights = _graded_rule(h.dtype, h.device)
        width = size.asin()
        # dr = cos(angle) d angle cancels the pole of phi2 at r = 1.
        from_pole = size.acos().unsqueeze(-1) + width.unsqueeze(-1) * distances  # pi / 2 - angle
        one_minus_r = 2.0 * (0.5 * from_pole).sin().square()
        # (h^2 - 2 r h k + k^2) / (1 - r^2) as a sum of squares
        quadratic = (h - signed_k).square().unsqueeze(-1) / one_minus_r
        quadratic += (h + signed_k).square().unsqueeze(-1) / (2.0 - one_minus_r)
        density = (-0.25 * quadratic).exp() / (2.0 * math.pi)
        first = rho.sign() * width * (density @ weights)
        gap = size.unsqueeze(-1) - 1.0 + one_minus_r  # |rho| - r
        second = width * ((gap * density) @ weights)
        ctx.save_for_backward(h, k, rho, first)
        return first, second

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, Tensor]:
        h, k, rho, first = ctx.saved_tensors
        d_first, d_second = grads
        eps = torch.finfo(rho.dtype).eps
        below, above = (1.0 - rho).clamp_min(eps), (1.0 + rho).clamp_min(eps)
        root = (below * above).sqrt()
        quadratic = (h - k).square() / below + (h + k).square() / above
        density = (-0.25 * quadratic).exp() / (2.0 * math.pi * root)
        # The derivative in h of P(x1 < h, x2 < k) is phi(h) P(x2 < k | x1 = h).
        in_h = normal_density(h) * (
            torch.special.ndtr((k - rho * h) / root) - torch.special.ndtr(k)
        )
        in_k = normal_density(k) * (
            torch.special.ndtr((h - rho * k) / root) - torch.special.ndtr(h)
        )
        # The second is Cov(max(0, h - x1), max(0, k - x2)) - rho Phi(h) Phi(k). Its derivatives
        # follow from the first integral and the derivatives of that.
        return (
            d_first * in_h + d_second * (k * first + in_k + rho * in_h),
            d_first * in_k + d_second * (h * first + in_h + rho * in_k),
            d_first * density + d_second * first,
        )
