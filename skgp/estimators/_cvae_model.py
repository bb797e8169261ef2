"""The model of a conditional variational autoencoder: networks, nodes of the prior, and noise."""

from torch import Tensor

from skgp.core.cvae import ConditionalVAE, cvae_loss
from skgp.core.data import Batch
from skgp.core.likelihoods import Gaussian
from skgp.core.nodes import Sampled
from skgp.estimators._network_model import NetworkModel


class CVAEModel(NetworkModel):
    """The decoder at fixed nodes of the latent prior.

    Parameters
    ----------
    network : ConditionalVAE
    likelihood : Gaussian
    nodes : Sampled
        Of one layer, whose width is the number of latent variables.
    beta_reg : float
        Weight of the divergence in training.
    """

    def __init__(
        self, network: ConditionalVAE, likelihood: Gaussian, nodes: Sampled, beta_reg: float
    ) -> None:
        super().__init__(likelihood)
        self.network = network
        self.nodes = nodes
        self.beta_reg = beta_reg

    @property
    def n_components(self) -> int:
        return len(self.nodes.fixed)

    def functions(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.network(x, self.nodes.fixed.unsqueeze(1))
        return outputs

    def loss(self, batch: Batch, *, weight_decay: float) -> Tensor:
        return cvae_loss(
            self.network,
            self.likelihood,
            self.nodes(len(batch.x)),
            batch,
            beta_reg=self.beta_reg,
            weight_decay=weight_decay,
        )
