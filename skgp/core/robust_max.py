"""Several classes: the largest latent function wins, up to slips."""

import math

import torch
from torch import Tensor

from skgp.core.class_likelihood import ClassLikelihood, deviation
from skgp.core.layers import Latent
from skgp.core.normal_rule import normal_rule

_FLOOR = -40.0  # in standard deviations


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
        z, log_w = (part[:, None, None] for part in normal_rule(mean))
        own = codes.unsqueeze(-1).expand_as(mean[..., :1])
        f = mean.gather(-1, own).squeeze(-1) + scale.gather(-1, own).squeeze(-1) * z
        # Phi of the floor is zero in float64; beyond it the slope of its log is lost in rounding.
        ahead = ((f.unsqueeze(-1) - mean) / scale).clamp_min(_FLOOR)
        below = torch.special.log_ndtr(ahead)  # (K, Q, B, C)
        is_own = torch.nn.functional.one_hot(codes, self.n_classes).bool()
        return (log_w + below.masked_fill(is_own, 0.0).sum(-1)).exp().sum(0)

    @property
    def _other(self) -> float:
        """Probability of each class whose function is not the largest."""
        return self.slip / (self.n_classes - 1)
