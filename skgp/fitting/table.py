"""A table of rows that become scaled tensors batch by batch."""

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from skgp._typing import Array, BoolArray
from skgp.core.bounds import densities
from skgp.core.data import Batch, Targets
from skgp.core.maps import is_mapped, read_at_random
from skgp.core.subsample import Keys, row_keys
from skgp.core.training.ranks import ALONE, Ranks
from skgp.fitting.rows import Rows

FAR: Final = 1e9  # scaled inputs beyond it are cut off
_FAR_TARGET = 1e12  # whose square is within the range of float32
_LEAST_SHARE = 1e-30  # of the variance of a column, that is not known noise
_DISCOUNTS = 30  # of noisy targets, after each of which the scale is that of the others
_ORDINARY = 1e100  # where squares are far from the ends of the range of float64
# Of a column's unit, in units of the spacing of floats at its largest number: the quantiles of a
# narrow distribution have to be different numbers.
_LEAST_SPACINGS = 1024.0
_ROUNDING = 8.0 * np.finfo(float).eps  # of a standard deviation, relative to the mean
_LEAST_UNIT = 1e-150
_LARGEST_UNSCALED = 1e10  # a standard deviation of 0.01 beside it is still some spacings
_CHUNK = 1_000_000  # rows whose moments are computed at once
# Files beyond this size may be larger than the memory. Then a row at random takes longer to read
# than its share of a step, so rows are shuffled within groups of blocks that are read at once.
_LARGE_FILE = 2**32  # bytes
_BLOCK = 4096  # rows that follow each other in the file
_GROUP = 256  # blocks at random that are shuffled together


class Scale:
    """Column-wise offset and unit: from the user's units to about N(0, 1) and back.

    Parameters
    ----------
    values : array of shape (n, d)
        Columns; NaN entries are ignored. A column without an entry has offset zero and unit one.
    sample_weight : array of shape (n,) or None
    enabled : bool
        If False, offset zero and unit one.
    """

    def __init__(self, values: Array, sample_weight: Array | None, enabled: bool) -> None:
        n_columns = values.shape[1]
        self.enabled = enabled
        self.offset = np.zeros(n_columns)
        self.unit = np.ones(n_columns)
        if not enabled:
            return
        low, high = (np.asarray(f(values, axis=0), float) for f in (np.fmin.reduce, np.fmax.reduce))
        seen = ~np.isnan(high)
        size = np.where(seen, np.fmax(np.abs(low), np.abs(high)), 0.0)
        ordinary = (size == 0.0) | ((size < _ORDINARY) & (size > 1.0 / _ORDINARY))
        exponent = np.where(ordinary, 0, np.frexp(size)[1])
        if sample_weight is not None:  # the scaler takes them in the precision of the values
            sample_weight = sample_weight / sample_weight.max()

        def read(rows: slice) -> Array:
            part = values[rows] if seen.all() else values[rows, seen]
            if ordinary.all():
                return part
            # Squares would leave the range of float64.
            return np.asarray(np.ldexp(np.asarray(part, dtype=float), -exponent[seen]))

        # Rounding makes variances of constant columns negative, or lets their units overflow: the
        # warnings are pointless, because nothing uses these numbers.
        with np.errstate(invalid="ignore", over="ignore"):
            mean, unit, varies = np.zeros(n_columns), np.zeros(n_columns), high > low
            # A column that seems constant has its own size for a unit, so that results stay in
            # proportion whatever the user's units are. Its offset is the maximum, because the mean
            # of equal numbers can be off by an ulp.
            mean[seen], unit[seen] = _moments(len(values), read, sample_weight)
            varies &= unit > _ROUNDING * np.abs(mean)
            offset, unit = np.ldexp(mean, exponent), np.ldexp(unit, exponent)
        self._set(offset, unit, varies, np.where(seen, high, 0.0), size)

    def _set(self, mean: Array, std: Array, varies: BoolArray, high: Array, size: Array) -> None:
        """Take the moments of columns that vary, and maximum and largest size of the others."""
        self.offset = np.where(varies, mean, high)
        self.unit = np.where(varies, std, np.where(size == 0.0, 1.0, size))
        spacing = np.fmax(np.finfo(float).eps * size, np.finfo(float).smallest_subnormal)
        self.unit = np.fmax(self.unit, _LEAST_SPACINGS * spacing)

    def apply(self, values: Array) -> Array:
        """Values in units of the scale, float64."""
        return np.asarray((values - self.offset) / self.unit, dtype=np.float64)


def _moments(
    n: int, read: Callable[[slice], Array], sample_weight: Array | None
) -> tuple[Array, Array]:
    """Means and standard deviations of columns of n rows.

    `read` returns some of the rows, where NaN is missing; the columns have d numbers each. Up to a
    million rows these are the numbers of a `StandardScaler`, but for its verdict on columns with a
    large offset, which it takes for constant the sooner the more rows there are. Those of larger
    tables come from the moments of parts, because the scaler needs memory for three more tables.
    """
    starts = range(0, n, _CHUNK)
    parts = []
    for rows in (slice(start, start + _CHUNK) for start in starts):
        weight = None if sample_weight is None else sample_weight[rows]
        parts.append(StandardScaler().fit(read(rows), sample_weight=weight))
    if len(parts) == 1:
        (scaler,) = parts
        return scaler.mean_, np.sqrt(scaler.var_)
    counts = np.array([np.broadcast_to(p.n_samples_seen_, p.mean_.shape) for p in parts])
    means, variances = (np.nan_to_num([getattr(p, a) for p in parts]) for a in ("mean_", "var_"))
    return _pooled(counts, means, variances)


def _pooled(counts: Array, means: Array, variances: Array) -> tuple[Array, Array]:
    """Means and standard deviations (d,) of columns, from numbers of rows and moments of K parts.

    var = sum_k share_k (var_k + (mean_k - mean)^2), with no share where a part has observed
    nothing; each argument is (K, d).
    """
    share = counts / np.fmax(counts.sum(axis=0), np.finfo(float).tiny)
    mean = (share * means).sum(axis=0)
    std = np.sqrt((share * (variances + np.square(means - mean))).sum(axis=0))
    return mean, std


def shuffled_blocks(n: int, generator: torch.Generator) -> Tensor:
    """Numbers (n,) of rows in a random order that reads a file in blocks.

    Blocks of consecutive rows come in a random order, and the rows of each group of these blocks
    are shuffled.
    """
    starts = _BLOCK * torch.randperm(-(-n // _BLOCK), generator=generator)
    order = torch.empty(n, dtype=torch.long)
    done = 0
    for group in starts.split(_GROUP):
        rows = (group[:, None] + torch.arange(_BLOCK)).flatten()
        rows = rows[rows < n]  # the last block may be shorter
        rows = rows[torch.randperm(len(rows), generator=generator)]
        order[done : done + len(rows)] = rows
        done += len(rows)
    return order


def check_scale(values: Array, scale: Scale, name: str, switch: str) -> None:
    """Refuse targets (n, P) in units that predictions could not be given in.

    `name` is that of the argument, `switch` that of the parameter that decides whether targets are
    scaled.
    """
    if scale.enabled:
        least = scale.unit.min()
        if least < _LEAST_UNIT:
            raise ValueError(
                f"{name} has a column with a standard deviation of {least:g}, and the least "
                f"allowed is {_LEAST_UNIT:g}: use other units"
            )
        return
    largest = max(np.fmax.reduce(values, axis=None), -np.fmin.reduce(values, axis=None))
    if largest > _LARGEST_UNSCALED:
        raise ValueError(
            f"{name} holds numbers as large as {largest:g}, and with {switch}=False the largest "
            f"allowed is {_LARGEST_UNSCALED:g}: keep {switch} on or use other units"
        )


def make_scale(
    values: Array, sample_weight: Array | None, enabled: bool, known_noise: Array | None = None
) -> Scale:
    """A `Scale` by a function, because results of functions can be cached on disk.

    With known noise (n, d) an entry counts in proportion to var / (var + noise), where var is the
    variance of the values so weighted. So the scale does not depend on what is all noise, and where
    all entries have the same noise it is as without.
    """
    scale = Scale(values, sample_weight, enabled)
    if known_noise is None or not enabled:
        return scale
    z, noise = scale.apply(values), known_noise / np.square(scale.unit)
    weight = ~np.isnan(z) * (1.0 if sample_weight is None else sample_weight[:, np.newaxis])
    z, mean, var = np.nan_to_num(z), np.zeros(z.shape[1]), np.ones(z.shape[1])
    for _ in range(_DISCOUNTS):
        share = weight * var / (var + noise)
        share /= np.fmax(share.sum(axis=0), np.finfo(float).tiny)
        mean = (share * z).sum(axis=0)
        var = np.fmax((share * np.square(z - mean)).sum(axis=0), np.finfo(float).tiny)
    is_alone = var < _LEAST_SHARE  # all but one entry of the column are noise
    mean, var = np.where(is_alone, 0.0, mean), np.where(is_alone, 1.0, var)
    high = np.nan_to_num(np.fmax.reduce(values, axis=0))
    size = np.nan_to_num(np.fmax.reduce(np.abs(values), axis=0))
    varies = np.fmin.reduce(values, axis=0) < high
    unit = scale.unit * np.sqrt(var)
    scale._set(scale.offset + scale.unit * mean, unit, varies, high, size)
    return scale


def common_scale(values: Array, sample_weight: Array | None, own: Scale, ranks: Ranks) -> Scale:
    """The scale of the values (n, d) of all ranks, from that of the values of this one."""
    if ranks.n == 1 or not own.enabled:
        return own
    low, high = (np.asarray(f(values, axis=0), float) for f in (np.fmin.reduce, np.fmax.reduce))
    weight = np.ones(len(values)) if sample_weight is None else sample_weight
    count = weight @ ~np.isnan(values)
    # No standard deviation is above half of the range: the unit of a constant column is its size.
    var = np.where(own.unit <= 0.5 * (high - low) * (1.0 + 1e-9), np.square(own.unit), 0.0)
    parts = np.stack(ranks.gathered(np.stack([low, high, count, own.offset, var])))
    lows, highs, counts, means, variances = np.nan_to_num(parts.swapaxes(0, 1), nan=0.0)
    seen = counts > 0.0
    low = np.where(seen, lows, np.inf).min(axis=0)
    high = np.where(seen, highs, -np.inf).max(axis=0)
    varies = low < high
    low, high = (np.where(seen.any(axis=0), bound, 0.0) for bound in (low, high))
    scale = copy.copy(own)
    size = np.fmax(np.abs(low), np.abs(high))
    scale._set(*_pooled(counts, means, variances), varies, high, size)
    return scale


def scale_inputs(X: Array, scale: Scale) -> Array:
    """Inputs in units of the scale, with values beyond 10^9 cut off.

    So far out no kernel sees a difference, and squared distances stay finite in float32. Rows are
    contiguous, so that the order of X in memory does not change a bit of the results.
    """
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(scale.apply(X).clip(-FAR, FAR))


class Table:
    """Training rows; only the rows of a batch are scaled and copied.

    Parameters
    ----------
    rows : Rows
        Of targets (n, P). If `y_scale` is that of one output and P is two, they are bounds of that
        output, NaN where infinite.
    x_scale, y_scale : Scale
    like : Tensor
        Its dtype and device are those of the batches.
    ranks : Ranks
    """

    def __init__(
        self, rows: Rows, x_scale: Scale, y_scale: Scale, like: Tensor, ranks: Ranks = ALONE
    ) -> None:
        self.rows = rows
        self.X, self.sample_weight = rows.X, rows.weight
        self.Y, self.known_noise = rows.columns
        self.x_scale = x_scale
        self.y_scale = y_scale
        self.like = like
        self.ranks = ranks
        n_data = float(len(rows.X) if rows.weight is None else rows.weight.sum())
        self.n_data = ranks.sum(n_data)
        self.n_rows = ranks.count(len(self))
        self._has_missing = bool(np.isnan(self.Y).any())
        self.n_outputs = len(y_scale.unit)
        self._mean_weight = self.n_data / self.n_rows
        # Mean over rows of the log density in scaled units minus that in the user's.
        log_units = densities(self.Y, self.n_outputs) @ np.log(y_scale.unit)
        self.mean_log_unit = float(np.average(log_units, weights=self.sample_weight))

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @cached_property
    def keys(self) -> Keys:
        """Numbers that look random and depend only on the contents of a row."""
        return row_keys(self.X, self.Y)

    @property
    def weights(self) -> Array:
        """Weights (n,) of the rows, which are ones if there are no others."""
        return np.ones(len(self)) if self.sample_weight is None else self.sample_weight

    @property
    def weight_at_start(self) -> Array:
        """Weights (n,) of the rows for initial values: noisy ones count for less."""
        if self.known_noise is None:
            return self.weights
        noise = self.scaled_noise(slice(None))  # of outputs, each of about unit variance
        return self.weights * (1.0 / (1.0 + noise)).mean(axis=1)

    def scaled_noise(self, index: Any) -> Array:
        """Known noise variances of the scaled targets of some rows, zero if there are none."""
        if self.known_noise is None:
            return np.zeros((1, self.n_outputs))
        with np.errstate(over="ignore"):
            noise = self.known_noise[index] / np.square(self.y_scale.unit)
        return noise.clip(max=_FAR_TARGET**2)

    def shuffled(self, generator: torch.Generator) -> Tensor:
        """Numbers of the rows in a random order.

        It is the same however the table is sorted, unless that is a file of more than 4 GiB.
        """
        n = len(self)
        if is_mapped(self.X):
            if self.X.nbytes > _LARGE_FILE:
                return shuffled_blocks(n, generator)
            read_at_random(self.X)
        return self._order[torch.randperm(n, generator=generator)]

    def ordered(self) -> Tensor:
        """Row numbers in lexicographic order, which neither row order nor units change."""
        return self._sorted

    @cached_property
    def _sorted(self) -> Tensor:
        columns = [*self.X.T, *self.Y.T, *self._ties]
        return torch.from_numpy(np.lexsort(columns[::-1]))

    @cached_property
    def _order(self) -> Tensor:
        return torch.from_numpy(np.lexsort([*self._ties, self.keys]))

    @property
    def _ties(self) -> list[Array]:
        """What rows of equal contents may differ in: their weights, if there are some."""
        return [] if self.sample_weight is None else [self.sample_weight]

    def batch(self, rows: Tensor) -> Batch:
        """Scaled rows with these indices (B,)."""
        index = rows.numpy()
        x = self._tensor(scale_inputs(self.X[index], self.x_scale))
        y = self._tensor(self.y_scale.apply(self.Y[index]).clip(-_FAR_TARGET, _FAR_TARGET))
        mask = None
        if self._has_missing:
            observed = ~torch.isnan(y)
            y = torch.where(observed, y, torch.zeros_like(y))
            mask = observed.to(y.dtype)
        weight = None
        if self.sample_weight is not None:
            weight = self._tensor(self.sample_weight[index] / self._mean_weight)
        noise = None if self.known_noise is None else self._tensor(self.scaled_noise(index))
        return Batch(x, Targets(y, mask), weight, rows.to(self.like.device), noise)

    def _tensor(self, values: Array) -> Tensor:
        return torch.from_numpy(values).to(self.like)
