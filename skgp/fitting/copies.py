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
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.subsample import row_keys
from skgp.fitting.model import Model
from skgp.fitting.recipe import Recipe
from skgp.fitting.search import exceeds_its_error
from skgp.fitting.table import Table, scale_inputs

_LEAST: Final = 0.05  # probability of a repeated target, below which none is expected
_ERRORS: Final = 3.0  # standard errors by which targets of equal inputs are nearer than others
_OPTIMISM: Final = 1.0  # nats that fitting the probability gains anyway (Akaike 1974)


def with_copies(
    recipe: Recipe, model: Model, whole: Table, held_out: Sequence[Table], of_rows: Array
) -> Recipe:
    """The recipe of models that expect repeated targets, if rows of equal inputs have them.

    Parameters
    ----------
    recipe : Recipe
    model : Model
        Of this recipe.
    whole : Table
        All rows, in the units of the model.
    held_out : sequence of Table
        All or some of them, each in units of its own. Equal rows were held out together.
    of_rows : array of shape (2, n)
        Their log densities and negative CRPS, in these units.
    """
    likelihood, scale = model.likelihood, whole.y_scale
    if not (isinstance(likelihood, Gaussian) and model.has_plain_noise(whole)):
        return recipe
    units = [np.full(len(table), table.y_scale.unit[0] / scale.unit[0]) for table in held_out]
    unit, (log_density, score) = np.concatenate(units), of_rows
    X, Y = (np.concatenate([getattr(table, name) for table in held_out]) for name in "XY")
    counts = np.concatenate([table.weights for table in held_out])
    rows = np.stack([scale.apply(Y)[:, 0], counts, log_density - np.log(unit), -score * unit])
    var = likelihood.noise_floor
    probability = probability_of_copies(row_keys(X), rows, var)
    if probability == 0.0:
        return recipe
    x = scale_inputs(whole.X, whole.x_scale)
    copies = Copies.of(x, scale.apply(whole.Y)[:, 0], probability, var)
    return replace(recipe, conditioned=partial(_conditioned, recipe, copies))


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
