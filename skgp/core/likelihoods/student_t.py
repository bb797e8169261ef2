"""Student-t noise: outliers pull less, by degrees of freedom that are learned."""

import math
from typing import Final

import torch
from torch import Tensor, nn

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.gaussian import log_normal, sum_observed
from skgp.core.likelihoods.likelihood import Observation, Predictive
from skgp.core.numerics.normal import normal_rule

_LEAST_DOF: Final = 2.5  # below, the variance has nearly all of its mass where there are no data
_START_DOF: Final = 5.0
# Points of log lambda, and their distance in units of sqrt(2 / (dof + 1)), about its deviation.
_FINE: Final = 96, 0.5
_COARSE: Final = 40, 0.8  # components of a prediction: its log density is right to about 1e-5


class StudentT(Observation):
    """y = f + s e, e of Student's t distribution: one output.

    The t distribution is a scale mixture of normals, y given lambda ~ N(f, s^2 / lambda) with
    lambda ~ Gamma(dof / 2, dof / 2). So f is integrated in closed form given lambda, and
    a prediction is a mixture of normals.

    Parameters
    ----------
    noise_var : float
        Initial noise variance.
    noise_floor : float
        Lower bound of s^2.
    """

    def __init__(self, noise_var: float, noise_floor: float) -> None:
        super().__init__()
        self.noise_floor = noise_floor
        self.log_excess_scale = nn.Parameter(torch.zeros(1, dtype=torch.float32))
        excess_dof = torch.full((1,), _START_DOF - _LEAST_DOF, dtype=torch.float32)
        self.log_excess_dof = nn.Parameter(excess_dof.log())
        self.start(torch.full((1,), noise_var, dtype=torch.float32))

    @property
    def scale_var(self) -> Tensor:
        """Squares s^2 of the scale, (1,)."""
        return self.noise_floor + self.log_excess_scale.exp()

    @property
    def dof(self) -> Tensor:
        """Degrees of freedom (1,)."""
        return _LEAST_DOF + self.log_excess_dof.exp()

    @property
    def noise_var(self) -> Tensor:
        """Noise variance (1,)."""
        return self.scale_var * self.dof / (self.dof - 2.0)

    @torch.no_grad()
    def start(self, noise_var: Tensor) -> None:
        """Set the noise variance (1,); a scale below the floor is put a little above it."""
        scale_var = noise_var * (self.dof - 2.0) / self.dof
        excess = (scale_var - self.noise_floor).clamp_min(0.1 * self.noise_floor)
        self.log_excess_scale.copy_(excess.log())

    def expected_log_prob(self, latent: Latent, targets: Targets) -> Tensor:
        # log t(y; f) = c - (dof + 1) / 2 log(1 + (y - f)^2 / (dof s^2)), by quadrature over f
        dof, width = self.dof, self.dof * self.scale_var
        const = torch.lgamma(0.5 * (dof + 1.0)) - torch.lgamma(0.5 * dof)
        const = const - 0.5 * (math.log(math.pi) + width.log())
        z, log_w = (part[:, None, None, None] for part in normal_rule(latent.f_mean))
        distance = (targets.y - latent.f_mean - latent.std * z).square() / width
        penalty = (log_w.exp() * torch.log1p(distance)).sum(0)
        return sum_observed(const - 0.5 * (dof + 1.0) * penalty, targets.mask)

    def log_marginal(self, latent: Latent, targets: Targets) -> Tensor:
        # log of the integral of N(y; m, v + s^2 / lambda) Gamma(lambda) over lambda
        log_lambda, log_w = (part[:, None, None, None] for part in self._mixture(*_FINE))
        variance = latent.f_var + self.scale_var * (-log_lambda).exp()
        log_prob = torch.logsumexp(log_w + log_normal(targets.y - latent.f_mean, variance), 0)
        return sum_observed(log_prob, targets.mask)

    def predictive(self, latent: Latent) -> Predictive:
        log_lambda, log_w = self._mixture(*_COARSE)
        added = (self.scale_var * (-log_lambda).exp())[:, None, None]
        var = (latent.f_var.unsqueeze(1) + added).flatten(0, 1)
        mean = latent.f_mean.repeat_interleave(len(log_w), 0)
        return Predictive(mean, var, None, log_w)

    def parameters_in(self, unit: float) -> dict[str, float]:
        return {"dof": self.dof.item(), "scale": self.scale_var.sqrt().item() * float(unit)}

    def _mixture(self, n: int, step: float) -> tuple[Tensor, Tensor]:
        """Points (n,) of log lambda and logs of their weights, which sum to one.

        Equal steps in log lambda, whose density falls exponentially on the left, where lambda
        is that of outliers, and faster on the right.
        """
        dof = self.dof
        deviation = (2.0 / (dof + 1.0)).sqrt()
        right = torch.log1p(7.0 * deviation + 17.0 * deviation.square())  # beyond are e^-25
        steps = torch.arange(n, dtype=dof.dtype, device=dof.device)
        log_lambda = right - step * deviation * steps
        log_w = (0.5 * dof * (log_lambda - log_lambda.exp())).log_softmax(0)
        return log_lambda, log_w
