"""What the baselines share whose function is a dense network."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval
from torch import Tensor

from skgp.core.data import Batch
from skgp.core.likelihoods import Gaussian
from skgp.core.optimizers import Adam
from skgp.core.training import Candidate
from skgp.estimators._minibatch_regressor import MinibatchRegressor
from skgp.estimators._network_model import NetworkModel
from skgp.estimators._setup import Setup
from skgp.estimators._validation import check_sizes


class NetworkRegressor(MinibatchRegressor):
    """Abstract base: a family adds its model."""

    # Parameters that every family stores in its constructor.
    hidden_layer_sizes: int | Sequence[int]
    weight_decay: float

    # In units of the variance of y, of which a new network explains nothing.
    _initial_noise: ClassVar[float] = 1.0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MinibatchRegressor._parameter_constraints,
        "hidden_layer_sizes": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "weight_decay": [Interval(Real, 0, 1e15, closed="both")],
    }

    def _sizes(self) -> list[int]:
        sizes = self.hidden_layer_sizes
        return check_sizes("hidden_layer_sizes", [sizes] if isinstance(sizes, Integral) else sizes)

    def _likelihood(self, setup: Setup) -> Gaussian:
        return Gaussian(setup.Y.shape[1], self._initial_noise, self.noise_floor)

    def _candidate(self, model: NetworkModel, n_data: float) -> Candidate[NetworkModel]:
        def loss(batch: Batch) -> Tensor:
            return model.loss(batch, weight_decay=self.weight_decay)

        optimizer = Adam(list(model.parameters()), self.learning_rate_init)
        return Candidate(model, loss, optimizer)
