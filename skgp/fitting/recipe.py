"""What an estimator is, as data and plain functions: how its model is built and trained."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol, TypeVar, cast

from torch import Tensor

from skgp.core.data import Batch
from skgp.core.numerics.elementwise import EAGER, Passes
from skgp.core.training.optimizers import Optimizer
from skgp.core.training.plan import Plan, count_batches
from skgp.fitting.model import Model
from skgp.fitting.plans import Stopping
from skgp.fitting.rows import Rows
from skgp.fitting.setup import Setup
from skgp.fitting.table import Table

GroupT = TypeVar("GroupT")


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


def no_stream_if_stopping(estimator: Any) -> str | None:
    """Why an estimator that stops early takes no streams."""
    stops = pick(Stopping, estimator).is_asked_for
    return "partial_fit does not support early_stopping=True" if stops else None


def as_trained(model: Model, table: Table) -> Model:
    """The model itself: training by minibatches leaves everything in its parameters."""
    return model


def with_any_rows(model: Model, table: Table) -> None:
    """Nothing to prepare: a fitted model goes on with any rows."""


def full_rate(model: Model, n_fitted: float) -> float:
    """A stream goes on as fast as it would have begun."""
    return 1.0


def never_repeats(model: Model) -> bool:
    """For a loss that does not repeat."""
    return False


def always_repeats(model: Model) -> bool:
    """For a loss that depends on the number of the step by its draws alone."""
    return True


class Loss(Protocol):
    """What is minimised, in nats per row."""

    def __call__(self, model: Model, batch: Batch, step: int, n_data: float) -> Tensor:
        """For the batch of a training step; n_data is the sum of the weights of all rows."""


class Sizes(Protocol):
    """Builds of models like one that a fit begins with, of other sizes."""

    def like(self, model: Model) -> Callable[[Setup], Model]:
        """Of the same size, whatever the rows."""

    def larger(self, model: Model, n_distinct: int) -> Callable[[Setup], Model] | None:
        """With more of n distinct inputs as inducing inputs, to train if it begins better.

        None if the model has enough.
        """

    def untrained_gp(self, model: Model, n_distinct: int) -> Callable[[Setup], Model] | None:
        """With all or many of n distinct inputs as inducing inputs: it predicts well untrained.

        None if there are too many.
        """

    def conditioned(self, n_distinct: int) -> Callable[[Model, Table], Model]:
        """From such a model and its training rows to the one that predicts."""


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
    stream_rate : callable (Model, n) -> float
        Learning rate, relative to the usual one, in a stream that goes on from a fit of n rows.
        Where it is below one, the stream keeps to the double precision of data of one batch.
    why_no_stream : str, optional
        Why there is no training on chunks of a stream, for estimators that have `partial_fit`.
    divergence : callable (Model, n_data) -> float, optional
        Weight of the divergences of what all rows share.
    passes : Passes
        How the element-wise functions of a step run.
    repeats : callable Model -> bool
        As of a `Candidate`.
    sizes : Sizes, optional
        Where the number of inducing inputs is found.
    full_batch : (int, Recipe), optional
        The most rows of a table of one output that another recipe is for, and that recipe.
    trained_share : float, default=1.0
        Weight of the trained model in a prediction; the rest is that of an untrained GP.
    """

    build: Callable[[Setup], Model]
    loss: Loss
    optimizer: Callable[[Model, float, int], Optimizer]
    plan: Callable[[int], Plan]
    dtype: Callable[[int], str]
    conditioned: Callable[[Model, Table], Model] = as_trained
    complete: Callable[[Model, Table, int], Model] | None = None
    prepare_to_go_on: Callable[[Model, Table], None] = with_any_rows
    stream_rate: Callable[[Model, float], float] = full_rate
    why_no_stream: str | None = None
    divergence: Callable[[Model, float], float] | None = None
    passes: Passes = EAGER
    repeats: Callable[[Model], bool] = never_repeats
    sizes: Sizes | None = None
    full_batch: "tuple[int, Recipe] | None" = None
    trained_share: float = 1.0

    def for_rows(self, rows: Rows) -> "tuple[Recipe, Rows]":
        """The recipe of a fit of these rows, and the rows that it takes."""
        if self.full_batch is None or len(rows.X) > self.full_batch[0] or rows.y.size > len(rows.X):
            return self, rows
        # Of merged rows a fit is the same, bit by bit, whether rows are weighted or repeated, and
        # in any order.
        return self.full_batch[1], rows.merged()

    def larger(self, model: Model, n_distinct: int) -> "Recipe | None":
        """The recipe of models to train in the place of this one, if they begin better.

        None if there is none for so many distinct inputs.
        """
        build = None if self.sizes is None else self.sizes.larger(model, n_distinct)
        return None if build is None else replace(self, build=build)

    def untrained_gp(self, model: Model, n_distinct: int) -> "Recipe | None":
        """The recipe of models that held-out rows may prefer, as they begin, to this one trained.

        None if there is none for so many distinct inputs.
        """
        build = None if self.sizes is None else self.sizes.untrained_gp(model, n_distinct)
        if self.sizes is None or build is None:
            return None
        conditioned = self.sizes.conditioned(n_distinct)
        return replace(self, build=build, conditioned=conditioned, trained_share=0.0)

    def of_folds(self, model: Model) -> "Recipe":
        """The recipe of models of the folds of a search for this model, which are as large."""
        return self if self.sizes is None else replace(self, build=self.sizes.like(model))
