"""Any gpytorch kernel, on the general path."""

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Final, cast

import gpytorch
import torch
from torch import Tensor, nn

from skgp.core.kernels.kernel import Frequencies, GPyTorchBase, Kernel

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
        kernels = (cast(GPyTorchBase, kernel) for kernel in self.kernels)
        return torch.stack([_first_lengthscale(kernel) for kernel in kernels])

    def lengthscales(self, n_inputs: int) -> Tensor:
        kernels = (cast(GPyTorchBase, kernel) for kernel in self.kernels)
        return torch.stack([_smallest_lengthscales(kernel, n_inputs) for kernel in kernels])

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
    ) -> Frequencies:
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


def _first_lengthscale(kernel: GPyTorchBase) -> Tensor:
    """That of the first leaf which has one; NaN if none has."""
    for leaf, _ in _leaves(kernel):
        if leaf.has_lengthscale:
            return leaf.lengthscale.flatten()
    return torch.full((1,), math.nan, dtype=torch.float32)


def _smallest_lengthscales(kernel: GPyTorchBase, n_inputs: int) -> Tensor:
    """For each input the smallest lengthscale (n_inputs,) of the leaves that see it."""
    smallest = torch.full((n_inputs,), math.inf, dtype=torch.float64)
    is_seen = torch.zeros(n_inputs, dtype=torch.bool)
    for leaf, columns in _leaves(kernel):
        values = torch.full((1,), math.nan, dtype=torch.float64)
        if leaf.has_lengthscale:
            values = leaf.lengthscale.detach().flatten().to(smallest)
        if columns is None:
            columns = torch.arange(n_inputs if len(values) == 1 else len(values))
        columns, values = columns.cpu(), values.expand(len(columns))
        is_known = columns < n_inputs
        columns, values = columns[is_known], values[is_known]
        is_seen[columns] = True
        smallest[columns] = torch.fmin(smallest[columns], values)
    return smallest.masked_fill(is_seen & smallest.isinf(), math.nan)


def _leaves(
    module: nn.Module, columns: Tensor | None = None, is_scaled: bool = False
) -> Iterator[tuple[GPyTorchBase, Tensor | None]]:
    """Kernels of a tree that are made of no others, and the columns that each sees, if not all."""
    if isinstance(module, gpytorch.kernels.Kernel):
        chosen: Tensor | None = module.active_dims  # among those that the parent chose
        if chosen is not None and not is_scaled:  # a scale has the columns of what it scales
            columns = chosen if columns is None else columns[chosen]
        n_kernels = sum(isinstance(m, gpytorch.kernels.Kernel) for m in module.modules())
        if module.has_lengthscale or n_kernels == 1:
            yield module, columns
            return
    is_scaled = isinstance(module, gpytorch.kernels.ScaleKernel)
    for part in module.children():
        yield from _leaves(part, columns, is_scaled)
