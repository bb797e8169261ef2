"""What an estimator is, as data and plain functions: how its model is built and trained."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeVar, cast

from torch import Tensor

from skgp.core.data import Batch
from skgp.core.numerics.elementwise import EAGER, Passes
from skgp.core.training.optimizers import Optimizer
from skgp.core.training.plan import Plan, continued, count_batches, gradual, one_cycle
from skgp.fitting.model import Model
from skgp.fitting.rows import Rows
from skgp.fitting.setup import Setup
from skgp.fitting.table import Table

GroupT = TypeVar("GroupT")

_LEAST_ROWS: Final = 20  # of a table that is cross-validated
UNKNOWN_LENGTH: Final = 100  # epochs where no search has found a number
_FEW_ROWS: Final = 200  # up to which there are more folds
_FOLDS: Final = 5
_FOLDS_OF_MANY: Final = 3
_MOST_BATCHES: Final = 100  # of an epoch, up to which early_stopping="auto" holds out rows
_MOST_STEPS: Final = 5000  # there, if the usual epochs make no more
_ANNEALED: Final = 0.2  # share of the epochs there, at the end
# Batches up to which a data set may train there as long as any gain counts, and a deep model has
# sigma points that are fixed and a top layer that sees the inputs, by default.
FEW_BATCHES: Final = 10
_PATIENT_STEPS: Final = 100  # without a gain that counts, after which training ends there
_WORTHWHILE: Final = 0.01  # that gain, in nats per row
_MANY_ROWS: Final = 1000  # from which `least_steps_of_many` counts
_FEWEST: Final = 3  # epochs of max_iter="auto", however many steps they take
_RETREATS: Final = 6  # there, to the best state with shorter steps
_FEW_RETREATS: Final = 2  # of one batch, to the lowest loss; a loss may be random
_RISE_OF_ALL_ROWS: Final = 0.5  # nats per output that are far for such a loss


def pick(group: type[GroupT], estimator: Any) -> GroupT:
    """A group, a dataclass, with what an estimator stores under the names of the group's fields."""
    names = [field.name for field in fields(cast(Any, group))]
    return group(**{name: getattr(estimator, name) for name in names})


@dataclass(frozen=True)
class Running:
    """Parameter group: where a fit runs, and what it may read of others."""

    n_restarts: int
    memory: Any
    dtype: Literal["auto", "float32", "float64"]
    device: str
    verbose: int
    random_state: Any


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


NEVER: Final = Stopping(early_stopping=False, n_iter_no_change=1, tol=0.0)


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
    """

    usual: int = 100
    least_steps: int = 500
    least_steps_of_many: int = 0
    most_steps: int = 10_000
    longest: int = 0
    steady: float = 1.0

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
    usual = epochs.number(n, n_batches) if is_auto else int(minibatch.max_iter)
    plan = Plan(
        max_iter=usual,
        batch_size=batch_size,
        schedule=one_cycle,
        n_trial_epochs=_trial_epochs(usual),
        n_iter_no_change=stopping.patience,
        tol=stopping.tol,
    )
    if stopping.early_stopping != "auto" or n < _LEAST_ROWS or n_batches > _MOST_BATCHES:
        return plan
    if n_batches == 1:
        n_folds = _FOLDS if n <= _FEW_ROWS else _FOLDS_OF_MANY
        plan = of_length(plan, epochs.longest if is_auto else usual)
        return replace(plan, n_folds=n_folds, n_retreats=_FEW_RETREATS, rise=_RISE_OF_ALL_ROWS)
    most = max(usual, _MOST_STEPS // n_batches) if is_auto else usual
    n_steady = max(1, round((1.0 - _ANNEALED) * most))
    is_large = n_batches > FEW_BATCHES
    patience = max(stopping.n_iter_no_change, math.ceil(_PATIENT_STEPS / n_batches))
    return replace(
        of_length(plan, n_steady, n_batches, 1.0 if is_large else epochs.steady),
        averaged=True,
        n_usual=min(usual, n_steady) if is_auto and is_large else 0,
        n_annealed=most - n_steady,
        n_retreats=_RETREATS,
        n_iter_no_change=patience,
        tol=max(stopping.tol, _WORTHWHILE),
    )


def of_length(plan: Plan, n_epochs: int, n_batches: int = 1, steady: float = 1.0) -> Plan:
    """A plan whose length held-out rows decide, with so many epochs at most.

    Its rate rises to a steady one, relative to `learning_rate_init`.
    """
    return replace(
        plan,
        max_iter=n_epochs,
        schedule=partial(gradual, n_epochs * n_batches, steady),
        n_trial_epochs=_trial_epochs(n_epochs),
    )


def gone_on(plan: Plan, length: int) -> Plan:
    """The plan of a fit that goes on, where the last search has found so many epochs.

    Without a search it is as long again, and all steps are shorter.
    """
    if plan.n_folds:
        plan = without_search(of_length(plan, min(plan.max_iter, length)))
    return replace(plan, schedule=partial(continued, plan.schedule))


def without_search(plan: Plan) -> Plan:
    """The plan without a search for its length, and then without ways back of one batch either."""
    return replace(plan, n_folds=0, n_retreats=0) if plan.n_folds else plan


def _trial_epochs(n_epochs: int) -> int:
    """Epochs after which restarts are compared: a twentieth."""
    return max(1, math.ceil(0.05 * n_epochs))


def float64_if_one_batch(batch_size: int, n: int) -> str:
    """What dtype="auto" means for n rows.

    A table that is trained as a whole costs little, and its fit is then as good as deterministic:
    rows repeated or weighted, in any order, give the same model.
    """
    return "float64" if count_batches(n, batch_size) == 1 else "float32"


def always_float64(n: int) -> str:
    """For a line search, which cannot work with a loss that rounding makes rough."""
    return "float64"


def always_float32(n: int) -> str:
    """For draws, which keep the fit of a table of one batch from being deterministic anyway."""
    return "float32"


def no_stream_if_stopping(p: Any) -> str | None:
    """Why an estimator that stops early takes no streams."""
    stops = pick(Stopping, p).is_asked_for
    return "partial_fit does not support early_stopping=True" if stops else None


def as_trained(model: Model, table: Table) -> Model:
    """The model itself: training by minibatches leaves everything in its parameters."""
    return model


def with_any_rows(model: Model, table: Table) -> None:
    """Nothing to prepare: a fitted model goes on with any rows."""


def as_in_fit(model: Model) -> None:
    """Nothing to change: what a fit moves, a stream moves too."""


def never(model: Model) -> bool:
    """For a loss that does not repeat."""
    return False


def always(model: Model) -> bool:
    """For a loss that depends on the number of the step by its draws alone."""
    return True


class Loss(Protocol):
    """What is minimised, in nats per row."""

    def __call__(self, model: Model, batch: Batch, step: int, n_data: float) -> Tensor:
        """For the batch of a training step; n_data is the sum of the weights of all rows."""


@dataclass(frozen=True)
class Recipe:
    """What an estimator is, from its parameters.

    All functions are of modules, perhaps bound to frozen values by `functools.partial`, so that a
    recipe pickles and prints.

    Attributes
    ----------
    build : callable Setup -> Model
        The model with its initial parameters, in float64.
    loss : Loss
    optimizer : callable (Model, n_data, n_batches) -> Optimizer
        The last is the number of different batches that its steps see.
    plan : callable n -> Plan
        How to train on n rows.
    dtype : callable n -> str
        What dtype="auto" means for n rows.
    conditioned : callable (Model, Table) -> Model
        The model that predicts, given the training rows.
    complete : callable (Model, Table, seed) -> Model, optional
        Completes a new model by what each training row has of its own.
    prepare_to_go_on : callable (Model, Table) -> None
        Prepares a fitted model to go on with these rows; a ValueError if it cannot.
    prepare_to_stream : callable Model -> None
        Prepares a fitted model to go on with a stream, whose rows are others than those of the fit.
    why_no_stream : str, optional
        Why there is no training on chunks of a stream.
    divergence : callable (Model, n_data) -> float, optional
        Weight of the divergences of what all rows share.
    passes : Passes
        How the element-wise functions of a step run.
    repeats : callable Model -> bool
        As of a `Candidate`.
    build_for_folds : callable Model -> (callable Setup -> Model), optional
        A `build` of as many inducing inputs as a model has, where their number is found.
    build_larger : callable (Model, n) -> (callable Setup -> Model) or None, optional
        Where their number is found, a `build` of a model that has more of n distinct inputs as
        inducing inputs, and is trained in the place of this one if it begins better. None if this
        model has enough.
    build_rival : callable (Model, n) -> (callable Setup -> Model) or None, optional
        Where their number is found, a `build` of a model that has all of n distinct inputs as
        inducing inputs in the place of fewer, and predicts well as it begins. None if this model
        has all of them, or there are too many.
    short : (int, Recipe), optional
        The most rows of a table of one output that another recipe is for, and that recipe.
    """

    build: Callable[[Setup], Model]
    loss: Loss
    optimizer: Callable[[Model, float, int], Optimizer]
    plan: Callable[[int], Plan]
    dtype: Callable[[int], str]
    conditioned: Callable[[Model, Table], Model] = as_trained
    complete: Callable[[Model, Table, int], Model] | None = None
    prepare_to_go_on: Callable[[Model, Table], None] = with_any_rows
    prepare_to_stream: Callable[[Model], None] = as_in_fit
    why_no_stream: str | None = None
    divergence: Callable[[Model, float], float] | None = None
    passes: Passes = EAGER
    repeats: Callable[[Model], bool] = never
    build_for_folds: Callable[[Model], Callable[[Setup], Model]] | None = None
    build_larger: Callable[[Model, int], Callable[[Setup], Model] | None] | None = None
    build_rival: Callable[[Model, int], Callable[[Setup], Model] | None] | None = None
    short: "tuple[int, Recipe] | None" = None

    def of_table(self, rows: Rows) -> "tuple[Recipe, Rows]":
        """The recipe of a fit of a table, and the rows that it takes."""
        if self.short is None or len(rows.X) > self.short[0] or rows.y.size > len(rows.X):
            return self, rows
        # Of merged rows a fit is the same, bit by bit, whether rows are weighted or repeated, and
        # in any order.
        return self.short[1], rows.merged()

    def larger(self, model: Model, n_distinct: int) -> "Recipe | None":
        """The recipe of models to train in the place of this one, if they begin better.

        None if there is none for so many distinct inputs.
        """
        build = None if self.build_larger is None else self.build_larger(model, n_distinct)
        return None if build is None else replace(self, build=build)

    def rival(self, model: Model, n_distinct: int) -> "Recipe | None":
        """The recipe of models that held-out rows may prefer, as they begin, to this one trained.

        None if there is none for so many distinct inputs.
        """
        build = None if self.build_rival is None else self.build_rival(model, n_distinct)
        return None if build is None else replace(self, build=build)

    def of_folds(self, model: Model) -> "Recipe":
        """The recipe of models of the folds of a search for this model, which are as large."""
        if self.build_for_folds is None:
            return self
        return replace(self, build=self.build_for_folds(model))
