"""What a kernel sees in the place of the inputs."""

from dataclasses import dataclass
from typing import Final

from torch import Tensor, nn

from skgp.core.networks.chance import chance_of
from skgp.core.networks.features import FeatureExtractor, make_features, start_features
from skgp.fitting.arguments import check_sizes
from skgp.fitting.setup import Setup


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
