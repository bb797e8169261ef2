"""Rows of mixtures gathered from parts that need not exist at the same time."""

from collections.abc import Iterable

import numpy as np

from skgp._typing import FloatArray


def gather_rows(
    parts: Iterable[tuple[FloatArray, list[FloatArray]]], n_rows: int
) -> tuple[FloatArray, list[FloatArray]]:
    """Log weights and arrays of all rows.

    Parameters
    ----------
    parts : iterable of (log weights, arrays)
        Of consecutive rows: log weights (1, S), if the rows share them, or (B, S); and arrays of
        shape (B, ...).
    n_rows : int
        Rows of all parts together.

    Returns
    -------
    log weights, arrays
        Log weights are (1, S) if all parts share theirs. Each array is allocated once.

    Raises
    ------
    ValueError
        If the parts have different shapes, or not `n_rows` rows.
    """
    log_w = np.empty((0, 0))
    wholes: list[FloatArray] = []
    start = 0
    for part_log_w, arrays in parts:
        if start == 0:  # parts without rows do not count
            log_w = part_log_w[:1]
        if not wholes:
            wholes = [np.empty((n_rows, *array.shape[1:])) for array in arrays]
        if [array.shape[1:] for array in arrays] != [whole.shape[1:] for whole in wholes]:
            raise ValueError("gather needs parts with the same outputs and components")
        stop = start + len(arrays[0])
        if stop <= n_rows:
            if len(log_w) == 1 and not np.array_equal(part_log_w, log_w):
                log_w = np.repeat(log_w, n_rows, axis=0)  # not shared by all rows, it turns out
            if len(log_w) > 1:
                log_w[start:stop] = part_log_w
            for whole, array in zip(wholes, arrays, strict=True):
                whole[start:stop] = array
        start = stop
    if start != n_rows or not wholes:
        raise ValueError(f"gather needs parts of n_rows={n_rows} rows, got {start}")
    return log_w, wholes
