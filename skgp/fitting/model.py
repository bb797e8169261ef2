"""What a fit leaves behind: a torch module with the scales that lead to the user's units."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, cast

import torch
from torch import Tensor, nn

from skgp._typing import Array
from skgp.core.copies import Copies
from skgp.core.data import Batch
from skgp.core.layers.layer import Latent, total_moments
from skgp.core.layers.noise import NORMAL_NOISE, MixtureNoise
from skgp.core.layers.sparse import SparseLayer
from skgp.core.likelihoods.censored import Censored
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.likelihoods.likelihood import Predictive
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.marginal.starts import start_posterior
from skgp.core.nodes.rules import NodeRule, Trivial
from skgp.core.objectives.objective import PREDICTIVE
from skgp.core.stacks.stack import GPStack, Stack
from skgp.core.training.inversion import LatentInputs
from skgp.fitting.table import Scale, Table, scale_inputs

_CHUNK: Final = 2048  # rows per step: the M x chunk blocks stay small and near the cache
_CHUNK_CELLS: Final = 2**14  # rows times components: bounds the memory of a step of a deep model
_MORE_ON_GPU: Final = 8  # times as many, whose work takes longer than to start it
_CHUNK_COVARIANCES: Final = 2**24  # the same times squared outputs, of which rows have covariances

Predictor = Callable[[Tensor], Predictive]

# Log density of an output in validation scores, in its standardised units: that of a normal
# distribution 45 standard deviations from its mean. Less would hide that a model does not expect
# targets which do occur, and without any bound a wrong target of any size would decide.
_LEAST_LOG_DENSITY = -1000.0


class Source(nn.Module, ABC):
    """Abstract base: where the latent functions of a prediction come from."""

    @abstractmethod
    def log_weights(self, nodes: NodeRule) -> Tensor:
        """Log-weights (Q,) of the components of a prediction."""

    @abstractmethod
    def latents(self, nodes: NodeRule) -> Callable[[Tensor], Latent]:
        """From scaled inputs (B, D) to latent moments (Q, B, W); what rows share is done once."""

    def release(self, model: "Model") -> None:
        """Reduce the model that has this source to what training continues from."""


class KnownLayers(NamedTuple):
    """One of the posteriors that a prediction is a mixture of.

    Attributes
    ----------
    stack : Stack
    factors : list
        Of all its layers.
    nodes : NodeRule
    weight : float
        Its weight in a prediction.
    noise : MixtureNoise
        Its noise, relative to that of the likelihood.
    """

    stack: Stack
    factors: list[Any]
    nodes: NodeRule
    weight: float = 1.0
    noise: MixtureNoise = NORMAL_NOISE

    def scaled(self, weight: float, noise_ratio: float) -> "KnownLayers":
        """With products of its weight and of the variance of its noise."""
        return self._replace(weight=weight * self.weight, noise=self.noise.scaled(noise_ratio))


class Layers(Source):
    """The layers of a stack.

    Parameters
    ----------
    stack : Stack
    predicted : callable (Latent) -> Latent, optional
        What a prediction makes of the moments at the nodes.

    Attributes
    ----------
    noise : MixtureNoise or None
        Of a prediction, relative to that of the likelihood; None if it is normal. Training goes on
        with normal noise of the same variance.
    """

    noise: MixtureNoise | None = None

    def __init__(self, stack: Stack, predicted: Callable[[Latent], Latent] | None = None) -> None:
        super().__init__()
        self.stack = stack
        self._predicted = predicted

    def log_weights(self, nodes: NodeRule) -> Tensor:
        return self._noise.log_weights(nodes(1).log_omega)

    def latents(self, nodes: NodeRule) -> Callable[[Tensor], Latent]:
        factors, fixed = self.stack.known_factors(), nodes(1)
        if self._predicted is None:
            return lambda x: self._noise.split(self.stack(x, fixed, factors))
        predicted = self._predicted
        return lambda x: self._noise.split(predicted(self.stack(x, fixed, factors)))

    def posteriors(self, nodes: NodeRule) -> list[KnownLayers]:
        """The posteriors that a prediction is a mixture of; their weights sum to one."""
        return [KnownLayers(self.stack, self.stack.known_factors(), nodes, 1.0, self._noise)]

    def condition(self, rows: ObservedRows, noise_var: Tensor) -> None:
        """Set the posterior of one GP to that of rows of its top layer, of noise variance (1,)."""
        top = cast(SparseLayer, self.stack.top)
        y = rows.y - top.mean.unsqueeze(-1)
        start_posterior(top, rows.x, y, rows.weight, noise_var, 1.0)

    def release(self, model: "Model") -> None:
        self.noise = None

    @property
    def _noise(self) -> MixtureNoise:
        return self.noise or NORMAL_NOISE


class Model(nn.Module):
    """A source of latent functions, a likelihood, and scales: trained, copied and pickled as one.

    Parameters
    ----------
    source : Source
    likelihood : Likelihood
    nodes : NodeRule, optional
        For a source with hidden layers.

    Attributes
    ----------
    x_scale, y_scale : Scale
        Of inputs and targets.
    inputs : LatentInputs or None
        Of the training rows, if nobody observed them.
    n_steps : int
        Training steps done, from which the draws of further ones are numbered.
    noise_share : float
        Share of the noise in the variance of the targets, for weights of divergences that know it.
    is_rough : bool or None
        Whether a GP of all inputs should start from short lengthscales; None if nobody asked.
    copies : Copies or None
        Training rows whose targets other rows of the same inputs repeat; None if none are expected.
    """

    x_scale: Scale
    y_scale: Scale
    noise_share: float = 0.0  # files of earlier versions have none of their own
    is_rough: bool | None = None
    copies: Copies | None = None

    def __init__(self, source: Source, likelihood: Any, nodes: NodeRule | None = None) -> None:
        super().__init__()
        self.source = source
        self.likelihood = likelihood
        self.nodes = Trivial() if nodes is None else nodes
        self.inputs: LatentInputs | None = None
        self.n_steps = 0

    @property
    def stack(self) -> Any:
        """The layers, of a source that has some."""
        return self.source.stack

    def scaled(self, X: Array) -> Tensor:
        """Inputs (n, D) as the layers see them, in the model's arithmetic."""
        return torch.from_numpy(scale_inputs(X, self.x_scale)).to(self.log_weights)

    @property
    def log_weights(self) -> Tensor:
        """Log-weights (Q,) of the components of a prediction."""
        return self.source.log_weights(self.nodes)

    @property
    def has_gp_latents(self) -> bool:
        """Whether the likelihood sees functions of GP layers, which see x alone."""
        return isinstance(self.source, Layers) and isinstance(self.source.stack, GPStack)

    @property
    def normal_noise(self) -> Gaussian | None:
        """The likelihood of targets that are observed, if it is that of normal noise."""
        likelihood = self.likelihood
        if isinstance(likelihood, Censored):
            return likelihood.noise
        return likelihood if isinstance(likelihood, Gaussian) else None

    @property
    def has_gp_outputs(self) -> bool:
        """Whether the outputs are mixed functions of GP layers, which see x alone, plus noise."""
        return self.has_gp_latents and self.normal_noise is not None

    def has_plain_noise(self, table: Table) -> bool:
        """Whether it has one output, with normal noise of a variance that nobody knows."""
        likelihood = self.likelihood
        is_one = isinstance(likelihood, Gaussian) and likelihood.mixing is None
        return is_one and table.n_outputs == 1 and table.known_noise is None

    # ---------------------------------------------------------- regression

    def predictor(self) -> Predictor:
        """From scaled inputs (B, D) to the distribution of y; what rows share is computed once."""
        latents, copies = self.source.latents(self.nodes), self.copies
        if copies is None:
            return lambda x: self.likelihood.predictive(latents(x))
        return lambda x: copies.of_rows(x).predictive(self.likelihood.predictive(latents(x)))

    def noiseless_predictor(self) -> Predictor:
        """As `predictor`, for the noiseless function."""
        latents = self.source.latents(self.nodes)
        return lambda x: self.likelihood.noiseless(latents(x))

    # ------------------------------------------------------ classification

    def log_probabilities(self) -> Callable[[Tensor], Tensor]:
        """From scaled inputs (B, D) to log probabilities (B, C), mixed over the nodes."""
        latents, log_weights = self.source.latents(self.nodes), self.log_weights

        def of_rows(x: Tensor) -> Tensor:
            log_p = self.likelihood.log_probabilities(latents(x))
            # Normalised once more: what is left to do is of the size of rounding.
            return torch.logsumexp(log_p + log_weights[:, None, None], 0).log_softmax(-1)

        return of_rows

    def latent_moments(self) -> Callable[[Tensor], Tensor]:
        """From scaled inputs (B, D) to mean and variance of the latent functions, (2, B, W).

        Over the nodes by the laws of total expectation and variance.
        """
        latents, weights = self.source.latents(self.nodes), self.log_weights.exp()[:, None, None]

        def of_rows(x: Tensor) -> Tensor:
            latent = latents(x)
            return torch.stack(total_moments(latent.f_mean, latent.f_var, weights))

        return of_rows

    # ---------------------------------------------------------- validation

    @torch.no_grad()
    def mean_log_density(self, table: Table) -> float:
        """Mean predictive log density of the rows of a table, in the user's units.

        Each row counts as at least -1,000 nats per output, in standardised units.
        """
        total = 0.0
        for values, weight in self._density_chunks(table):
            total += float((values if weight is None else values * weight).sum())
        return total / len(table) - table.mean_log_unit

    @torch.no_grad()
    def log_densities(self, table: Table) -> Array:
        """Predictive log densities (n,) of the rows of a table, in units of the scaled targets.

        Bounded as those of `mean_log_density`.
        """
        densities = [values.cpu().double() for values, _ in self._density_chunks(table)]
        return torch.cat(densities).numpy()

    def _density_chunks(self, table: Table) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Of chunks of rows the log densities (B,), and the weights (B,) if there are some."""
        log_weights = self.log_weights
        for batch, latent in self.latent_chunks(table):
            mask = batch.targets.mask
            n_outputs: Any = table.n_outputs
            if mask is not None:
                n_outputs = mask.sum(-1).clamp_max(n_outputs)  # bounds of an output are two
            values = self._log_density(batch, latent, log_weights)
            yield values.clamp(min=_LEAST_LOG_DENSITY * n_outputs), batch.weight

    def _log_density(self, batch: Batch, latent: Latent, log_weights: Tensor) -> Tensor:
        """Predictive log densities (B,) of a batch, in units of the scaled targets."""
        if batch.known_noise is not None:  # of each output, which is one function
            latent = latent._replace(v_prior=latent.v_prior + batch.known_noise)
        terms = PREDICTIVE.term(self.likelihood, latent, batch.targets)
        values = PREDICTIVE.reduce(terms, log_weights)
        if self.copies is None:
            return values
        return self.copies.of_rows(batch.x).log_densities(values, batch.targets.y[:, 0])

    def latent_chunks(self, table: Table) -> Iterator[tuple[Batch, Latent]]:
        """Chunks of the rows of a table, with the latent functions at their inputs."""
        latents = self.source.latents(self.nodes)
        size = rows_per_chunk(self.log_weights, table.n_outputs)
        for rows in torch.arange(len(table)).split(size):
            batch = table.batch(rows)
            yield batch, latents(batch.x)


def rows_per_chunk(log_weights: Tensor, n_outputs: int = 1) -> int:
    """Rows per prediction step, for the log-weights (Q,) of the components of so many outputs."""
    n_nodes = len(log_weights)
    most = _CHUNK_COVARIANCES // (n_nodes * n_outputs**2)
    more = _MORE_ON_GPU if log_weights.is_cuda else 1
    return max(1, min(more * _CHUNK, more * _CHUNK_CELLS // n_nodes, most))
