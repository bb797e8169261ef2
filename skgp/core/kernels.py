"""Kernels behind one interface: `Kuu`, `Kuf`, `kff` in units of `variance`.

A layer multiplies its moments by `variance` (one number per GP) instead of scaling M x N blocks.
Stationary kernels with ARD run on a fused path: distances by one matrix product, then one autograd
function that keeps only what its backward needs. Any gpytorch kernel runs on the general path.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import gpytorch
import torch
from torch import Tensor, nn

GPyTorchBase: TypeAlias = gpytorch.kernels.Kernel
KernelLike: TypeAlias = "str | GPyTorchBase"
LayerKernels: TypeAlias = "KernelLike | Sequence[KernelLike]"  # one for all layers, or one for each


# What a user's kernel may raise. Not `Exception`: torch ends a checkpoint by one of its own.
_FAULTS: Final = (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class Profile(NamedTuple):
    """A stationary kernel k of the squared scaled distance r2 = r^2.

    Attributes
    ----------
    scale : float
        `evaluate` takes t = scale * r2: the factor costs nothing where distances are computed.
    evaluate : callable (t, overwritten) -> (k, h)
        The kernel and a tensor in proportion to its slope.
    slope : float
        dk/dr2 = slope * h.
    """

    scale: float
    evaluate: Callable[[Tensor], tuple[Tensor, Tensor]]
    slope: float


def _decay(negative: Tensor) -> Tensor:
    """exp, in place, with zero for the lowest numbers."""
    # A step multiplies three correlations with each other and with a slope. In float32 the product
    # is denormal from exp(-25) on, and arithmetic with denormal numbers is thirty times as slow.
    zero = math.log(torch.finfo(negative.dtype).tiny) / 3.5
    return torch.threshold_(negative, zero, -math.inf).exp_()


def _rbf(t: Tensor) -> tuple[Tensor, Tensor]:
    # k = exp(-r^2 / 2), dk/dr2 = -k / 2; t = r^2 / 2
    k = _decay(t.neg_())
    return k, k


def _matern12(t: Tensor) -> tuple[Tensor, Tensor]:
    # k = exp(-r), dk/dr2 = -exp(-r) / 2r; t = r^2. The slope has a pole where points coincide: the
    # floor on r keeps it finite.
    r = t.sqrt_()
    k = _decay(r.neg())
    return k, k / r.clamp_(min=math.sqrt(torch.finfo(r.dtype).eps))


def _matern32(t: Tensor) -> tuple[Tensor, Tensor]:
    # k = (1 + s) exp(-s), dk/dr2 = -3/2 exp(-s) with s = sqrt(3) r; t = s^2
    s = t.sqrt_()
    e = _decay(s.neg())
    return s.add_(1.0).mul_(e), e


def _matern52(t: Tensor) -> tuple[Tensor, Tensor]:
    # k = (1 + s + s^2 / 3) exp(-s), dk/dr2 = -5/6 (1 + s) exp(-s) with s = sqrt(5) r; t = s^2
    s = t.sqrt_()
    e = _decay(s.neg())
    h = (s + 1.0).mul_(e)
    return torch.addcmul(h, s.square_(), e, value=1.0 / 3.0, out=e), h


PROFILES: Final[dict[str, Profile]] = {
    "rbf": Profile(0.5, _rbf, -0.5),
    "matern12": Profile(1.0, _matern12, -0.5),
    "matern32": Profile(3.0, _matern32, -1.5),
    "matern52": Profile(5.0, _matern52, -5.0 / 6.0),
}


class _CrossCovariance(torch.autograd.Function):
    """k(Z, x) for inputs Z (W, M, D), x (N, D) or (W, N, D), and lengthscales exp(l) (W, 1, D)."""

    @staticmethod
    def forward(ctx: Any, Z: Tensor, x: Tensor, log_scale: Tensor, profile: Profile) -> Tensor:
        inverse = torch.exp(-log_scale)
        z, scaled = Z * inverse, x * inverse
        k, h = profile.evaluate(_squared_distance(z, scaled, profile.scale))
        ctx.save_for_backward(z, scaled, h, inverse)
        ctx.slope, ctx.shape = profile.slope, x.shape
        return k

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor | None, Tensor, None]:
        z, x, h, inverse = ctx.saved_tensors
        w = grads[0] * h  # dloss/dr2 = slope w, and dr2/dz = 2 (z - x)
        dz = _weighted_differences(w, z, x, 2.0 * ctx.slope)
        dx = _weighted_differences(w.mT, x, z, 2.0 * ctx.slope)
        d_log = _log_scale_gradient(dz, z, inverse) + _log_scale_gradient(dx, x, inverse)
        d_inputs = (dx * inverse).sum_to_size(ctx.shape) if ctx.needs_input_grad[1] else None
        return dz * inverse, d_inputs, d_log, None


class _Covariance(torch.autograd.Function):
    """k(x, x) for inputs x (..., N, D), with an exact zero distance on the diagonal.

    Lengthscales exp(l) are (..., 1, D) and broadcast against x.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, log_scale: Tensor, profile: Profile) -> Tensor:
        inverse = torch.exp(-log_scale)
        z = x * inverse
        t = _squared_distance(z, None, profile.scale)
        t.diagonal(dim1=-2, dim2=-1).zero_()
        k, h = profile.evaluate(t)
        ctx.save_for_backward(z, h, inverse)
        ctx.slope, ctx.shape = profile.slope, x.shape
        return k

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, Tensor, None]:
        z, h, inverse = ctx.saved_tensors
        w = grads[0] * h
        w = w + w.mT
        w.diagonal(dim1=-2, dim2=-1).zero_()
        dz = _weighted_differences(w, z, z, 2.0 * ctx.slope)
        dx = (dz * inverse).sum_to_size(ctx.shape) if ctx.needs_input_grad[0] else None
        return dx, _log_scale_gradient(dz, z, inverse), None


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
    return torch.matmul(left, right.mT).clamp_(min=0.0)


def _weighted_differences(w: Tensor, z: Tensor, x: Tensor, factor: float) -> Tensor:
    """factor * sum_n w_mn (z_m - x_n), with the sum of w from the same product."""
    # Contiguous as (D + 1, N): a narrow product is several times slower the other way round.
    right = torch.cat([x.mT, torch.ones_like(x[..., :1]).mT], -2)
    sums = (right @ w.mT).mT
    return (sums[..., -1:] * z - sums[..., :-1]).mul_(factor)


class Kernel(nn.Module, ABC):
    """Covariance functions of W independent GPs over D inputs, in units of `variance`."""

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """Factor (W,) by which every block is still to be multiplied."""

    @property
    @abstractmethod
    def lengthscale(self) -> Tensor:
        """Lengthscales (W, D), or (W, 1) if all inputs share them; NaN where there are none."""

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

    @abstractmethod
    def Kff(self, x: Tensor) -> Tensor:
        """Covariances (W, G, K, K) within G groups of inputs x (G, K, D)."""

    def log_prior(self) -> Tensor | float:
        """Log density of the hyper-parameters under their priors; zero without priors."""
        return 0.0


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
    """

    def __init__(self, name: str, n_gps: int, n_lengthscales: int, lengthscale: float) -> None:
        super().__init__()
        self.name = name
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

    def Kuu(self, Z: Tensor) -> Tensor:
        K: Tensor = _Covariance.apply(Z, self._log_scale(1), PROFILES[self.name])
        return K

    def Kuf(self, Z: Tensor, x: Tensor) -> Tensor:
        K: Tensor = _CrossCovariance.apply(Z, x, self._log_scale(1), PROFILES[self.name])
        return K

    def kff(self, x: Tensor) -> Tensor:
        return torch.ones(1, 1, dtype=x.dtype, device=x.device)

    def Kff(self, x: Tensor) -> Tensor:
        K: Tensor = _Covariance.apply(x, self._log_scale(2), PROFILES[self.name])
        return K

    def _log_scale(self, n_axes: int) -> Tensor:
        """Logarithms of the lengthscales, (W, 1, ..., D), with so many axes of length one."""
        return self.log_lengthscale.unflatten(0, (-1, *[1] * n_axes))


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
        if parameter is None:
            return torch.ones(n_gps, dtype=torch.float32)
        return parameter.new_ones(n_gps)

    @property
    def lengthscale(self) -> Tensor:
        return torch.stack([_find_lengthscale(kernel) for kernel in self.kernels])

    def Kuu(self, Z: Tensor) -> Tensor:
        return self._stacked(Z, shape=(Z.shape[-2],) * 2)

    def Kuf(self, Z: Tensor, x: Tensor) -> Tensor:
        x = x.expand(len(self.kernels), *x.shape[-2:])
        return self._stacked(Z, x, shape=(Z.shape[-2], x.shape[-2]))

    def kff(self, x: Tensor) -> Tensor:
        return self._stacked([x] * len(self.kernels), shape=x.shape[:1], diag=True)

    def Kff(self, x: Tensor) -> Tensor:
        return self._stacked([x] * len(self.kernels), shape=(*x.shape[:2], x.shape[1]))

    def _stacked(
        self, *inputs: Tensor | list[Tensor], shape: Sequence[int], diag: bool = False
    ) -> Tensor:
        """Blocks of a shape, one for each GP, from inputs that have as many entries."""
        name = type(self.kernels[0]).__name__
        try:
            each = zip(self.kernels, *inputs, strict=True)
            blocks = torch.stack([k(*x, diag=diag).to_dense() for k, *x in each])
        except _FAULTS as error:
            if "memory" in str(error):
                raise
            raise ValueError(
                f"kernel {name} cannot be evaluated at inputs with {inputs[0][0].shape[-1]} "
                f"columns ({error}): its active_dims have to be among them, its domain has to hold "
                "them, and it has to have blocks of any two sets of inputs"
            ) from error
        if blocks.shape[1:] != torch.Size(shape):
            raise ValueError(
                f"kernel {name} has a block of the shape {tuple(blocks.shape[1:])} in the place of "
                f"{tuple(shape)}: it has to be the covariance of one function, without "
                "batch_shape, tasks or derivatives"
            )
        return blocks

    def log_prior(self) -> Tensor | float:
        total: Tensor | float = 0.0
        for kernel in self.kernels:
            for _, module, prior, closure, _ in cast(GPyTorchBase, kernel).named_priors():
                total = total + prior.log_prob(closure(module)).sum()
        return total


def _find_lengthscale(kernel: nn.Module) -> Tensor:
    for module in kernel.modules():
        if isinstance(module, gpytorch.kernels.Kernel) and module.has_lengthscale:
            lengthscale: Tensor = module.lengthscale
            return lengthscale.flatten()
    return torch.full((1,), math.nan, dtype=torch.float32)


def make_kernel(
    kernel: KernelLike, n_gps: int, n_features: int, lengthscale: float, *, ard: bool = True
) -> Kernel:
    """Kernel of a layer from what a user passed: a name of `PROFILES` or a gpytorch kernel.

    `ard` says whether a name has a lengthscale for each input.
    """
    if isinstance(kernel, str):
        return Stationary(kernel, n_gps, n_features if ard else 1, lengthscale)
    for name, part in kernel.named_modules():
        if not isinstance(part, gpytorch.kernels.Kernel) or part.active_dims is not None:
            continue
        if part.ard_num_dims not in (None, 1, n_features):
            raise ValueError(
                f"kernel {name or type(part).__name__} has ard_num_dims={part.ard_num_dims}, but X "
                f"has {n_features} columns: set ard_num_dims={n_features} or choose active_dims"
            )
    return GPyTorchKernel(kernel, n_gps)


def layer_kernels(kernel: LayerKernels, n_layers: int) -> list[KernelLike]:
    """The kernel of each layer of GPs, from the inputs upwards.

    Parameters
    ----------
    kernel : str, gpytorch kernel, or sequence of them
    n_layers : int
        Layers of GPs, the top one counted.

    Raises
    ------
    ValueError
        If the sequence has another length, or anything in it is no kernel.
    """
    if isinstance(kernel, str | gpytorch.kernels.Kernel):
        return [kernel] * n_layers
    if len(kernel) != n_layers:
        raise ValueError(
            f"kernel has a length of {len(kernel)} for {n_layers} layers of GPs: give one for each "
            "layer, from the inputs upwards, or one for all"
        )
    for of_layer in kernel:
        if not isinstance(of_layer, gpytorch.kernels.Kernel) and of_layer not in [*PROFILES]:
            raise ValueError(
                f"kernel has the entry {of_layer!r}, which is neither a gpytorch kernel nor one "
                f"of {', '.join(map(repr, PROFILES))}"
            )
    return list(kernel)
