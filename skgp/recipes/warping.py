"""Whether the kernel sees skewed inputs as they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor

from skgp.core.kernels.choice import has_profile, make_kernel
from skgp.core.kernels.kernel import KernelLike
from skgp.core.layers.posteriors import FullPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal.collapsed import collapsed_bound
from skgp.core.marginal.starts import start_hyperparameters
from skgp.core.networks.warping import InputWarp, skewed_columns
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.setup import Setup

_INDUCING: Final = 100  # of the GPs that are compared
_JITTER: Final = 1e-6
_NOISE: Final = 0.1  # that these start with
_LEAST_GAIN: Final = 0.02  # nats per row and function of their bounds


@dataclass(frozen=True)
class Warping:
    """Parameter group: transforms of skewed inputs."""

    input_warping: bool | Literal["auto"]
    normalize_X: bool

    def __call__(
        self, setup: Setup, functions: Tensor, kernels: Sequence[KernelLike]
    ) -> tuple[InputWarp | None, Tensor]:
        """The transform, or None, and what a kernel sees of the setup's rows, (n, D).

        `functions` (W, n) are values that latent functions should have at the rows. Kernels of the
        user are made for the inputs, and the first rows of a stream may not be like the others.
        """
        x = setup.x
        can_be = all(map(has_profile, kernels)) and not setup.is_streamed
        if not (self.input_warping and self.normalize_X and can_be):
            return None, x
        few, weight = setup.few()
        warp = skewed_columns(x[few], weight)
        if warp is None:
            return None, x
        if self.input_warping == "auto":
            rows = functions[:, few], weight
            try:
                gain = _bound(setup, warp(x[few]), *rows) - _bound(setup, x[few], *rows)
            except NotPositiveDefiniteError:  # which a model with a larger jitter need not have
                return None, x
            if gain < _LEAST_GAIN:
                return None, x
        return warp, warp(x)


def _bound(setup: Setup, x: Tensor, functions: Tensor, weight: Tensor) -> float:
    """Nats per row and function of the collapsed bound of GPs with one kernel, after its start."""
    kernel = make_kernel("matern52", 1, x.shape[1], setup.lengthscale(x))
    Z = setup.shared_centres(x, weight, _INDUCING).unsqueeze(0)
    posterior = FullPosterior(torch.zeros(Z.shape[:2], dtype=torch.float32), 1.0)
    layer = SparseGP(kernel, Z, posterior, _JITTER).double()
    noise_var = start_hyperparameters(layer, x, functions, weight, _NOISE)
    with torch.no_grad():
        bound = collapsed_bound(
            layer.kernel, layer.Z, x, functions, weight, noise_var, layer.jitter
        )
    return float(bound.sum() / (weight.sum() * len(functions)))
