"""How long and how fast to train, from what users ask for and the number of rows."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from skgp.core.training.plan import Plan, count_batches
from skgp.core.training.schedules import continued, gentle_cycle, gradual, one_cycle

UNKNOWN_LENGTH: Final = 100  # epochs where no search has found a number
# Batches of an epoch up to which any gain counts while held-out rows decide on the epochs. A deep
# model then has fixed sigma points and a top layer that sees the inputs, by default.
FEW_BATCHES: Final = 10

# max_iter="auto"
_MANY_ROWS: Final = 1000  # from which `least_steps_of_many` counts
_FEWEST: Final = 3  # epochs, however many steps they take

# One batch: a cross-validation finds the number of epochs.
_LEAST_ROWS: Final = 20  # for that, or for held-out rows
_FEW_ROWS: Final = 200  # up to which there are more folds
_FOLDS: Final = 5
_FOLDS_OF_MANY: Final = 3
_FEW_RETREATS: Final = 2  # to the lowest loss, with shorter steps; a loss may be random
_RISE_OF_ALL_ROWS: Final = 0.5  # nats per output that are far for such a loss

# Several batches: held-out rows end the training.
_MOST_BATCHES: Final = 100  # of an epoch up to which early_stopping="auto" holds out rows
_MOST_STEPS: Final = 5000  # if the usual epochs make no more
_ANNEALED: Final = 0.2  # share of the epochs, at the end
_PATIENT_STEPS: Final = 100  # without a gain that counts, after which training ends
_WORTHWHILE: Final = 0.01  # gain that counts, in nats per row
_RETREATS: Final = 6  # to the best state, with shorter steps


@dataclass(frozen=True)
class Minibatch:
    """Parameter group: how long and how fast to train."""

    max_iter: int | Literal["auto"]
    batch_size: int


@dataclass(frozen=True)
class Stopping:
    """Parameter group: when to stop early."""

    early_stopping: bool | Literal["auto"]
    n_iter_no_change: int
    tol: float

    @property
    def is_asked_for(self) -> bool:
        """Whether to stop by held-out rows, however many rows there are."""
        return self.early_stopping != "auto" and bool(self.early_stopping)

    @property
    def patience(self) -> int | None:
        """Epochs without a better validation score after which training stops; None: never."""
        return self.n_iter_no_change if self.is_asked_for else None


NO_EARLY_STOPPING: Final = Stopping(early_stopping=False, n_iter_no_change=1, tol=0.0)


@dataclass(frozen=True)
class Epochs:
    """What max_iter="auto" means: fewer epochs for a long table, more for a short one.

    Attributes
    ----------
    usual : int
        Epochs.
    least_steps, most_steps : int
        Steps, between which the epochs are chosen.
    least_steps_of_many : int
        The least steps from 1,000 rows on, if these are more.
    longest : int
        Up to which a cross-validation of a table of one batch looks for the number of epochs, for a
        family that has early_stopping="auto".
    steady : float
        Learning rate, relative to `learning_rate_init`, where the model is an average and an epoch
        has few batches.
    starts_near : bool
        Whether models of one batch start close to an optimum, which few steps should not leave.
    """

    usual: int = 100
    least_steps: int = 500
    least_steps_of_many: int = 0
    most_steps: int = 10_000
    longest: int = 0
    steady: float = 1.0
    starts_near: bool = True

    def number(self, n_rows: int, n_batches: int) -> int:
        """Epochs of so many rows and batches each."""
        most = max(self.most_steps // n_batches, _FEWEST)
        least = self.least_steps
        if n_rows >= _MANY_ROWS:
            least = max(least, self.least_steps_of_many)
        return max(min(self.usual, most), math.ceil(least / n_batches))


def minibatch_plan(minibatch: Minibatch, stopping: Stopping, epochs: Epochs, n: int) -> Plan:
    """The plan of minibatches of n rows: one cycle, or as long as held-out rows allow."""
    batch_size, is_auto = minibatch.batch_size, minibatch.max_iter == "auto"
    n_batches = count_batches(n, batch_size)
    automatic = epochs.number(n, n_batches)
    usual = automatic if is_auto else int(minibatch.max_iter)
    # From one batch many models start close to what the rows say; from several they learn it.
    is_near = epochs.starts_near and n_batches == 1
    cycle = partial(gentle_cycle, automatic, usual) if is_near else one_cycle
    plan = Plan(
        max_iter=usual,
        batch_size=batch_size,
        schedule=cycle,
        n_trial_epochs=_trial_epochs(usual),
        n_iter_no_change=stopping.patience,
        tol=stopping.tol,
    )
    if stopping.early_stopping != "auto" or n < _LEAST_ROWS or n_batches > _MOST_BATCHES:
        return plan
    if n_batches == 1:
        n_folds = _FOLDS if n <= _FEW_ROWS else _FOLDS_OF_MANY
        plan = limited_plan(plan, epochs.longest if is_auto else usual)
        return replace(plan, n_folds=n_folds, n_retreats=_FEW_RETREATS, rise=_RISE_OF_ALL_ROWS)
    most = max(usual, _MOST_STEPS // n_batches) if is_auto else usual
    n_steady = max(1, round((1.0 - _ANNEALED) * most))
    is_large = n_batches > FEW_BATCHES
    patience = max(stopping.n_iter_no_change, math.ceil(_PATIENT_STEPS / n_batches))
    return replace(
        limited_plan(plan, n_steady, n_batches, 1.0 if is_large else epochs.steady),
        averaged=True,
        n_usual=min(usual, n_steady) if is_auto and is_large else 0,
        n_annealed=most - n_steady,
        n_retreats=_RETREATS,
        n_iter_no_change=patience,
        tol=max(stopping.tol, _WORTHWHILE),
    )


def limited_plan(plan: Plan, n_epochs: int, n_batches: int = 1, steady: float = 1.0) -> Plan:
    """A plan whose length held-out rows decide, with so many epochs at most.

    Its rate rises to a steady one, relative to `learning_rate_init`.
    """
    return replace(
        plan,
        max_iter=n_epochs,
        schedule=partial(gradual, n_epochs * n_batches, steady),
        n_trial_epochs=_trial_epochs(n_epochs),
    )


def continued_plan(plan: Plan, length: int) -> Plan:
    """The plan of a fit that goes on, where the last search has found so many epochs.

    Without a search it is as long again, and all steps are shorter.
    """
    if plan.n_folds:
        plan = without_search(limited_plan(plan, min(plan.max_iter, length)))
    return replace(plan, schedule=partial(continued, plan.schedule))


def without_search(plan: Plan) -> Plan:
    """The plan without a search for its length, and then without ways back of one batch either."""
    return replace(plan, n_folds=0, n_retreats=0) if plan.n_folds else plan


def _trial_epochs(n_epochs: int) -> int:
    """Epochs after which restarts are compared: a twentieth."""
    return max(1, math.ceil(0.05 * n_epochs))
