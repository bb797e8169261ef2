"""Means of trained GPs at their optimum, given all other parameters."""

import copy
from typing import Final, cast

import numpy as np
import torch
from torch import Tensor

from skgp._typing import Array
from skgp.core.layers.two_bases import DecoupledGP
from skgp.core.marginal.starts import start_posterior
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.fit import scaled_table
from skgp.fitting.folds import Fold
from skgp.fitting.model import Model
from skgp.fitting.recipe import Recipe
from skgp.fitting.table import Table

# Powers of the inverse predictive variance by which a row counts. One is that of the objective.
_POWERS: Final = (1.0, 0.5, 0.0)


@torch.no_grad()
def settle_mean(recipe: Recipe, model: Model, fold: Fold) -> Array:
    """Move the mean's weights to where held-out rows prefer them; scores (2, n) of these rows.

    Where the mean has a basis of its own, and all else is fixed, the predictive objective is
    quadratic in its weights (PPGPR paper, Eqn 18): they solve a ridge regression of rows that
    count by the inverse of their predictive variance. Steps of minibatches end near that optimum.
    Rows whose variance is large say little then, and their errors stay large (section 5.2). So
    regressions are tried, too, where they count for more. The weights stay as they are if held-out
    rows score these highest, or if a regression has no solution.
    """
    scores = fold.scores_of_rows(recipe, model)
    if not isinstance(model.stack.top, DecoupledGP) or not model.has_plain_noise(fold.table):
        return scores
    assert recipe.divergence is not None
    beta_reg, weights = recipe.divergence(model, fold.table.n_data), fold.held_out.weights
    try:
        optima = _optima(model, fold.table, beta_reg)
    except NotPositiveDefiniteError:
        return scores
    mu = model.stack.top.mean_posterior.mu
    best = mu.clone()
    for optimum in optima:
        mu.copy_(optimum)
        settled = fold.scores_of_rows(recipe, model)
        if np.average(settled[0] - scores[0], weights=weights) > 0.0:
            scores, best = settled, mu.clone()
    mu.copy_(best)
    return scores


def _optima(model: Model, table: Table, beta_reg: float) -> list[Tensor]:
    """Weights (1, M_mean) of the mean at the optimum of each regression."""
    # Without its weights the mean is that of the prior; the variance does not depend on them.
    plain = copy.deepcopy(model).double().eval()
    top = cast(DecoupledGP, plain.stack.top)
    top.mean_posterior.mu.zero_()
    features, parts = plain.stack.features, []
    for batch, latent in plain.latent_chunks(scaled_table(table.rows, table, table.like.double())):
        var = (latent.f_var + plain.likelihood.noise_var).flatten()
        parts.append((features(batch.x), batch.targets.y[:, 0] - latent.f_mean.flatten(), var))
    h, residual, var = (torch.cat(part) for part in zip(*parts, strict=True))
    weight = torch.from_numpy(table.weights).to(var)
    typical = (weight @ var.log() / weight.sum()).exp().unsqueeze(0)
    optima = []
    for power in _POWERS:
        of_rows = weight * (typical / var) ** power
        start_posterior(top, h, residual.unsqueeze(0), of_rows, beta_reg * typical, 1.0)
        optima.append(top.mean_posterior.mu.clone())
    return optima
