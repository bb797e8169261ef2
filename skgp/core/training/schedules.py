"""Lengths of steps, relative to their peak or to `learning_rate_init`, over the steps of a fit."""

import math
from collections.abc import Callable
from typing import Final

# From the share of the steps that are done.
Schedule = Callable[[float], float]

_RISING_STEPS: Final = 20  # in which a rate rises by its peak, or by `learning_rate_init`
_CONTINUED: Final = 0.1  # of the learning rate, in a fit that goes on
_WARM_UP: Final = 0.1  # share of the steps in which the learning rate rises


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


def gentle_cycle(n_usual: int, n_steps: int, progress: float) -> float:
    """One cycle of some steps that rises no faster than one of as many steps as are usual.

    For models that start close to an optimum. Adam's first steps change all parameters alike: in a
    cycle of ten steps the second one is nearly at the peak, and would leave the optimum far behind.
    """
    n_rising = min(_WARM_UP * n_usual, _RISING_STEPS)
    return min(one_cycle(progress), (1.0 + progress * n_steps) / n_rising)


def slower(rate: float, schedule: Schedule, progress: float) -> float:
    """A schedule at a share of its rate."""
    return rate * schedule(progress)


def continued(schedule: Schedule, progress: float) -> float:
    """A schedule at a tenth of its rate: for a fit that goes on from one that has converged.

    At the full rate an optimiser without memory of the gradients leaves the optimum first.
    """
    return slower(_CONTINUED, schedule, progress)


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


def no_step(progress: float) -> float:
    """No step at all: for an epoch that only evaluates the loss."""
    return 0.0


def constant(progress: float) -> float:
    """Full learning rate throughout: for chunks of a stream whose length nobody knows."""
    return 1.0
