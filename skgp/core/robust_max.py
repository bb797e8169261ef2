"""Several classes: the largest latent function wins, up to slips."""

import math
from typing import Any

import torch
from torch import Tensor

from skgp.core.class_likelihood import CHUNK_CELLS, ClassLikelihood, deviation
from skgp.core.layers import Latent
from skgp.core.normal_rule import normal_rule


class RobustMax(ClassLikelihood):
    """p(y = c | f) = 1 - slip if f_c is the largest, else slip / (C - 1).

    Girolami and Rogers 2006; Hernandez-Lobato et al. 2011, who integrate by quadrature.

    Parameters
    ----------
    n_classes : int
    slip : float in (0, 1)
        Probability that the label is not that of the largest function: what a wrong label costs
        is bounded by its log.
    """

    def __init__(self, n_classes: int, slip: float) -> None:
        super().__init__(n_classes)
        self.slip = slip

    @property
    def n_latents(self) -> int:
        return self.n_classes

    def expected_log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        # P log(1 - e) + (1 - P) log(e / (C - 1)), P the probability that f_c is the largest
        largest = self.largest(latent, codes)
        return largest * math.log1p(-self.slip) + (1.0 - largest) * math.log(self._other)

    def log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        largest = self.largest(latent, codes)
        return ((1.0 - self.slip) * largest + self._other * (1.0 - largest)).log()

    def largest(self, latent: Latent, codes: Tensor) -> Tensor:
        """Probability (Q, B) that the function of the class is the largest one.

        int N(f_c | m_c, v_c) prod_{j != c} Phi((f_c - m_j) / s_j) df_c (Hernandez-Lobato et al.
        2011), by quadrature over f_c.
        """
        mean, scale = latent.f_mean, deviation(latent.f_var)
        own = codes.expand(mean.shape[:-1]).flatten()
        value: Tensor = _Largest.apply(mean.flatten(0, 1), scale.flatten(0, 1), own)
        return value.view(mean.shape[:-1])

    @property
    def _other(self) -> float:
        """Probability of each class whose function is not the largest."""
        return self.slip / (self.n_classes - 1)


class _Largest(torch.autograd.Function):
    """The integral for moments m, s (N, C) and classes c (N,).

    It keeps nothing of the size of its points: K points of C classes are recomputed for a chunk of
    rows at a time, or 50 classes and ten nodes of a deep model would take gigabytes.
    """

    @staticmethod
    def forward(ctx: Any, mean: Tensor, scale: Tensor, own: Tensor) -> Tensor:
        ctx.save_for_backward(mean, scale, own)
        z, w = _points(mean)
        parts = _chunks(mean, scale, own, len(z))
        return torch.cat([w @ _below(m, s, c, z)[1].prod(-1) for m, s, c in parts])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, None]:
        mean, scale, own = ctx.saved_tensors
        z, w = _points(mean)
        parts = _chunks(mean, scale, own, len(z))
        outer = torch.split(grads[0], len(parts[0][0]))
        slopes = [
            _slopes(m, s, c, z, w, d_out) for (m, s, c), d_out in zip(parts, outer, strict=True)
        ]
        d_mean, d_scale = (torch.cat(of_chunks) for of_chunks in zip(*slopes, strict=True))
        return d_mean, d_scale, None


def _points(like: Tensor) -> tuple[Tensor, Tensor]:
    z, log_w = normal_rule(like)
    return z, log_w.exp()


def _chunks(
    mean: Tensor, scale: Tensor, own: Tensor, n_points: int
) -> list[tuple[Tensor, Tensor, Tensor]]:
    size = max(1, CHUNK_CELLS // (n_points * mean.shape[1]))
    return list(zip(*(torch.split(part, size) for part in (mean, scale, own)), strict=True))


def _below(mean: Tensor, scale: Tensor, own: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """a = (f_c - m_j) / s_j at the points of f_c, and Phi(a), one for c itself: (K, n, C)."""
    index = own.unsqueeze(-1)
    f = mean.gather(-1, index) + scale.gather(-1, index) * z[:, None, None]  # (K, n, 1)
    ahead = (f - mean) / scale
    # A product of probabilities may underflow: the slip makes up for any probability that small.
    tiny = torch.finfo(mean.dtype).tiny
    below = torch.special.ndtr(ahead).clamp_min_(tiny)
    return ahead, below.scatter_(-1, index.expand(len(z), -1, -1), 1.0)


def _slopes(
    mean: Tensor, scale: Tensor, own: Tensor, z: Tensor, w: Tensor, d_out: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients with respect to m and s (n, C), given that with respect to the integral (n,)."""
    ahead, below = _below(mean, scale, own, z)
    # d/da_j of prod_i Phi(a_i) = phi(a_j) / Phi(a_j) times the product; a_c is no variable
    product = below.prod(-1) * w.unsqueeze(-1) * d_out
    slope = ahead.square().mul_(-0.5).exp_().div_(below).mul_(1.0 / math.sqrt(2.0 * math.pi))
    index = own.unsqueeze(-1)
    slope.mul_(product.unsqueeze(-1)).scatter_(-1, index.expand(len(z), -1, -1), 0.0)
    slope.div_(scale)
    d_mean, d_scale = -slope.sum(0), -(slope * ahead).sum(0)
    of_f = slope.sum(-1)  # (K, n)
    d_mean.scatter_(-1, index, of_f.sum(0).unsqueeze(-1))  # zero so far
    d_scale.scatter_(-1, index, (z @ of_f).unsqueeze(-1))
    return d_mean, d_scale
