"""Rows far outside of those that a model which goes on has seen."""

import numpy as np

from skgp.estimators._table import Array, Scale, Table
from skgp.exceptions import OutlierWarning

# Standard deviations. The inputs' bound is wide, because a column that marks a rare event has a
# small one; it may be drawn closer for targets.
_FAR_INPUT = 1000.0
_FAR_TARGET = 30.0
_CHUNK = 65_536  # rows
_NAMED = 5  # rows in a message


def outlier_warning(table: Table) -> list[Warning]:
    """At most one warning, which names the rows of a table that lie far from those at the start.

    Parameters
    ----------
    table : Table
        With the scales of the fitted model.
    """
    far_x = _far_rows(table.X, table.x_scale, _FAR_INPUT)
    far_y = _far_rows(table.Y, table.y_scale, _FAR_TARGET)
    parts = [(name, far) for name, far in (("X", far_x), ("y", far_y)) if far]
    if not parts:
        return []
    where = " and ".join(f"{name} of {_names(far)}" for name, far in parts)
    if max(len(far) for _, far in parts) > len(table) / 2:
        advice = "the model keeps the units of the first rows: fit it anew if these are others"
    else:
        advice = "check these rows; what they can do to the model is bounded"
    return [OutlierWarning(f"{where}, far outside of what the model has seen: {advice}")]


def _far_rows(values: Array, scale: Scale, bound: float) -> dict[int, float]:
    """Numbers of rows beyond a bound, with their distances in standard deviations."""
    if not scale.enabled:
        return {}
    far: dict[int, float] = {}
    for start in range(0, len(values), _CHUNK):
        with np.errstate(over="ignore"):
            distance = np.fmax.reduce(np.abs(scale.apply(values[start : start + _CHUNK])), axis=1)
        beyond = np.flatnonzero(distance > bound)
        far.update(zip((start + beyond).tolist(), distance[beyond].tolist(), strict=True))
    return far


def _names(far: dict[int, float]) -> str:
    rows = list(far)
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    largest = max(far.values())
    return (
        f"row(s) {', '.join(map(str, rows[:_NAMED]))}{more} lies up to {largest:.2g} standard "
        "deviations from the mean"
    )
