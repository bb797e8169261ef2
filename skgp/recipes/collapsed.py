"""Models trained on the marginal likelihood of all rows, by L-BFGS."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from skgp.core.data import Batch
from skgp.core.kernels.choice import make_kernel
from skgp.core.kernels.kernel import KernelLike
from skgp.core.layers.posteriors import FullPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.marginal.starts import start_hyperparameters
from skgp.core.networks.features import half_squared_norm
from skgp.core.stacks.stack import GPStack
from skgp.core.training.optimizers import LBFGS, Optimizer, trainable
from skgp.core.training.plan import Plan
from skgp.core.training.schedules import constant
from skgp.fitting.model import Layers, Model
from skgp.fitting.observed import observed_rows
from skgp.fitting.plans import Stopping
from skgp.fitting.recipe import Recipe, always_float64, pick
from skgp.fitting.setup import Setup
from skgp.fitting.table import Table
from skgp.recipes.features import Features, Warping
from skgp.recipes.rough_gps import filled_targets
from skgp.recipes.spec import INITIAL_NOISE, each_gp
from skgp.recipes.stack import starts_rough

_TRIAL_ITERATIONS: Final = 5  # after which restarts are compared


class CollapsedLayers(Layers, ABC):
    """Abstract base: one layer whose inducing variables are integrated out.

    Parameters
    ----------
    stack : GPStack
    """

    stack: GPStack

    @abstractmethod
    def log_marginal(self, rows: ObservedRows, noise_var: Tensor) -> Tensor:
        """Log marginal likelihood of the rows for each output, (P,), in nats."""

    @abstractmethod
    def condition(self, rows: ObservedRows, noise_var: Tensor) -> None:
        """Compute what predictions need of the training rows."""


def collapsed_recipe(
    estimator: Any, build: Callable[["CollapsedStart", Features, Setup], Model]
) -> Recipe:
    """The recipe of a marginal likelihood of all rows."""
    features = pick(Features, estimator)
    return Recipe(
        build=partial(
            build,
            CollapsedStart(estimator.kernel, estimator.noise_floor, pick(Warping, estimator)),
            features,
        ),
        loss=partial(collapsed_loss, features.weight_decay),
        optimizer=lbfgs,
        plan=partial(collapsed_plan, estimator.max_iter, pick(Stopping, estimator)),
        dtype=always_float64,
        conditioned=conditioned,
    )


@dataclass(frozen=True)
class CollapsedStart:
    """Where a model of one independent GP for each output starts."""

    kernel: KernelLike
    noise_floor: float
    warping: Warping

    def __call__(
        self,
        features: Features,
        n_inducing: int,
        jitter: float,
        setup: Setup,
        *,
        is_exact: bool = False,
    ) -> tuple[nn.Module | None, SparseGP, Gaussian]:
        """Network, sparse layer and likelihood where the collapsed bound is high.

        If it `is_exact`, the GP has no need of inducing inputs, and may start at a rough function.
        """
        n_outputs = setup.Y.shape[1]
        y = filled_targets(setup)
        y, seen = y.mT, (~setup.Y.isnan()).mT
        network, h = features(setup)
        if network is None:
            network, h = self.warping(setup, y, (self.kernel,))
        start, seed = setup.lengthscale(h), setup.seed_for("kernel")
        kernel = make_kernel(self.kernel, n_outputs, h.shape[1], start, seed=seed)
        Z = each_gp(kernel, setup.centres(h, n_inducing))
        posterior = FullPosterior(torch.zeros(Z.shape[:2], dtype=torch.float32), 1.0)
        layer = SparseGP(kernel, Z, posterior, jitter).double()
        likelihood = Gaussian(n_outputs, INITIAL_NOISE, self.noise_floor).double()
        few, weight = setup.subsample()
        rows = h[few], y[:, few], weight * seen[:, few]
        rough = is_exact and n_outputs == 1 and starts_rough(setup, h, y, layer)
        likelihood.start(start_hyperparameters(layer, *rows, INITIAL_NOISE, rough=rough))
        return network, layer, likelihood


def collapsed_loss(
    weight_decay: float, model: Model, batch: Batch, step: int, n_data: float
) -> Tensor:
    """Training loss of all rows, nats per row, with the penalty of a deep kernel's weights."""
    layers = cast(CollapsedLayers, model.source)
    rows = observed_rows(model, batch, n_data)
    log_density = layers.log_marginal(rows, model.likelihood.noise_var).sum()
    log_density = log_density + model.stack.log_prior()
    return weight_decay * half_squared_norm(model.stack.features) - log_density / n_data


@torch.no_grad()
def conditioned(model: Model, table: Table) -> Model:
    """A copy of the model that knows the training rows."""
    model = copy.deepcopy(model)
    batch = table.batch(torch.arange(len(table)))
    rows = observed_rows(model, batch, table.n_data)
    cast(CollapsedLayers, model.source).condition(rows, model.likelihood.noise_var)
    return model


def lbfgs(model: Model, n_data: float, n_batches: int) -> Optimizer:
    """L-BFGS for all parameters."""
    return LBFGS(trainable(model))


def collapsed_plan(max_iter: int, stopping: Stopping, n: int) -> Plan:
    """The plan of iterations that see all rows."""
    return Plan(
        max_iter=max_iter,
        batch_size=n,
        schedule=constant,
        n_trial_epochs=_TRIAL_ITERATIONS,
        n_iter_no_change=stopping.patience,
        tol=stopping.tol,
    )
