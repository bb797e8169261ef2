"""Any gpytorch kernel, on the general path."""

import copy
import math
from collections.abc import Sequence
from typing import Final, cast

import gpytorch
import torch
from torch import Tensor, nn

from skgp.core.kernels.kernel import GPyTorchBase, Kernel

# What a user's kernel may raise. Not `Exception`: torch ends a checkpoint by one of its own.
_FAULTS: Final = (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


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
        return torch.stack([_find_lengthscale(kernel)[0] for kernel in self.kernels])

    @property
    def columns(self) -> Tensor | None:
        return _find_lengthscale(self.kernels[0])[1]

    def Kuu(self, Z: Tensor) -> Tensor:
        return self._stacked(Z, shape=(Z.shape[-2],) * 2)

    def Kuf(self, Z: Tensor, x: Tensor) -> Tensor:
        x = x.expand(len(self.kernels), *x.shape[-2:])
        return self._stacked(Z, x, shape=(Z.shape[-2], x.shape[-2]))

    def kff(self, x: Tensor) -> Tensor:
        return self._stacked([x] * len(self.kernels), shape=x.shape[:1], diag=True)

    def Kff(self, x: Tensor) -> Tensor:
        return self._stacked([x] * len(self.kernels), shape=(*x.shape[:2], x.shape[1]))

    def draw_frequencies(
        self, size: tuple[int, int, int, int], generator: torch.Generator
    ) -> Tensor:
        raise NotImplementedError(
            "draws of functions need the spectral density of each kernel, and that of the gpytorch "
            f"kernel {type(self.kernels[0]).__name__} is not known: use 'rbf' or a Matern kernel "
            "by its name"
        )

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


def _find_lengthscale(
    kernel: nn.Module, columns: Tensor | None = None, is_scaled: bool = False
) -> tuple[Tensor, Tensor | None]:
    """The first lengthscale of a tree of kernels, and the columns that it is of, if not all."""
    if isinstance(kernel, gpytorch.kernels.Kernel):
        chosen: Tensor | None = kernel.active_dims  # among those that the parent chose
        if chosen is not None and not is_scaled:  # a scale has the columns of what it scales
            columns = chosen if columns is None else columns[chosen]
        if kernel.has_lengthscale:
            return kernel.lengthscale.flatten(), columns
    is_scaled = isinstance(kernel, gpytorch.kernels.ScaleKernel)
    for part in kernel.children():
        found = _find_lengthscale(part, columns, is_scaled)
        if not found[0].isnan().all():
            return found
    return torch.full((1,), math.nan, dtype=torch.float32), None
