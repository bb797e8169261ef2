"""Several classes: the softmax of as many latent functions, by sampling."""

import copy
from collections.abc import Iterator
from typing import Self

import torch
from torch import Tensor

from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.classes import ClassLikelihood
from skgp.core.numerics.draws import (
    make_generator,
    make_seed,
    normals,
    sobol_normals,
    source_of_step,
)
from skgp.core.numerics.linalg import log_mean_exp

_CELLS = 2**20  # draws, times rows and classes, that are held at a time


class Softmax(ClassLikelihood):
    """p(y = c | f) = exp(f_c) / sum_j exp(f_j).

    No expectation of it is in closed form. In a training step each row draws its own functions; in
    predictions all rows share fixed nodes. The mean log probability is then unbiased, the log of
    the mean probability is too small by about its variance over the draws, divided by twice their
    number.

    Parameters
    ----------
    n_classes : int
    n_samples : int
        Draws for each row of a training step, seeded by `seed` and the number of the step.
    n_fixed : int
        Nodes of a prediction, divided among the nodes of the hidden layers.
    seed : int
    """

    fixed: Tensor
    step: int | None = None  # of training, whose draws are used; None for predictions

    # At 1 the label of one of many classes would start far from certain, and train for long.
    start_scale = 4.0

    def __init__(self, n_classes: int, n_samples: int, n_fixed: int, seed: int) -> None:
        super().__init__(n_classes)
        self.n_samples = n_samples
        self.seed = seed
        self.register_buffer("fixed", sobol_normals(n_fixed, n_classes, make_seed(seed, "fixed")))

    @property
    def n_latents(self) -> int:
        return self.n_classes

    def at(self, step: int) -> Self:
        drawn = copy.copy(self)
        drawn.step = step
        return drawn

    def expected_log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        parts = [_of_class(log_p, codes[rows]).mean(0) for log_p, rows in self._chunks(latent)]
        return torch.cat(parts, 1)

    def log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        chunks = self._chunks(latent)
        parts = [log_mean_exp(_of_class(log_p, codes[rows]), 0) for log_p, rows in chunks]
        return torch.cat(parts, 1)

    def log_probabilities(self, latent: Latent) -> Tensor:
        # All classes share their draws.
        parts = [log_mean_exp(log_p, 0) for log_p, _ in self._chunks(latent)]
        return torch.cat(parts, 1).log_softmax(-1)

    def _chunks(self, latent: Latent) -> Iterator[tuple[Tensor, slice]]:
        """Log probabilities (S, Q, n, C) of S draws, of n rows at a time, and which rows."""
        mean, scale = latent.f_mean, latent.std
        n_nodes, n_rows, n_classes = mean.shape
        xi = self._draw(n_nodes, n_rows).to(mean)
        size = max(1, _CELLS // (len(xi) * n_nodes * n_classes))
        for start in range(0, n_rows, size):
            rows = slice(start, start + size)
            own = xi if self.step is None else xi[:, :, rows]
            yield (mean[:, rows] + scale[:, rows] * own).log_softmax(-1), rows

    def _draw(self, n_nodes: int, n_rows: int) -> Tensor:
        """Standard normal draws, (S, 1, B, C) of a step and (S, Q, 1, C) of a prediction."""
        fixed = self.fixed
        if self.step is not None:
            shape = self.n_samples, 1, n_rows, self.n_classes
            return normals(shape, source_of_step(self.seed, self.step), fixed)
        # Each node of the layers has its own draws, because all draws at each node would take long.
        # They are a run of Sobol points: a run is even by itself, every Q-th point would not be.
        n_each = -(-len(fixed) // n_nodes)
        index = torch.arange(n_nodes * n_each) % len(fixed)
        # In a random order: the nodes may be Sobol points too, and the points of one number in two
        # scrambled sequences have leading digits in common, whatever their seeds are.
        order = torch.randperm(n_nodes, generator=make_generator(self.seed, "runs"))
        index = index.view(n_nodes, n_each)[order].T.to(fixed.device)
        return fixed[index].unsqueeze(2)


def _of_class(log_p: Tensor, codes: Tensor) -> Tensor:
    index = codes.unsqueeze(-1).expand_as(log_p[..., :1])
    return log_p.gather(-1, index).squeeze(-1)
