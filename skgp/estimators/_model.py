"""What a fit leaves behind: a torch module with the scales that lead to the user's units."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from skgp.core.class_likelihood import ClassLikelihood
from skgp.core.data import Batch
from skgp.core.latent_inputs import Inversion, LatentInputs
from skgp.core.layers import Latent
from skgp.core.likelihoods import Gaussian, Likelihood, Predictive
from skgp.core.nodes import NodeRule, Trivial
from skgp.core.objectives import PREDICTIVE, Objective
from skgp.core.stack import Stack
from skgp.estimators._table import Scale, Table

Predictor = Callable[[Tensor], Predictive]

# Log density of an output in validation scores, in its standardised units: that of a normal
# distribution six standard deviations from its mean. Else a single wrong target would decide.
_LEAST_LOG_DENSITY = -20.0


class Model(nn.Module, ABC):
    """Abstract base: trained, copied and pickled as one module."""

    x_scale: Scale
    y_scale: Scale

    @property
    @abstractmethod
    def log_weights(self) -> Tensor:
        """Log-weights (Q,) of the components of a prediction."""

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
        """Mean predictive log density of the rows of a table, in the user's units.

        That of a row counts as -20 nats for each of its outputs, in standardised units, or more.
        """
        log_density = self.log_density()
        total = 0.0
        for rows in torch.split(torch.arange(len(table)), chunk):
            batch = table.batch(rows)
            mask = batch.targets.mask
            n_outputs = batch.targets.y.shape[1] if mask is None else mask.sum(-1)
            values = log_density(batch).clamp(min=_LEAST_LOG_DENSITY * n_outputs)
            total += float((values if batch.weight is None else values * batch.weight).sum())
        return total / len(table) - table.mean_log_unit


class RegressionModel(Model):
    """Abstract base of the models that predict normal components."""

    likelihood: Gaussian

    @abstractmethod
    def predictor(self) -> Predictor:
        """From scaled inputs (B, D) to the distribution of y; what rows share is computed once."""


class StackModel(Model):
    """Abstract base: stack, likelihood and the rule that places the nodes of the hidden layers.

    Parameters
    ----------
    stack : Stack
    likelihood : Likelihood
    nodes : NodeRule, optional
        For a stack with hidden layers.
    """

    likelihood: Likelihood

    def __init__(self, stack: Stack, likelihood: Likelihood, nodes: NodeRule | None = None) -> None:
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

    def log_density(self) -> Callable[[Batch], Tensor]:
        latents, log_weights = self.latents(), self.log_weights

        def of_batch(batch: Batch) -> Tensor:
            terms = PREDICTIVE.term(self.likelihood, latents(batch.x), batch.targets)
            return PREDICTIVE.reduce(terms, log_weights)

        return of_batch


class GPModel(StackModel, RegressionModel):
    """A stack with a Gaussian likelihood.

    Parameters
    ----------
    stack : Stack
    likelihood : Gaussian
    nodes : NodeRule, optional
        For a stack with hidden layers.
    """

    likelihood: Gaussian

    def __init__(self, stack: Stack, likelihood: Gaussian, nodes: NodeRule | None = None) -> None:
        super().__init__(stack, likelihood, nodes)

    def predictor(self) -> Predictor:
        latents = self.latents()
        return lambda x: self.likelihood.predictive(latents(x))

    def noiseless_predictor(self) -> Predictor:
        """As `predictor`, for the noiseless function."""
        latents = self.latents()
        return lambda x: self.likelihood.noiseless(latents(x))


class EmbeddingModel(GPModel):
    """A model of outputs whose inputs nobody observed.

    Parameters
    ----------
    model : GPModel
        Stack, likelihood, nodes and scales.
    inputs : LatentInputs
        Of the training rows.
    """

    def __init__(self, model: GPModel, inputs: LatentInputs) -> None:
        super().__init__(model.stack, model.likelihood, model.nodes)
        self.x_scale, self.y_scale = model.x_scale, model.y_scale
        self.inputs = inputs

    def inversion(self, objective: Objective) -> Inversion:
        """What finds the inputs of further rows."""
        return Inversion(objective, self.stack, self.likelihood, self.nodes)


class ClassModel(StackModel):
    """A stack with a likelihood of classes.

    Parameters
    ----------
    stack : Stack
    likelihood : ClassLikelihood
    nodes : NodeRule, optional
        For a stack with hidden layers.
    """

    likelihood: ClassLikelihood

    def __init__(
        self, stack: Stack, likelihood: ClassLikelihood, nodes: NodeRule | None = None
    ) -> None:
        super().__init__(stack, likelihood, nodes)

    def log_probabilities(self) -> Callable[[Tensor], Tensor]:
        """From scaled inputs (B, D) to log probabilities (B, C), mixed over the nodes."""
        latents, log_weights = self.latents(), self.log_weights

        def of_rows(x: Tensor) -> Tensor:
            log_p = self.likelihood.log_probabilities(latents(x))
            # Normalised once more: what is left to do is of the size of rounding.
            return torch.logsumexp(log_p + log_weights[:, None, None], 0).log_softmax(-1)

        return of_rows

    def latent_moments(self) -> Callable[[Tensor], Tensor]:
        """From scaled inputs (B, D) to mean and variance of the latent functions, (2, B, W).

        Over the nodes by the laws of total expectation and variance.
        """
        latents, weights = self.latents(), self.log_weights.exp()[:, None, None]

        def of_rows(x: Tensor) -> Tensor:
            latent = latents(x)
            mean = (weights * latent.f_mean).sum(0)
            spread = (latent.f_mean - mean).square()
            return torch.stack([mean, (weights * (latent.f_var + spread)).sum(0)])

        return of_rows
