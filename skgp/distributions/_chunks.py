"""Bounded memory: loops run over chunks of rows, arithmetic over whole arrays."""

from collections.abc import Iterator

import numpy as np

from skgp._typing import FloatArray, IntArray

# Largest number of float64 elements of one temporary array: 8 MiB when a chunk of rows is
# copied, 1 MiB (about one L2 cache) in the inner loops that do the arithmetic.
COPY_ELEMENTS = 2**20
WORK_ELEMENTS = 2**17


def row_chunks(n_rows: int, elements_per_row: int) -> Iterator[slice]:
    """Slices that cover `n_rows` rows, each of at most `COPY_ELEMENTS` elements or one row."""
    step = max(1, COPY_ELEMENTS // max(1, elements_per_row))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def blocks(size: int, elements_each: int) -> Iterator[slice]:
    """Slices that cover `size` items, each of at most `WORK_ELEMENTS` elements or one item."""
    step = max(1, WORK_ELEMENTS // max(1, elements_each))
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


def chunks_by_cost(cost: IntArray | FloatArray) -> Iterator[IntArray]:
    """Index arrays that group rows of similar cost, (number of rows) * (largest cost) bounded.

    Every row of a chunk is padded to its most expensive one, so rows are taken in order of cost.
    """
    order = np.argsort(cost, kind="stable")
    start = 0
    while start < order.size:
        most = int(max(1, WORK_ELEMENTS // max(1, cost[order[start]])))
        candidates = order[start : start + most]
        fits = np.arange(1, candidates.size + 1) * cost[candidates] <= WORK_ELEMENTS
        chunk = candidates[: max(1, int(np.count_nonzero(fits)))]
        yield chunk
        start += chunk.size
