"""Several classes: the largest latent function wins, up to slips."""

import math
from typing import Any

import torch
from torch import Tensor

from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.classes import ClassLikelihood
from skgp.core.numerics.normal import normal_rule, refined

# Such a probability is negligible beside the slip, and denormal numbers are slow.
_LEAST = 1e-20
_FAR = -43.0  # log of a density that is zero: nine deviations away
_NARROW = 0.25  # least ratio of standard deviations for which the usual points err by 1e-7
_SPARED = 1.25  # times as narrow ones are off by no more than about 1e-5
_CELLS = 2**17  # points times classes and rows at a time: what a cache holds


class RobustMax(ClassLikelihood):
    """p(y = c | f) = 1 - slip if f_c is the largest, else slip / (C - 1).

    Girolami and Rogers 2006; Hernandez-Lobato et al. 2011, who integrate by quadrature.

    Parameters
    ----------
    n_classes : int
    slip : float in (0, 1)
        Probability that the label is not that of the largest function. Its log bounds what a wrong
        label costs.
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
        mean, scale = latent.f_mean, latent.std
        own = codes.expand(mean.shape[:-1]).flatten()
        mean_, scale_ = mean.flatten(0, 1), scale.expand_as(mean).flatten(0, 1)
        with torch.no_grad():
            others = scale_.scatter(-1, own.unsqueeze(-1), math.inf).amin(-1)
            finer = _NARROW * scale_.gather(-1, own.unsqueeze(-1)).squeeze(-1) / others

        def again(narrow: Tensor, finer: float) -> Tensor:
            value: Tensor = _Largest.apply(mean_[narrow], scale_[narrow], own[narrow], finer)
            return value

        value = refined(_Largest.apply(mean_, scale_, own, 1.0), finer, again, _SPARED)
        return value.view(mean.shape[:-1])

    @property
    def _other(self) -> float:
        """Probability of each class whose function is not the largest."""
        return self.slip / (self.n_classes - 1)


class _Largest(torch.autograd.Function):
    """The integral for moments m, s (N, C) and classes c (N,).

    Its slopes have the size of the moments, and are computed with it, a chunk of rows at a time.
    All points of 50 classes at ten nodes of a deep model would take gigabytes.
    """

    @staticmethod
    def forward(ctx: Any, mean: Tensor, scale: Tensor, own: Tensor, finer: float) -> Tensor:
        z, log_w = normal_rule(mean, finer)
        size = max(1, _CELLS // (len(z) * mean.shape[1]))
        # Rows go last: sums and products over the classes are then over long vectors.
        rows = zip(
            torch.split(mean.mT.contiguous(), size, -1),
            torch.split(scale.mT.contiguous(), size, -1),
            torch.split(own.unsqueeze(0), size, -1),
            strict=True,
        )
        with_slopes = any(ctx.needs_input_grad)
        parts = [_integrate(*chunk, z, log_w.exp(), with_slopes) for chunk in rows]
        value, *slopes = (torch.cat(of_chunks, -1) for of_chunks in zip(*parts, strict=True))
        ctx.save_for_backward(*slopes)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, None, None]:
        d_mean, d_scale = ctx.saved_tensors
        return (d_mean * grads[0]).mT, (d_scale * grads[0]).mT, None, None


def _integrate(
    mean: Tensor, scale: Tensor, own: Tensor, z: Tensor, w: Tensor, with_slopes: bool
) -> tuple[Tensor, ...]:
    """The integral (n,) for m, s (C, n) and c (1, n); its slopes in m and s if they are asked for.

    With a_kj = (m_c + s_c z_k - m_j) / s_j and P_k = prod_{j != c} Phi(a_kj) it is sum_k w_k P_k,
    and w_k P_k has the slope g_kj = w_k P_k phi(a_kj) / Phi(a_kj) in a_kj, which is linear in z_k.
    """
    mean_own, scale_own = mean.gather(0, own), scale.gather(0, own)
    inverse = scale.reciprocal()
    ahead = torch.addcmul((mean_own - mean) * inverse, scale_own * inverse, z[:, None, None])
    below = torch.special.ndtr(ahead).clamp_min_(_LEAST)
    below.scatter_(1, own.expand(len(z), 1, -1), 1.0)
    product = below.prod(1)
    value = w @ product
    if not with_slopes:
        return (value,)
    density = torch.threshold_(ahead.square_().mul_(-0.5), _FAR, -math.inf).exp_()
    ratio = density.div_(below).mul_(product.unsqueeze(1))
    # sum_k g_kj and sum_k g_kj z_k give every slope; a_kc is no variable
    weights = torch.stack([w, w * z]) * (1.0 / math.sqrt(2.0 * math.pi))
    g, g_z = (weights @ ratio.flatten(1)).view(2, *mean.shape).scatter(1, own.expand(2, 1, -1), 0.0)
    d_mean, d_scale = -g * inverse, -(g * (mean_own - mean) + g_z * scale_own) * inverse.square()
    d_mean.scatter_(0, own, -d_mean.sum(0, keepdim=True))
    d_scale.scatter_(0, own, (g_z * inverse).sum(0, keepdim=True))
    return value, d_mean, d_scale
