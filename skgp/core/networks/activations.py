"""Activations of hidden units, and their moments where the units are jointly normal."""

import math
from abc import ABC, abstractmethod
from typing import Final

import torch
from torch import Tensor

from skgp.core.numerics.bivariate import correlation_integrals
from skgp.core.numerics.normal import normal_density


class Activation(ABC):
    """A function g of one variable, with the moments of g(a) for normal a in closed form."""

    @abstractmethod
    def __call__(self, a: Tensor) -> Tensor:
        """Values g(a), element by element."""

    @abstractmethod
    def mean(self, mean: Tensor, var: Tensor) -> Tensor:
        """E g(a) for a ~ N(mean, var), element by element."""

    @abstractmethod
    def pair_covariance(
        self, mean_1: Tensor, var_1: Tensor, mean_2: Tensor, var_2: Tensor, cov: Tensor
    ) -> Tensor:
        """Cov(g(a1), g(a2)) for jointly normal a1 and a2, element by element.

        For a1 = a2, where all three second moments are equal, it is the variance of g(a1).
        """

    def covariance(self, mean: Tensor, cov: Tensor) -> Tensor:
        """Covariance of g(a) for a ~ N(mean, cov).

        Parameters
        ----------
        mean : Tensor of shape (..., H)
        cov : Tensor of shape (..., H, H)

        Returns
        -------
        Tensor of shape (..., H, H)
        """
        n_units = mean.shape[-1]
        i, j = torch.triu_indices(n_units, n_units, device=mean.device)
        var = cov.diagonal(dim1=-2, dim2=-1)
        pairs = self.pair_covariance(
            mean.index_select(-1, i),
            var.index_select(-1, i),
            mean.index_select(-1, j),
            var.index_select(-1, j),
            cov.flatten(-2).index_select(-1, i * n_units + j),
        )
        number = torch.empty(n_units, n_units, dtype=torch.long, device=mean.device)
        number[i, j] = number[j, i] = torch.arange(len(i), device=mean.device)
        return pairs.index_select(-1, number.flatten()).unflatten(-1, (n_units, n_units))


class Ramp(Activation):
    """g(a) = max(slope * a, a): a slope of zero gives the rectifier, one the identity.

    Parameters
    ----------
    slope : float
        Slope of the negative half, at most one.
    """

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def __call__(self, a: Tensor) -> Tensor:
        return self.slope * a + (1.0 - self.slope) * a.clamp_min(0.0)

    def mean(self, mean: Tensor, var: Tensor) -> Tensor:
        # E max(0, a) = m Phi(m / s) + s phi(m / s)
        deviation = _deviation(var)
        h = mean / deviation
        rectified = mean * torch.special.ndtr(h) + deviation * normal_density(h)
        return self.slope * mean + (1.0 - self.slope) * rectified

    def pair_covariance(
        self, mean_1: Tensor, var_1: Tensor, mean_2: Tensor, var_2: Tensor, cov: Tensor
    ) -> Tensor:
        # Price's theorem twice: Cov = c E g'(a1) E g'(a2) + integral of (c - t) E g''(a1) g''(a2)
        # over the covariance t from 0 to c, and g'' is a Dirac pulse of size 1 - slope at zero.
        deviation_1, deviation_2 = _deviation(var_1), _deviation(var_2)
        h, k = mean_1 / deviation_1, mean_2 / deviation_2
        scale = deviation_1 * deviation_2
        _, kinks = correlation_integrals(h, k, cov / scale)
        slopes = self._mean_slope(h) * self._mean_slope(k)
        return cov * slopes + (1.0 - self.slope) ** 2 * scale * kinks

    def _mean_slope(self, h: Tensor) -> Tensor:
        """E g'(a) where the mean of a is h standard deviations."""
        return self.slope + (1.0 - self.slope) * torch.special.ndtr(h)


class ErrorFunction(Activation):
    """g(a) = shift + erf(a).

    Parameters
    ----------
    shift : float
    """

    def __init__(self, shift: float) -> None:
        self.shift = shift

    def __call__(self, a: Tensor) -> Tensor:
        return self.shift + torch.erf(a)

    def mean(self, mean: Tensor, var: Tensor) -> Tensor:
        # Eqn 14: E erf(a) = erf(m / sqrt(1 + 2 v))
        return self.shift + torch.erf(mean / (1.0 + 2.0 * var).sqrt())

    def pair_covariance(
        self, mean_1: Tensor, var_1: Tensor, mean_2: Tensor, var_2: Tensor, cov: Tensor
    ) -> Tensor:
        root_1, root_2 = (1.0 + 2.0 * var_1).sqrt(), (1.0 + 2.0 * var_2).sqrt()
        return _error_function_covariance(mean_1, root_1, mean_2, root_2, cov)


class LinearErrorFunction(Activation):
    """g(a) = a erf(a): close to |a| beyond two, without its kink."""

    def __call__(self, a: Tensor) -> Tensor:
        return a * torch.erf(a)

    def mean(self, mean: Tensor, var: Tensor) -> Tensor:
        # Eqn 19: E a erf(a) = m E erf(a) + v E erf'(a)
        spread = 1.0 + 2.0 * var
        return mean * torch.erf(mean / spread.sqrt()) + var * _mean_pulse(mean, spread)

    def pair_covariance(
        self, mean_1: Tensor, var_1: Tensor, mean_2: Tensor, var_2: Tensor, cov: Tensor
    ) -> Tensor:
        # E a1 a2 e1 e2 with e = erf(a) is that of Eqn 16 under (m1 + v1 d/dm1 + c d/dm2) and the
        # same of a2, as Eqn 14 becomes Eqn 19. The product of the means is subtracted term
        # by term: what is left is in proportion to the covariances of e1, e2 and their slopes.
        spread_1, spread_2 = 1.0 + 2.0 * var_1, 1.0 + 2.0 * var_2
        root_1, root_2 = spread_1.sqrt(), spread_2.sqrt()
        mean_e1, mean_e2 = torch.erf(mean_1 / root_1), torch.erf(mean_2 / root_2)
        mean_p1, mean_p2 = _mean_pulse(mean_1, spread_1), _mean_pulse(mean_2, spread_2)
        # E p1 e2 with p = erf'(a): under the weight p1 the other is N(m2 - 2 c m1 / (1 + 2 v1), .)
        shifted_1 = mean_1 - 2.0 * cov * mean_2 / spread_2
        shifted_2 = mean_2 - 2.0 * cov * mean_1 / spread_1
        left_1 = (spread_1 - 4.0 * cov.square() / spread_2).clamp_min(1.0)
        left_2 = (spread_2 - 4.0 * cov.square() / spread_1).clamp_min(1.0)
        p1_e2 = mean_p1 * torch.erf(shifted_2 / left_2.sqrt())
        e1_p2 = mean_p2 * torch.erf(shifted_1 / left_1.sqrt())
        p1_p2 = mean_p1 * _mean_pulse(shifted_2, left_2)
        cov_e = _error_function_covariance(mean_1, root_1, mean_2, root_2, cov)
        at_fixed_means = mean_1 * mean_2 * cov_e
        at_fixed_means = at_fixed_means + mean_1 * var_2 * (e1_p2 - mean_e1 * mean_p2)
        at_fixed_means = at_fixed_means + mean_2 * var_1 * (p1_e2 - mean_p1 * mean_e2)
        at_fixed_means = at_fixed_means + var_1 * var_2 * (p1_p2 - mean_p1 * mean_p2)
        # d/dm of E p1 e2 is -2 (m1 E p1 e2 + c E p1 p2) / (1 + 2 v1).
        joint = cov_e + mean_e1 * mean_e2 + mean_1 * p1_e2 / spread_1 + mean_2 * e1_p2 / spread_2
        slopes = 1.0 / spread_1 + 1.0 / spread_2 - 1.0
        return at_fixed_means + cov * joint + cov.square() * slopes * p1_p2


def _mean_pulse(mean: Tensor, spread: Tensor) -> Tensor:
    """E erf'(a) for a of this mean and the variance v, with the spread 1 + 2 v."""
    return 2.0 / math.sqrt(math.pi) * (-mean.square() / spread).exp() / spread.sqrt()


def _error_function_covariance(
    mean_1: Tensor, root_1: Tensor, mean_2: Tensor, root_2: Tensor, cov: Tensor
) -> Tensor:
    """Cov(erf(a1), erf(a2)), with roots of 1 + 2 v."""
    # erf(a) = 2 P(z < sqrt(2) a) - 1 for z ~ N(0, 1), so Eqns 15 and 16 are probabilities of
    # z1 - sqrt(2) a1 < 0 and z2 - sqrt(2) a2 < 0.
    h, k = math.sqrt(2.0) * mean_1 / root_1, math.sqrt(2.0) * mean_2 / root_2
    both, _ = correlation_integrals(h, k, 2.0 * cov / (root_1 * root_2))
    return 4.0 * both


def _deviation(var: Tensor) -> Tensor:
    # The floor keeps quotients finite. Such a deviation is negligible for means of order one.
    return var.clamp_min(torch.finfo(var.dtype).eps ** 2).sqrt()


ACTIVATIONS: Final[dict[str, Activation]] = {
    "relu": Ramp(0.0),
    "leaky_relu": Ramp(0.35),
    "erf": ErrorFunction(0.0),
    "shifted_erf": ErrorFunction(1.0),
    "xerf": LinearErrorFunction(),
}
