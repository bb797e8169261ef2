"""Models whose prediction is a mixture of the outputs of one network, with one noise for all."""

import math
from abc import abstractmethod
from collections.abc import Callable

from torch import Tensor

from skgp.core.data import Batch
from skgp.core.layers import certain
from skgp.core.likelihoods import Gaussian
from skgp.core.objectives import PREDICTIVE
from skgp.estimators._model import Predictor, RegressionModel


class NetworkModel(RegressionModel):
    """Abstract base: S functions as equally weighted components.

    Parameters
    ----------
    likelihood : Gaussian
    """

    def __init__(self, likelihood: Gaussian) -> None:
        super().__init__()
        self.likelihood = likelihood

    @property
    @abstractmethod
    def n_components(self) -> int:
        """Number S of functions."""

    @abstractmethod
    def functions(self, x: Tensor) -> Tensor:
        """Their values (S, B, P) at scaled inputs (B, D)."""

    @abstractmethod
    def loss(self, batch: Batch, *, weight_decay: float) -> Tensor:
        """Training loss of a batch, nats per row, with the penalty of the network's weights."""

    @property
    def log_weights(self) -> Tensor:
        n = self.n_components
        return self.likelihood.noise_var.new_full((n,), -math.log(n))

    def predictor(self) -> Predictor:
        return lambda x: self.likelihood.predictive(certain(self.functions(x)))

    def log_density(self) -> Callable[[Batch], Tensor]:
        def of_batch(batch: Batch) -> Tensor:
            latent = certain(self.functions(batch.x))
            terms = PREDICTIVE.term(self.likelihood, latent, batch.targets)
            return PREDICTIVE.reduce(terms, self.log_weights)

        return of_batch
