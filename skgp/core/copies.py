"""Rows that have the inputs of a training row, and often its target."""

import math
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from skgp._typing import Array, FloatArray
from skgp.core.likelihoods.likelihood import Predictive
from skgp.core.numerics.linalg import LOG_2PI
from skgp.core.subsample import Keys, row_keys


class SeenRows(NamedTuple):
    """Some rows, and what training rows of the same inputs say of their targets.

    Attributes
    ----------
    targets : Tensor of shape (B,)
        Those of the training rows, in the units of the model; NaN where there are none.
    probability : float
        With which a row repeats this target.
    var : float
        Variance of the normal that stands for a repeated target.
    """

    targets: Tensor
    probability: float
    var: float

    @property
    def log_shares(self) -> Tensor:
        """Logs of the probabilities of any target and of the repeated one, (2,)."""
        return self.targets.new_tensor([1.0 - self.probability, self.probability]).log()

    def repeated(self, n_times: int) -> "SeenRows":
        """The same rows again and again."""
        return self._replace(targets=self.targets.repeat(n_times))

    def predictive(self, predictive: Predictive) -> Predictive:
        """Predictions of the same rows, each node of which becomes two components.

        The second one is at the repeated target, or equal to the first where there is none.
        """
        targets = self.targets.to(predictive.mean).unsqueeze(-1)
        is_seen = ~targets.isnan()
        mean = torch.where(is_seen, targets, predictive.mean)
        var = predictive.var.masked_fill(is_seen, self.var)
        mean = torch.stack([predictive.mean, mean], 1).flatten(0, 1)
        var = torch.stack([predictive.var, var], 1).flatten(0, 1)
        return Predictive(mean, var, None, self.log_shares.to(mean))

    def log_densities(self, values: Tensor, y: Tensor) -> Tensor:
        """Log densities (B,) of targets y, from those without copies."""
        any_share, copy_share = self.log_shares.to(values)
        distance = self.targets.to(values) - y
        repeated = -0.5 * (LOG_2PI + math.log(self.var) + distance.square() / self.var)
        mixed = torch.logaddexp(any_share + values, copy_share + repeated)
        return torch.where(self.targets.isnan(), values, mixed)

    def covariance(self, mean: Tensor, cov: Tensor) -> Tensor:
        """Covariance (n, n) of y over the rows, noise included, of means (n,) and a covariance.

        Whether a row repeats a target has nothing to do with the other rows.
        """
        share = (~self.targets.isnan()).to(cov) * self.probability
        rest = 1.0 - share
        out = rest.unsqueeze(-1) * cov * rest
        distance = (self.targets.to(mean) - mean).nan_to_num()
        variance = rest * cov.diagonal() + share * self.var + share * rest * distance.square()
        return out.diagonal_scatter(variance)


class Copies(NamedTuple):
    """Training rows by their inputs, for rows that may repeat their targets.

    Only inputs count whose training rows all have one target.

    Attributes
    ----------
    keys : array of shape (m,)
        Of different scaled inputs, ascending.
    targets : array of shape (m,)
        In the units of the model.
    probability : float
        With which a row of such inputs repeats the target.
    var : float
        Variance of the normal that stands for a repeated target.
    """

    keys: npt.NDArray[np.int64]
    targets: FloatArray
    probability: float
    var: float

    @classmethod
    def of(cls, x: Array, y: Array, probability: float, var: float) -> Self:
        """Those of scaled inputs (n, D) and targets (n,)."""
        keys, first, number = np.unique(_keys(x), return_index=True, return_inverse=True)
        low, high = _range(number, y)
        return cls(keys[low == high], y[first[low == high]], probability, var)

    def of_rows(self, x: Tensor) -> SeenRows:
        """What they say of rows of scaled inputs (B, D)."""
        keys = _keys(x.detach().cpu().numpy())
        place = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        targets = np.where(self.keys[place] == keys, self.targets[place], np.nan)
        return SeenRows(torch.from_numpy(targets).to(x), self.probability, self.var)


def targets_of_others(keys: Keys, y: Array, counts: Array) -> FloatArray:
    """The target (n,) that all other rows of equal inputs have; NaN if they differ, or are none.

    Parameters
    ----------
    keys : array of shape (n,)
        Of the inputs.
    y : array of shape (n,)
    counts : array of shape (n,)
        How often each row is there.
    """
    _, number = np.unique(keys, return_inverse=True)
    low, high = _range(number, y)
    low, high = low[number], high[number]
    at_ends = counts * (y == low), counts * (y == high), counts
    n_low, n_high, n_rows = (np.bincount(number, part)[number] for part in at_ends)
    # A single row at one end has others that are equal if all of them are at the other end.
    others = np.where((y == low) & (n_high == n_rows - 1.0), high, np.nan)
    others = np.where((y == high) & (n_low == n_rows - 1.0), low, others)
    return np.where((low == high) & (n_rows > 1.0), low, others)


def _range(number: npt.NDArray[np.intp], y: Array) -> tuple[FloatArray, FloatArray]:
    """Lowest and highest y of each group, by the numbers (n,) of the groups of the rows."""
    low, high = np.full((2, number.max(initial=-1) + 1), np.nan)
    np.fmin.at(low, number, y)
    np.fmax.at(high, number, y)
    return low, high


def _keys(x: Array) -> npt.NDArray[np.int64]:
    """Keys (n,) of scaled inputs, the same in single and in double precision."""
    return row_keys(x.astype(np.float32)).view(np.int64)
