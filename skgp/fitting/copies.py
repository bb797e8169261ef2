"""Predictions that know the targets of training rows, for rows that repeat their inputs."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
from scipy.stats import norm

from skgp._typing import Array
from skgp.core.copies import Copies, targets_of_others
from skgp.core.subsample import row_keys
from skgp.fitting.model import Model
from skgp.fitting.recipe import Recipe
from skgp.fitting.search import exceeds_its_error
from skgp.fitting.table import Table, scale_inputs

_LEAST: Final = 0.05  # probability of a repeated target, below which none is expected
_ERRORS: Final = 3.0  # standard errors by which targets of equal inputs are nearer than others
_OPTIMISM: Final = 1.0  # nats that fitting the probability gains anyway (Akaike 1974)


def with_copies(recipe: Recipe, model: Model, table: Table, probability: float) -> Recipe:
    """The recipe of models that expect repeated targets.

    Parameters
    ----------
    recipe : Recipe
    model : Model
        Of this recipe.
    table : Table
        The rows whose targets are repeated, in the units of the model.
    probability : float
        With which they are; the recipe stays as it is if this is zero.
    """
    if probability == 0.0:
        return recipe
    x, y = scale_inputs(table.X, table.x_scale), table.y_scale.apply(table.Y)[:, 0]
    copies = Copies.of(x, y, probability, model.likelihood.noise_floor)
    return replace(recipe, conditioned=partial(_conditioned, recipe, copies))


def copy_probability(model: Model, tables: Sequence[Table], of_rows: Array) -> float:
    """The probability with which rows repeat the targets of others that have their inputs.

    Parameters
    ----------
    model : Model
        One of those that scored the rows.
    tables : sequence of Table
        The rows, each table in units of its own.
    of_rows : array of shape (2, n)
        Their log densities and negative CRPS, in these units. Equal rows were held out together,
        or none were.

    Returns
    -------
    float
        Zero where nothing is known, and of other targets than real ones with normal noise.
    """
    if not all(model.has_plain_noise(table) for table in tables):
        return 0.0
    unit = np.concatenate([np.full(len(table), table.y_scale.unit[0]) for table in tables])
    X, Y = (np.concatenate([getattr(table, name) for table in tables]) for name in "XY")
    weights = np.concatenate([table.weights for table in tables])
    log_density, score = of_rows
    common = tables[0].y_scale
    y, unit = common.apply(Y)[:, 0], unit / common.unit[0]
    rows = np.stack([y, weights, log_density - np.log(unit), -score * unit])
    return probability_of_copies(row_keys(X), rows, model.likelihood.noise_floor)


def probability_of_copies(keys: Array, rows: Array, var: float) -> float:
    """The probability with which a row repeats the target of the rows that have its inputs.

    Let F be the predictive distribution of a row without them, c their target, and y its own. If y
    is c with the probability p and comes from F otherwise, E |y - c| = (1 - p) E |Y - c|. If c
    comes from F, too, E |Y - c| is twice the expected CRPS of F. So p is one minus the sum of
    |y - c| over that of 2 CRPS(F, y): by chance alone discrete targets agree often, but p is zero.
    It is at most the share of the rows whose targets are equal.

    Parameters
    ----------
    keys : array of shape (n,)
        Of the inputs.
    rows : array of shape (4, n)
        Targets, weights, log densities and CRPS of the predictive distributions without copies.
    var : float
        Variance of the normal that stands for a repeated target.

    Returns
    -------
    float
        Zero if it is small, not three standard errors above zero, or does not raise the density.
    """
    y, weights, log_density, crps = rows
    counts = weights if np.array_equal(weights, weights.round()) else np.ones(len(y))
    others = targets_of_others(keys, y, counts)
    _, number = np.unique(keys, return_inverse=True)
    # The first of k rows of equal inputs repeats nothing.
    weights = counts * (1.0 - 1.0 / np.bincount(number, counts)[number])
    known = ~np.isnan(others)
    weights, keys, twice = weights[known], keys[known], 2.0 * crps[known]
    if len(np.unique(keys)) < 2:
        return 0.0
    distance = np.abs(y - others)[known]
    if not exceeds_its_error(twice - distance, weights, keys, _ERRORS):
        return 0.0
    share = 1.0 - (weights @ distance) / (weights @ twice)
    equal = weights @ (distance == 0.0) / (weights.sum() + 1.0)  # as if one more were different
    probability = float(min(share, equal))
    if probability < _LEAST:
        return 0.0
    repeated = np.log(probability) + norm.logpdf(distance, scale=np.sqrt(var))
    mixed = np.logaddexp(np.log1p(-probability) + log_density[known], repeated)
    return probability if weights @ (mixed - log_density[known]) > _OPTIMISM else 0.0


def _conditioned(recipe: Recipe, copies: Copies, model: Model, table: Table) -> Model:
    """A copy of a model as it predicts, with the targets of its training rows."""
    model = copy.deepcopy(recipe.conditioned(model, table))
    model.copies = copies
    return model
