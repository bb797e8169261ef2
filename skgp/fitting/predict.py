"""Predictions of a fitted model, chunk by chunk, in the user's units."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch

from skgp._typing import Array
from skgp.core.likelihoods.likelihood import Predictive
from skgp.core.numerics.linalg import covariance_factor
from skgp.distributions import NormalMixture
from skgp.fitting.model import Model, Predictor, rows_per_chunk
from skgp.fitting.table import Scale

Part = TypeVar("Part")


@dataclass(frozen=True)
class Chunks(Generic[Part]):
    """What a model says of consecutive chunks of rows, each computed when its turn comes.

    Attributes
    ----------
    n_rows : int
        Of all chunks together.
    parts : iterator
        What is said of each chunk.
    """

    n_rows: int
    parts: Iterator[Part]

    def gather(self, reduce: Callable[[Part], tuple[Array, ...]]) -> tuple[Array, ...]:
        """Arrays of all rows.

        They are allocated once. Small arrays of the chunks in a list would lie among the large
        blocks of memory that each chunk frees, and keep the allocator from using these again.

        Parameters
        ----------
        reduce : callable
            From the part of a chunk of B rows to arrays of shape (B, ...).

        Returns
        -------
        tuple of arrays of shape (n_rows, ...)
        """
        wholes: tuple[Array, ...] = ()
        start = 0
        for part in self.parts:
            arrays = reduce(part)
            if not wholes:
                wholes = tuple(np.empty((self.n_rows, *a.shape[1:]), a.dtype) for a in arrays)
            stop = start + len(arrays[0])
            for whole, array in zip(wholes, arrays, strict=True):
                whole[start:stop] = array
            start = stop
        return wholes


def in_chunks(model: Model, X: Array, function: Callable[[torch.Tensor], Part]) -> Chunks[Part]:
    """What a function of scaled inputs (B, D) returns for one chunk of rows X after another.

    The model is a fitted one, in float64; X (n, D) is in the user's units.
    """
    size = rows_per_chunk(model.log_weights, len(model.y_scale.unit))

    @torch.no_grad()
    def parts() -> Iterator[Part]:
        for start in range(0, len(X), size):
            yield function(model.scaled(X[start : start + size]))

    return Chunks(len(X), parts())


def normal_mixtures(
    model: Model, X: Array, predictor: Predictor, output_shape: tuple[int, ...]
) -> Chunks[NormalMixture]:
    """Predictive distributions of chunks of rows X (n, D), in the units of y.

    Parameters
    ----------
    model : Model
        Fitted.
    X : array of shape (n, D)
        In the user's units.
    predictor : callable
        Of the model.
    output_shape : tuple
        (P,), or () for a one-dimensional y, which has no axis of outputs.
    """
    log_weights = model.log_weights.detach()

    def of_chunk(x: torch.Tensor) -> NormalMixture:
        return mixture(predictor(x), log_weights, model.y_scale, output_shape)

    return in_chunks(model, X, of_chunk)


def mixture(
    predictive: Predictive,
    log_omega: torch.Tensor,
    y_scale: Scale,
    output_shape: tuple[int, ...],
) -> NormalMixture:
    """Distributions of B rows in the units of y, of those in the units of the model.

    Parameters
    ----------
    predictive : Predictive
    log_omega : Tensor of shape (Q,)
        Log-weights of the nodes.
    y_scale : Scale
    output_shape : tuple
        (P,), or () for a one-dimensional y.
    """
    select = ... if output_shape else (..., 0)
    mean, std, scale_tril = _to_arrays(predictive)
    weights = predictive.log_weights(log_omega).cpu().numpy()
    dist = NormalMixture(weights, mean[select], std[select], scale_tril)
    return dist.affine(y_scale.offset[select], y_scale.unit[select])


def arrays(
    model: Model, X: Array, function: Callable[[torch.Tensor], torch.Tensor]
) -> Chunks[Array]:
    """What a function of scaled inputs returns for chunks of rows, as arrays."""
    return in_chunks(model, X, lambda x: np.asarray(function(x).cpu().numpy()))


def _to_arrays(predictive: Predictive) -> tuple[Array, Array, Array | None]:
    """Components of a chunk with rows first: mean and std (B, Q, P), scale_tril (B, Q, P, P)."""
    scale_tril = None
    if predictive.cov is not None:
        scale_tril = covariance_factor(predictive.cov).movedim(0, 1).cpu().numpy()
    mean, std = predictive.mean.movedim(0, 1), predictive.var.sqrt().movedim(0, 1)
    return mean.cpu().numpy(), std.cpu().numpy(), scale_tril
