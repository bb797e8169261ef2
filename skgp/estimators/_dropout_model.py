"""The model of MC dropout: a network, fixed masks, and noise."""

import math
from collections.abc import Callable

from torch import Tensor

from skgp.core.dropout import DropoutNetwork, certain, dropout_loss
from skgp.core.likelihoods import Gaussian
from skgp.core.objectives import PREDICTIVE, Batch
from skgp.estimators._model import Model, Predictor


class DropoutModel(Model):
    """Passes of a network as equally weighted components, with one noise for all of them.

    Parameters
    ----------
    network : DropoutNetwork
    likelihood : Gaussian
    """

    def __init__(self, network: DropoutNetwork, likelihood: Gaussian) -> None:
        super().__init__()
        self.network = network
        self.likelihood = likelihood

    @property
    def log_weights(self) -> Tensor:
        n_samples = len(self.network.kept)
        return self.likelihood.noise_var.new_full((n_samples,), -math.log(n_samples))

    def loss(self, batch: Batch, *, weight_decay: float) -> Tensor:
        """Training loss of a batch, nats per row."""
        return dropout_loss(self.network, self.likelihood, batch, weight_decay=weight_decay)

    def predictor(self) -> Predictor:
        return lambda x: self.likelihood.predictive(certain(self.network(x, self.network.kept)))

    def log_density(self) -> Callable[[Batch], Tensor]:
        def of_batch(batch: Batch) -> Tensor:
            latent = certain(self.network(batch.x, self.network.kept))
            terms = PREDICTIVE.term(self.likelihood, latent, batch.targets)
            return PREDICTIVE.reduce(terms, self.log_weights)

        return of_batch
