"""The interface of kernels: `Kuu`, `Kuf`, `kff` in units of `variance`.

A layer multiplies its moments by `variance` (one number per GP) instead of scaling M x N blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import gpytorch
import torch
from torch import Tensor, nn

from skgp.core.numerics.elementwise import EAGER, Passes

GPyTorchBase: TypeAlias = gpytorch.kernels.Kernel
KernelLike: TypeAlias = "str | GPyTorchBase"
LayerKernels: TypeAlias = "KernelLike | Sequence[KernelLike]"  # one for all layers, or one for each


class Frequencies(NamedTuple):
    """Frequencies with k(x, x') = variance E [1/F sum_f weight_f cos(w_f^T (x - x'))].

    Attributes
    ----------
    w : Tensor of shape (S, W, F, D)
    weight : Tensor of shape (S, W, F)
    """

    w: Tensor
    weight: Tensor


class Kernel(nn.Module, ABC):
    """Covariance functions of W independent GPs over D inputs, in units of `variance`.

    Attributes
    ----------
    passes : Passes
        How element-wise functions of blocks run, in the kernel and in the layer that has it; a copy
        of the kernel is eager.
    """

    passes: Passes = EAGER

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "passes"}

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """Factor (W,) by which every block is still to be multiplied."""

    @property
    @abstractmethod
    def lengthscale(self) -> Tensor:
        """Lengthscales (W, D), or (W, 1) if all inputs share them; NaN where there are none."""

    def lengthscales(self, n_inputs: int) -> Tensor:
        """Lengthscales (W, n_inputs) of the first inputs.

        Infinite for those that the kernel does not see, NaN for those that it sees without one.
        """
        is_shared = self.lengthscale.shape[1] == 1
        return (
            self.lengthscale.expand(-1, n_inputs) if is_shared else self.lengthscale[:, :n_inputs]
        )

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

    @abstractmethod
    def draw_frequencies(
        self, size: tuple[int, int, int, int], generator: torch.Generator
    ) -> Frequencies:
        """Independent draws of frequencies, weighted as the spectral density of each GP.

        Parameters
        ----------
        size : (S, W, F, D)
            F frequencies of D inputs for each of S draws of W GPs, which may share one kernel.
        generator : torch.Generator

        Returns
        -------
        Frequencies

        Raises
        ------
        NotImplementedError
            If nothing is known of the spectral density.
        """

    def magnify(self, factor: Tensor) -> None:
        """Multiply the variances (W,) in place, if the kernel has them as parameters."""

    def log_prior(self) -> Tensor | float:
        """Log density of the hyper-parameters under their priors; zero without priors."""
        return 0.0

    def log_weak_prior(self) -> Tensor | float:
        """Log density, up to a constant, under a weak prior for standardised inputs and targets.

        Zero for a kernel of a user, whose priors are its own.
        """
        return 0.0


def set_passes(model: nn.Module, passes: Passes) -> None:
    """Say how the element-wise functions of all layers of a model run."""
    for module in model.modules():
        if isinstance(module, Kernel):
            module.passes = passes
