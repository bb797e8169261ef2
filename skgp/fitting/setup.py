"""What a family needs to build its model: rows, seeds, and inducing inputs that restarts share."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import joblib
import numpy as np
import torch
from torch import Tensor

from skgp._typing import BoolArray, FloatArray
from skgp.core.numerics.draws import make_generator, make_seed
from skgp.core.subsample import Keys, row_keys, subsample
from skgp.core.training.plan import count_batches

_HYPER_ROWS = 3000  # rows from which hyper-parameters are estimated
_RESTART_SPREAD = 0.5  # standard deviation of the log lengthscales that restarts begin with


class Centres:
    """Inducing inputs by k-means, computed once for all restarts that ask for the same ones.

    Parameters
    ----------
    kmeans : callable (X, weight, n, seed) -> array
        Perhaps cached on disk.
    seed : int
    """

    def __init__(
        self, kmeans: Callable[[FloatArray, FloatArray, int, int], FloatArray], seed: int
    ) -> None:
        self._kmeans = kmeans
        self._seed = seed
        self._known: dict[tuple[str, int], Tensor] = {}

    def __call__(self, x: Tensor, weight: Tensor, n: int) -> Tensor:
        """At most n centres of the rows of x (n, D) with weights (n,)."""
        rows = x.contiguous().numpy()  # the hash of an array depends on its order in memory
        key = joblib.hash((rows, weight.numpy())), n
        if key not in self._known:
            self._known[key] = torch.from_numpy(self._kmeans(rows, weight.numpy(), n, self._seed))
        return self._known[key]


@dataclass(frozen=True)
class Setup:
    """Training rows, or a subsample of them, and sources of chance.

    Attributes
    ----------
    x : Tensor of shape (n, D)
        Scaled inputs; float64.
    Y : Tensor of shape (n, P)
        Scaled targets of the same rows; NaN where missing.
    weight : Tensor of shape (n,)
        Weights of the same rows.
    groups : array of shape (n, G)
        Whether each of the same rows belongs to a class, or has observed an output.
    keys : array of shape (n,)
        Of the same rows, see `row_keys`.
    n_data : float
        Sum of the weights of all training rows.
    n_rows : int
        Number of all training rows.
    shared_centres : Centres
        Of all restarts.
    is_streamed : bool
        Whether these are the first rows of a stream, of whose length nobody knows.
    restart : int
        Number of the restart, from zero.
    seed : int
        Of this restart; see `seed_for` and `generator`.
    """

    x: Tensor
    Y: Tensor
    weight: Tensor
    groups: BoolArray
    keys: Keys
    n_data: float
    n_rows: int
    shared_centres: Centres
    is_streamed: bool
    restart: int
    seed: int

    def fits_into(self, batch_size: int, n_batches: int = 1) -> bool:
        """Whether all training rows are at most so many batches."""
        return not self.is_streamed and count_batches(self.n_rows, batch_size) <= n_batches

    @property
    def observed_weight(self) -> Tensor:
        """Weights (n,) of the rows, zero for those without targets."""
        return self.weight * (~self.Y.isnan()).any(-1)

    @cached_property
    def n_distinct(self) -> int:
        """Number of different inputs among the rows with targets."""
        return len(np.unique(row_keys(self.x[self.observed_weight > 0.0].numpy())))

    def centres(self, features: Tensor, n: int) -> Tensor:
        """At most n inducing inputs for features (n, F) of the rows, of those with targets."""
        return self.shared_centres(features, self.observed_weight, n)

    def seed_for(self, *key: str | int) -> int:
        """A seed for one purpose, see `make_seed`."""
        return make_seed(self.seed, *key)

    def generator(self, *key: str | int) -> torch.Generator:
        """A generator for one purpose, see `make_seed`."""
        return make_generator(self.seed, *key)

    def subsample(self, n: int = _HYPER_ROWS) -> tuple[Tensor, Tensor]:
        """Numbers and weights of some rows, about n, that stand for all rows with targets."""
        weight = self.observed_weight.numpy()
        index, weight = subsample(weight, self.groups, self.keys, n, self.seed_for("few rows"))
        return torch.from_numpy(index), torch.from_numpy(weight)

    def lengthscale(self, features: Tensor) -> float:
        """Initial lengthscale for features (n, F) of unit variance.

        sqrt(F), at which two typical rows are about as far apart as the kernel reaches, for the
        first restart; up to a few times more or less for the others.
        """
        lengthscale = math.sqrt(features.shape[1])
        if self.restart == 0:
            return lengthscale
        generator = self.generator("lengthscales")
        deviation = float(torch.randn((), generator=generator, dtype=torch.float32))
        return lengthscale * math.exp(_RESTART_SPREAD * deviation)
