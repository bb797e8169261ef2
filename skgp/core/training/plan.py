"""What training needs to know: rows, candidates, the plan, and the record of a fit."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from skgp.core.data import Batch
from skgp.core.training.optimizers import Optimizer
from skgp.core.training.ranks import Ranks

Schedule = Callable[[float], float]
ModuleT = TypeVar("ModuleT", bound=nn.Module)

_RISING_STEPS = 20  # in which a gradual schedule rises by `learning_rate_init`
_CONTINUED = 0.1  # of the learning rate, in a fit that goes on
_WARM_UP = 0.1  # share of the steps in which the learning rate rises


class Data(Protocol):
    """Training rows that are read batch by batch and never copied as a whole."""

    def __len__(self) -> int: ...

    @property
    def n_data(self) -> float:
        """Sum of the weights of the rows."""

    @property
    def n_rows(self) -> int:
        """Number of rows of all ranks."""

    @property
    def ranks(self) -> Ranks:
        """Processes that have rows of their own."""

    @property
    def n_outputs(self) -> int:
        """Numbers that a row observes, and over which its loss is a sum."""

    def ordered(self) -> Tensor:
        """Indices (n,) of the rows in an order that depends on their contents alone."""

    def shuffled(self, generator: torch.Generator) -> Tensor:
        """Indices (n,) of the rows in the order of an epoch."""

    def batch(self, rows: Tensor) -> Batch:
        """The rows with these indices (B,)."""


class Candidate(NamedTuple, Generic[ModuleT]):
    """A model to train.

    Attributes
    ----------
    module : Module
        Owner of all parameters.
    loss : callable (Batch, step) -> Tensor
        Scalar to minimise, in nats per row. All that is random in it is a function of the number of
        the step.
    optimizer : Optimizer
        The optimiser of the module's parameters.
    n_steps : int
        Steps that earlier fits of the module have done, from which the numbers count on.
    repeats : bool
        Whether the loss depends on the number of the step by what it draws alone, and only reads
        and changes tensors: then it can be replayed on a GPU.
    """

    module: ModuleT
    loss: Callable[[Batch, int], Tensor]
    optimizer: Optimizer
    n_steps: int = 0
    repeats: bool = False


def count_batches(n_rows: int, batch_size: int) -> int:
    """Number of batches, of nearly equal size, into which an epoch of so many rows is cut."""
    return max(1, round(n_rows / batch_size))


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train.

    Attributes
    ----------
    max_iter : int
        Epochs.
    batch_size : int
        Rows per step, up to rounding: an epoch is cut into batches of nearly equal size.
    schedule : callable
        Maps the share of steps done to the length of a step, relative to its peak.
    n_trial_epochs : int
        Epochs after which candidates are compared by training loss, at least one.
    n_iter_no_change : int or None
        Epochs without a better validation score after which training stops; None: never.
    tol : float
        What counts as better, in nats per row.
    ceiling : float
        A loss this many times the first counts as infinite.
    averaged : bool
        Whether validation scores, and the end of training, are those of an average of the states at
        the ends of the epochs.
    n_usual : int
        If positive, epochs after which a gain has to be four times `tol` to count.
    n_annealed : int
        Further epochs, at most, in which the rate falls to zero. They are a second run, from
        where the first one ends.
    n_retreats : int
        Times that training may go back to its best state with shorter steps: after an epoch of a
        far higher loss, and where it would end though there has been a gain since the last time.
        The best state is that of the best validation score, or, where no score decides and each
        step sees all rows, of the lowest loss; training does not end far above that either.
    rise : float
        What is far: nats per output by which an epoch may be worse than one before it.
    n_folds : int
        If positive, `max_iter` is a limit, and a cross-validation with so many folds finds the
        number of epochs.
    """

    max_iter: int
    batch_size: int
    schedule: Schedule
    n_trial_epochs: int
    n_iter_no_change: int | None
    tol: float
    ceiling: float = 1e9
    averaged: bool = False
    n_usual: int = 0
    n_annealed: int = 0
    n_retreats: int = 0
    rise: float = 2.0
    n_folds: int = 0

    @property
    def n_epochs(self) -> int:
        """The most epochs of all."""
        return self.max_iter + self.n_annealed

    def n_batches(self, n_rows: int) -> int:
        """Steps of an epoch of so many rows."""
        return count_batches(n_rows, self.batch_size)


@dataclass
class History:
    """Record of a fit.

    Attributes
    ----------
    loss_curve : list of float
        Mean training loss of each epoch, nats per row.
    validation_scores : list of float
        Mean validation log density after each epoch.
    interrupted : bool
        Whether KeyboardInterrupt ended the fit.
    stopped : bool
        Whether a callback ended it.
    """

    loss_curve: list[float] = field(default_factory=list)
    validation_scores: list[float] = field(default_factory=list)
    interrupted: bool = False
    stopped: bool = False

    def then(self, later: "History") -> "History":
        """The record of a fit in two parts."""
        losses = self.loss_curve + later.loss_curve
        scores = self.validation_scores + later.validation_scores
        return History(losses, scores, later.interrupted, later.stopped)


def one_cycle(progress: float) -> float:
    """Learning rate relative to its peak: linear rise over a tenth of the steps, cosine to zero."""
    if progress < _WARM_UP:
        return max(progress / _WARM_UP, 0.04)
    return 0.5 * (1.0 + math.cos(math.pi * (progress - _WARM_UP) / (1.0 - _WARM_UP)))


def gradual(n_steps: int, steady: float, progress: float) -> float:
    """Learning rate relative to `learning_rate_init`: linear rise to a steady rate.

    It grows by a twentieth of `learning_rate_init` in each step, whatever their number, so that a
    fit of few epochs is the beginning of one of many.
    """
    return min(steady, (1.0 + progress * n_steps) / _RISING_STEPS)


def continued(schedule: Schedule, progress: float) -> float:
    """A schedule at a tenth of its rate: for a fit that goes on from one that has converged.

    At the full rate an optimiser without memory of the gradients leaves the optimum first.
    """
    return _CONTINUED * schedule(progress)


def regained(n_steps: int, n_batches: int, shares: tuple[float, float], progress: float) -> float:
    """Learning rate relative to its peak, in a chunk of a stream that goes on from a fit.

    It rises with what the stream knows of its own: the rows since the fit, and the gradients that
    an optimiser without memory has seen. The first steps of Adam follow signs alone, which at the
    full rate leaves the optimum.

    Parameters
    ----------
    n_steps : int
        Steps since the fit and before the chunk.
    n_batches : int
        Steps of the chunk.
    shares : (float, float)
        Rows since the fit, relative to those that regain the full rate, before and after the chunk.
    progress : float
        Share of the chunk's steps that are done.
    """
    done = progress + 1.0 / n_batches  # with the step that is taken
    share = shares[0] + done * (shares[1] - shares[0])
    return min(1.0, share) * min(1.0, (n_steps + done * n_batches) / _RISING_STEPS)


def falling(first: float, progress: float) -> float:
    """Learning rate relative to its peak: a cosine from a first rate to zero."""
    return 0.5 * first * (1.0 + math.cos(math.pi * progress))


def still(progress: float) -> float:
    """No step at all: for an epoch that only evaluates the loss."""
    return 0.0


def constant(progress: float) -> float:
    """Full learning rate throughout: for chunks of a stream whose length nobody knows."""
    return 1.0
