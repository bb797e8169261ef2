"""Models trained on the marginal likelihood of all rows by L-BFGS: FITC, exact GP, short SVGP."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from skgp.core.data import Batch
from skgp.core.kernels.choice import make_kernel
from skgp.core.kernels.kernel import KernelLike
from skgp.core.kernels.stationary import Stationary
from skgp.core.layers.posteriors import FullPosterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.marginal.collapsed import collapsed_bound
from skgp.core.marginal.exact import ExactGP, exact_log_marginal
from skgp.core.marginal.fitc import check_recomputation, fitc_log_marginal, fitc_posterior
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.marginal.starts import is_of_all_rows, start_hyperparameters, start_posterior
from skgp.core.networks.features import half_squared_norm
from skgp.core.numerics.conjugate_gradients import ConjugateGradients
from skgp.core.numerics.memory import check_memory
from skgp.core.stacks.stack import GPStack
from skgp.core.training.optimizers import LBFGS, Optimizer, trainable
from skgp.core.training.plan import Plan, constant
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.model import Layers, Model
from skgp.fitting.plans import NO_EARLY_STOPPING, Stopping
from skgp.fitting.recipe import Recipe, always_float64, never_repeats, pick
from skgp.fitting.setup import Setup
from skgp.fitting.table import Table
from skgp.recipes.rough_gps import filled_targets
from skgp.recipes.stack import INITIAL_NOISE, Features, each_gp
from skgp.recipes.warping import Warping

_TRIAL_ITERATIONS: Final = 5  # after which restarts are compared
_START_INDUCING: Final = 300  # inducing inputs of the bound from which the exact GP starts
_SHORT: Final = 4000  # rows up to which this takes less time than minibatches
_BOUND_ITERATIONS: Final = 100
_SHORTEST: Final = 3e-4  # lengthscale, in standard deviations of the input
_START_JITTER: Final = 1e-8  # of their kernel matrix, which no noise regularises


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


def collapsed_recipe(p: Any, build: Callable[["CollapsedStart", Features, Setup], Model]) -> Recipe:
    """The recipe of a marginal likelihood of all rows."""
    features = pick(Features, p)
    return Recipe(
        build=partial(build, CollapsedStart(p.kernel, p.noise_floor, pick(Warping, p)), features),
        loss=partial(collapsed_loss, features.weight_decay),
        optimizer=lbfgs,
        plan=partial(collapsed_plan, p.max_iter, pick(Stopping, p)),
        dtype=always_float64,
        conditioned=conditioned,
        why_no_stream="partial_fit needs minibatches",
    )


@dataclass(frozen=True)
class CollapsedStart:
    """Where a model of one independent GP for each output starts."""

    kernel: KernelLike
    noise_floor: float
    warping: Warping

    def __call__(
        self, features: Features, n_inducing: int, jitter: float, setup: Setup
    ) -> tuple[nn.Module | None, SparseGP, Gaussian]:
        """Network, sparse layer and likelihood where the collapsed bound is high."""
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
        likelihood.start(start_hyperparameters(layer, *rows, INITIAL_NOISE))
        return network, layer, likelihood


def collapsed_loss(
    weight_decay: float, model: Model, batch: Batch, step: int, n_data: float
) -> Tensor:
    """Training loss of all rows, nats per row, with the penalty of a deep kernel's weights."""
    layers = cast(CollapsedLayers, model.source)
    rows = _observed(model, batch, n_data)
    log_density = layers.log_marginal(rows, model.likelihood.noise_var).sum()
    log_density = log_density + model.stack.log_prior()
    return weight_decay * half_squared_norm(model.stack.features) - log_density / n_data


@torch.no_grad()
def conditioned(model: Model, table: Table) -> Model:
    """A copy of the model that knows the training rows."""
    model = copy.deepcopy(model)
    batch = table.batch(torch.arange(len(table)))
    rows = _observed(model, batch, table.n_data)
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


def _observed(model: Model, batch: Batch, n_data: float) -> ObservedRows:
    like = model.likelihood.noise_var
    y, mask = batch.targets
    weight = torch.full((len(y),), n_data / len(y), dtype=like.dtype, device=like.device)
    if batch.weight is not None:
        weight = weight * batch.weight.to(like)
    x = model.stack.features(batch.x.to(like))
    parts = mask, batch.known_noise
    mask, noise = (None if part is None else part.to(like).mT for part in parts)
    return ObservedRows(x, y.to(like).mT, weight, mask, noise)


# ------------------------------------------------------------------ FITC


class FITCLayers(CollapsedLayers):
    """One sparse layer, whose q(u) is the exact posterior under FITC."""

    def log_marginal(self, rows: ObservedRows, noise_var: Tensor) -> Tensor:
        return fitc_log_marginal(cast(SparseGP, self.stack.top), rows, noise_var)

    def condition(self, rows: ObservedRows, noise_var: Tensor) -> None:
        layer = cast(SparseGP, self.stack.top)
        layer.start(*fitc_posterior(layer, rows, noise_var))


def build_fitc(
    n_inducing: int, jitter: float, start: CollapsedStart, features: Features, setup: Setup
) -> Model:
    """A model of one sparse layer."""
    network, layer, likelihood = start(features, n_inducing, jitter, setup)
    check_recomputation(layer.kernel, layer.Z)
    layer.posterior.requires_grad_(False)  # it has a closed form
    return Model(FITCLayers(GPStack([layer], network)), likelihood)


# ------------------------------------------------------------------ the exact GP


class ExactLayers(CollapsedLayers):
    """One exact layer."""

    def __init__(self, stack: GPStack) -> None:
        super().__init__(stack)
        self.n_affordable = 0  # rows that were found to fit in memory before this fit took any

    @property
    def gp(self) -> ExactGP:
        """The layer."""
        return cast(ExactGP, self.stack.top)

    def with_rows(self, x: Tensor) -> ExactGP:
        """Put the layer over other rows."""
        self.stack.gp_layers[-1] = self.gp.over(x)
        return self.gp

    def log_marginal(self, rows: ObservedRows, noise_var: Tensor) -> Tensor:
        x, n = rows.x, len(rows.x)
        if n > self.n_affordable:
            check_memory(n, len(rows.y), x.element_size(), self.gp.solver.takes(n), x.device)
            self.n_affordable = n
        return exact_log_marginal(self.gp, rows, noise_var, self.gp.solver)

    def condition(self, rows: ObservedRows, noise_var: Tensor) -> None:
        self.with_rows(rows.x).condition(rows, noise_var)


def build_exact(
    max_cholesky_size: int, jitter: float, start: CollapsedStart, features: Features, setup: Setup
) -> Model:
    """One exact layer, which begins without rows."""
    network, layer, likelihood = start(features, _START_INDUCING, _START_JITTER, setup)
    solver = ConjugateGradients(setup.seed_for("probes"), min_rows=max_cholesky_size + 1)
    gp = ExactGP(layer.kernel, layer.Z.detach()[0, :0], jitter, solver)
    return Model(ExactLayers(GPStack([gp], network)), likelihood)


@torch.no_grad()
def conditioned_on(model: Model, table: Table) -> Model:
    """A copy of the model that knows the rows of the table too."""
    layers = cast(ExactLayers, model.source)
    old, new = layers.gp, _observed(model, table.batch(torch.arange(len(table))), table.n_data)
    n = len(old.x) + len(new.x)
    check_memory(n, len(new.y), new.x.element_size(), old.solver.takes(n), new.x.device)
    more = old.with_more(new)
    more.kernel, more.mean = copy.deepcopy((more.kernel, more.mean))
    # The new layer stands where the copy would have one of the old factor, of n x n numbers.
    return copy.deepcopy(model, {id(old): more})


def release(model: Model, table: Table) -> None:
    """Drop the training rows and their factors: training copies its state often."""
    layers = cast(ExactLayers, model.source)
    layers.n_affordable = 0
    layers.with_rows(layers.gp.x[:0])


# ------------------------------------------------------------------ the sparse variational GP


def with_optimum(recipe: Recipe, short: Recipe, *, is_standardised: bool) -> Recipe:
    """A recipe that maximises the bound of a short table of one output with q(u) integrated out.

    Parameters
    ----------
    recipe : Recipe
        Of a sparse GP with a full covariance that maximises the evidence lower bound.
    short : Recipe
        The same, of a model that begins anywhere.
    is_standardised : bool
        Whether inputs and targets are, as the weak prior of the kernel expects.
    """
    short = replace(
        short,
        loss=partial(bound_loss, is_standardised),
        optimizer=bound_lbfgs,
        plan=partial(collapsed_plan, _BOUND_ITERATIONS, NO_EARLY_STOPPING),
        dtype=always_float64,
        conditioned=with_best_posterior,
        repeats=never_repeats,
    )
    return replace(recipe, short=(_SHORT, short))


def bound_loss(
    is_standardised: bool, model: Model, batch: Batch, step: int, n_data: float
) -> Tensor:
    """Training loss of all rows, nats per row: minus the collapsed bound, and the priors.

    Inducing inputs that are all inputs do not move.
    """
    layer = cast(SparseGP, model.stack.top)
    rows = _observed(model, batch, n_data)
    y, count = rows.residuals_and_counts(layer.mean)
    noise_var = model.likelihood.noise_var
    if is_of_all_rows(rows.x[count[0] > 0], layer.Z.shape[-2]):  # they are merged
        bound = exact_log_marginal(layer, rows, noise_var).sum()
    else:
        given = layer.kernel, layer.Z, rows.x, y, count[0], noise_var, layer.jitter
        bound = collapsed_bound(*given).sum()
    prior = model.stack.log_prior() + (layer.kernel.log_weak_prior() if is_standardised else 0.0)
    return -(bound + prior) / n_data


def bound_lbfgs(model: Model, n_data: float, n_batches: int) -> Optimizer:
    """L-BFGS for all parameters but those of q(u)."""
    return LBFGS(trainable(model, cast(SparseGP, model.stack.top).posterior.parameters()))


@torch.no_grad()
def with_best_posterior(model: Model, table: Table) -> Model:
    """A copy of the model with the q(u) at which its bound is the collapsed one."""
    model = copy.deepcopy(model)
    layer = cast(SparseGP, model.stack.top)
    rows = _observed(model, table.batch(torch.arange(len(table))), table.n_data)
    y, count = rows.residuals_and_counts(layer.mean)
    given = rows.x, y, count[0], model.likelihood.noise_var, 1.0
    try:
        start_posterior(layer, *given)
    except NotPositiveDefiniteError:
        if not isinstance(layer.kernel, Stationary):
            raise
        # Inputs are so large in units of the lengthscales that rounding decides their distances.
        # Training does not see that, because its matrix includes the noise.
        lengthen(layer.kernel, rows.x)
        start_posterior(layer, *given)
    return model


def lengthen(kernel: Stationary, x: Tensor) -> None:
    """Raise lengthscales to at least 0.03 % of the standard deviations of inputs x (n, D)."""
    kernel.log_lengthscale.copy_(kernel.lengthscale.maximum(_SHORTEST * x.std(0)).log())
