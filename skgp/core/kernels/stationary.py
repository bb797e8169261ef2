"""Stationary kernels with ARD on a fused path.

Distances come from one matrix product, and one autograd function keeps only what its backward
needs.
"""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from skgp.core.kernels.kernel import Frequencies, Kernel
from skgp.core.numerics.elementwise import Passes, matern12, matern32, matern52, rbf
from skgp.core.numerics.gradients import no_double_backward
from skgp.core.numerics.weak_prior import log_weak_prior

_SPREAD: Final = 0.1  # of log lengthscales around their mean, if they are pulled together


class Profile(NamedTuple):
    """A stationary kernel k of the squared scaled distance r2 = r^2.

    Attributes
    ----------
    scale : float
        `evaluate` takes t = scale * r2: the factor costs nothing where distances are computed.
    evaluate : callable (t, overwritten) -> (k, h)
        The kernel and a tensor in proportion to its slope; rounding may have left t on the wrong
        side of zero.
    slope : float
        dk/dr2 = slope * h.
    """

    scale: float
    evaluate: Callable[[Tensor], tuple[Tensor, Tensor]]
    slope: float


PROFILES: Final[dict[str, Profile]] = {
    "rbf": Profile(-0.5, rbf, -0.5),
    "matern12": Profile(1.0, matern12, -0.5),
    "matern32": Profile(3.0, matern32, -1.5),
    "matern52": Profile(5.0, matern52, -5.0 / 6.0),
}


class _CrossCovariance(torch.autograd.Function):
    """k(Z, x) for inputs Z (W, M, D), x (N, D) or (W, N, D), and lengthscales exp(l) (W, 1, D)."""

    @staticmethod
    def forward(
        ctx: Any, Z: Tensor, x: Tensor, log_scale: Tensor, profile: Profile, passes: Passes
    ) -> Tensor:
        inverse = torch.exp(-log_scale)
        z, scaled = Z * inverse, x * inverse
        k, h = passes(profile.evaluate, _squared_distance(z, scaled, profile.scale))
        ctx.save_for_backward(z, scaled, h, inverse)
        ctx.slope, ctx.shape = profile.slope, x.shape
        return k

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor | None, Tensor, None, None]:
        no_double_backward()
        z, x, h, inverse = ctx.saved_tensors
        w = grads[0] * h  # dloss/dr2 = slope w, and dr2/dz = 2 (z - x)
        dz = _weighted_differences(w, z, x, 2.0 * ctx.slope)
        dx = _weighted_differences(w.mT, x, z, 2.0 * ctx.slope)
        d_log = _log_scale_gradient(dz, z, inverse) + _log_scale_gradient(dx, x, inverse)
        d_inputs = (dx * inverse).sum_to_size(ctx.shape) if ctx.needs_input_grad[1] else None
        return dz * inverse, d_inputs, d_log, None, None


class _Covariance(torch.autograd.Function):
    """k(x, x) for inputs x (..., N, D), with an exact zero distance on the diagonal.

    Lengthscales exp(l) are (..., 1, D) and broadcast against x.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, log_scale: Tensor, profile: Profile, passes: Passes) -> Tensor:
        inverse = torch.exp(-log_scale)
        z = x * inverse
        t = _squared_distance(z, None, profile.scale)
        t.diagonal(dim1=-2, dim2=-1).zero_()
        k, h = passes(profile.evaluate, t)
        ctx.save_for_backward(z, h, inverse)
        ctx.slope, ctx.shape = profile.slope, x.shape
        return k

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, Tensor, None, None]:
        no_double_backward()
        z, h, inverse = ctx.saved_tensors
        w = grads[0] * h
        w = w + w.mT
        w.diagonal(dim1=-2, dim2=-1).zero_()
        dz = _weighted_differences(w, z, z, 2.0 * ctx.slope)
        dx = (dz * inverse).sum_to_size(ctx.shape) if ctx.needs_input_grad[0] else None
        return dx, _log_scale_gradient(dz, z, inverse), None, None


def _log_scale_gradient(dz: Tensor, z: Tensor, inverse: Tensor) -> Tensor:
    """Gradient in l of z = x exp(-l), from that in z."""
    return -(dz * z).sum_to_size(inverse.shape)


def _squared_distance(z: Tensor, x: Tensor | None, scale: float) -> Tensor:
    # scale |z - x|^2 = [-2 z, 1, |z|^2] [x, |x|^2, 1]^T: one product and no further pass over it.
    # Moving the origin to the middle of z limits cancellation. None for x stands for z.
    centre = z.mean(-2, keepdim=True)
    z = z - centre
    zz = z.square().sum(-1, keepdim=True)
    left = torch.cat([-2.0 * z, torch.ones_like(zz), zz], -1).mul_(scale)
    if x is None:
        x, xx = z, zz
    else:
        x = x - centre
        xx = x.square().sum(-1, keepdim=True)
    right = torch.cat([x, xx, torch.ones_like(xx)], -1)
    return torch.matmul(left, right.mT)


def _weighted_differences(w: Tensor, z: Tensor, x: Tensor, factor: float) -> Tensor:
    """factor * sum_n w_mn (z_m - x_n), with the sum of w from the same product."""
    # Contiguous as (D + 1, N): a narrow product is several times slower the other way round.
    right = torch.cat([x.mT, torch.ones_like(x[..., :1]).mT], -2)
    sums = (right @ w.mT).mT
    return (sums[..., -1:] * z - sums[..., :-1]).mul_(factor)


# Degrees of freedom of the spectral density, a Student t distribution with 2 nu of them; that of
# the rbf kernel, the limit, is normal (Rasmussen and Williams 2006, Section 4.2.1).
_DEGREES: Final = {"matern12": 1, "matern32": 3, "matern52": 5}
# Densities wider by these factors give every second frequency: where rows are near, what they leave
# unexplained is of waves so short that next to none comes from the spectral density itself.
_WIDER: Final = (4.0, 16.0, 64.0, 256.0, 1024.0)


class Stationary(Kernel):
    """Unit-variance RBF or Matern kernel with one lengthscale per input (ARD) and GP, or per GP.

    Parameters
    ----------
    name : {"rbf", "matern12", "matern32", "matern52"}
    n_gps : int
        Number W of GPs.
    n_lengthscales : int
        Lengthscales of each GP: the number D of inputs, or one for all of them.
    lengthscale : float
        Initial value, in units of the (scaled) inputs.
    pulled : bool
        Whether a prior pulls the lengthscales of a GP together. Its tails are heavy: a few inputs
        may differ by as much as the rows ask for.
    """

    def __init__(
        self,
        name: str,
        n_gps: int,
        n_lengthscales: int,
        lengthscale: float,
        *,
        pulled: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.pulled = pulled
        shape = n_gps, n_lengthscales
        start = torch.full(shape, math.log(lengthscale), dtype=torch.float32)
        self.log_lengthscale = nn.Parameter(start)
        self.log_variance = nn.Parameter(start.new_zeros(n_gps))

    @property
    def variance(self) -> Tensor:
        return self.log_variance.exp()

    @property
    def lengthscale(self) -> Tensor:
        return self.log_lengthscale.exp()

    def log_weak_prior(self) -> Tensor:
        # Around the logarithms of sqrt(D) and of one, where models start.
        centre = 0.5 * math.log(self.log_lengthscale.shape[-1])
        moves = [(self.log_lengthscale - centre).flatten(), self.log_variance.flatten()]
        return log_weak_prior(torch.cat(moves))

    def Kuu(self, Z: Tensor) -> Tensor:
        K: Tensor = _Covariance.apply(Z, self._log_scale(1), PROFILES[self.name], self.passes)
        return K

    def Kuf(self, Z: Tensor, x: Tensor) -> Tensor:
        K: Tensor = _CrossCovariance.apply(
            Z, x, self._log_scale(1), PROFILES[self.name], self.passes
        )
        return K

    def kff(self, x: Tensor) -> Tensor:
        return torch.ones(1, 1, dtype=x.dtype, device=x.device)

    def Kff(self, x: Tensor) -> Tensor:
        K: Tensor = _Covariance.apply(x, self._log_scale(2), PROFILES[self.name], self.passes)
        return K

    def draw_frequencies(
        self, size: tuple[int, int, int, int], generator: torch.Generator
    ) -> Frequencies:
        like, n_inputs = self.log_lengthscale, size[-1]
        w = torch.randn(size, generator=generator, dtype=like.dtype)
        weight = torch.ones(size[:3], dtype=like.dtype)
        if self.name in _DEGREES:
            # t = z sqrt(d / chi^2_d), one chi^2_d, a sum of d squared normals, for all inputs
            degrees = _DEGREES[self.name]
            z = torch.randn((*size[:3], degrees), generator=generator, dtype=like.dtype)
            w = w * (degrees / z.square().sum(-1, keepdim=True)).sqrt()
            width = _widths(size[2]).to(like.dtype)
            w = w * width.unsqueeze(-1)
            weight = _weights(w.square().sum(-1), width, degrees, n_inputs)
        return Frequencies(
            w.to(like.device) / self.lengthscale.unsqueeze(1), weight.to(like.device)
        )

    def log_prior(self) -> Tensor | float:
        # Cauchy densities around the mean, up to a constant
        if not self.pulled:
            return 0.0
        centred = self.log_lengthscale - self.log_lengthscale.mean(-1, keepdim=True)
        return -(centred / _SPREAD).square().log1p().sum()

    def magnify(self, factor: Tensor) -> None:
        self.log_variance.add_(factor.to(self.log_variance).log())

    def _log_scale(self, n_axes: int) -> Tensor:
        """Logarithms of the lengthscales, (W, 1, ..., D), with so many axes of length one."""
        return self.log_lengthscale.unflatten(0, (-1, *[1] * n_axes))


def _widths(n: int) -> Tensor:
    """How many times as wide as the spectral density those of n frequencies are, (n,)."""
    widths = torch.ones(n)
    wider = torch.tensor(_WIDER)
    widths[1::2] = wider[torch.arange(n // 2) % len(wider)]
    return widths


def _weights(squared: Tensor, widths: Tensor, degrees: int, n_inputs: int) -> Tensor:
    """Spectral densities relative to the mean of those that the frequencies come from.

    For squares (..., F) of frequencies in units of inverse lengthscales, t-distributed with widths
    (F,). The mean over frequencies is right whatever the widths are (Veach and Guibas 1995), and no
    weight is above two.
    """
    width, count = widths.unique(return_counts=True)
    power = 0.5 * (degrees + n_inputs)
    spread = (squared.unsqueeze(-1) / (degrees * width.square())).log1p()
    log_share = (count.to(width) / len(widths)).log() - n_inputs * width.log()
    log_mixture = (log_share - power * spread).logsumexp(-1)
    return (-power * (squared / degrees).log1p() - log_mixture).exp()
