"""Kernels behind one interface: `Kuu`, `Kuf`, `kff` in units of `variance`.

A layer multiplies its moments by `variance` (one number per GP) instead of scaling M x N blocks.
Stationary kernels with ARD run on a fused path: distances by one matrix product, then one autograd
function that keeps only what its backward needs. Any gpytorch kernel runs on the general path.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import gpytorch
import torch
from torch import Tensor, nn

GPyTorchBase: TypeAlias = gpytorch.kernels.Kernel
KernelLike: TypeAlias = "str | GPyTorchBase"

# A profile maps squared scaled distances r2 (overwritten) to k(r2) and dk/dr2.
Profile = Callable[[Tensor], tuple[Tensor, Tensor]]


def _rbf(r2: Tensor) -> tuple[Tensor, Tensor]:
    k = r2.mul_(-0.5).exp_()
    return k, k * -0.5


def _matern12(r2: Tensor) -> tuple[Tensor, Tensor]:
    # dk/dr2 = -exp(-r) / 2r has a pole where points coincide: the floor on r keeps it finite.
    r = r2.sqrt_()
    k = torch.exp(-r)
    return k, (k / r.clamp_(min=math.sqrt(torch.finfo(r.dtype).eps))).mul_(-0.5)


def _matern32(r2: Tensor) -> tuple[Tensor, Tensor]:
    s = r2.mul_(3.0).sqrt_()
    e = torch.exp(-s)
    return s.add_(1.0).mul_(e), e.mul_(-1.5)


def _matern52(r2: Tensor) -> tuple[Tensor, Tensor]:
    s = r2.mul_(5.0).sqrt_()
    e = torch.exp(-s)
    g = (s + 1.0).mul_(e)
    return s.pow_(2).mul_(1.0 / 3.0).mul_(e).add_(g), g.mul_(-5.0 / 6.0)


PROFILES: Final[dict[str, Profile]] = {
    "rbf": _rbf,
    "matern12": _matern12,
    "matern32": _matern32,
    "matern52": _matern52,
}


class _CrossCovariance(torch.autograd.Function):
    """k(z, x) for scaled inputs z (W, M, D) and x (W, N, D)."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, x: Tensor, profile: Profile) -> Tensor:
        k, slope = profile(_squared_distance(z, x))
        ctx.save_for_backward(z, x, slope)
        return k

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, None]:
        z, x, slope = ctx.saved_tensors
        w = grads[0] * slope  # dloss/dr2, and dr2/dz = 2 (z - x)
        dz = (w.sum(-1, keepdim=True) * z - w @ x).mul_(2.0)
        dx = (w.sum(-2).unsqueeze(-1) * x - w.mT @ z).mul_(2.0)
        return dz, dx, None


class _Covariance(torch.autograd.Function):
    """k(z, z) for scaled inputs z (W, M, D), with an exact zero distance on the diagonal."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, profile: Profile) -> Tensor:
        r2 = _squared_distance(z, z)
        r2.diagonal(dim1=-2, dim2=-1).zero_()
        k, slope = profile(r2)
        ctx.save_for_backward(z, slope)
        return k

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:
        z, slope = ctx.saved_tensors
        w = grads[0] * slope
        w = w + w.mT
        w.diagonal(dim1=-2, dim2=-1).zero_()
        return (w.sum(-1, keepdim=True) * z - w @ z).mul_(2.0), None


def _squared_distance(z: Tensor, x: Tensor) -> Tensor:
    # |z - x|^2 by one product; moving the origin to the middle of z limits cancellation.
    centre = z.mean(-2, keepdim=True)
    z, x = z - centre, x - centre
    zz = z.square().sum(-1, keepdim=True)
    xx = x.square().sum(-1).unsqueeze(-2)
    return torch.matmul(z, x.mT).mul_(-2.0).add_(zz).add_(xx).clamp_(min=0.0)


class Kernel(nn.Module, ABC):
    """Covariance functions of W independent GPs over D inputs, in units of `variance`."""

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """Factor (W,) by which every block is still to be multiplied."""

    @property
    @abstractmethod
    def lengthscale(self) -> Tensor:
        """Lengthscales (W, D); NaN where the kernel has none."""

    @abstractmethod
    def Kuu(self, Z: Tensor) -> Tensor:
        """Covariance (W, M, M) of inducing inputs Z (W, M, D)."""

    @abstractmethod
    def Kuf(self, Z: Tensor, x: Tensor) -> Tensor:
        """Cross-covariance (W, M, N) of inducing inputs Z (W, M, D) and inputs x.

        x is (N, D), or (W, N, D) where each GP has inputs of its own.
        """

    @abstractmethod
    def kff(self, x: Tensor) -> Tensor:
        """Diagonal of the covariance, (W, N) or broadcastable to it, of inputs x (N, D)."""

    def log_prior(self) -> Tensor | float:
        """Log density of the hyper-parameters under their priors; zero without priors."""
        return 0.0


class Stationary(Kernel):
    """Unit-variance RBF or Matern kernel with one lengthscale per input (ARD) and GP.

    Parameters
    ----------
    name : {"rbf", "matern12", "matern32", "matern52"}
    n_gps : int
        Number W of GPs.
    n_features : int
        Number D of inputs.
    lengthscale : float
        Initial value, in units of the (scaled) inputs.
    """

    def __init__(self, name: str, n_gps: int, n_features: int, lengthscale: float) -> None:
        super().__init__()
        self.name = name
        self.log_lengthscale = nn.Parameter(torch.full((n_gps, n_features), math.log(lengthscale)))
        self.log_variance = nn.Parameter(torch.zeros(n_gps))

    @property
    def variance(self) -> Tensor:
        return self.log_variance.exp()

    @property
    def lengthscale(self) -> Tensor:
        return self.log_lengthscale.exp()

    def Kuu(self, Z: Tensor) -> Tensor:
        scaled = self._scaled(Z)
        K: Tensor = _Covariance.apply(scaled, PROFILES[self.name])  # type: ignore[no-untyped-call]
        return K

    def Kuf(self, Z: Tensor, x: Tensor) -> Tensor:
        K: Tensor = _CrossCovariance.apply(  # type: ignore[no-untyped-call]
            self._scaled(Z), self._scaled(x), PROFILES[self.name]
        )
        return K

    def kff(self, x: Tensor) -> Tensor:
        return torch.ones(1, 1, dtype=x.dtype, device=x.device)

    def _scaled(self, x: Tensor) -> Tensor:
        return x * torch.exp(-self.log_lengthscale).unsqueeze(-2)


class GPyTorchKernel(Kernel):
    """Any gpytorch kernel, copied once for each GP; its priors enter the objective.

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
        Not changed: each GP trains a copy of its own.
    n_gps : int
    """

    def __init__(self, kernel: gpytorch.kernels.Kernel, n_gps: int) -> None:
        super().__init__()
        self.kernels = nn.ModuleList(copy.deepcopy(kernel) for _ in range(n_gps))

    @property
    def variance(self) -> Tensor:
        parameter = next(self.parameters(), None)
        n_gps = len(self.kernels)
        return torch.ones(n_gps) if parameter is None else parameter.new_ones(n_gps)

    @property
    def lengthscale(self) -> Tensor:
        return torch.stack([_find_lengthscale(kernel) for kernel in self.kernels])

    def Kuu(self, Z: Tensor) -> Tensor:
        return torch.stack([k(z).to_dense() for k, z in zip(self.kernels, Z, strict=True)])

    def Kuf(self, Z: Tensor, x: Tensor) -> Tensor:
        x = x.expand(len(self.kernels), *x.shape[-2:])
        rows = zip(self.kernels, Z, x, strict=True)
        return torch.stack([k(z, x_of_gp).to_dense() for k, z, x_of_gp in rows])

    def kff(self, x: Tensor) -> Tensor:
        return torch.stack([k(x, diag=True) for k in self.kernels])

    def log_prior(self) -> Tensor | float:
        total: Tensor | float = 0.0
        for kernel in self.kernels:
            priors: Iterator[tuple[Any, ...]] = kernel.named_priors()  # type: ignore[operator]
            for _, module, prior, closure, _ in priors:
                total = total + prior.log_prob(closure(module)).sum()
        return total


def _find_lengthscale(kernel: nn.Module) -> Tensor:
    for module in kernel.modules():
        if isinstance(module, gpytorch.kernels.Kernel) and module.has_lengthscale:
            lengthscale: Tensor = module.lengthscale
            return lengthscale.flatten()
    return torch.full((1,), math.nan)


def make_kernel(kernel: KernelLike, n_gps: int, n_features: int, lengthscale: float) -> Kernel:
    """Kernel of a layer from what a user passed: a name of `PROFILES` or a gpytorch kernel."""
    if isinstance(kernel, str):
        return Stationary(kernel, n_gps, n_features, lengthscale)
    for name, part in kernel.named_modules():
        if not isinstance(part, gpytorch.kernels.Kernel) or part.active_dims is not None:
            continue
        if part.ard_num_dims not in (None, 1, n_features):
            raise ValueError(
                f"kernel {name or type(part).__name__} has ard_num_dims={part.ard_num_dims}, but X "
                f"has {n_features} columns: set ard_num_dims={n_features} or choose active_dims"
            )
    return GPyTorchKernel(kernel, n_gps)
