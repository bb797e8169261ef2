"""Chunks of rows, one of which is in memory at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from skgp.fitting.table import Array

Part = TypeVar("Part")


@dataclass(frozen=True)
class Chunks(Generic[Part]):
    """What a model says of consecutive chunks of rows, each computed when its turn comes.

    Attributes
    ----------
    n_rows : int
        Of all chunks together.
    parts : iterator
        What is said of each chunk.
    """

    n_rows: int
    parts: Iterator[Part]

    def gather(self, reduce: Callable[[Part], tuple[Array, ...]]) -> tuple[Array, ...]:
        """Arrays of all rows.

        They are allocated once. Small arrays of the chunks in a list would lie among the large
        blocks of memory that each chunk frees, and keep the allocator from using these again.

        Parameters
        ----------
        reduce : callable
            From the part of a chunk of B rows to arrays of shape (B, ...).

        Returns
        -------
        tuple of arrays of shape (n_rows, ...)
        """
        wholes: tuple[Array, ...] = ()
        start = 0
        for part in self.parts:
            arrays = reduce(part)
            if not wholes:
                wholes = tuple(np.empty((self.n_rows, *a.shape[1:]), a.dtype) for a in arrays)
            stop = start + len(arrays[0])
            for whole, array in zip(wholes, arrays, strict=True):
                whole[start:stop] = array
            start = stop
        return wholes
