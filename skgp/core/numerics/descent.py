"""Short descents outside of training, whose loss needs neither batches nor healing."""

from collections.abc import Callable, Iterable
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

    A line search may try parameters that have no loss. The descent then starts anew from the best
    ones. The result is rounded: rows that are weighted or repeated, in any order, lead to the same
    parameters.

    Parameters
    ----------
    loss : callable () -> Tensor
        Scalar, a function of the parameters; without noise.
    parameters : iterable of Tensor
    n_iterations : int
        At most, after each start. All starts together evaluate the loss about twice as often.

    Returns
    -------
    float
        That loss; infinite where none was met.
    """
    parameters = list(parameters)
    lowest, n_left = float("inf"), 2 * n_iterations
    best = [parameter.detach().clone() for parameter in parameters]

    def closure() -> Tensor:
        nonlocal lowest, best, n_left
        n_left -= 1
        _forget(parameters)
        value = loss()
        value.backward()
        if value.item() < lowest:
            lowest, best = value.item(), [p.detach().clone() for p in parameters]
        return value.detach()

    has_gained = True
    while has_gained and n_left > 0:
        before, has_gained = lowest, False
        optimizer = LBFGS(
            parameters,
            max_iter=n_iterations,
            max_eval=n_left,
            tolerance_grad=_CONVERGED,
            tolerance_change=0.0,
            history_size=_HISTORY,
            line_search_fn="strong_wolfe",
        )
        try:
            optimizer.step(closure)
        except NotPositiveDefiniteError:
            has_gained = lowest < before
            _set(parameters, best)
    _set(parameters, [(value / _RESOLUTION).round() * _RESOLUTION for value in best])
    return lowest


@torch.no_grad()
def _set(parameters: list[Tensor], values: list[Tensor]) -> None:
    for parameter, value in zip(parameters, values, strict=True):
        parameter.copy_(value)


def _forget(parameters: list[Tensor]) -> None:
    for parameter in parameters:
        parameter.grad = None
