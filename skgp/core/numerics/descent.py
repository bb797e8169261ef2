"""Short descents outside of training, whose loss needs neither batches nor healing."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor


def minimise(
    loss: Callable[[int], Tensor],
    parameters: Iterable[Tensor],
    n_steps: int,
    learning_rate: float,
    schedule: Callable[[float], float],
) -> None:
    """Minimise a loss by steps of Adam, which change the parameters in place.

    Parameters
    ----------
    loss : callable step -> Tensor
        Scalar, a function of the parameters and of the number of the step.
    parameters : iterable of Tensor
    n_steps : int
    learning_rate : float
        At the peak of the schedule.
    schedule : callable
        Maps the share of steps done to the length of a step, relative to its peak.
    """
    parameters = list(parameters)
    optimizer = torch.optim.Adam(parameters, fused=True)
    for step in range(n_steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * schedule(step / n_steps)
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
