"""How a stream of chunks begins: its model starts anew while few rows have been seen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from skgp._typing import Array
from skgp.fitting.rows import Rows

ENOUGH: Final = 1000  # distinct rows that settle the start of a model with no more inducing inputs
FOR_SCALES: Final = 50  # values whose standard deviation is right to some ten per cent


@dataclass(frozen=True)
class Opening:
    """The first rows of a stream, and from which part of them the model has started.

    A first chunk may be a single row, hold a constant target, or miss an output. Scales, inducing
    inputs and hyper-parameters from it would stay wrong for ever. So the model starts anew, from
    all rows so far, whenever their number has doubled, until it is enough; and whenever an output
    has twice as many values, until these are enough for its scale.

    Attributes
    ----------
    rows : Rows
        Distinct ones, with the sums of their weights.
    n_started : int
        Rows from which the model has started last; zero if it has not.
    n_values : array of shape (P,)
        Observed values of each output among those, zero if they are all equal.
    """

    rows: Rows
    n_started: int
    n_values: Array

    @classmethod
    def of(cls, rows: Rows) -> Self:
        """That of a stream that begins with these rows."""
        return cls(rows, 0, np.zeros(rows.columns[0].shape[1], dtype=int))

    def extended(self, rows: Rows) -> "Opening":
        """With further rows."""
        return Opening(_merged(self.rows, rows), self.n_started, self.n_values)

    @property
    def has_scales(self) -> bool:
        """Whether the model has started from enough rows to say what an outlier is."""
        return self.n_started >= FOR_SCALES

    def is_due(self, enough: int) -> bool:
        """Whether the model has to start anew."""
        n = len(self.rows.X)
        has_grown = self.n_started < enough and n >= min(2 * self.n_started, enough)
        is_unsure = (self.n_values < FOR_SCALES) & (_n_values(self.rows) > 0)
        is_sure_now = _n_values(self.rows) >= 2 * self.n_values
        return has_grown or bool((is_unsure & is_sure_now).any())

    def started(self) -> "Opening":
        """After a start from these rows."""
        rows = self.rows.merged() if len(self.rows.X) < ENOUGH else self.rows
        return Opening(rows, len(rows.X), _n_values(rows))

    def is_settled(self, enough: int) -> bool:
        """Whether no further start is needed."""
        return len(self.rows.X) >= enough and bool((self.n_values >= FOR_SCALES).all())

    def with_known_scales(self, rows: Rows) -> Rows:
        """Rows without the targets of outputs that had few values, whose scales nobody knows."""
        y = np.where(self.n_values >= FOR_SCALES, rows.columns[0], np.nan)
        return rows._replace(y=y.reshape(rows.y.shape))

    def shortened(self, size: int, rng: np.random.RandomState) -> "Opening":
        """With at most so many rows, chosen at random, and copied: a user may reuse arrays.

        Those of outputs that have few values are kept, if they are at most half of the rows.
        """
        n, seen = len(self.rows.X), ~np.isnan(self.rows.columns[0])
        kept = np.arange(n)
        if n > size:
            rare = np.flatnonzero(seen[:, seen.sum(axis=0) < FOR_SCALES].any(axis=1))
            rare = rare if 2 * len(rare) <= size else rare[:0]
            others = rng.choice(np.setdiff1d(kept, rare), size - len(rare), replace=False)
            kept = np.sort(np.append(rare, others))
        return Opening(self.rows.take(kept), min(self.n_started, size), self.n_values)


def enough_rows(parameters: Mapping[str, Any]) -> int:
    """Distinct rows that settle the start of a model: at least its largest set of inducing inputs.

    The parameters are those of the estimator, which need not have all of them.
    """
    numbers = [
        np.max(parameters.get(name, 0))
        for name in ("n_inducing", "n_inducing_mean")
        if parameters.get(name, 0) != "auto"
    ]
    further = parameters.get("n_orthogonal", 0)
    return int(max(ENOUGH, *(n + further for n in numbers), further))


def _n_values(rows: Rows) -> Array:
    """Observed values of each output (P,), zero if they are all equal."""
    y = rows.columns[0]
    varies = np.fmax.reduce(y, axis=0) > np.fmin.reduce(y, axis=0)
    return np.where(varies, (~np.isnan(y)).sum(axis=0), 0)


def _merged(*parts: Rows) -> Rows:
    """Distinct rows of several parts, in sorted order, with the sums of their weights."""
    X = np.concatenate([rows.X for rows in parts])
    y = np.concatenate([rows.y for rows in parts])
    weight = np.concatenate(
        [np.ones(len(rows.X)) if rows.weight is None else rows.weight for rows in parts]
    )
    return Rows(X, y, weight).merged()
