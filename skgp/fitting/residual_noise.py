"""Untrained GPs whose noise is fitted to held-out residuals."""

import copy
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, cast

import numpy as np
import torch

from skgp._typing import Array
from skgp.core.layers.layer import total_moments
from skgp.core.layers.noise import MixtureNoise
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.marginal.mixture_rows import equivalent_rows
from skgp.core.marginal.residuals import noise_of_residuals
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.folds import FoldedRows
from skgp.fitting.model import Layers, Model
from skgp.fitting.observed import is_one_gp, rows_of_top
from skgp.fitting.recipe import Recipe, as_trained
from skgp.fitting.search import Search
from skgp.fitting.table import Table

# What fitting the noise gains in log density, in nats, even where noise is normal: one for each of
# its free parameters (Akaike 1974).
_OPTIMISM: Final = 7.0
_MOST_F_VAR: Final = 10.0  # of rows whose residuals tell of the noise, in variances of the noise
_MOST_ROUNDS: Final = 3  # of fits of the noise
_MOST_ROWS: Final = 1500  # distinct ones, of a posterior that is found anew


def with_residual_noise(
    recipe: Recipe, search: Search, folded: FoldedRows
) -> tuple[Recipe, Search]:
    """The recipe of GPs with fitted noise, and their scores, if these are higher.

    The noise is a mixture of normals that is fitted to the residuals of all folds. The same rows
    are scored with it, and the scores are lowered by what such a fit gains where noise is normal.
    Noise stays normal if the function is uncertain at most rows: their residuals mostly show its
    errors. Then the GPs get the posterior that goes with that noise, their residuals another noise,
    and so on while the score rises.

    Parameters
    ----------
    recipe : Recipe
        Of an untrained GP.
    search : Search
        Its scores, with the models of the folds.
    folded : FoldedRows

    Returns
    -------
    recipe : Recipe
    search : Search
        Both as they were, if noise stays normal.
    """
    if not search.models or not search.models[0].has_plain_noise(folded.whole):
        return recipe, search
    models, posterior_noise, kept = list(search.models), None, (recipe, search)
    tables = [fold.table for fold in folded.folds]
    with suppress(NotPositiveDefiniteError):
        for _ in range(_MOST_ROUNDS):
            noise = _noise(models, folded)
            if noise is None:
                break
            scored = _scored(recipe, [_noisy(noise, model) for model in models], folded)
            if not scored.scores or scored.scores[0] <= kept[1].scores[0]:
                break
            conditioned = partial(_conditioned, recipe, posterior_noise, noise)
            kept = replace(recipe, conditioned=conditioned), scored
            if not all(map(_is_small, models, tables)):
                break
            posterior_noise = noise
            models = [_with_posterior(noise, *pair) for pair in zip(models, tables, strict=True)]
    return kept


def _noise(models: Sequence[Model], folded: FoldedRows) -> MixtureNoise | None:
    """That of held-out residuals; None if they tell of the function rather than of the noise."""
    pairs = zip(models, folded.folds, strict=True)
    residuals = np.hstack([_residuals(model, fold.held_out) for model, fold in pairs])
    _, f_var, noise_var, weights = residuals
    if np.average(f_var > _MOST_F_VAR * noise_var, weights=weights) > 0.5:
        return None
    return noise_of_residuals(residuals, cast(Gaussian, models[0].likelihood).noise_floor)


def _scored(recipe: Recipe, models: Sequence[Model], folded: FoldedRows) -> Search:
    """Scores of held-out rows by models of the folds, less what the fit of the noise gains."""
    scored = folded.scored(replace(recipe, conditioned=as_trained), models)
    if not scored.scores:
        return scored
    each = _OPTIMISM / sum(folded.weights)
    of_rows = scored.of_rows - [[each], [0.0]]
    return scored._replace(scores=[scored.scores[0] - each], of_rows=of_rows)


@torch.no_grad()
def _residuals(model: Model, table: Table) -> Array:
    """Residuals of rows, variances of f and of the noise, and weights, (4, n)."""
    omega, noise_var = model.log_weights.exp()[:, None, None], model.likelihood.noise_var
    parts = []
    for batch, latent in model.latent_chunks(table):
        mean, var = total_moments(latent.f_mean, latent.f_var, omega)
        noise = (omega * latent.noise_ratio).sum(0) * noise_var
        columns = batch.targets.y - mean, var, noise.expand_as(mean)
        parts.append(torch.cat(columns, 1).mT)
    found = torch.cat(parts, 1).double().cpu().numpy()
    return np.vstack([found, table.weights])


def _conditioned(
    recipe: Recipe,
    posterior_noise: MixtureNoise | None,
    noise: MixtureNoise,
    model: Model,
    table: Table,
) -> Model:
    """An untrained GP of the rows as it predicts, with a posterior of normal or other noise."""
    model = recipe.conditioned(model, table)
    if posterior_noise is not None:
        with suppress(NotPositiveDefiniteError):  # which models of the folds have not met
            model = _with_posterior(posterior_noise, model, table)
    return _noisy(noise, model)


def _is_small(model: Model, table: Table) -> bool:
    """Whether it is one GP of so few rows that its posterior is found for other noise, too."""
    return is_one_gp(model, table) and len(np.unique(table.keys)) <= _MOST_ROWS


@torch.no_grad()
def _with_posterior(noise: MixtureNoise, model: Model, table: Table) -> Model:
    """A copy with the posterior that goes with other noise than that of its likelihood."""
    model = copy.deepcopy(model)
    noise_var = model.likelihood.noise_var
    rows = equivalent_rows(model.stack.top, rows_of_top(model, table), noise_var, noise)
    cast(Layers, model.source).condition(rows, noise_var)
    return model


@torch.no_grad()
def _noisy(noise: MixtureNoise, model: Model) -> Model:
    """A copy with other noise; the noise of its likelihood has the same variance."""
    model = copy.deepcopy(model)
    likelihood, source = cast(Gaussian, model.likelihood), cast(Layers, model.source)
    likelihood.start(likelihood.noise_var * noise.variance)  # or a little above the floor
    source.noise = noise.scaled(1.0 / noise.variance)
    return model
