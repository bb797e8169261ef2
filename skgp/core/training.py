"""The one training loop: minibatches, one cycle, restarts, healing, early stopping."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from skgp.core.allocator import keep_freed_blocks
from skgp.core.data import Batch
from skgp.core.optimizers import Optimizer
from skgp.exceptions import NonFiniteLossError, NotPositiveDefiniteError

Schedule = Callable[[float], float]
ModuleT = TypeVar("ModuleT", bound=nn.Module)

_MAX_HEALS = 6
_HEALED_STEP = 0.3  # factor on the learning rate after a rollback
_LEAP = 10.0  # training may not end this far above a loss: nats per row, and times its size
_WARM_UP = 0.1  # share of the steps in which the learning rate rises


class Data(Protocol):
    """Training rows that are read batch by batch and never copied as a whole."""

    def __len__(self) -> int: ...

    @property
    def order(self) -> Tensor:
        """Indices (n,) of the rows, in the order from which epochs are shuffled."""

    def batch(self, rows: Tensor) -> Batch:
        """The rows with these indices (B,)."""


class Candidate(NamedTuple, Generic[ModuleT]):
    """A model to train.

    Attributes
    ----------
    module : Module
        Owner of all parameters.
    loss : callable Batch -> Tensor
        Scalar to minimise, in nats per row.
    optimizer : Optimizer
        The optimiser of the module's parameters.
    """

    module: ModuleT
    loss: Callable[[Batch], Tensor]
    optimizer: Optimizer


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
    """

    max_iter: int
    batch_size: int
    schedule: Schedule
    n_trial_epochs: int
    n_iter_no_change: int | None
    tol: float
    ceiling: float = 1e9

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
    """

    loss_curve: list[float] = field(default_factory=list)
    validation_scores: list[float] = field(default_factory=list)
    interrupted: bool = False


def one_cycle(progress: float) -> float:
    """Learning rate relative to its peak: linear rise over a tenth of the steps, cosine to zero."""
    if progress < _WARM_UP:
        return max(progress / _WARM_UP, 0.04)
    return 0.5 * (1.0 + math.cos(math.pi * (progress - _WARM_UP) / (1.0 - _WARM_UP)))


def constant(progress: float) -> float:
    """Full learning rate throughout: for chunks of a stream whose length nobody knows."""
    return 1.0


class Trainer(Generic[ModuleT]):
    """One candidate with its optimiser and its own order of rows.

    Parameters
    ----------
    candidate : Candidate
    data : Data
    plan : Plan
    generator : torch.Generator
        Source of the order of rows.
    """

    def __init__(
        self,
        candidate: Candidate[ModuleT],
        data: Data,
        plan: Plan,
        generator: torch.Generator,
    ) -> None:
        self.candidate = candidate
        self.data = data
        self.plan = plan
        self.generator = generator
        self.n_batches = plan.n_batches(len(data))
        self.parameters = [p for p in candidate.module.parameters() if p.requires_grad]
        self.optimizer = candidate.optimizer
        self.epochs_done = 0
        self._ceiling = math.inf
        self._first = math.inf  # loss of the first step
        self._last: tuple[Tensor, float] | None = None  # rows of the last step, the loss before it
        self._good = self._proven = self.state()

    def state(self) -> dict[str, Any]:
        """Copy of everything that a rollback restores."""
        return _copied(
            {
                "module": self.candidate.module.state_dict(),
                "optimizer": self.optimizer.state_dict(),
            }
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to an earlier `state`."""
        state = _copied(state)
        self.candidate.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])

    @property
    def completed(self) -> dict[str, Any]:
        """The `state` at the end of the last completed epoch."""
        return self._good

    def retreat(self) -> bool:
        """Go back to before the last epoch if its last step has done harm; whether it has.

        For a training that ends before its plan, after a step that `epoch` has not checked.
        """
        if self._good is self._proven:
            return False
        try:
            self._check_last_step()
        except (NonFiniteLossError, NotPositiveDefiniteError):
            self._good = self._proven
            self.restore(self._good)
            return True
        return False

    def epoch(self) -> float:
        """Train one epoch and return its mean loss, healing from a non-finite one.

        The effect of a step shows when the next one evaluates the loss. After the last step of the
        plan the loss is evaluated once more.

        Raises
        ------
        NonFiniteLossError
            If the loss stays non-finite after several rollbacks with ever smaller steps.
        """
        is_last = self.epochs_done + 1 >= self.plan.max_iter
        for _ in range(_MAX_HEALS):
            try:
                value = self._run()
                if is_last:
                    self._check_last_step()
            except (NonFiniteLossError, NotPositiveDefiniteError) as error:
                failure = error
                self._good = self._proven
                self.restore(self._good)
                self.optimizer.shorten(_HEALED_STEP)
            else:
                self.epochs_done += 1
                self._good = self.state()
                if is_last:
                    self._proven = self._good
                return value
        raise NonFiniteLossError(
            f"training diverged in epoch {self.epochs_done + 1} and did not recover with smaller "
            f"steps ({failure})"
        ) from failure

    def _run(self) -> float:
        total = 0.0
        for i, rows in enumerate(self._batches()):
            progress = (self.epochs_done + i / self.n_batches) / self.plan.max_iter
            rate = self.plan.schedule(min(progress, 1.0))
            closure = partial(self._gradients, self.data.batch(rows))
            loss = self.optimizer.step(closure, rate)
            total += loss * len(rows)
            self._last = rows, loss
        return total / len(self.data)

    def _check_last_step(self) -> None:
        """Evaluate the loss once more on the rows of the last step, and leave no trace of it.

        It may be far above neither the loss before the step nor the first loss of all.
        """
        if self._last is None:
            return
        rows, before = self._last
        module, proven = self.candidate.module, self._proven
        state = _copied(module.state_dict())  # an evaluation advances draws and running statistics
        try:
            after = self._gradients(self.data.batch(rows)).item()
        finally:
            module.load_state_dict(state)
        lowest = min(before, self._first)
        if after > lowest + _LEAP * (1.0 + abs(lowest)):
            self._proven = proven
            raise NonFiniteLossError(
                f"the last step ended at a loss of {after}, far above {lowest}"
            )

    def _gradients(self, batch: Batch) -> Tensor:
        """Set the gradients for a batch and return its loss, refusing what is not finite."""
        for parameter in self.parameters:
            parameter.grad = None
        loss = self.candidate.loss(batch)
        loss.backward()
        norm = torch.nn.utils.get_total_norm(
            [p.grad for p in self.parameters if p.grad is not None]
        )
        if not bool(torch.isfinite(norm) & (loss < self._ceiling)):
            raise NonFiniteLossError(f"loss {loss.item()}, gradient norm {norm.item()}")
        if self._first == math.inf:
            self._first = loss.item()
            self._ceiling = self.plan.ceiling * (1.0 + abs(self._first))
        self._proven = self._good  # its loss has been seen to be finite
        return loss

    def _batches(self) -> Iterator[Tensor]:
        n = len(self.data)
        if self.n_batches == 1:
            yield torch.arange(n)
            return
        order = self.data.order[torch.randperm(n, generator=self.generator)]
        yield from order.tensor_split(self.n_batches)


def train(
    candidates: Sequence[Candidate[ModuleT]],
    data: Data,
    plan: Plan,
    generator: torch.Generator,
    *,
    validate: Callable[[ModuleT], float] | None,
    on_epoch: Callable[[ModuleT, History], bool],
) -> tuple[ModuleT, History]:
    """Train the candidate with the lowest loss after `plan.n_trial_epochs` to the end.

    Parameters
    ----------
    candidates : sequence of Candidate
        One for each restart.
    data : Data
    plan : Plan
    generator : torch.Generator
        Seeds the order of rows of every candidate.
    validate : callable (Module) -> float, optional
        Mean log density of held-out rows; higher is better.
    on_epoch : callable (Module, History) -> bool
        Called once a candidate is chosen and after each further epoch; True stops the fit.

    Returns
    -------
    module : Module
        The chosen candidate with the parameters of its last epoch, or of its best validation
        score if `plan.n_iter_no_change` is set.
    history : History
        History of the epochs that the module has completed.

    Raises
    ------
    NonFiniteLossError
        If every candidate diverges.
    """
    keep_freed_blocks()
    runs = [
        _Run(
            Trainer(c, data, plan, torch.Generator().manual_seed(_draw_seed(generator))),
            validate,
        )
        for c in candidates
    ]
    chosen = runs[0] if len(runs) == 1 else None
    try:
        if chosen is None:
            chosen = _choose(runs, min(plan.n_trial_epochs, plan.max_iter))
            if on_epoch(chosen.module, chosen.history):
                return chosen.finish()
        while chosen.trainer.epochs_done < plan.max_iter and not chosen.is_done:
            chosen.epoch()
            if on_epoch(chosen.module, chosen.history):
                break
    except KeyboardInterrupt:
        chosen = chosen or min(runs, key=_Run.last_loss)
        chosen.rollback()
        chosen.history.interrupted = True
    return chosen.finish()


class _Run(Generic[ModuleT]):
    """A trainer with its history and its best validation score so far."""

    def __init__(
        self, trainer: Trainer[ModuleT], validate: Callable[[ModuleT], float] | None
    ) -> None:
        self.trainer = trainer
        self.module = trainer.candidate.module
        self.validate = validate
        self.history = History()
        self.failure: NonFiniteLossError | None = None
        self._patience = trainer.plan.n_iter_no_change
        self._best_score = -math.inf
        self._best_state: dict[str, Any] | None = None
        self._completed = trainer.completed
        self._stale = 0

    @property
    def is_done(self) -> bool:
        """Whether to stop: converged, or no better validation score for long enough."""
        stale = self._patience is not None and self._stale >= self._patience
        return stale or self.trainer.optimizer.is_converged

    def last_loss(self) -> float:
        """Training loss by which restarts are judged; infinite if the run failed."""
        curve = self.history.loss_curve
        return curve[-1] if curve and self.failure is None else math.inf

    def epoch(self) -> None:
        """Train and validate one epoch; an interruption leaves no part of it in the history."""
        loss = self.trainer.epoch()
        score = None if self.validate is None else self.validate(self.module)
        self.history.loss_curve.append(loss)
        self._completed = self.trainer.completed
        if score is None:
            return
        self.history.validation_scores.append(score)
        # A difference, not a ratio: log densities have no sign to rely on.
        self._stale = 0 if score > self._best_score + self.trainer.plan.tol else self._stale + 1
        if score > self._best_score and self._patience is not None:
            self._best_score, self._best_state = score, self.trainer.state()

    def rollback(self) -> None:
        """Go back to the end of the last epoch that is in the history."""
        self.trainer.restore(self._completed)

    def trial(self, n_epochs: int) -> None:
        """Train a few epochs; a divergence is remembered, not raised."""
        try:
            for _ in range(n_epochs):
                self.epoch()
        except NonFiniteLossError as error:
            self.failure = error

    def finish(self) -> tuple[ModuleT, History]:
        """The module, at its best validation score if that is what decides, and its history."""
        if self._best_state is not None:
            self.trainer.restore(self._best_state)
        elif self.trainer.retreat():
            del self.history.loss_curve[-1:], self.history.validation_scores[-1:]
        return self.module, self.history


def _choose(runs: Sequence[_Run[ModuleT]], n_epochs: int) -> _Run[ModuleT]:
    """The papers' restarts: short trials, judged by training loss."""
    for run in runs:
        run.trial(n_epochs)
    best = min(runs, key=_Run.last_loss)
    if best.failure is not None:
        raise best.failure
    return best


def _copied(value: Any) -> Any:
    """A deep copy; that of the standard library took a tenth of the time of a fit of 60 rows."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        copied = copy.copy(value)  # with the versions of modules that torch hangs on its own
        copied.update((key, _copied(item)) for key, item in value.items())
        return copied
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return copy.deepcopy(value)


def _draw_seed(generator: torch.Generator) -> int:
    return int(torch.randint(2**62, (), generator=generator))
