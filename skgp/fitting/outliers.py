"""Rows far outside of those that a model which goes on has seen."""

from typing import NamedTuple

import numpy as np

from skgp._typing import Array
from skgp.exceptions import OutlierWarning
from skgp.fitting.rows import Rows
from skgp.fitting.table import Scale

# Standard deviations. That of inputs is wide, because a column that marks a rare event has a small
# standard deviation.
_FAR_INPUT = 1000.0
_FAR_TARGET = 30.0
_CHUNK = 65_536  # rows
_NAMED = 5  # rows in a message


class Outliers(NamedTuple):
    """Rows with an input or a target that is far from the mean of the first rows.

    Attributes
    ----------
    rows : array of shape (k,)
        Their numbers.
    description : str
        Which they are and how far, for a person.
    are_most : bool
        Whether they are more than half of the rows: then they are other data, not outliers.
    """

    rows: Array
    description: str
    are_most: bool

    def warning(self, what_happens: str) -> list[Warning]:
        """At most one."""
        if not len(self.rows):
            return []
        if self.are_most:
            what_happens = "the model keeps its units; fit a new one if these are others"
        return [OutlierWarning(f"{self.description} from the mean: {what_happens}")]


def find_outliers(rows: Rows, x_scale: Scale, y_scale: Scale) -> Outliers:
    """Rows beyond 1,000 standard deviations of an input or 30 of a target.

    The scales are those of the fitted model. Columns that are not scaled are not judged.
    """
    far = np.zeros(len(rows.X), dtype=bool)
    parts = []
    for name, values, scale, bound in (
        ("X", rows.X, x_scale, _FAR_INPUT),
        ("y", rows.columns[0], y_scale, _FAR_TARGET),
    ):
        distance = _distances(values, scale) if scale.enabled else np.zeros(len(values))
        beyond = np.flatnonzero(distance > bound)
        if len(beyond):
            passed = beyond if rows.numbers is None else rows.numbers[beyond]
            parts.append(f"{name} in row(s) {_listed(passed)} is {distance.max():.2g}")
        far[beyond] = True
    description = " and ".join(parts) + " standard deviations"
    return Outliers(np.flatnonzero(far), description, bool(far.mean() > 0.5))


def _distances(values: Array, scale: Scale) -> Array:
    """Of each row the largest distance of an entry from the mean, in standard deviations."""
    distance = np.empty(len(values))
    for start in range(0, len(values), _CHUNK):
        rows = slice(start, start + _CHUNK)
        with np.errstate(over="ignore"):
            distance[rows] = np.fmax.reduce(np.abs(scale.apply(values[rows])), axis=1)
    return np.nan_to_num(distance)


def _listed(rows: Array) -> str:
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return ", ".join(map(str, rows[:_NAMED])) + more
