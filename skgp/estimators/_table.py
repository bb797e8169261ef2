"""A table of rows that become scaled tensors batch by batch."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from skgp.core.likelihoods import Targets
from skgp.core.objectives import Batch

Array = npt.NDArray[Any]

_FAR = 1e9


class Scale:
    """Column-wise offset and unit: from the user's units to about N(0, 1) and back.

    Parameters
    ----------
    values : array of shape (n, d)
        Columns; NaN entries are ignored.
    sample_weight : array of shape (n,) or None
    enabled : bool
        If False, offset zero and unit one.
    """

    def __init__(self, values: Array, sample_weight: Array | None, enabled: bool) -> None:
        n_columns = values.shape[1]
        self.offset = np.zeros(n_columns)
        self.unit = np.ones(n_columns)
        if enabled:
            scaler = StandardScaler().fit(values, sample_weight=sample_weight)
            self.offset = np.asarray(scaler.mean_, dtype=float)
            # Where the scaler replaced the deviation, the column is constant: its own size is
            # then the unit, so that results stay in proportion whatever the user's units are.
            constant = np.where(self.offset == 0.0, 1.0, np.abs(self.offset))
            varies = scaler.scale_ == np.sqrt(scaler.var_)
            self.unit = np.where(varies, scaler.scale_, constant)
            # The mean of equal numbers can be off by an ulp: a constant column is its maximum.
            self.offset = np.where(varies, self.offset, np.nanmax(values, axis=0))

    def apply(self, values: Array) -> Array:
        """Values in units of the scale, float64."""
        return np.asarray((values - self.offset) / self.unit, dtype=np.float64)


def make_scale(values: Array, sample_weight: Array | None, enabled: bool) -> Scale:
    """A `Scale` by a function, because results of functions can be cached on disk."""
    return Scale(values, sample_weight, enabled)


def scale_inputs(X: Array, scale: Scale) -> Array:
    """Inputs in units of the scale, with values beyond 10^9 cut off.

    So far out no kernel sees a difference, and squared distances stay finite in float32. Rows are
    contiguous, so that the order of X in memory does not change a bit of the results.
    """
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(scale.apply(X).clip(-_FAR, _FAR))


class Table:
    """Training rows; only the rows of a batch are scaled and copied.

    Parameters
    ----------
    X : array of shape (n, D)
    Y : array of shape (n, P)
        NaN where an output is missing.
    sample_weight : array of shape (n,) or None
        Positive row weights.
    x_scale, y_scale : Scale
    like : Tensor
        Its dtype and device are those of the batches.
    """

    def __init__(
        self,
        X: Array,
        Y: Array,
        sample_weight: Array | None,
        x_scale: Scale,
        y_scale: Scale,
        like: Tensor,
    ) -> None:
        self.X = X
        self.Y = Y
        self.x_scale = x_scale
        self.y_scale = y_scale
        self.like = like
        self.sample_weight = sample_weight
        self.n_data = float(len(X)) if sample_weight is None else float(sample_weight.sum())
        missing = np.isnan(Y)
        self._has_missing = bool(missing.any())
        self._mean_weight = self.n_data / len(X)
        # What a log density in scaled units exceeds that in the user's by, on average over rows.
        log_units = (~missing) @ np.log(y_scale.unit)
        self.mean_log_unit = float(np.average(log_units, weights=sample_weight))

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def batch(self, rows: Tensor) -> Batch:
        """Scaled rows with these indices (B,)."""
        index = rows.numpy()
        x = self._tensor(scale_inputs(self.X[index], self.x_scale))
        y = self._tensor(self.y_scale.apply(self.Y[index]))
        mask = None
        if self._has_missing:
            observed = ~torch.isnan(y)
            y = torch.where(observed, y, torch.zeros_like(y))
            mask = observed.to(y.dtype)
        weight = None
        if self.sample_weight is not None:
            weight = self._tensor(self.sample_weight[index] / self._mean_weight)
        return Batch(x, Targets(y, mask), weight, rows.to(self.like.device))

    def _tensor(self, values: Array) -> Tensor:
        return torch.from_numpy(values).to(self.like)
