"""What a family needs to build its model: rows, seeds, and inducing inputs that restarts share."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import joblib
import torch
from torch import Tensor

from skgp.core.inducing import Array

_RESTART_SPREAD = 0.5  # standard deviation of the log lengthscales that restarts begin with


class Centres:
    """Inducing inputs by k-means, computed once for all restarts that ask for the same ones.

    Parameters
    ----------
    kmeans : callable (X, n, seed) -> array
        Perhaps cached on disk.
    seed : int
    """

    def __init__(self, kmeans: Callable[[Array, int, int], Array], seed: int) -> None:
        self._kmeans = kmeans
        self._seed = seed
        self._known: dict[tuple[str, int], Tensor] = {}

    def __call__(self, x: Tensor, n: int) -> Tensor:
        """At most n centres of the rows of x (n, D)."""
        rows = x.contiguous().numpy()  # the hash of an array depends on its order in memory
        key = joblib.hash(rows), n
        if key not in self._known:
            self._known[key] = torch.from_numpy(self._kmeans(rows, n, self._seed))
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
    n_data : float
        Sum of the weights of all training rows.
    n_rows : int
        Number of all training rows.
    centres : Centres
        Shared by all restarts.
    restart : int
        Number of the restart, from zero.
    seed : int
        Of this restart.
    """

    x: Tensor
    Y: Tensor
    weight: Tensor
    n_data: float
    n_rows: int
    centres: Centres
    restart: int
    seed: int

    @property
    def observed_weight(self) -> Tensor:
        """Weights (n,) of the rows, zero for those without targets."""
        return self.weight * (~self.Y.isnan()).any(-1)

    def lengthscale(self, features: Tensor) -> float:
        """Initial lengthscale for features (n, F) of unit variance.

        sqrt(F), at which two typical rows are about as far apart as the kernel reaches, for the
        first restart; up to a few times more or less for the others.
        """
        lengthscale = math.sqrt(features.shape[1])
        if self.restart == 0:
            return lengthscale
        generator = torch.Generator().manual_seed(self.seed)
        deviation = float(torch.randn((), generator=generator, dtype=torch.float32))
        return lengthscale * math.exp(_RESTART_SPREAD * deviation)
