"""Training from several starts: the best of them, trained to its end."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import torch
from torch import nn

from skgp.core.numerics.allocator import keep_freed_blocks
from skgp.core.training.history import History
from skgp.core.training.plan import Candidate, Data, Plan
from skgp.core.training.progress import KEEPS_NOTHING, Progress
from skgp.core.training.run import Run

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def train(
    candidates: Sequence[Candidate[ModuleT]],
    data: Data,
    plan: Plan,
    generator: torch.Generator,
    *,
    validate: Callable[[ModuleT], float] | None,
    on_epoch: Callable[[ModuleT, History], bool],
    progress: Progress = KEEPS_NOTHING,
    phase: str = "training",
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
    progress : Progress, optional
        What to go on from, and where to keep it.
    phase : str, optional
        The name under which that is kept.

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
    seeds = [_draw_seed(generator) for _ in candidates]
    runs = [
        Run(c, data, plan, torch.Generator().manual_seed(seed), validate, progress)
        for c, seed in zip(candidates, seeds, strict=True)
    ]
    for run, state in zip(runs, progress.saved(phase) or [], strict=False):
        run.load_state(state)
    progress.follow(phase, lambda: [run.state() for run in runs])
    n_trial = min(plan.n_trial_epochs, plan.max_iter)
    chosen = runs[0] if len(runs) == 1 else None
    try:
        if chosen is None:
            chosen = _choose(runs, n_trial)
            if chosen.has_just_done(n_trial):
                chosen.history.stopped = _stops(chosen, on_epoch)
        while not (chosen.is_done or chosen.history.stopped):
            chosen.epoch()
            chosen.history.stopped = _stops(chosen, on_epoch)
    except KeyboardInterrupt:
        chosen = chosen or min(runs, key=partial(Run.loss_after, n_epochs=n_trial))
        chosen.interrupt()
    states = [run.state() for run in runs]
    progress.follow(phase, lambda: states)
    return chosen.finish()


def _stops(run: Run[ModuleT], on_epoch: Callable[[ModuleT, History], bool]) -> bool:
    """Whether to stop after an epoch."""
    with run.outcome() as module:
        stops = on_epoch(module, run.history)
    return run.data.ranks.any(stops)


def _choose(runs: Sequence[Run[ModuleT]], n_epochs: int) -> Run[ModuleT]:
    """The papers' restarts: short trials, judged by training loss."""
    for run in runs:
        run.trial(n_epochs)
    best = min(runs, key=partial(Run.loss_after, n_epochs=n_epochs))
    if best.failure is not None:
        raise best.failure
    return best


def _draw_seed(generator: torch.Generator) -> int:
    return int(torch.randint(2**62, (), generator=generator))
