"""A search for the number of epochs, and whether rows prefer it by more than chance."""

from typing import Final, NamedTuple

import numpy as np

from skgp.core.subsample import Keys
from skgp.fitting.coverage import NO_TARGETS, Coverage
from skgp.fitting.table import Array


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
    densities : array of shape (n,)
        Log densities of the held-out rows, fold after fold, at the best score.
    """

    scores: list[float]
    limit: int
    coverage: Coverage
    densities: Array


NO_SEARCH: Final = Search([], 0, NO_TARGETS, np.zeros(0))


def exceeds_its_error(values: Array, weights: Array, keys: Keys) -> bool:
    """Whether the weighted mean of numbers is above zero by more than one standard error.

    Parameters
    ----------
    values, weights, keys : array of shape (n,)
        Values of equal keys are parts of one observation, so that a row of weight two counts as
        two rows do.
    """
    mean = np.average(values, weights=weights)
    _, observation = np.unique(keys, return_inverse=True)
    sums = np.bincount(observation, weights * (values - mean))
    n = len(sums)
    error = np.sqrt(n / (n - 1) * np.square(sums).sum()) / weights.sum()
    return bool(mean > error)
