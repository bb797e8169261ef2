"""Models trained on the marginal likelihood of all rows by L-BFGS: FITC and the exact GP."""

import copy
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
from skgp.core.marginal.exact import ExactGP, exact_log_marginal
from skgp.core.marginal.fitc import check_recomputation, fitc_log_marginal, fitc_posterior
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.marginal.starts import start_hyperparameters
from skgp.core.networks.features import half_squared_norm
from skgp.core.numerics.conjugate_gradients import ConjugateGradients
from skgp.core.numerics.memory import check_memory
from skgp.core.stacks.stack import GPStack
from skgp.core.training.optimizers import LBFGS, Optimizer
from skgp.core.training.plan import Plan, constant
from skgp.fitting.model import Layers, Model
from skgp.fitting.recipe import Recipe, Stopping, always_float64, pick
from skgp.fitting.setup import Setup
from skgp.fitting.table import Table
from skgp.recipes.stack import INITIAL_NOISE, Features, each_gp

_TRIAL_ITERATIONS: Final = 5  # after which restarts are compared
_START_INDUCING: Final = 300  # inducing inputs of the bound from which the exact GP starts
_START_JITTER: Final = 1e-8  # of their kernel matrix, which no noise regularises


@dataclass(frozen=True)
class Collapsed:
    """How a layer whose inducing variables are integrated out is trained and conditioned.

    Attributes
    ----------
    log_marginal : callable (Model, ObservedRows) -> Tensor (P,)
        In nats.
    condition : callable (Model, ObservedRows) -> None
        Computes what predictions need of the training rows.
    """

    log_marginal: Callable[[Model, ObservedRows], Tensor]
    condition: Callable[[Model, ObservedRows], None]


def collapsed_recipe(
    p: Any, kind: Collapsed, build: Callable[["Start", Features, Setup], Model]
) -> Recipe:
    """The recipe of a marginal likelihood of all rows."""
    features = pick(Features, p)
    return Recipe(
        build=partial(build, pick(Start, p), features),
        loss=partial(collapsed_loss, kind, features.weight_decay),
        optimizer=lbfgs,
        plan=partial(collapsed_plan, p.max_iter, pick(Stopping, p)),
        dtype=always_float64,
        conditioned=partial(conditioned, kind),
        no_stream="partial_fit needs minibatches",
    )


@dataclass(frozen=True)
class Start:
    """Parameter group: a model of one independent GP for each output."""

    kernel: KernelLike
    noise_floor: float

    def __call__(
        self, features: Features, n_inducing: int, jitter: float, setup: Setup
    ) -> tuple[nn.Module | None, SparseGP, Gaussian]:
        """Network, sparse layer and likelihood where the collapsed bound is high."""
        n_outputs = setup.Y.shape[1]
        network, h = features(setup)
        kernel = make_kernel(self.kernel, n_outputs, h.shape[1], setup.lengthscale(h))
        Z = each_gp(kernel, setup.centres(h, n_inducing))
        posterior = FullPosterior(torch.zeros(Z.shape[:2], dtype=torch.float32), 1.0)
        layer = SparseGP(kernel, Z, posterior, jitter).double()
        likelihood = Gaussian(n_outputs, INITIAL_NOISE, self.noise_floor).double()
        few, weight = setup.few()
        y = setup.Y[few].nan_to_num().mT  # scaled targets: zero is the mean
        likelihood.start(start_hyperparameters(layer, h[few], y, weight, INITIAL_NOISE))
        return network, layer, likelihood


def collapsed_loss(
    kind: Collapsed, weight_decay: float, model: Model, batch: Batch, step: int, n_data: float
) -> Tensor:
    """Training loss of all rows, nats per row, with the penalty of a deep kernel's weights."""
    log_density = kind.log_marginal(model, _observed(model, batch, n_data)).sum()
    log_density = log_density + model.stack.log_prior()
    return weight_decay * half_squared_norm(model.stack.features) - log_density / n_data


@torch.no_grad()
def conditioned(kind: Collapsed, model: Model, table: Table) -> Model:
    """A copy of the model that knows the training rows."""
    model = copy.deepcopy(model)
    batch = table.batch(torch.arange(len(table)))
    kind.condition(model, _observed(model, batch, table.n_data))
    return model


def lbfgs(model: Model, n_data: float) -> Optimizer:
    """L-BFGS for all parameters."""
    return LBFGS([p for p in model.parameters() if p.requires_grad])


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
    return ObservedRows(x, y.to(like).mT, weight, None if mask is None else mask.to(like).mT)


# ------------------------------------------------------------------ FITC


def build_fitc(
    n_inducing: int, jitter: float, start: Start, features: Features, setup: Setup
) -> Model:
    """One sparse layer, whose q(u) is the exact posterior under FITC."""
    network, layer, likelihood = start(features, n_inducing, jitter, setup)
    check_recomputation(layer.kernel, layer.Z)
    layer.posterior.requires_grad_(False)  # it has a closed form, see `_condition_fitc`
    return Model(Layers(GPStack([layer], network)), likelihood)


def _fitc_log_marginal(model: Model, rows: ObservedRows) -> Tensor:
    return fitc_log_marginal(cast(SparseGP, model.stack.top), rows, model.likelihood.noise_var)


def _condition_fitc(model: Model, rows: ObservedRows) -> None:
    layer = cast(SparseGP, model.stack.top)
    layer.start(*fitc_posterior(layer, rows, model.likelihood.noise_var))


FITC: Final = Collapsed(_fitc_log_marginal, _condition_fitc)


# ------------------------------------------------------------------ the exact GP


class ExactLayers(Layers):
    """One exact layer.

    Parameters
    ----------
    stack : GPStack
    """

    stack: GPStack

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


def build_exact(
    max_cholesky_size: int, jitter: float, start: Start, features: Features, setup: Setup
) -> Model:
    """One exact layer, which begins without rows."""
    network, layer, likelihood = start(features, _START_INDUCING, _START_JITTER, setup)
    solver = ConjugateGradients(setup.seed_for("probes"), min_rows=max_cholesky_size + 1)
    gp = ExactGP(layer.kernel, layer.Z.detach()[0, :0], jitter, solver)
    return Model(ExactLayers(GPStack([gp], network)), likelihood)


def release(model: Model, table: Table) -> None:
    """Drop the training rows and their factors: training copies its state often."""
    layers = cast(ExactLayers, model.source)
    layers.n_affordable = 0
    layers.with_rows(layers.gp.x[:0])


def _exact_log_marginal(model: Model, rows: ObservedRows) -> Tensor:
    layers = cast(ExactLayers, model.source)
    gp, x, y = layers.gp, rows.x, rows.y
    if len(x) > layers.n_affordable:
        check_memory(len(x), len(y), x.element_size(), gp.solver.takes(len(x)), x.device)
        layers.n_affordable = len(x)
    return exact_log_marginal(gp, rows, model.likelihood.noise_var)


def _condition_exact(model: Model, rows: ObservedRows) -> None:
    layers = cast(ExactLayers, model.source)
    layers.with_rows(rows.x).condition(rows, model.likelihood.noise_var)


EXACT: Final = Collapsed(_exact_log_marginal, _condition_exact)
