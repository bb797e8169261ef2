"""Kernels with noise of their own: hidden layers whose values are noisy functions."""

import math

import torch
from torch import Tensor, nn

from skgp.core.kernels.kernel import Frequencies, Kernel


class NoisyKernel(Kernel):
    """k(x_i, x_j) + s^2 delta_ij, with one learned s^2 (doubly stochastic paper, section 2.2).

    Inducing inputs and rows are different points, whatever their values are.

    Parameters
    ----------
    kernel : Kernel
    noise_var : float
        Initial noise variance s^2.
    """

    def __init__(self, kernel: Kernel, noise_var: float) -> None:
        super().__init__()
        self.kernel = kernel
        self.log_noise = nn.Parameter(torch.tensor(math.log(noise_var), dtype=torch.float32))

    @property
    def noise_var(self) -> Tensor:
        """Noise variance, a scalar."""
        return self.log_noise.exp()

    @property
    def variance(self) -> Tensor:
        return self.kernel.variance

    @property
    def lengthscale(self) -> Tensor:
        return self.kernel.lengthscale

    def lengthscales(self, n_inputs: int) -> Tensor:
        return self.kernel.lengthscales(n_inputs)

    def Kuu(self, Z: Tensor) -> Tensor:
        return self.kernel.Kuu(Z) + self._ratio(2) * _identity(Z)

    def Kuf(self, Z: Tensor, x: Tensor) -> Tensor:
        return self.kernel.Kuf(Z, x)

    def kff(self, x: Tensor) -> Tensor:
        return self.kernel.kff(x) + self._ratio(1)

    def Kff(self, x: Tensor) -> Tensor:
        return self.kernel.Kff(x) + self._ratio(3) * _identity(x)

    def draw_frequencies(
        self, size: tuple[int, int, int, int], generator: torch.Generator
    ) -> Frequencies:
        raise NotImplementedError(
            "hidden layers with noise are no functions that could be drawn: fit with "
            "hidden_noise=False"
        )

    def magnify(self, factor: Tensor) -> None:
        self.kernel.magnify(factor)

    def log_prior(self) -> Tensor | float:
        return self.kernel.log_prior()

    def log_weak_prior(self) -> Tensor | float:
        return self.kernel.log_weak_prior()

    def _ratio(self, n_axes: int) -> Tensor:
        """The noise in units of the variance, (W, 1, ..., 1) with so many axes of length one."""
        ratio = self.noise_var / self.variance
        return ratio.unflatten(0, (-1, *[1] * n_axes))


def _identity(x: Tensor) -> Tensor:
    return torch.eye(x.shape[-2], dtype=x.dtype, device=x.device)
