"""Short descents outside of training, whose loss needs neither batches nor healing."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import torch
from torch import Tensor

from skgp.core.numerics.adam import AdamMoments
from skgp.core.numerics.lbfgs import LBFGS
from skgp.exceptions import NotPositiveDefiniteError

_CONVERGED: Final = 1e-7  # largest entry of the gradient
_RESOLUTION: Final = 1e-4  # of parameters, far above what rounding does to an optimum
_HISTORY: Final = 20  # pairs of steps and gradients from which L-BFGS estimates curvature


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
    moments = AdamMoments(parameters)
    for step in range(n_steps):
        _forget(parameters)
        loss(step).backward()
        moments.step(learning_rate * schedule(step / n_steps))


def refine(loss: Callable[[], Tensor], parameters: Iterable[Tensor], n_iterations: int) -> float:
    """Change some parameters by L-BFGS, to the lowest loss that it meets.

    A line search may try parameters that have no loss. The descent ends there. The result is
    rounded: rows that are weighted or repeated, in any order, lead to the same parameters.

    Parameters
    ----------
    loss : callable () -> Tensor
        Scalar, a function of the parameters; without noise.
    parameters : iterable of Tensor
    n_iterations : int
        At most.

    Returns
    -------
    float
        That loss; infinite where none was met.
    """
    parameters = list(parameters)
    optimizer = LBFGS(
        parameters,
        max_iter=n_iterations,
        max_eval=2 * n_iterations,
        tolerance_grad=_CONVERGED,
        tolerance_change=0.0,
        history_size=_HISTORY,
        line_search_fn="strong_wolfe",
    )
    lowest = float("inf")
    best = [parameter.detach().clone() for parameter in parameters]

    def closure() -> Tensor:
        nonlocal lowest, best
        _forget(parameters)
        value = loss()
        value.backward()
        if value.item() < lowest:
            lowest, best = value.item(), [p.detach().clone() for p in parameters]
        return value.detach()

    with suppress(NotPositiveDefiniteError):
        optimizer.step(closure)
    with torch.no_grad():
        for parameter, value in zip(parameters, best, strict=True):
            parameter.copy_((value / _RESOLUTION).round() * _RESOLUTION)
    return lowest


def _forget(parameters: list[Tensor]) -> None:
    for parameter in parameters:
        parameter.grad = None
