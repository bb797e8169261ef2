"""What a fit leaves behind: a torch module with the scales that lead to the user's units."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from skgp.core.layers import Latent
from skgp.core.likelihoods import Gaussian, Predictive
from skgp.core.nodes import NodeRule, Trivial
from skgp.core.objectives import PREDICTIVE, Batch
from skgp.core.stack import Stack
from skgp.estimators._table import Scale, Table

Predictor = Callable[[Tensor], Predictive]


class Model(nn.Module, ABC):
    """Abstract base: trained, copied and pickled as one module."""

    likelihood: Gaussian
    x_scale: Scale
    y_scale: Scale

    @property
    @abstractmethod
    def log_weights(self) -> Tensor:
        """Log-weights (Q,) of the components of a prediction."""

    @abstractmethod
    def predictor(self) -> Predictor:
        """From scaled inputs (B, D) to the distribution of y; what rows share is computed once."""

    @abstractmethod
    def log_density(self) -> Callable[[Batch], Tensor]:
        """From a batch to its predictive log densities (B,), in units of the scaled targets."""

    def conditioned(self, table: Table) -> "Model":
        """The model that predicts, given the training rows: itself by default.

        Models that are trained by minibatches hold everything in their parameters.
        """
        return self

    @torch.no_grad()
    def mean_log_density(self, table: Table, chunk: int) -> float:
        """Mean predictive log density of the rows of a table, in the user's units."""
        log_density = self.log_density()
        total = 0.0
        for rows in torch.split(torch.arange(len(table)), chunk):
            batch = table.batch(rows)
            values = log_density(batch)
            total += float((values if batch.weight is None else values * batch.weight).sum())
        return total / len(table) - table.mean_log_unit


class GPModel(Model):
    """Stack, likelihood and the rule that places the nodes of the hidden layers.

    Parameters
    ----------
    stack : Stack
    likelihood : Gaussian
    nodes : NodeRule, optional
        For a stack with hidden layers.
    """

    def __init__(self, stack: Stack, likelihood: Gaussian, nodes: NodeRule | None = None) -> None:
        super().__init__()
        self.stack = stack
        self.likelihood = likelihood
        self.nodes = Trivial() if nodes is None else nodes

    @property
    def log_weights(self) -> Tensor:
        log_omega: Tensor = self.nodes(1).log_omega
        return log_omega

    def latents(self) -> Callable[[Tensor], Latent]:
        """From scaled inputs (B, D) to latent moments (Q, B, W); what rows share is done once."""
        factors, nodes = self.stack.factors(), self.nodes(1)
        return lambda x: self.stack(x, nodes, factors)

    def predictor(self) -> Predictor:
        latents = self.latents()
        return lambda x: self.likelihood.predictive(latents(x))

    def noiseless_predictor(self) -> Predictor:
        """As `predictor`, for the noiseless function."""
        latents = self.latents()
        return lambda x: self.likelihood.noiseless(latents(x))

    def log_density(self) -> Callable[[Batch], Tensor]:
        latents, log_weights = self.latents(), self.log_weights

        def of_batch(batch: Batch) -> Tensor:
            terms = PREDICTIVE.term(self.likelihood, latents(batch.x), batch.targets)
            return PREDICTIVE.reduce(terms, log_weights)

        return of_batch
