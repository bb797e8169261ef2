"""What a kernel sees in the place of the inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from torch import Tensor, nn

from skgp.core.kernels.choice import has_profile
from skgp.core.kernels.kernel import KernelLike
from skgp.core.networks.chance import chance_of
from skgp.core.networks.features import FeatureExtractor, make_features, start_features
from skgp.core.networks.warping import InputWarp, skewed_columns
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.arguments import check_sizes
from skgp.fitting.setup import Setup
from skgp.recipes.rough_gps import bound_of_functions

_LEAST_GAIN: Final = 0.02  # nats per row and function of their bounds


@dataclass(frozen=True)
class Features:
    """Parameter group: a deep kernel."""

    feature_extractor: FeatureExtractor | None
    weight_decay: float

    def __call__(self, setup: Setup) -> tuple[nn.Module | None, Tensor]:
        """The network, or None, and the features (n, F) of the setup's rows."""
        extractor = self.feature_extractor
        if extractor is None:
            return None, setup.x
        if not isinstance(extractor, str) and not callable(extractor):
            extractor = check_sizes("feature_extractor", extractor)
        features = make_features(extractor, setup.x.shape[1], setup.seed_for("features")).double()
        # The statistics of a batch norm come from a pass with dropout.
        with chance_of(features, setup.seed_for("statistics"))(setup.x.device, 0):
            return features, start_features(features, setup.x)


NO_FEATURES: Final = Features(None, 0.0)


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
