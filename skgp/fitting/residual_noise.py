"""Untrained GPs whose noise is fitted to held-out residuals."""

import copy
from dataclasses import replace
from functools import partial
from typing import Final, cast

import numpy as np
import torch

from skgp._typing import Array
from skgp.core.layers.layer import total_moments
from skgp.core.layers.noise import MixtureNoise
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.marginal.residuals import noise_of_residuals
from skgp.fitting.folds import FoldedRows
from skgp.fitting.model import Layers, Model
from skgp.fitting.recipe import Recipe, as_trained
from skgp.fitting.search import Search
from skgp.fitting.table import Table

# What fitting the noise gains in log density, in nats, even where noise is normal: one for each of
# its free parameters (Akaike 1974).
_OPTIMISM: Final = 7.0
_MOST_F_VAR: Final = 10.0  # of rows whose residuals tell of the noise, in variances of the noise


def with_residual_noise(
    recipe: Recipe, search: Search, folded: FoldedRows
) -> tuple[Recipe, Search]:
    """The recipe of GPs with fitted noise, and their scores, if these are higher.

    The noise is a mixture of normals that is fitted to the residuals of all folds. The same rows
    are scored with it, and the scores are lowered by what such a fit gains where noise is normal.
    Noise stays normal if the function is uncertain at most rows: their residuals mostly show its
    errors.

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
    pairs = zip(search.models, folded.folds, strict=True)
    residuals = np.hstack([_residuals(model, fold.held_out) for model, fold in pairs])
    _, f_var, noise_var, weights = residuals
    if np.average(f_var > _MOST_F_VAR * noise_var, weights=weights) > 0.5:
        return recipe, search
    least_var = cast(Gaussian, search.models[0].likelihood).noise_floor
    noise = noise_of_residuals(residuals, least_var)
    models = (_noisy(noise, model) for model in search.models)
    scored = folded.scored(replace(recipe, conditioned=as_trained), models)
    if not scored.scores:
        return recipe, search
    each = _OPTIMISM / sum(folded.weights)
    of_rows = scored.of_rows - [[each], [0.0]]
    scored = scored._replace(scores=[scored.scores[0] - each], of_rows=of_rows)
    if scored.scores[0] <= search.scores[0]:
        return recipe, search
    return replace(recipe, conditioned=partial(_conditioned, recipe, noise)), scored


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


def _conditioned(recipe: Recipe, noise: MixtureNoise, model: Model, table: Table) -> Model:
    """An untrained GP of the rows as it predicts."""
    return _noisy(noise, recipe.conditioned(model, table))


@torch.no_grad()
def _noisy(noise: MixtureNoise, model: Model) -> Model:
    """A copy with other noise; the noise of its likelihood has the same variance."""
    model = copy.deepcopy(model)
    likelihood, source = cast(Gaussian, model.likelihood), cast(Layers, model.source)
    likelihood.start(likelihood.noise_var * noise.variance)  # or a little above the floor
    source.noise = noise.scaled(1.0 / noise.variance)
    return model
