"""A random choice of rows that stands for all rows of a table."""

import numpy as np
import numpy.typing as npt

from skgp._typing import BoolArray, FloatArray, IntArray

Keys = npt.NDArray[np.uint64]

_CHUNK = 65_536  # rows
_RARE = 20  # rows expected of a group that a random choice could miss


def row_keys(*tables: npt.NDArray[np.floating]) -> Keys:
    """Numbers that look random and depend only on the values of a row of the tables (n, ...).

    Sorted by their keys, rows are in a random order that does not depend on the order of the table.
    """
    widths = [table.shape[1] for table in tables]
    factors = np.random.SeedSequence(0).generate_state(sum(widths), np.uint64) | np.uint64(1)
    keys = np.zeros(len(tables[0]), dtype=np.uint64)
    for table, of_columns in zip(tables, np.split(factors, np.cumsum(widths)[:-1]), strict=True):
        for start in range(0, len(keys), _CHUNK):
            rows = slice(start, start + _CHUNK)
            bits = (np.array(table[rows], dtype=np.float64) + 0.0).view(np.uint64)
            bits ^= bits >> np.uint64(32)
            keys[rows] += (bits * of_columns).sum(axis=1)
    return _mixed(keys)


def _mixed(keys: Keys) -> Keys:
    """A permutation of the 64-bit numbers without a pattern (the last steps of SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = keys ^ (keys >> np.uint64(shift))
        keys *= np.uint64(factor)
    return keys ^ (keys >> np.uint64(31))


def subsample(
    weight: FloatArray, groups: BoolArray, keys: Keys, size: int, seed: int
) -> tuple[IntArray, FloatArray]:
    """Rows drawn in proportion to their weights, without replacement, and their new weights.

    Row i is drawn with the probability pi_i = min(1, w_i / t), where the threshold t makes the sum
    of these equal to the size, and then has the weight w_i / pi_i = max(w_i, t). So a sum over the
    drawn rows is an unbiased estimate of that over all rows, and rows of a large weight are always
    among them.
    The draw is systematic sampling in a random order (Madow 1949). The rows' keys give the order:
    it does not depend on the order of the table.

    Some rows are drawn in advance from each group that the draw could miss, such as a rare class.

    Parameters
    ----------
    weight : array of shape (n,)
        Not negative, at least one positive. Rows of weight zero are never drawn.
    groups : array of shape (n, G)
        Whether a row belongs to each of G groups.
    keys : array of shape (n,)
        Keys of the rows, see `row_keys`.
    size : int
        Rows wanted. Up to so many rows of positive weight are all kept; of more, about this many
        are drawn.
    seed : int

    Returns
    -------
    index : array of shape (m,)
        Numbers of the rows, in ascending order.
    weight : array of shape (m,)
    """
    order = np.flatnonzero(weight > 0.0)
    if len(order) <= size:
        return order, weight[order]
    rng = np.random.RandomState(seed)
    salt = np.uint64(rng.randint(2**63))
    order = order[np.argsort(_mixed(keys[order] ^ salt), kind="stable")]
    weight, members = weight[order], groups[order]
    probability = _inclusion(weight, size)

    least = max(1, min(_RARE, size // (2 * max(1, members.shape[1]))))
    is_rare = np.einsum("n,ng->g", probability, members) < min(_RARE, size / 2)
    first = np.cumsum(members[:, is_rare], axis=0) <= least
    probability[(members[:, is_rare] & first).any(axis=1)] = 1.0

    passed = np.cumsum(probability)
    passed += rng.uniform()  # in place, because tables may be as long as memory allows
    np.floor(passed, out=passed)
    drawn = np.r_[passed[:1] > 0.0, passed[1:] > passed[:-1]]
    drawn |= probability >= 1.0  # also where rounding of the sum would miss them
    index, weight = order[drawn], weight[drawn] / probability[drawn]
    ascending = np.argsort(index)
    return index[ascending], weight[ascending]


def _inclusion(weight: FloatArray, size: int) -> FloatArray:
    """Probabilities min(1, w / t) of more than `size` positive weights w; their sum is `size`."""
    ascending = np.sort(weight)
    largest = ascending[: -size - 1 : -1].copy()
    rest = np.cumsum(ascending, out=ascending)[: -size - 1 : -1]  # with all smaller ones
    # With the k largest weights certain, t is the rest divided by size - k.
    threshold = rest / (size - np.arange(size))
    certain = int(np.argmax(largest <= threshold))
    return np.minimum(1.0, weight / threshold[certain])
