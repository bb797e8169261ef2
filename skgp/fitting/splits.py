"""Training and validation rows of a table."""

import math
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import ShuffleSplit

from skgp._typing import IntArray
from skgp.core.subsample import row_keys
from skgp.fitting.row_checks import check_observed
from skgp.fitting.rows import Rows

_MANY = 1_000_000  # rows
_FEW_KINDS = 20  # of rows, of which too few would be held out
_FREQUENT = 0.001  # share of the rows that are of one kind, and
_FAR_MORE = 10.0  # how many times the mean of all kinds they are, beyond which they are no copies
_ONE_TARGET = 0.9  # least ratio of distinct inputs to distinct rows in a data set with copies


class Split(NamedTuple):
    """The rows of a fit.

    Attributes
    ----------
    rows : Rows
        To train on.
    held_out : Rows or None
        To judge the training by.
    whole : Rows or None
        All rows, if the held-out ones were taken from them.
    """

    rows: Rows
    held_out: Rows | None = None
    whole: Rows | None = None


def split_rows(rows: Rows, fraction: float, rng: np.random.RandomState) -> tuple[Rows, Rows]:
    """Training and validation rows by one random split; `fraction` is the share held out.

    Equal rows are on one side, unless they are very frequent. With copies of training rows a score
    would reward a model that remembers them, for as long as it trains.

    Raises
    ------
    ValueError
        If either side would be empty.
    """
    first, number = _distinct(rows)
    try:
        parts = next(ShuffleSplit(1, test_size=fraction, random_state=rng).split(first))
    except ValueError as error:
        raise ValueError(
            f"validation_fraction={fraction} leaves no training or no validation rows of "
            f"{len(rows.X)}: change it, pass X_val and y_val, or use early_stopping=False"
        ) from error
    train, held_out = (_copies(part, number) for part in parts)
    # An output that is observed on the held-out side only takes one of its rows to the other.
    observed = ~np.isnan(rows.columns[0])
    needed = ~observed[train].any(axis=0)
    moved = np.unique(held_out[observed[held_out][:, needed].argmax(axis=0)])
    if 0 < len(moved) < len(held_out):
        train, held_out = np.union1d(train, moved), np.setdiff1d(held_out, moved)
    train, held_out = _as_in_file(train), _as_in_file(held_out)
    remedy = "pass X_val and y_val, or use early_stopping=False"
    check_observed(rows.y[train], "y without the validation rows", remedy=remedy)
    return rows.take(train), rows.take(held_out)


def split_by_class(rows: Rows, fraction: float, rng: np.random.RandomState) -> tuple[Rows, Rows]:
    """Training and validation rows by a random split in which classes keep their shares.

    The rows have numbers of classes for y, and each class keeps a training row. `fraction` is the
    share held out. Equal rows are on one side, as in `split_rows`.

    Raises
    ------
    ValueError
        If the classes have too few rows for the share.
    """
    first, number = _distinct(rows)
    n, y = len(first), rows.y[first]
    order = rng.permutation(n)
    order = order[np.argsort(y[order], kind="stable")]
    free = order[1:][np.diff(y[order]) == 0.0]  # without the first of each class
    n_held_out = math.ceil(fraction * n)
    if n_held_out > len(free):
        raise ValueError(
            f"validation_fraction={fraction} leaves no training row for some class of {n} rows: "
            "lower it, pass X_val and y_val, or use early_stopping=False"
        )
    # Equal steps through kinds that are sorted by class take the same share of each.
    places = (np.arange(n_held_out) + rng.uniform()) * (len(free) / n_held_out)
    held_out = free[places.astype(int)]
    parts = (_copies(kinds, number) for kinds in (np.setdiff1d(order, held_out), held_out))
    train, held_out = (_as_in_file(part) for part in parts)
    return rows.take(train), rows.take(held_out)


def _distinct(rows: Rows) -> tuple[IntArray, IntArray]:
    """The first of each kind of equal rows, inputs and targets, and the kind of each row (n,).

    Kinds are numbered by the contents of their rows, so that a choice among them does not depend on
    the order of the rows.

    Each row is a kind of its own where most rows have equals and one input has several targets, as
    with a few discrete columns, or where there are few kinds: these are repeated measurements, not
    copies. The same holds for a kind that is far more frequent than the others: new rows will be of
    this kind too, and the score would mostly be its score if it were held out as a whole.
    """
    keys = row_keys(rows.X, rows.columns[0])
    _, first, number, count = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    n, n_kinds = len(number), len(first)
    is_apart = count > max(_FREQUENT * n, _FAR_MORE * n / n_kinds)
    if 2 * n_kinds < n:
        n_inputs = len(np.unique(row_keys(rows.X[first])))
        is_apart |= n_kinds < _FEW_KINDS or n_inputs < _ONE_TARGET * n_kinds
    apart = np.flatnonzero(is_apart[number])
    if len(apart):
        weight = np.zeros(n) if rows.weight is None else rows.weight
        apart = apart[np.lexsort((weight[apart], keys[apart]))]
        first = np.concatenate([first[~is_apart], apart])
        number = (np.cumsum(~is_apart) - 1)[number]
        number[apart] = np.arange(len(first) - len(apart), len(first))
    return first, number


def _copies(kinds: IntArray, number: IntArray) -> IntArray:
    """All rows of these kinds, in the order of the kinds."""
    place = np.full(number.max() + 1, -1)
    place[kinds] = np.arange(len(kinds))
    rows = np.flatnonzero(place[number] >= 0)
    order: IntArray = rows[np.argsort(place[number[rows]], kind="stable")]
    return order


def _as_in_file(index: IntArray) -> IntArray:
    """Many rows in their own order: a file that they are in is then read from its beginning."""
    return np.sort(index) if len(index) > _MANY else index
