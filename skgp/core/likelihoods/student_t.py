"""Student-t noise: outliers pull less, by degrees of freedom that are learned."""

import math
from typing import Final

import torch
from torch import Tensor, nn

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.gaussian import log_normal, sum_observed
from skgp.core.likelihoods.likelihood import Observation, Predictive
from skgp.core.numerics.captures import is_capturing, nan_where
from skgp.core.numerics.normal import normal_rule, refined

_LEAST_DOF: Final = 2.5  # below, the variance has nearly all of its mass where there are no data
_START_DOF: Final = 5.0
# Points of log lambda, and their distance in units of sqrt(2 / (dof + 1)), about its deviation.
_FINE: Final = 0.5
_N_FINE: Final = 96
_COARSE: Final = 0.8  # for a prediction, whose log density is then right to about 1e-5
# With many degrees of freedom these end before outliers do. A prediction then has some points at a
# wider distance, and the others spread to outliers of so many standard deviations.
_WIDE: Final = 1.0
_N_WIDE: Final = 14
_N_COMPONENTS: Final = 44
_OUTLIER: Final = 1000.0
# Standard deviations of f, in units of sqrt(dof) s, up to which the usual points are right to about
# 1e-7, and how many times as wide f may be for them to be right to about 1e-4.
_BROAD: Final = 1.5
_SPARED: Final = 5.0 / 3.0
_TAIL: Final = 8.0  # standard deviations of log lambda beyond the peak, for a far outlier


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
        gap, std = targets.y - latent.f_mean, latent.std.expand_as(latent.f_mean)

        def given(gap: Tensor, std: Tensor, finer: float) -> Tensor:
            z, log_w = (part.view(-1, *[1] * gap.ndim) for part in normal_rule(gap, finer))
            distance = (gap - std * z).square() / width
            return (log_w.exp() * torch.log1p(distance)).sum(0)

        def again(broad: Tensor, finer: float) -> Tensor:
            return given(gap[broad], std[broad], finer)

        finer = std / (_BROAD * width.sqrt())
        penalty = refined(given(gap, std, 1.0), finer, again, _SPARED)
        return sum_observed(const - 0.5 * (dof + 1.0) * penalty, targets.mask)

    def log_marginal(self, latent: Latent, targets: Targets) -> Tensor:
        # log of the integral of N(y; m, v + s^2 / lambda) Gamma(lambda) over lambda
        gap, f_var = targets.y - latent.f_mean, latent.f_var.expand_as(latent.f_mean)
        log_prob = self._log_mixture(gap, f_var, _N_FINE)
        # The integrand of a far outlier peaks at 1 / lambda = 1 + gap^2 / (dof s^2) or before.
        deviation, right = self._extent()
        reach = (_FINE * (_N_FINE - 1) - _TAIL) * deviation - right
        peak = torch.log1p(gap.detach().square() / (self.dof * self.scale_var).detach())
        far = peak > reach
        if is_capturing(far):
            log_prob = nan_where(far.any(), log_prob)
        elif bool(far.any()):
            n = (peak.amax().clamp_max(2.0 * math.log(_OUTLIER)) + right) / deviation + _TAIL
            found = self._log_mixture(gap[far], f_var[far], math.ceil(n.item() / _FINE) + 1)
            log_prob = log_prob.masked_scatter(far, found)
        return sum_observed(log_prob, targets.mask)

    def predictive(self, latent: Latent) -> Predictive:
        log_lambda, log_w = self._components()
        added = (self.scale_var * (-log_lambda).exp())[:, None, None]
        var = (latent.f_var.unsqueeze(1) + added).flatten(0, 1)
        mean = latent.f_mean.repeat_interleave(len(log_w), 0)
        return Predictive(mean, var, None, log_w)

    def parameters_in(self, unit: float) -> dict[str, float]:
        return {"dof": self.dof.item(), "scale": self.scale_var.sqrt().item() * float(unit)}

    def _log_mixture(self, gap: Tensor, f_var: Tensor, n: int) -> Tensor:
        """Log density of gaps y - m, given the variance of f, by n points of log lambda."""
        deviation, right = self._extent()
        below = _FINE * deviation * torch.arange(n, dtype=self.dof.dtype, device=self.dof.device)
        log_lambda = right - below
        log_w = self._log_density(log_lambda).log_softmax(0)
        log_lambda, log_w = (part.view(-1, *[1] * gap.ndim) for part in (log_lambda, log_w))
        variance = f_var + self.scale_var * (-log_lambda).exp()
        return torch.logsumexp(log_w + log_normal(gap, variance), 0)

    def _components(self) -> tuple[Tensor, Tensor]:
        """Points (K,) of log lambda for a prediction, and logs of weights that sum to one."""
        deviation, right = self._extent()
        k = torch.arange(_N_COMPONENTS, dtype=self.dof.dtype, device=self.dof.device)
        even = right - _COARSE * deviation * k
        last = -torch.log1p(_OUTLIER**2 / (self.dof - 2.0)) - deviation
        if bool(even[-1] <= last):
            return even, self._log_density(even).log_softmax(0)
        # Off by d, log lambda costs (dof + 1) d^2 / 4 nats. Where the log density is about -(dof +
        # 1) t / 2 at log lambda = -t, equal steps of sqrt(t) have the same relative error anywhere.
        wide = right - _WIDE * deviation * k[:_N_WIDE]
        first = (_WIDE * deviation - wide[-1]).sqrt()
        root = first + ((-last).sqrt() - first) * k[: _N_COMPONENTS - _N_WIDE] / (
            _N_COMPONENTS - _N_WIDE - 1
        )
        log_lambda = torch.cat([wide, -root.square()])
        steps = -torch.gradient(log_lambda)[0]
        # Wide steps have too low a density between two points, by their square. Raised by about
        # half of that, it is as far off at the points.
        ratio = (steps / (_WIDE * deviation)).clamp_min(1.0)
        raised = (ratio.square() - 1.0) * _WIDE**2 / 16.0 - 0.5 * ratio.log()
        log_w = self._log_density(log_lambda) + steps.log() + raised.clamp_min(0.0)
        return log_lambda, log_w.log_softmax(0)

    def _extent(self) -> tuple[Tensor, Tensor]:
        """About the standard deviation of log lambda, and the largest value that has any weight."""
        deviation = (2.0 / (self.dof + 1.0)).sqrt()
        # The density falls exponentially on the left, where lambda is that of outliers, and faster
        # on the right: beyond this are e^-25.
        return deviation, torch.log1p(7.0 * deviation + 17.0 * deviation.square())

    def _log_density(self, log_lambda: Tensor) -> Tensor:
        """Of log lambda, up to a constant."""
        return 0.5 * self.dof * (log_lambda - log_lambda.exp())
