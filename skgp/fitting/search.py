"""A search for the number of epochs, and whether rows prefer it by more than chance."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import torch

from skgp._typing import Array
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.subsample import Keys, row_keys
from skgp.distributions import NormalMixture
from skgp.fitting.coverage import NO_TARGETS, Coverage, predictions
from skgp.fitting.model import Model
from skgp.fitting.table import Table

_TRIED: Final = 60  # epochs before which a search is not given up
_MANY_ROWS: Final = 3000  # from which on the CRPS does not count


class Search(NamedTuple):
    """A search for the number of epochs.

    Attributes
    ----------
    scores : list of float
        Mean log density of held-out rows after each epoch; empty if nothing was searched.
    limit : int
        Epochs after which it ends.
    coverage : Coverage
        At the best score.
    of_rows : array of shape (2, n)
        As `scores_of_rows`, of the held-out rows, fold after fold, at the best score.
    models : sequence of Model
        Of the folds, as they predict, if they are not trained.
    """

    scores: list[float]
    limit: int
    coverage: Coverage
    of_rows: Array
    models: Sequence[Model] = ()


NO_ROWS: Final = np.zeros((2, 0))
NO_SEARCH: Final = Search([], 0, NO_TARGETS, NO_ROWS)


@torch.no_grad()
def scores_of_rows(model: Model, table: Table) -> Array:
    """Log densities of the rows of a table, and the negative CRPS, (2, n), in scaled units.

    Higher is better. Where noise is not normal the second score is zero.
    """
    densities = model.log_densities(table)
    if not isinstance(model.likelihood, Gaussian):
        return np.stack([densities, np.zeros_like(densities)])
    crps = []
    for predictive, weights, y, _ in predictions(model, table):
        parts = torch.broadcast_tensors(predictive.mean, predictive.var.sqrt())
        mean, std = (part.transpose(0, 1).cpu().numpy() for part in parts)
        dist = NormalMixture(weights.log().flatten().cpu().numpy(), mean, std)
        crps.append(np.nanmean(dist.crps(y.cpu().numpy()), axis=1))
    return np.stack([densities, -np.concatenate(crps)])


def is_ahead(search: Search, other: Search, held_out: Sequence[Table], n_rows: int) -> bool:
    """Whether one search is clearly ahead of another in log density, and not behind in CRPS.

    "Clearly" is by one standard error of the mean difference, as where trees are pruned
    (Breiman and others 1984, section 3.4.3). Of many rows log density alone decides, for training
    may gain a lot in it there, and next to nothing in CRPS.

    Parameters
    ----------
    search, other : Search
    held_out : sequence of Table
        The rows that both have scores of.
    n_rows : int
        Number of all rows, held-out ones included.
    """
    if not search.of_rows.size:  # no score was a number
        return False
    weights = np.concatenate([table.weights for table in held_out])
    keys = row_keys(np.concatenate([table.X for table in held_out]))
    by_density, by_crps = search.of_rows - other.of_rows
    is_behind = n_rows <= _MANY_ROWS and exceeds_its_error(-by_crps, weights, keys)
    return exceeds_its_error(by_density, weights, keys) and not is_behind


def falls_short(scores: list[float], goal: float, max_iter: int) -> bool:
    """Whether the best score would stay below a goal if it rose on as in its last half of epochs.

    That is optimistic, for scores rise ever more slowly.
    """
    n, half = len(scores), len(scores) // 2
    if n < _TRIED:
        return False
    best = max(scores)
    return best + (best - max(scores[:half])) / (n - half) * (max_iter - n) < goal


def exceeds_its_error(values: Array, weights: Array, keys: Keys, n_errors: float = 1.0) -> bool:
    """Whether the weighted mean of numbers is above zero by more than so many standard errors.

    Parameters
    ----------
    values, weights, keys : array of shape (n,)
        Values of equal keys are parts of one observation, so that a row of weight two counts as
        two rows do.
    n_errors : float, default=1.0
    """
    mean = np.average(values, weights=weights)
    _, observation = np.unique(keys, return_inverse=True)
    sums = np.bincount(observation, weights * (values - mean))
    n = len(sums)
    error = np.sqrt(n / (n - 1) * np.square(sums).sum()) / weights.sum()
    return bool(mean > n_errors * error)
