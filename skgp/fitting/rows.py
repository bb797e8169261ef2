"""Validated rows: inputs, targets or labels, and weights."""

from typing import NamedTuple

import numpy as np

from skgp._typing import Array
from skgp.core.maps import taken


class Rows(NamedTuple):
    """Validated rows.

    Attributes
    ----------
    X : array of shape (n, D), float32 or float64
    y : array of shape (n,) or (n, P), float64
        NaN where an entry of a two-dimensional y is missing. Of a classifier, numbers of classes.
    weight : array of shape (n,), float64, or None
        Positive.
    numbers : array of shape (n,), or None
        Of the rows among those that the user passed; None if these are all.
    known_noise : array of the shape of y, float64, or None
        Variances of noise that the targets are known to have, zero where y is missing.
    """

    X: Array
    y: Array
    weight: Array | None
    numbers: Array | None = None
    known_noise: Array | None = None

    @property
    def columns(self) -> tuple[Array, Array | None]:
        """Targets and their known noise, of shape (n, P)."""
        shape, noise = (len(self.y), -1), self.known_noise
        return self.y.reshape(shape), None if noise is None else noise.reshape(shape)

    def take(self, index: Array) -> "Rows":
        """The rows of an index or mask."""
        parts = self.weight, self.known_noise
        weight, noise = (None if part is None else part[index] for part in parts)
        return Rows(taken(self.X, index), self.y[index], weight, known_noise=noise)

    def merged(self) -> "Rows":
        """Distinct pairs of X and y in sorted order, with the sums of their weights."""
        # Entries that miss are equal here, as infinities.
        pairs = np.column_stack([self.X, np.nan_to_num(self.y, nan=np.inf)])
        _, first, number, counts = np.unique(
            pairs, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        if self.weight is None and len(first) == len(pairs):
            return self.take(first)
        weight = counts if self.weight is None else np.bincount(number.ravel(), self.weight)
        return Rows(self.X[first], self.y[first], weight.astype(np.float64))
