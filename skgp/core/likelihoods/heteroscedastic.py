"""Normal noise whose variance is a function of the inputs as well."""

from typing import Final

import torch
from torch import Tensor

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.gaussian import log_normal, sum_observed
from skgp.core.likelihoods.likelihood import Observation, Predictive
from skgp.core.numerics.normal import hermite_rule

_FINE: Final = 40  # points of g
_COARSE: Final = 20  # components of a prediction


class Heteroscedastic(Observation):
    """y = f + e, e ~ N(0, floor + exp(g)): one output of two latent functions, f and g.

    f is integrated in closed form given g, and g by Gauss-Hermite points.

    Parameters
    ----------
    noise_floor : float
        Least noise variance.
    """

    def __init__(self, noise_floor: float) -> None:
        super().__init__()
        self.noise_floor = noise_floor

    def expected_log_prob(self, latent: Latent, targets: Targets) -> Tensor:
        # E over g of log N(y; m, r) - v / (2 r), r = floor + exp(g)
        mean, var, noise, log_w = self._at_points(latent, _FINE)
        log_prob = log_normal(targets.y - mean, noise) - 0.5 * var / noise
        return sum_observed((log_w.exp() * log_prob).sum(0), targets.mask)

    def log_marginal(self, latent: Latent, targets: Targets) -> Tensor:
        mean, var, noise, log_w = self._at_points(latent, _FINE)
        log_prob = log_normal(targets.y - mean, var + noise)
        return sum_observed(torch.logsumexp(log_w + log_prob, 0), targets.mask)

    def predictive(self, latent: Latent) -> Predictive:
        mean, var, noise, log_w = self._at_points(latent, _COARSE)
        var = (var + noise).transpose(0, 1).flatten(0, 1)
        return Predictive(mean.repeat_interleave(_COARSE, 0), var, None, log_w.flatten())

    def _at_points(self, latent: Latent, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Moments of f (Q, B, 1), noise variances (K, Q, B, 1), log weights (K, 1, 1, 1)."""
        z, log_w = (part[:, None, None, None] for part in hermite_rule(latent.f_mean, n))
        log_noise = latent.f_mean[..., 1:] + latent.std[..., 1:] * z
        noise = self.noise_floor + log_noise.exp()
        return latent.f_mean[..., :1], latent.f_var[..., :1], noise, log_w
