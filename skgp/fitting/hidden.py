"""Values so far out that a fit sees no difference between the others."""

import math
from typing import Final

import numpy as np
import torch

from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.networks.warping import InputWarp
from skgp.exceptions import FitQualityWarning
from skgp.fitting.model import Layers, Model
from skgp.fitting.table import Array, Scale, Table, scale_inputs

# Interquartile ranges of scaled values: below these, kernels start with next to no difference among
# the values, or normal noise is as wide as all of them.
_HIDDEN_INPUTS: Final = 0.1
_HIDDEN_TARGETS: Final = 0.02
_GAP: Final = 100.0  # between near and far inputs, as a ratio of distances: tails have none
_FEW: Final = 10  # different values in the middle half, up to which that is a mark, not a number
_ENOUGH: Final = 10_000  # rows that show it


def hidden_values(model: Model, table: Table) -> list[Warning]:
    """Whether a few values of X, or of y under normal noise, hide the others."""
    every = math.ceil(len(table) / _ENOUGH)
    warnings: list[Warning] = []
    seen_by_kernel = _seen_by_kernel(model, table, every)
    if seen_by_kernel is not None:
        remedy = "the others look equal to the model; correct these, or drop their rows"
        hidden = _are_hidden(seen_by_kernel, _HIDDEN_INPUTS)
        hidden[hidden] = [_gap(table.X[:, j]) > _GAP for j in np.flatnonzero(hidden)]
        warnings += _warned("X", table.X, table.x_scale, hidden, remedy)
    if isinstance(model.likelihood, Gaussian) and table.y_scale.enabled:
        remedy = (
            "if these are errors, use likelihood='student_t'; "
            "if y is skewed, TransformedTargetRegressor"
        )
        hidden = _are_hidden(table.y_scale.apply(table.Y[::every]), _HIDDEN_TARGETS)
        warnings += _warned("y", table.Y, table.y_scale, hidden, remedy)
    return warnings


@torch.no_grad()
def _seen_by_kernel(model: Model, table: Table, every: int) -> Array | None:
    """Some rows of scaled inputs, transformed if they are; None where a network is between."""
    if not table.x_scale.enabled or not isinstance(model.source, Layers):
        return None
    stack = model.source.stack
    if stack.has_features and not isinstance(stack.features, InputWarp):
        return None
    x = torch.from_numpy(scale_inputs(table.X[::every], table.x_scale))
    h: Array = stack.features(x.to(model.log_weights.device)).cpu().numpy()
    return h


def _are_hidden(values: Array, least: float) -> Array:
    """Columns (d,) of scaled values (n, d) with a narrow interquartile range, but not of zero."""
    columns = [column[~np.isnan(column)] for column in values.T]
    ranges = [np.diff(np.quantile(c, [0.25, 0.75])).item() if len(c) else 0.0 for c in columns]
    return (np.array(ranges) > 0.0) & (np.array(ranges) < least)


def _warned(name: str, values: Array, scale: Scale, hidden: Array, remedy: str) -> list[Warning]:
    """At most one warning, of the first of the hidden columns (d,) that holds numbers."""
    for j in np.flatnonzero(hidden):
        column = np.asarray(values[:, j], dtype=float)
        column = column[~np.isnan(column)]
        low, high = np.quantile(column, [0.25, 0.75])
        if len(np.unique(column[(column >= low) & (column <= high)])) <= _FEW:
            continue
        which = f"column {j} of {name}" if values.shape[1] > 1 else name
        return [
            FitQualityWarning(
                f"half of {which} lies within {high - low:.2g}, and a few values, such as "
                f"{_farthest(column):.6g}, make its standard deviation {scale.unit[j]:.2g}: "
                f"{remedy}"
            )
        ]
    return []


def _gap(column: Array) -> float:
    """The largest ratio of one distance from the median to the next smaller one.

    None is below the interquartile range.
    """
    low, middle, high = np.quantile(np.asarray(column, dtype=float), [0.25, 0.5, 0.75])
    distance = np.sort(np.fmax(np.abs(column - middle), high - low))
    return float(np.max(distance[1:] / distance[:-1], initial=0.0))


def _farthest(column: Array) -> float:
    return float(column[np.argmax(np.abs(column - np.median(column)))])
