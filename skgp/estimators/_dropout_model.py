"""The model of MC dropout: a network, fixed masks, and noise."""

from torch import Tensor

from skgp.core.data import Batch
from skgp.core.dropout import DropoutNetwork, dropout_loss
from skgp.core.likelihoods import Gaussian
from skgp.estimators._network_model import NetworkModel


class DropoutModel(NetworkModel):
    """Passes of a network under fixed masks.

    Parameters
    ----------
    network : DropoutNetwork
    likelihood : Gaussian
    """

    def __init__(self, network: DropoutNetwork, likelihood: Gaussian) -> None:
        super().__init__(likelihood)
        self.network = network

    @property
    def n_components(self) -> int:
        return len(self.network.kept)

    def functions(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.network(x, self.network.kept)
        return outputs

    def loss(self, batch: Batch, *, weight_decay: float) -> Tensor:
        return dropout_loss(self.network, self.likelihood, batch, weight_decay=weight_decay)
