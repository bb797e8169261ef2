"""Stacks with latent covariates among their layers (importance-weighted paper)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from skgp.core.data import Batch, Targets
from skgp.core.kernels.kernel import Kernel
from skgp.core.layers.posteriors import Covariance, make_posterior
from skgp.core.layers.projected import ProjectedGP
from skgp.core.layers.sparse import SparseGP, SparseLayer
from skgp.core.marginal.starts import start_covariates
from skgp.core.networks.features import check_batch, half_squared_norm
from skgp.core.nodes.rules import Sampled
from skgp.core.numerics.principal import principal_directions
from skgp.core.objectives.importance import latent_loss
from skgp.core.objectives.objective import Objective
from skgp.core.stacks.latent_stack import LatentCovariates, LatentStack, evidence, spread
from skgp.core.stacks.row_posterior import Amortized, Free, LocalPosterior
from skgp.fitting.model import Layers, Model
from skgp.fitting.setup import Setup
from skgp.fitting.table import Table
from skgp.recipes.losses import DivergenceWeight
from skgp.recipes.spec import (
    CERTAIN_VAR,
    INITIAL_VAR,
    Below,
    StackSpec,
    each_gp,
    kernel_of,
    sparse_layer,
)

_STRETCH: Final = 2.0  # of one covariate's nodes
_STANDARD: Final = 10.0  # root mean square up to which a network takes numbers as they are


def with_cells(build: Callable[[Setup], Model], setup: Setup) -> Model:
    """A model of a stack with covariates, whose predictions fill the gaps between the nodes."""
    model = build(setup)
    model.source = Layers(model.stack, spread)
    return model


@dataclass(frozen=True)
class LatentLayers:
    """Parameter group: layers of GPs and of latent covariates, in any order."""

    architecture: str
    latent_dim: int
    width: int
    n_samples: int
    n_prediction_samples: int
    amortized: bool

    def __post_init__(self) -> None:
        parts = self.parts
        if not set(parts) <= {"GP", "LV"} or parts[-1] != "GP":
            raise ValueError(
                f"architecture={self.architecture!r} must join layers 'GP' and 'LV' (latent "
                "covariates) by hyphens and end in 'GP', as 'LV-GP-GP' does"
            )

    @property
    def parts(self) -> list[str]:
        """Names of the layers, from the inputs upwards."""
        return self.architecture.split("-")

    @property
    def n_gps(self) -> int:
        """Number of layers of GPs."""
        return self.parts.count("GP")

    @property
    def stretch(self) -> float:
        """Stretch of the covariates' nodes, at which 2/3 of them or more are effective."""
        # s^2 / sqrt(2 s^2 - 1) is the mean squared weight of one covariate: 1.51 at s = 2.
        return float(_STRETCH ** (1.0 / (self.latent_dim * self.parts.count("LV"))))

    def kernel_error(self, number: int, n_columns: int) -> str | None:
        """Message for a kernel that does not fit the layer of this number."""
        if "LV" not in self.parts:
            return None
        return (
            f"kernel with an ard_num_dims that does not fit layer {number} of "
            f"{self.architecture!r}, which sees {n_columns} columns, latent covariates among "
            "them: leave out ard_num_dims or use the name of a kernel"
        )

    def inducing_inputs(self, spec: StackSpec, setup: Setup, h: Tensor, number: int) -> Tensor:
        """Centres of the observed columns of h (n, F), with covariates drawn from their prior.

        For the layer of this number. The draws are the same in all layers, which start at the
        identity.
        """
        n_covariates = self.latent_dim * self.parts[: number - 1].count("LV")
        n_inducing = spec.n_inducing(setup, layer=self.parts[:number].count("GP") - 1)
        Z = setup.centres(h[:, : h.shape[1] - n_covariates], n_inducing)
        generator = setup.generator("covariates of inducing inputs")
        w = torch.randn(len(Z), n_covariates, generator=generator, dtype=Z.dtype)
        return torch.cat([Z, w], -1)

    def posterior(self, setup: Setup, x: Tensor, generator: torch.Generator) -> LocalPosterior:
        """q(w) of a layer of covariates."""
        if self.amortized:
            Y = setup.Y.nan_to_num()
            skip = start_covariates(x, Y, setup.weight, self.latent_dim, generator)
            unseen = torch.zeros_like(skip[:, -Y.shape[1] :])  # which targets are observed
            numbers = evidence(x, Targets(Y, torch.ones_like(Y)))
            unit = (setup.weight @ numbers.square() / setup.weight.sum()).sqrt()
            unit = torch.where(unit > _STANDARD, unit, 1.0)
            return Amortized(torch.cat([skip, unseen], -1), generator, unit)
        mean = torch.empty(setup.n_rows, self.latent_dim, dtype=torch.float32)
        by_content = torch.from_numpy(np.lexsort((setup.weight, setup.keys)))
        mean[by_content] = torch.randn(mean.shape, generator=generator, dtype=mean.dtype)
        return Free(mean)


@dataclass(frozen=True)
class LatentBlocks:
    """Makes the hidden GPs and latent covariates between the features and the top layer.

    Attributes
    ----------
    layers : LatentLayers
    covariance : str
        Of q(u) of the hidden GPs.
    """

    layers: LatentLayers
    covariance: Covariance

    def __call__(self, spec: StackSpec, setup: Setup, x: Tensor) -> Below:
        """The blocks above the features x (n, F)."""
        layers, parts = self.layers, self.layers.parts[:-1]
        blocks: list[ProjectedGP | LatentCovariates] = []
        h = x
        for number, part in enumerate(parts, start=1):
            if part == "GP":
                blocks.append(self._gp(spec, setup, number, x, h).double())
                continue
            posterior = layers.posterior(setup, x, setup.generator("covariates", number)).double()
            blocks.append(LatentCovariates(posterior, layers.latent_dim))
            observed = (~setup.Y.isnan()).to(x)
            known = evidence(x, Targets(setup.Y.nan_to_num(), observed))
            w = posterior(known, torch.arange(len(x))).mean.detach()
            h = torch.cat([h, w], -1)
        widths = [
            len(block.projection) if isinstance(block, ProjectedGP) else block.n_covariates
            for block in blocks
        ]
        stretch = [1.0 if part == "GP" else layers.stretch for part in parts]
        n_samples, n_fixed = layers.n_samples, layers.n_prediction_samples
        nodes = Sampled(widths, n_samples, n_fixed, setup.seed_for("nodes"), stretch)
        return Below(
            len(blocks), lambda top, features: LatentStack(blocks, top, features), nodes, h
        )

    def _gp(self, spec: StackSpec, setup: Setup, number: int, x: Tensor, h: Tensor) -> ProjectedGP:
        """GPs that start at the identity of h (n, F), whose first columns are x."""
        layers = self.layers
        kernel_like = spec.architecture.kernels[layers.parts[:number].count("GP") - 1]
        kernel = kernel_of(spec, setup, h, 1, kernel_like, number)
        Z = layers.inducing_inputs(spec, setup, h, number)
        directions = principal_directions(x, setup.weight)[:, : layers.width].mT
        covariates = torch.eye(h.shape[1] - x.shape[1], dtype=h.dtype)
        projection = torch.block_diag(directions, covariates)
        mu = torch.zeros(len(projection), len(Z), dtype=torch.float32)
        posterior = make_posterior(self.covariance, mu, CERTAIN_VAR)
        Z = each_gp(kernel, Z)
        layer = SparseGP(kernel, Z, posterior, spec.inducing.jitter, len(projection))
        return ProjectedGP(layer, projection)


def covariate_top(
    layers: LatentLayers, spec: StackSpec, setup: Setup, kernel: Kernel, h: Tensor, n_gps: int
) -> SparseLayer:
    """A top layer whose inducing inputs have covariates."""
    Z = layers.inducing_inputs(spec, setup, h, len(layers.parts))
    mu = torch.zeros(n_gps, len(Z), dtype=torch.float32)
    return sparse_layer(spec, kernel, Z, mu, INITIAL_VAR)


def covariate_loss(
    objective: Objective,
    n_samples: int,
    beta_reg: DivergenceWeight,
    weight_decay: float,
    model: Model,
    batch: Batch,
    step: int,
    n_data: float,
) -> Tensor:
    """Training loss of a batch, nats per row, with the penalty on a deep kernel."""
    stack = model.stack
    check_batch(stack.features, len(batch.x))
    assert isinstance(model.nodes, Sampled)
    value = latent_loss(
        objective,
        stack,
        model.likelihood,
        batch,
        model.nodes.generator(step),
        n_samples=n_samples,
        beta_reg=beta_reg(model, n_data),
        n_data=n_data,
    )
    return value + weight_decay * half_squared_norm(stack.features)


def with_row_keys(model: Model, table: Table) -> Model:
    """The model, which remembers what rows have posteriors of their own."""
    for module in model.modules():
        if isinstance(module, Free):
            module.keys = _keys(table)
    return model


def same_rows(model: Model, table: Table) -> None:
    """Go on with the rows that have posteriors of their own, in any order; refuse others."""
    for module in model.modules():
        if isinstance(module, Free):
            try:
                module.follow(_keys(table))
            except ValueError as error:
                raise ValueError(
                    "warm_start with amortized=False goes on with the rows of the last fit, "
                    f"{error}: use amortized=True or warm_start=False, and a number for "
                    "random_state if early_stopping holds rows out"
                ) from error


def _keys(table: Table) -> Tensor:
    return torch.from_numpy(table.keys.view(np.int64))
