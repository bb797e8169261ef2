"""Local posteriors: q(w_n) = N(a_n, b_n^2) of the latent covariates of each training row."""

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

_HIDDEN = (10, 10)  # units of the network (importance-weighted paper, supplement)
# Deviations start small, so that the model uses the covariates before it blurs them. The paper
# starts at -5, and Adam needs hundreds of steps to return from there.
_START_LOG_STD = -2.0


class RowMoments(NamedTuple):
    """Moments of q(w_n) = N(mean, exp(log_std)^2), each of shape (B, C)."""

    mean: Tensor
    log_std: Tensor

    def draw(self, epsilon: Tensor) -> Tensor:
        """Covariates w (..., B, C) at standard normal numbers (..., B or 1, C)."""
        return self.mean + self.log_std.exp() * epsilon

    def standardised(self, w: Tensor) -> Tensor:
        """The numbers (..., B, C) at which covariates (..., B, C) are these: inverts `draw`."""
        return (w - self.mean) * (-self.log_std).exp()

    def detached(self) -> "RowMoments":
        """The same moments, without gradients."""
        return RowMoments(self.mean.detach(), self.log_std.detach())

    def log_ratio(self, w: Tensor, epsilon: Tensor) -> Tensor:
        """log p(w) - log q(w), (..., B), of draws (..., B, C) at these numbers; p = N(0, I)."""
        return (0.5 * (epsilon.square() - w.square()) + self.log_std).sum(-1)

    def kl(self) -> Tensor:
        """KL(q(w_n) || N(0, I)) of each row, (B,), in nats."""
        variance = (2.0 * self.log_std).exp()
        return 0.5 * (variance + self.mean.square() - 1.0).sum(-1) - self.log_std.sum(-1)


class LocalPosterior(nn.Module, ABC):
    """q(w) of a layer of latent covariates, for the rows of a batch."""

    @abstractmethod
    def forward(self, evidence: Tensor, rows: Tensor | None) -> RowMoments:
        """Moments for rows with this evidence (B, E), of these numbers (B,) in the table."""


class Amortized(LocalPosterior):
    """A tanh network with skip connections, from inputs and targets of a row to its moments.

    One skip is linear, from the evidence to the means. At the start it alone gives the means.

    Parameters
    ----------
    skip : Tensor of shape (C, E)
        Initial weights of the linear skip, from the E numbers that are known of a row to C
        covariates. The evidence is inputs, targets and which of these are observed.
    generator : torch.Generator
        Source of the network's initial weights (Glorot and Bengio 2010).
    unit : Tensor of shape (E,), optional
        What each number is divided by; one if None. Numbers far above one would saturate the
        network, and make a leap of each step of a weight.
    """

    unit: Tensor

    def __init__(
        self, skip: Tensor, generator: torch.Generator, unit: Tensor | None = None
    ) -> None:
        super().__init__()
        n_covariates, n_evidence = skip.shape
        self.register_buffer("unit", torch.ones_like(skip[0]) if unit is None else unit)
        self.skip = nn.Parameter(skip * self.unit)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        widths = [n_evidence, *_HIDDEN, 2 * n_covariates]
        for n_in, n_out in pairwise(widths):
            weight = torch.empty(n_out, n_in, dtype=torch.float32)
            self.weights.append(nn.init.xavier_normal_(weight, generator=generator))
            self.biases.append(weight.new_zeros(n_out))
        with torch.no_grad():
            self.weights[-1][:n_covariates] = 0.0
            self.biases[-1][n_covariates:] = _START_LOG_STD

    def forward(self, evidence: Tensor, rows: Tensor | None) -> RowMoments:
        *hidden, (weight, bias) = zip(self.weights, self.biases, strict=True)
        h = evidence = evidence / self.unit
        for w, b in hidden:
            step = torch.tanh(nn.functional.linear(h, w, b))
            h = step + h if step.shape == h.shape else step
        mean, log_std = nn.functional.linear(h, weight, bias).chunk(2, -1)
        return RowMoments(mean + nn.functional.linear(evidence, self.skip), log_std)


class Free(LocalPosterior):
    """Parameters of its own for each training row.

    Parameters
    ----------
    mean : Tensor of shape (n, C)
        Initial means of the rows of the training table.
    log_std : Tensor of shape (n, C), optional
        Logarithms of the initial deviations; small ones if None.

    Attributes
    ----------
    keys : Tensor of int64 of shape (n,), or None
        Of the rows after training, see `row_keys`.
    """

    keys: Tensor | None = None  # files of earlier versions have none of their own

    def __init__(self, mean: Tensor, log_std: Tensor | None = None) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean)
        start = torch.full_like(mean, _START_LOG_STD) if log_std is None else log_std
        self.log_std = nn.Parameter(start)

    def forward(self, evidence: Tensor, rows: Tensor | None) -> RowMoments:
        return self.of_rows(slice(None) if rows is None else rows)

    def of_rows(self, rows: Tensor | slice) -> RowMoments:
        """Moments for rows of these numbers in the table."""
        return RowMoments(self.mean[rows], self.log_std[rows])

    @torch.no_grad()
    def follow(self, keys: Tensor) -> None:
        """Put the rows into the order of their keys (n,).

        Raises
        ------
        ValueError
            If these are other rows than those of the training.
        """
        if len(keys) != len(self.mean):
            raise ValueError(f"of which there were {len(self.mean)}, and got {len(keys)}")
        if self.keys is None:
            return
        old, new = self.keys.argsort(stable=True), keys.argsort(stable=True)
        if not torch.equal(self.keys[old], keys[new]):
            raise ValueError("and got others")
        for part in (self.mean, self.log_std):
            part[new] = part[old]
