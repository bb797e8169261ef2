"""What training needs to know: rows, candidates and the plan."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from skgp.core.data import Batch
from skgp.core.training.optimizers import Optimizer
from skgp.core.training.ranks import Ranks
from skgp.core.training.schedules import Schedule

ModuleT = TypeVar("ModuleT", bound=nn.Module)


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
