"""Normal noise of targets of which only bounds may be known."""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.likelihoods.likelihood import (
    Observation,
    Predictive,
    Term,
    expected_log_prob,
    log_marginal,
)
from skgp.core.numerics.normal import log_ndtr_difference, normal_rule

_INFINITE: Final = 1e12  # a bound, in scaled units
_FAR: Final = 1e9  # standard deviations, whose squares no sum of two loses


class Censored(Observation):
    """y = f + e, e ~ N(0, noise_var), of which a row says lower <= y <= upper: one output.

    Targets (B, 2) are these bounds, masked where infinite. Where they are equal y is observed, and
    the terms are those of `Gaussian`. Elsewhere the likelihood is the probability of the interval,
    Phi((upper - f) / s) - Phi((lower - f) / s) (Tobin 1958), in float64.

    Parameters
    ----------
    noise_var : float
        Initial noise variance.
    noise_floor : float
        Lower bound of the noise variance.
    """

    looks_at_numbers = True

    def __init__(self, noise_var: float, noise_floor: float) -> None:
        super().__init__()
        self.noise = Gaussian(1, noise_var, noise_floor)

    @torch.no_grad()
    def start(self, noise_var: Tensor) -> None:
        """Set the noise variance (1,); one below the floor is put a little above it."""
        self.noise.start(noise_var)

    @property
    def noise_var(self) -> Tensor:
        """Noise variance (1,)."""
        return self.noise.noise_var

    def expected_log_prob(self, latent: Latent, targets: Targets) -> Tensor:
        return self._by_rows(latent, targets, expected_log_prob, self._expected_log_probability)

    def log_marginal(self, latent: Latent, targets: Targets) -> Tensor:
        return self._by_rows(latent, targets, log_marginal, self._log_probability)

    def predictive(self, latent: Latent) -> Predictive:
        return self.noise.predictive(latent)

    def _expected_log_probability(self, mean: Tensor, var: Tensor, bounds: Tensor) -> Tensor:
        """E log P(bounds | f) over f ~ N(mean, var), both (Q, B, 1), by quadrature; (Q, B)."""
        z, log_w = (part[:, None, None, None] for part in normal_rule(mean))
        log_p = _log_between(bounds, mean + var.sqrt() * z, self.noise_var.to(mean).sqrt())
        return (log_w.exp() * log_p).sum(0)[..., 0]

    def _log_probability(self, mean: Tensor, var: Tensor, bounds: Tensor) -> Tensor:
        """log P(bounds) under N(mean, var + noise_var), (Q, B)."""
        return _log_between(bounds, mean, (var + self.noise_var.to(mean)).sqrt())[..., 0]

    def _by_rows(
        self,
        latent: Latent,
        targets: Targets,
        observed: Term,
        censored: Callable[[Tensor, Tensor, Tensor], Tensor],
    ) -> Tensor:
        """A term (Q, B), by one function of rows whose bounds are equal, and one of the others."""
        bounds = _bounds(targets)
        is_equal = bounds[:, 0] == bounds[:, 1]
        if is_equal.all():
            return observed(self.noise, latent, Targets(bounds[:, :1], None))
        term = torch.empty_like(latent.f_mean[..., 0])
        rows = is_equal.nonzero()[:, 0]
        y = Targets(bounds[rows, :1], None)
        term[:, rows] = observed(self.noise, _of_rows(latent, rows), y)
        rows = (~is_equal).nonzero()[:, 0]
        some = _of_rows(latent, rows)
        value = censored(some.f_mean.double(), some.std.double().square(), bounds[rows].double())
        term[:, rows] = value.to(term.dtype)
        return term


def _bounds(targets: Targets) -> Tensor:
    """Bounds (B, 2), finite ones in the place of infinite."""
    if targets.mask is None:
        return targets.y
    infinite = targets.y.new_tensor([-_INFINITE, _INFINITE])
    return torch.where(targets.mask > 0.0, targets.y, infinite)


def _of_rows(latent: Latent, rows: Tensor) -> Latent:
    return Latent(*(part[:, rows] for part in latent))


def _log_between(bounds: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """log P(lower < y < upper) of y ~ N(mean, std^2), (..., B, 1), for bounds (B, 2)."""
    lower, upper = bounds.split(1, -1)
    a, b = (((bound - mean) / std).clamp(-_FAR, _FAR) for bound in (lower, upper))
    return log_ndtr_difference(a, b, (upper - lower) / std)
