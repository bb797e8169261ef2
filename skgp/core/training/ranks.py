"""Processes that train one model together, each on rows of its own."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from skgp._typing import Array


class Ranks(ABC):
    """Abstract base: the processes of a fit, numbered from zero.

    Attributes
    ----------
    n : int
        Number of processes.
    number : int
        Of this one.
    """

    n: int
    number: int

    @abstractmethod
    def total(self, values: Tensor) -> Tensor:
        """Sum of the values of all processes."""

    @abstractmethod
    def gathered(self, rows: Array) -> list[Array]:
        """Arrays (n_i, ...) of all processes, by their numbers."""

    def mean(self, value: float, weight: float) -> float:
        """Weighted mean of a number of each process."""
        sums = self.total(torch.tensor([weight * value, weight], dtype=torch.float64))
        return float(sums[0] / sums[1])

    def sum(self, value: float) -> float:
        """Sum of a number of each process."""
        return float(self.total(torch.tensor(value, dtype=torch.float64)))

    def any(self, flag: bool) -> bool:
        """Whether a flag is set in some process."""
        return self.sum(float(flag)) > 0.0

    def count(self, n_rows: int) -> int:
        """Rows of all processes, from those of this one."""
        return round(self.sum(n_rows))

    def average(self, loss: Tensor, parameters: Sequence[nn.Parameter], n_rows: int) -> Tensor:
        """The loss of a step over the rows of all processes; sets the gradients alike.

        The loss of a process is a mean over its rows plus what rows share, and so is the mean of
        these losses, weighted by rows.
        """
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        parts = [loss.reshape(1), loss.new_ones(1), *(g.flatten().to(loss) for g in gradients)]
        sums = self.total(torch.cat(parts) * n_rows)
        loss, gradient = sums[0] / sums[1], sums[2:] / sums[1]
        for parameter, part in zip(
            parameters, gradient.split([p.numel() for p in parameters]), strict=True
        ):
            parameter.grad = part.view_as(parameter).to(parameter)
        return loss


class Alone(Ranks):
    """One process."""

    n = 1
    number = 0

    def total(self, values: Tensor) -> Tensor:
        return values

    def gathered(self, rows: Array) -> list[Array]:
        return [rows]

    def mean(self, value: float, weight: float) -> float:
        return value

    def sum(self, value: float) -> float:
        return value

    def any(self, flag: bool) -> bool:
        return flag

    def average(self, loss: Tensor, parameters: Sequence[nn.Parameter], n_rows: int) -> Tensor:
        return loss


ALONE: Final = Alone()


class ProcessGroup(Ranks):
    """The processes of torch's default group, which a launcher has made.

    Parameters
    ----------
    device : device
        On which the group's backend works.

    Raises
    ------
    ValueError
        If there is no such group.
    """

    def __init__(self, device: torch.device) -> None:
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            raise ValueError(
                "data_parallel=True needs the process group of a launcher such as torchrun: call "
                "torch.distributed.init_process_group first"
            )
        self.device = device
        self.n = torch.distributed.get_world_size()
        self.number = torch.distributed.get_rank()

    def total(self, values: Tensor) -> Tensor:
        sums = values.to(self.device, copy=True)
        torch.distributed.all_reduce(sums)
        return sums.to(values.device)

    def gathered(self, rows: Array) -> list[Array]:
        parts: list[Any] = [None] * self.n
        torch.distributed.all_gather_object(parts, np.ascontiguousarray(rows))
        return parts
