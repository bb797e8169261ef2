"""Whether the kernel sees skewed inputs as they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from torch import Tensor

from skgp.core.kernels.choice import has_profile
from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.warping import InputWarp, skewed_columns
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.setup import Setup
from skgp.recipes.rough_gps import bound_of_functions

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
        few, weight = setup.subsample()
        warp = skewed_columns(x[few], weight)
        if warp is None:
            return None, x
        if self.input_warping == "auto":
            try:
                plain, warped = (bound_of_functions(setup, h, functions, 1) for h in (x, warp(x)))
            except NotPositiveDefiniteError:  # which a model with a larger jitter need not have
                return None, x
            if (warped - plain).mean() < _LEAST_GAIN:
                return None, x
        return warp, warp(x)
