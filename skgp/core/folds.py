"""Folds of a cross-validation."""

import numpy as np

from skgp._typing import BoolArray, IntArray
from skgp.core.subsample import Keys


def fold_numbers(keys: Keys, groups: BoolArray, n_folds: int) -> IntArray:
    """Number of the fold in which each row is held out, or -1 for rows that are never held out.

    Equal rows share a fold, and the order of the rows does not matter. Each group has about the
    same share of every fold. A group that would be missing from a training part is never held out.

    Parameters
    ----------
    keys : array of shape (n,)
        Keys of the rows, see `row_keys`.
    groups : array of shape (n, G)
        Whether a row belongs to each of G groups, such as a class.
    n_folds : int

    Returns
    -------
    array of shape (n,)
    """
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    members = groups[first]
    # Distinct rows are sorted by their keys, hence in a random order; stable within each group.
    order = np.argsort(members.argmax(axis=1), kind="stable")
    fold = np.empty(len(first), dtype=np.intp)
    fold[order] = np.arange(len(first)) % n_folds
    counts = np.equal.outer(np.arange(n_folds), fold).astype(np.intp) @ members
    in_one_fold = counts.max(axis=0) == counts.sum(axis=0)
    fold[members[:, in_one_fold].any(axis=1)] = -1
    return fold[number]
