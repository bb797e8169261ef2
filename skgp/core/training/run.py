"""A candidate in training: minibatches, one cycle, healing, early stopping."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import torch
from torch import Tensor, nn

from skgp.core.data import Batch
from skgp.core.networks.chance import chance_of
from skgp.core.training.graphs import replaying
from skgp.core.training.history import History
from skgp.core.training.optimizers import trainable
from skgp.core.training.plan import Candidate, Data, Plan
from skgp.core.training.progress import KEEPS_NOTHING, Progress
from skgp.core.training.states import WINDOW, averaged, copied
from skgp.exceptions import NonFiniteLossError, NotPositiveDefiniteError

ModuleT = TypeVar("ModuleT", bound=nn.Module)

_MAX_HEALS = 6
_HEALED_STEP = 0.3  # factor on the learning rate after a rollback
_LATE = 4.0  # times the gain that counts, after the usual number of epochs
_LEAP = 10.0  # training may not end this far above a loss: nats per output, and times its size
_END = 0.1  # nats per output by which the last loss of all rows may be above the lowest
_STATE: Final = (  # attributes that are part of the state of a run as they are
    *("epochs_done", "_n_taken", "_total", "_n_failed", "_n_healed", "_n_retreats"),
    *("_stale", "_mark", "_mark_before", "_ceiling", "_lowest_loss", "_lowest"),
    *("_first", "_last", "_best_score", "_good", "_proven", "_completed", "_best", "_average"),
)


class Run(Generic[ModuleT]):
    """One candidate in training: steps, healing, history and the best validation score.

    Of the states at the ends of its epochs it keeps some, which may be one and the same:

    - `good`, after the last one whose steps all had a finite loss;
    - `proven`, the last of these whose own loss has since been seen to be finite; a rollback goes
      there;
    - `completed`, after the last epoch that is in the history; an interrupted fit ends there;
    - `best`, that of the best validation score;
    - `lowest`, that of the lowest loss, where each step sees all rows and training may go back.

    If the plan says so, `completed` and `best` have modules that are averages over epochs.

    Parameters
    ----------
    candidate : Candidate
    data : Data
    plan : Plan
    generator : torch.Generator
        Source of the order of rows.
    validate : callable (Module) -> float, optional
        Mean log density of held-out rows.
    progress : Progress, optional
        Told of each step.
    """

    def __init__(
        self,
        candidate: Candidate[ModuleT],
        data: Data,
        plan: Plan,
        generator: torch.Generator,
        validate: Callable[[ModuleT], float] | None = None,
        progress: Progress = KEEPS_NOTHING,
    ) -> None:
        self.module, loss, self.optimizer, self._n_earlier, repeats = candidate
        self.data = data
        self.plan = plan
        self.generator = generator
        self.validate = validate
        self.progress = progress
        self.n_batches = plan.n_batches(data.n_rows)
        # The divergence is divided by the sum of the weights: where that is far below the number
        # of rows, a step that changes it by one nat in all moves the loss by many nats per row.
        self._unit = max(float(data.n_outputs), data.n_rows / data.n_data)
        self.parameters = trainable(self.module)
        self.loss, self._replay = replaying(loss, self.module, repeats=repeats)
        self._chance = chance_of(self.module, generator.initial_seed())
        self.history = History()
        self.failure: NonFiniteLossError | None = None
        self.epochs_done = 0
        self._n_taken = 0  # steps of the current epoch
        self._total = 0.0  # of their losses, times rows
        self._n_failed = 0  # attempts at it
        self._drawn_from = generator.get_state()  # its order of rows
        self._n_healed = 0  # rollbacks, each of which has shortened the steps
        self._n_retreats = 0  # to the best state, which have shortened them too
        self._stale = 0  # epochs since the last gain in validation score that counts
        self._mark = self._mark_before = -math.inf  # score at that gain; at the last retreat
        self._ceiling = math.inf
        self._first = math.inf  # loss of the first step
        # Rows and number of the last step, and the loss before it.
        self._last: tuple[Tensor, int, float] | None = None
        self._best_score = -math.inf
        self._best: dict[str, Any] | None = None
        self._lowest_loss = math.inf
        self._lowest: dict[str, Any] | None = None
        self._average: dict[str, Tensor] | None = None  # of the states at the ends of epochs
        self._good = self._proven = self._completed = self._copy()

    # ------------------------------------------------------------- an epoch

    def epoch(self) -> None:
        """Train one epoch and validate it, healing from a loss that is not finite.

        What a step has done shows when the next one evaluates the loss. After the last step of the
        plan the loss is evaluated once more. An interruption leaves no half of an epoch in the
        history.

        Raises
        ------
        NonFiniteLossError
            If the loss stays non-finite after several rollbacks with ever smaller steps.
        """
        is_last = self.epochs_done + 1 >= self.plan.max_iter
        while True:
            try:
                self._drawn_from = self.generator.get_state()
                for rows in islice(self._batches(), self._n_taken, None):
                    share = self._n_taken / self.n_batches
                    progress = (self.epochs_done + share) / self.plan.max_iter
                    rate = self.plan.schedule(min(progress, 1.0))
                    step = self.n_steps + self._n_taken
                    closure = partial(self.gradients, self.data.batch(rows), step)
                    value = self.optimizer.step(closure, rate)
                    self._total += value * len(rows)
                    self._last = rows, step, value
                    self._n_taken += 1
                    self.progress.step()
                after = self._check_last_step() if is_last else -math.inf
                break
            except (NonFiniteLossError, NotPositiveDefiniteError) as error:
                self._heal()
                if self._n_failed == _MAX_HEALS:
                    raise NonFiniteLossError(
                        f"training diverged in epoch {self.epochs_done + 1} and did not recover "
                        f"with smaller steps ({error})"
                    ) from error
        loss = self.data.ranks.mean(self._total / len(self.data), len(self.data))
        if self.n_batches == 1 and self.plan.n_retreats and loss < self._lowest_loss:
            self._lowest_loss, self._lowest = loss, self._good  # where it was evaluated
        self._retreat_if_worse(loss)
        if self._lowest is not None and after > self._lowest_loss + _END * self._unit:
            self._restore(self._lowest)
        self.epochs_done += 1
        self._n_taken, self._total, self._n_failed = 0, 0.0, 0
        self._good = self._copy()
        if is_last:
            self._proven = self._good
        if self.plan.averaged:
            self._average = averaged(self._average, self._good["module"], self.epochs_done)
        with self.outcome() as module:
            score = None if self.validate is None else self.validate(module)
        self._record(loss, score)

    @property
    def n_steps(self) -> int:
        """Steps done by the end of the last epoch, with those of earlier fits of the module."""
        return self._n_earlier + self.epochs_done * self.n_batches

    def gradients(self, batch: Batch, step: int) -> Tensor:
        """Set the gradients of a step and return its loss, detached; refuse what is not finite."""
        try:
            loss = self._replay(batch, step)
            if loss is None:
                for parameter in self.parameters:
                    parameter.grad = None
                with self._chance(batch.x.device, step):
                    loss = self.loss(batch, step)
                loss.backward()
                loss = loss.detach()
        except NotPositiveDefiniteError:
            if self.data.ranks.n == 1:
                raise
            loss = batch.x.new_tensor(math.nan)  # which the other ranks learn of
        loss = self.data.ranks.average(loss, self.parameters, len(batch.x))
        norm = torch.nn.utils.get_total_norm(
            [p.grad for p in self.parameters if p.grad is not None]
        )
        if not bool(torch.isfinite(norm) & (loss < self._ceiling)):
            raise NonFiniteLossError(f"loss {loss.item()}, gradient norm {norm.item()}")
        if self._first == math.inf:
            self._first = self.history.first_loss = loss.item()
            self._ceiling = self.plan.ceiling * (1.0 + abs(self._first))
        self._proven = self._good  # its loss has been seen to be finite
        return loss

    def _batches(self) -> Iterator[Tensor]:
        if self.n_batches == 1:  # in a fixed order: draws depend on a row's position in the batch
            yield self.data.ordered()
            return
        yield from self.data.shuffled(self.generator).tensor_split(self.n_batches)

    def _check_last_step(self) -> float:
        """Evaluate the loss of the last step once more, and leave no trace of it.

        It may neither be far above what it was before the step nor far above the first of all.
        """
        if self._last is None:
            return -math.inf
        rows, step, before = self._last
        proven = self._proven
        state = copied(self.module.state_dict())  # an evaluation moves on running statistics
        try:
            after = self.gradients(self.data.batch(rows), step).item()
        finally:
            self.module.load_state_dict(state)
        lowest = min(before, self._first)
        if after > lowest + _LEAP * (self._unit + abs(lowest)):
            self._proven = proven
            raise NonFiniteLossError(
                f"the last step ended at a loss of {after}, far above {lowest}"
            )
        return after

    def _heal(self) -> None:
        """Go back to where the loss was finite, with shorter steps from now on."""
        self._good = self._proven
        self._restore(self._good)
        self.optimizer.shorten(_HEALED_STEP)
        self._n_healed += 1
        self._n_failed += 1
        self._n_taken, self._total = 0, 0.0

    def _retreat_if_worse(self, loss: float) -> None:
        """After an epoch of a far higher loss, go back to the best state, with shorter steps.

        Where targets have next to no noise, steps of a rate that does not fall leave a narrow
        optimum, and Adam remembers the gradients outside for a thousand steps.
        """
        far = min([self._first, *self.history.loss_curve]) + self.plan.rise * self._unit
        if self._n_retreats < self.plan.n_retreats and loss >= far:
            self._retreat()

    def _retreat(self) -> None:
        """Go back to the best state, with shorter steps from now on."""
        best = self._best or self._lowest or self._good
        self._restore(best)
        self._average = None if self._average is None else best["module"]
        self.optimizer.shorten(_HEALED_STEP)
        self._n_retreats += 1
        self._stale = 0  # shorter steps have not had their time
        self._mark_before = self._mark

    @contextmanager
    def outcome(self) -> Iterator[ModuleT]:
        """The module as a fit that ends now would leave it."""
        if self._average is None:
            yield self.module
            return
        self.module.load_state_dict(self._average)
        try:
            yield self.module
        finally:
            self.module.load_state_dict(self._good["module"])

    def _end(self) -> dict[str, Any]:
        """The state in which a fit that ends now is left."""
        return self._good if self._average is None else {**self._good, "module": self._average}

    def _record(self, loss: float, score: float | None) -> None:
        """Take an epoch into the history."""
        self.history.loss_curve.append(loss)
        self._completed = self._end()
        if score is None:
            return
        self.history.validation_scores.append(score)
        self._stale += 1
        # A difference, not a ratio: log densities have no sign to rely on. Small gains add up.
        is_late = 0 < self.plan.n_usual < self.epochs_done
        if score > self._mark + self.plan.tol * (_LATE if is_late else 1.0):
            self._stale, self._mark = 0, score
        if score > self._best_score and self.plan.n_iter_no_change is not None:
            self._best_score, self._best = score, self._completed
        # Shorter steps may still gain. If the last shortening gained nothing, training ends.
        may_retreat = self._n_retreats < self.plan.n_retreats and self._mark > self._mark_before
        if may_retreat and self._is_stale:
            self._retreat()
            self._good = self._proven = self._copy()

    # ------------------------------------------------------------- a fit

    @property
    def is_done(self) -> bool:
        """Whether to stop after an epoch: converged, or no better validation score for long."""
        if self._n_taken:
            return False
        has_converged = self._is_stale or self.optimizer.is_converged
        return has_converged or self.epochs_done >= self.plan.max_iter

    @property
    def _is_stale(self) -> bool:
        """Whether there has been no gain that counts for as long as the patience."""
        patience = self.plan.n_iter_no_change
        if patience is not None and self.plan.averaged:
            # A leap of the loss stays in the average for so long.
            patience = max(patience, self.epochs_done // WINDOW)
        return patience is not None and self._stale >= patience

    @property
    def completed(self) -> dict[str, Any]:
        """State of the module after the last epoch in the history, which nothing changes."""
        state: dict[str, Any] = self._completed["module"]
        return state

    def has_just_done(self, n_epochs: int) -> bool:
        """Whether it has done so many epochs, and no step of a further one."""
        return self.epochs_done == n_epochs and self._n_taken == 0

    def loss_after(self, n_epochs: int) -> float:
        """Training loss of at most so many epochs, which judges restarts; infinite if it failed."""
        curve = self.history.loss_curve[:n_epochs]
        return curve[-1] if curve and self.failure is None else math.inf

    def trial(self, n_epochs: int) -> None:
        """Train until a few epochs are done; a divergence is remembered, not raised."""
        try:
            while self.epochs_done < n_epochs and self.failure is None:
                self.epoch()
        except NonFiniteLossError as error:
            self.failure = error

    def interrupt(self) -> None:
        """Go back to the end of the last epoch that is in the history."""
        self._restore(self._completed)
        self.history.interrupted = True

    def finish(self) -> tuple[ModuleT, History]:
        """The module, at its best validation score if that is what decides, and its history.

        Training may have ended before its plan, after a step that no evaluation has followed.
        """
        if self._best is not None:
            self._restore(self._best)
            return self.module, self.history
        if self._good is not self._proven:
            try:
                self._check_last_step()
            except (NonFiniteLossError, NotPositiveDefiniteError):
                self._restore(self._proven)
                del self.history.loss_curve[-1:], self.history.validation_scores[-1:]
                return self.module, self.history
        if self._average is not None:
            self._restore(self._completed)
        return self.module, self.history

    # ------------------------------------------------------------- its state

    def state(self) -> dict[str, Any]:
        """Everything that the rest of a fit depends on, after a step or between epochs.

        Nothing in it changes when the run goes on. The plan, the data and the functions are not
        part of it.
        """
        state = {name.strip("_"): getattr(self, name) for name in _STATE}
        is_between = self._n_taken == 0
        return state | {
            "now": None if is_between else self._copy(),
            "generator": self.generator.get_state() if is_between else self._drawn_from,
            "history": [list(self.history.loss_curve), list(self.history.validation_scores)],
            "failure": None if self.failure is None else str(self.failure),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from the `state` of a run of the same plan, data, model and functions.

        Raises
        ------
        ValueError
            If this run has already begun.
        """
        if self.epochs_done or self._n_taken or self._n_healed:
            raise ValueError("a run that has begun cannot go on from another state")
        for name in _STATE:
            setattr(self, name, state[name.strip("_")])
        for _ in range(self._n_healed + self._n_retreats):
            self.optimizer.shorten(_HEALED_STEP)
        curve, scores = map(list, state["history"])
        self.history = History(curve, scores, first_loss=self._first)
        self.failure = None if state["failure"] is None else NonFiniteLossError(state["failure"])
        self.generator.set_state(state["generator"])
        self._restore(self._good if state["now"] is None else state["now"])

    def _copy(self) -> dict[str, Any]:
        """Copy of everything that a rollback restores."""
        state = {"module": self.module.state_dict(), "optimizer": self.optimizer.state_dict()}
        return dict(copied(state))

    def _restore(self, state: dict[str, Any]) -> None:
        """Go back to an earlier `_copy`."""
        state = copied(state)
        self.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])
