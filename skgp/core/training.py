"""The one training loop: minibatches, Adam, one cycle, restarts, healing, early stopping."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from skgp.core.objectives import Batch
from skgp.exceptions import NonFiniteLossError, NotPositiveDefiniteError

Schedule = Callable[[float], float]
ModuleT = TypeVar("ModuleT", bound=nn.Module)

_MAX_HEALS = 6
_HEALED_STEP = 0.3  # factor on the learning rate after a rollback
_WARM_UP = 0.1  # share of the steps in which the learning rate rises


class Data(Protocol):
    """Training rows that are read batch by batch and never copied as a whole."""

    def __len__(self) -> int: ...

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
    """

    module: ModuleT
    loss: Callable[[Batch], Tensor]


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train.

    Attributes
    ----------
    max_iter : int
        Epochs.
    batch_size : int
        Rows per step, up to rounding: an epoch is cut into batches of nearly equal size.
    learning_rate : float
        Peak of the schedule.
    n_trial_epochs : int
        Epochs after which candidates are compared by training loss.
    n_iter_no_change : int or None
        Epochs without a better validation score after which training stops; None: never.
    tol : float
        What counts as better, in nats per row.
    """

    max_iter: int
    batch_size: int
    learning_rate: float
    n_trial_epochs: int
    n_iter_no_change: int | None
    tol: float


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
    schedule : callable
        From the share of steps done to the learning rate relative to its peak.
    generator : torch.Generator
        Source of the order of rows.
    """

    def __init__(
        self,
        candidate: Candidate[ModuleT],
        data: Data,
        plan: Plan,
        schedule: Schedule,
        generator: torch.Generator,
    ) -> None:
        self.candidate = candidate
        self.data = data
        self.plan = plan
        self.schedule = schedule
        self.generator = generator
        self.n_batches = max(1, round(len(data) / plan.batch_size))
        self.parameters = [p for p in candidate.module.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(self.parameters, lr=plan.learning_rate, fused=True)
        self.step_scale = 1.0
        self.epochs_done = 0
        self._good = self.state()

    def state(self) -> dict[str, Any]:
        """Copy of everything that a rollback restores."""
        return copy.deepcopy(
            {
                "module": self.candidate.module.state_dict(),
                "optimizer": self.optimizer.state_dict(),
            }
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to an earlier `state`."""
        state = copy.deepcopy(state)
        self.candidate.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])

    def rollback(self) -> None:
        """Go back to the end of the last completed epoch."""
        self.restore(self._good)

    def epoch(self) -> float:
        """Train one epoch and return its mean loss, healing from a non-finite one.

        Raises
        ------
        NonFiniteLossError
            If the loss stays non-finite after several rollbacks with ever smaller steps.
        """
        for _ in range(_MAX_HEALS):
            try:
                value = self._run()
            except (NonFiniteLossError, NotPositiveDefiniteError) as error:
                failure = error
                self.rollback()
                self.step_scale *= _HEALED_STEP
            else:
                self.epochs_done += 1
                self._good = self.state()
                return value
        raise NonFiniteLossError(
            f"training diverged in epoch {self.epochs_done + 1} and did not recover with smaller "
            f"steps ({failure}); keep normalize_X=True and normalize_y=True, "
            "lower learning_rate_init or raise jitter or noise_floor"
        ) from failure

    def _run(self) -> float:
        total = 0.0
        for i, rows in enumerate(self._batches()):
            progress = (self.epochs_done + i / self.n_batches) / self.plan.max_iter
            rate = self.plan.learning_rate * self.schedule(min(progress, 1.0)) * self.step_scale
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.candidate.loss(self.data.batch(rows))
            loss.backward()  # type: ignore[no-untyped-call]
            norm = torch.nn.utils.get_total_norm(
                [p.grad for p in self.parameters if p.grad is not None]
            )
            value = loss.item()
            if not (math.isfinite(value) and bool(torch.isfinite(norm))):
                raise NonFiniteLossError(f"loss {value}, gradient norm {norm.item()}")
            self.optimizer.step()
            total += value * rows.shape[0]
        return total / len(self.data)

    def _batches(self) -> Iterator[Tensor]:
        n = len(self.data)
        if self.n_batches == 1:
            yield torch.arange(n)
            return
        yield from torch.randperm(n, generator=self.generator).tensor_split(self.n_batches)


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
        Called after each epoch of the chosen candidate; True stops the fit.

    Returns
    -------
    module : Module
        The chosen candidate with the parameters of its last epoch, or of its best validation
        score if `plan.n_iter_no_change` is set.
    history : History

    Raises
    ------
    NonFiniteLossError
        If every candidate diverges.
    """
    trainers = [
        Trainer(c, data, plan, one_cycle, torch.Generator().manual_seed(_draw_seed(generator)))
        for c in candidates
    ]
    trainer, history = _choose(trainers, plan)
    module = trainer.candidate.module
    best = -math.inf
    best_state: dict[str, Any] | None = None
    stale = 0
    try:
        while trainer.epochs_done < plan.max_iter:
            history.loss_curve.append(trainer.epoch())
            if validate is not None:
                score = validate(module)
                history.validation_scores.append(score)
                # A difference, not a ratio: log densities have no sign to rely on.
                stale = 0 if score > best + plan.tol else stale + 1
                if score > best and plan.n_iter_no_change is not None:
                    best, best_state = score, trainer.state()
            if on_epoch(module, history):
                break
            if plan.n_iter_no_change is not None and stale >= plan.n_iter_no_change:
                break
    except KeyboardInterrupt:
        trainer.rollback()
        history.interrupted = True
    if best_state is not None:
        trainer.restore(best_state)
    return module, history


def _choose(trainers: Sequence[Trainer[ModuleT]], plan: Plan) -> tuple[Trainer[ModuleT], History]:
    """The papers' restarts: short trials, judged by training loss."""
    if len(trainers) == 1:
        return trainers[0], History()
    curves: list[list[float]] = []
    failure: NonFiniteLossError | None = None
    for trainer in trainers:
        try:
            curves.append([trainer.epoch() for _ in range(min(plan.n_trial_epochs, plan.max_iter))])
        except NonFiniteLossError as error:
            curves.append([math.inf])
            failure = error
    final = [curve[-1] for curve in curves]
    chosen = final.index(min(final))
    if failure is not None and math.isinf(final[chosen]):
        raise failure
    return trainers[chosen], History(curves[chosen])


def _draw_seed(generator: torch.Generator) -> int:
    return int(torch.randint(2**62, (), generator=generator))
