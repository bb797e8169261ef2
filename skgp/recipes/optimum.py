"""The recipe of a sparse variational GP that ends at the optimum of its bound."""

import copy
from dataclasses import replace
from functools import partial
from typing import Final, cast

import torch
from torch import Tensor

from skgp.core.data import Batch
from skgp.core.kernels.stationary import Stationary
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal.collapsed import collapsed_bound
from skgp.core.marginal.exact import exact_log_marginal
from skgp.core.marginal.starts import is_of_all_rows, start_posterior
from skgp.core.training.optimizers import LBFGS, Optimizer, trainable
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.model import Model
from skgp.fitting.observed import observed_rows
from skgp.fitting.plans import NO_EARLY_STOPPING
from skgp.fitting.recipe import Recipe, always_float64, never_repeats
from skgp.fitting.table import Table
from skgp.recipes.collapsed import collapsed_plan
from skgp.recipes.optimizers import rate_after_fit

_FEW_ROWS: Final = 4000  # up to which this takes less time than minibatches
# Up to which it mostly takes one to two and a half times as long; but where there is little noise,
# minibatches stay far from the optimum.
_MOST_ROWS: Final = 20_000
# Rows times inducing inputs, beyond few rows: several matrices of that size are held at a time.
_MOST_ENTRIES: Final = 6_000_000
_BOUND_ITERATIONS: Final = 100
_SHORTEST: Final = 3e-4  # lengthscale, in standard deviations of the input


def with_optimum(
    recipe: Recipe, short: Recipe, n_inducing: int, *, is_standardised: bool
) -> Recipe:
    """A recipe that maximises the bound of a short table of one output with q(u) integrated out.

    Parameters
    ----------
    recipe : Recipe
        Of a sparse GP with a full covariance that maximises the evidence lower bound.
    short : Recipe
        The same, of a model that begins anywhere.
    n_inducing : int
        Inducing inputs of the model of many rows.
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
    # A stream uses the plain recipe, also after a fit that has ended at the optimum.
    most = max(_FEW_ROWS, min(_MOST_ROWS, _MOST_ENTRIES // n_inducing))
    rate = partial(rate_after_fit, most, None)
    return replace(recipe, full_batch=(most, short), stream_rate=rate)


def bound_loss(
    is_standardised: bool, model: Model, batch: Batch, step: int, n_data: float
) -> Tensor:
    """Training loss of all rows, nats per row: minus the collapsed bound, and the priors.

    Inducing inputs that are all inputs do not move.
    """
    layer = cast(SparseGP, model.stack.top)
    rows = observed_rows(model, batch, n_data)
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
    rows = observed_rows(model, table.batch(torch.arange(len(table))), table.n_data)
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
