"""The standard normal: a quadrature rule, its density, the log of its distribution function."""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from skgp.core.numerics.captures import is_capturing, nan_where
from skgp.core.numerics.linalg import LOG_2PI

_N_POINTS = 48
_REACH = 6.5  # the mass beyond is 8e-11
_FINEST = 32.0  # times as many points at most
_NARROW = 1e-3  # width of an interval, below which the density says more: cdfs cancel
_TAIL = -30.0  # the first four terms of the expansion are right to 2e-10 from here on


class NormalRule(NamedTuple):
    """E g(z) for z ~ N(0, 1) is about the sum of w_k g(z_k).

    Attributes
    ----------
    z, log_w : Tensor of shape (K,)
        Points, and logs of weights that sum to one.
    """

    z: Tensor
    log_w: Tensor


def normal_rule(like: Tensor, finer: float = 1.0) -> NormalRule:
    """The trapezoidal rule on 48 points, in the dtype and on the device of `like`.

    With steps that are `finer` times shorter there are more.

    Likelihoods of classes have poles near the real line once f is wide. The error of equal steps
    falls exponentially with the distance of the nearest pole: there they do better than
    Gauss-Hermite points.
    """
    return _trapezoidal(math.ceil((_N_POINTS - 1) * finer) + 1, like.dtype, like.device)


@cache  # moving a rule to a GPU takes time, and CUDA graphs go on reading it there
def _trapezoidal(n: int, dtype: torch.dtype, device: torch.device) -> NormalRule:
    z = torch.linspace(-_REACH, _REACH, n, dtype=torch.float64)
    return _placed(z, -0.5 * z.square(), dtype, device)


def refined(
    value: Tensor, finer: Tensor, again: Callable[[Tensor, float], Tensor], start: float
) -> Tensor:
    """Integrals by `normal_rule`, once more with shorter steps where these have to be shorter.

    Parameters
    ----------
    value : Tensor
        Integrals with the usual steps.
    finer : Tensor
        How many times shorter the steps have to be for each of them.
    again : callable
        Computes those of a mask with steps that are so many times shorter.
    start : float
        The usual steps will do up to so many times.
    """
    narrow = finer.detach() > start
    if is_capturing(value):
        return nan_where(narrow.any(), value)
    if not bool(narrow.any()):
        return value
    times = finer[narrow].amax().clamp_max(_FINEST).item()
    return value.masked_scatter(narrow, again(narrow, max(times, 1.0)))


def hermite_rule(like: Tensor, n: int) -> NormalRule:
    """The Gauss-Hermite rule on n points: for integrands that grow or fall as exp(z) does."""
    return _hermite(n, like.dtype, like.device)


@cache
def _hermite(n: int, dtype: torch.dtype, device: torch.device) -> NormalRule:
    z, w = map(torch.from_numpy, np.polynomial.hermite_e.hermegauss(n))
    return _placed(z, w.log(), dtype, device)


def _placed(z: Tensor, log_w: Tensor, dtype: torch.dtype, device: torch.device) -> NormalRule:
    """A rule with these weights, normalised: tensors for predictions and for training."""
    with torch.inference_mode(False):
        parts = z.clone(), log_w.log_softmax(0)
        return NormalRule(*(part.to(device, dtype) for part in parts))


def normal_density(x: Tensor) -> Tensor:
    """phi(x) = exp(-x^2 / 2) / sqrt(2 pi)."""
    return (-0.5 * x.square()).exp() / math.sqrt(2.0 * math.pi)


def log_ndtr(x: Tensor) -> Tensor:
    """log Phi(x), with an exact slope in the tail.

    The slope of `torch.special.log_ndtr` is the exponential of a difference of two numbers of size
    x^2 / 2, which cancel: in float32 it is off by a few percent at x = -1000.
    """
    # log Phi(x) = -x^2/2 - log(-x) - log(2 pi)/2 + log(1 - x^-2 + 3 x^-4 - 15 x^-6 + ...)
    tail = x.clamp_max(_TAIL)
    r = tail.square().reciprocal()
    series = torch.log1p(-r * (1.0 - r * (3.0 - 15.0 * r)))
    far = -0.5 * tail.square() - (-tail).log() - 0.5 * LOG_2PI + series
    return torch.where(x < _TAIL, far, torch.special.log_ndtr(x.clamp_min(_TAIL)))


def log_ndtr_difference(a: Tensor, b: Tensor, width: Tensor) -> Tensor:
    """log(Phi(b) - Phi(a)) for a < b, exact in both tails; both finite, however large.

    `width` is b - a, of which a caller may know more digits.
    """
    middle = a + 0.5 * width
    narrow = width * middle.abs().clamp_min(1.0) < _NARROW
    # The distribution function resolves its lower tail: so an interval above zero is reflected.
    above = a + b > 0.0
    a, b = torch.where(above, -b, a), torch.where(above, -a, b)
    # log Phi(b) + log(1 - exp(d)), d = log Phi(a) - log Phi(b)
    log_b = log_ndtr(b)
    d = (log_ndtr(a) - log_b).clamp_max(-torch.finfo(a.dtype).tiny)
    near = (-torch.expm1(d.clamp_min(-1.0))).log()
    far = torch.log1p(-d.clamp_max(-0.5).exp())
    wide = log_b + torch.where(d > -math.log(2.0), near, far)
    # Phi(b) - Phi(a) = phi(m) w (1 + (m^2 - 1) w^2 / 24 + ...)
    short = width.clamp_max(_NARROW)
    bend = ((middle * short).square() - short.square()) / 24.0
    return torch.where(narrow, width.log() - 0.5 * (middle.square() + LOG_2PI) + bend, wide)
