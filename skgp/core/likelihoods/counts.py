"""Counts: Poisson and negative binomial, whose log rate is a latent function."""

from abc import abstractmethod
from typing import Any, Final

import torch
from torch import Tensor, nn

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.gaussian import log_normal, sum_observed
from skgp.core.likelihoods.likelihood import Observation, Predictive
from skgp.core.numerics.normal import normal_rule
from skgp.distributions import CountMixture, NormalMixture

_LEAST_DISPERSION: Final = 1e-5
_START_DISPERSION: Final = 0.1
_NEWTON_STEPS: Final = 20
_LONGEST_STEP: Final = 2.0  # of f
_POINTS: Final = 64
_REACH: Final = 8.0
_STRETCH: Final = 0.3  # of the points in the tails, one of which falls as the prior does


class Counts(Observation):
    """Abstract base: counts y of mean exp(f), one output; f has no unit.

    All is computed in float64, for counts make large numbers cancel.
    """

    @property
    @abstractmethod
    def dispersion(self) -> Tensor:
        """The a of the variance mu + a mu^2 of a count of mean mu, (1,)."""

    @abstractmethod
    def log_mass(self, f: Tensor, y: Tensor) -> Tensor:
        """log p(y | f), elementwise by broadcasting."""

    @abstractmethod
    def slopes(self, f: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Slope of log p(y | f) in f, and minus its curvature, which is positive."""

    def log_marginal(self, latent: Latent, targets: Targets) -> Tensor:
        mean, var, y = _moments(latent, targets)
        value = self._log_integral(mean, var, y).to(latent.f_mean)
        return sum_observed(value, targets.mask)

    def predictive(self, latent: Latent) -> Predictive:
        """Distribution of f."""
        return self.noiseless(latent)

    def observed(self, dist: NormalMixture) -> Any:
        return CountMixture(dist, self.dispersion.item())

    def _log_integral(self, mean: Tensor, var: Tensor, y: Tensor) -> Tensor:
        """log of the integral of p(y | f) N(f; mean, var) over f.

        By equal steps around the mode of the integrand, for counts may say much more of f than
        the prior does. That the steps depend on the moments has no slope: the integral does not
        depend on them.
        """
        with torch.no_grad():
            mode = torch.minimum(mean, (y + 0.5).log())
            for _ in range(_NEWTON_STEPS):
                slope, curvature = self.slopes(mode, y)
                step = (slope + (mean - mode) / var) / (curvature + 1.0 / var)
                mode = mode + step.clamp(-_LONGEST_STEP, _LONGEST_STEP)
            width = (self.slopes(mode, y)[1] + 1.0 / var).rsqrt()
            u = torch.linspace(-_REACH, _REACH, _POINTS, dtype=mean.dtype, device=mean.device)
            u = u[:, None, None, None]
            f = mode + width * (_STRETCH * u).sinh() / _STRETCH
            log_h = (_STRETCH * u).cosh().log() + width.log() + (u[1] - u[0]).log()
        log_prob = self.log_mass(f, y) + log_normal(f - mean, var)
        return torch.logsumexp(log_h + log_prob, 0)


class Poisson(Counts):
    """y ~ Poisson(exp(f))."""

    @property
    def dispersion(self) -> Tensor:
        return torch.zeros(1, dtype=torch.float64)

    def expected_log_prob(self, latent: Latent, targets: Targets) -> Tensor:
        # y m - exp(m + v / 2) - log y!
        mean, var, y = _moments(latent, targets)
        value = y * mean - (mean + 0.5 * var).exp() - torch.lgamma(y + 1.0)
        return sum_observed(value.to(latent.f_mean), targets.mask)

    def log_mass(self, f: Tensor, y: Tensor) -> Tensor:
        return y * f - f.exp() - torch.lgamma(y + 1.0)

    def slopes(self, f: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        rate = f.exp()
        return y - rate, rate


class NegativeBinomial(Counts):
    """y ~ Poisson(exp(f) g), g ~ Gamma of mean one and variance a: the variance is mu + a mu^2."""

    def __init__(self) -> None:
        super().__init__()
        start = torch.full((1,), _START_DISPERSION - _LEAST_DISPERSION, dtype=torch.float32)
        self.log_excess_dispersion = nn.Parameter(start.log())

    @property
    def dispersion(self) -> Tensor:
        return _LEAST_DISPERSION + self.log_excess_dispersion.double().exp()

    def expected_log_prob(self, latent: Latent, targets: Targets) -> Tensor:
        mean, var, y = _moments(latent, targets)
        z, log_w = (part[:, None, None, None] for part in normal_rule(mean))
        value = (log_w.exp() * self.log_mass(mean + var.sqrt() * z, y)).sum(0)
        return sum_observed(value.to(latent.f_mean), targets.mask)

    def log_mass(self, f: Tensor, y: Tensor) -> Tensor:
        # log G(y + r) / (G(r) y!) + y log(a mu) - (y + r) log(1 + a mu), r = 1 / a, mu = exp(f)
        log_a = self.dispersion.log()
        r = 1.0 / self.dispersion
        const = torch.lgamma(y + r) - torch.lgamma(r) - torch.lgamma(y + 1.0)
        return const + y * (log_a + f) + (y + r) * nn.functional.logsigmoid(-log_a - f)

    def slopes(self, f: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        r = 1.0 / self.dispersion
        share = torch.sigmoid(self.dispersion.log() + f)
        return y - (y + r) * share, (y + r) * share * (1.0 - share)

    def parameters_in(self, unit: float) -> dict[str, float]:
        return {"dispersion": self.dispersion.item()}


def _moments(latent: Latent, targets: Targets) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of f (Q, B, 1), and counts (B, 1), in float64."""
    return latent.f_mean.double(), latent.std.double().square(), targets.y.double()
