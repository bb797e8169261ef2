"""Kernels of layers from what a user passed."""

from contextlib import suppress

import gpytorch
import torch

from skgp.core.kernels.gpytorch_kernel import GPyTorchKernel
from skgp.core.kernels.kernel import GPyTorchBase, Kernel, KernelLike, LayerKernels
from skgp.core.kernels.names import NAMES, kernel_name
from skgp.core.kernels.stationary import PROFILES, Stationary
from skgp.core.numerics.draws import seeded


def make_kernel(
    kernel: KernelLike,
    n_gps: int,
    n_features: int,
    lengthscale: float,
    *,
    ard: bool = True,
    pulled: bool = False,
    seed: int = 0,
) -> Kernel:
    """Kernel of a layer from what a user passed: a name of a kernel or a gpytorch kernel.

    `ard` says whether a name has a lengthscale for each input, `pulled` whether a prior pulls these
    together. `seed` is for kernels that draw at their first evaluation, as gpytorch's RFFKernel.
    """
    if isinstance(kernel, str):
        n_lengthscales, known = n_features if ard else 1, kernel_name(kernel)
        if known in PROFILES:
            return Stationary(known, n_gps, n_lengthscales, lengthscale, pulled=pulled)
        return GPyTorchKernel(_rational_quadratic(n_lengthscales, lengthscale), n_gps)
    for name, part in kernel.named_modules():
        if not isinstance(part, gpytorch.kernels.Kernel) or part.active_dims is not None:
            continue
        if part.ard_num_dims not in (None, 1, n_features):
            raise ValueError(
                f"kernel {name or type(part).__name__} has ard_num_dims={part.ard_num_dims}, but X "
                f"has {n_features} columns: set ard_num_dims={n_features} or choose active_dims"
            )
    return _drawn(GPyTorchKernel(kernel, n_gps), n_features, seed)


def _drawn(kernel: Kernel, n_features: int, seed: int) -> Kernel:
    """The kernel after its first evaluation, in which the global generator starts at a seed.

    One that has no value at zero says so where it is evaluated at inputs of the user.
    """
    like = next(kernel.parameters(), torch.zeros((), dtype=torch.float32))
    with seeded(torch.device("cpu"), seed), torch.no_grad(), suppress(ValueError):
        kernel.kff(like.new_zeros(1, n_features))
    return kernel


def _rational_quadratic(n_lengthscales: int, lengthscale: float) -> GPyTorchBase:
    """variance (1 + r^2 / (2 alpha))^-alpha, with alpha and variance starting at one."""
    # Started in float32, as all kernels are, whatever the default of torch is.
    correlation = gpytorch.kernels.RQKernel(
        ard_num_dims=n_lengthscales if n_lengthscales > 1 else None
    ).float()
    correlation.lengthscale = lengthscale
    correlation.alpha = torch.tensor(1.0, dtype=torch.float32)
    kernel = gpytorch.kernels.ScaleKernel(correlation).float()
    kernel.outputscale = 1.0
    return kernel


def has_profile(kernel: KernelLike) -> bool:
    """Whether a kernel is stationary and on the fused path: one of `PROFILES`, by its name."""
    return isinstance(kernel, str) and kernel_name(kernel) in PROFILES


def layer_kernels(kernel: LayerKernels, n_layers: int) -> tuple[KernelLike, ...]:
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
        return (kernel,) * n_layers
    if len(kernel) != n_layers:
        raise ValueError(
            f"kernel has a length of {len(kernel)} for {n_layers} layers of GPs: give one for each "
            "layer, from the inputs upwards, or one for all"
        )
    for of_layer in kernel:
        is_named = isinstance(of_layer, str) and kernel_name(of_layer) is not None
        if not is_named and not isinstance(of_layer, gpytorch.kernels.Kernel):
            raise ValueError(
                f"kernel has the entry {of_layer!r}, which is neither a gpytorch kernel nor one "
                f"of {', '.join(map(repr, NAMES))}"
            )
    return tuple(kernel)
