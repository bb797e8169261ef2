"""How many epochs to train, found by cross-validation."""

import dataclasses
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from skgp.core.folds import fold_numbers
from skgp.core.training.plan import History, Plan
from skgp.core.training.progress import Progress
from skgp.core.training.run import Run
from skgp.exceptions import NonFiniteLossError, NotPositiveDefiniteError
from skgp.fitting.coverage import NO_TARGETS, Coverage, coverage_of
from skgp.fitting.diagnosis import NO_SEARCH, Search
from skgp.fitting.fit import (
    Targets,
    candidate,
    draw_seed,
    first_models,
    make_table,
    scaled_table,
    validation_score,
)
from skgp.fitting.model import Model
from skgp.fitting.recipe import Recipe, Running, of_length
from skgp.fitting.rows import Rows
from skgp.fitting.table import Table

_UNKNOWN: Final = 100  # epochs of a table that has no folds, or diverges in one of them
_PATIENCE: Final = 40  # epochs without a better score, after which the search stops at the earliest


def found_plan(
    recipe: Recipe,
    rows: Rows,
    whole: Table,
    targets: Targets,
    running: Running,
    plan: Plan,
    rng: np.random.RandomState,
    progress: Progress,
) -> tuple[Plan, Search]:
    """A plan of the length that a cross-validation finds, and that search.

    The arguments are those of `cross_validated`.
    """
    if whole.ranks.n > 1:
        raise ValueError(
            f"data_parallel=True with {whole.n_rows} rows in all, which are one batch: use "
            "early_stopping=False, or fewer rows per batch"
        )
    search = cross_validated(recipe, rows, whole, targets, running, plan, rng, progress)
    scores = search.scores
    n_epochs = best_length(scores, plan.tol) if scores else min(_UNKNOWN, plan.max_iter)
    return of_length(plan, n_epochs), search


def cross_validated(
    recipe: Recipe,
    rows: Rows,
    whole: Table,
    targets: Targets,
    running: Running,
    plan: Plan,
    rng: np.random.RandomState,
    progress: Progress,
) -> Search:
    """Scores of held-out rows after each epoch, in the user's units; their coverage at the best.

    The models of all folds train epoch by epoch in turn, each on the rows outside of its fold,
    until the score has not risen for long.

    Parameters
    ----------
    recipe : Recipe
    rows : Rows
    whole : Table
        Of all rows.
    targets : Targets
    running : Running
    plan : Plan
        With the number of folds, and the most epochs.
    rng : RandomState
    progress : Progress
        What to go on from, and where to keep it.

    Returns
    -------
    Search
        Without scores if there are too few distinct rows, if a model of a fold has no start, or if
        training diverges in the first epoch.
    """
    running = dataclasses.replace(running, n_restarts=1)
    folds = fold_numbers(whole.keys, targets.groups(whole.Y), plan.n_folds)
    if len(np.unique(folds[folds >= 0])) < plan.n_folds:
        return NO_SEARCH
    saved = progress.saved("search")
    if saved is not None and not saved["runs"]:  # it has ended
        progress.follow("search", lambda: saved)
        rng.set_state(saved["rng"])
        return Search(saved["scores"], plan.max_iter, Coverage(*saved["coverage"]))
    runs: list[Run[Model]] = []
    parts: list[Table] = []
    for fold in range(plan.n_folds):
        table = make_table(rows.take(folds != fold), targets, running, whole.like)
        scales = table.x_scale, table.y_scale
        held_out = scaled_table(rows.take(folds == fold), scales, whole.like)
        try:
            model = first_models(recipe, table, targets, running, rng)[0]
        except NotPositiveDefiniteError:  # which says nothing about a fit of all rows
            return NO_SEARCH
        validate = partial(validation_score, recipe, table, held_out)
        generator = torch.Generator().manual_seed(draw_seed(rng))
        task = candidate(recipe, model, table.n_data, plan.n_batches(table.n_rows))
        runs.append(Run(task, table, plan, generator, validate, progress))
        parts.append(held_out)
    weights = [part.n_data for part in parts]
    scores: list[float] = []
    best: list[dict[str, Any]] = []  # states of the modules at the best score, if there is one
    if saved is not None:
        scores, best = saved["scores"], saved["best"]
        for run, of_run in zip(runs, saved["runs"], strict=True):
            run.load_state(of_run)

    def state() -> dict[str, Any]:
        of_runs = [run.state() for run in runs]
        return {"runs": of_runs, "scores": list(scores), "best": best}

    progress.follow("search", state)
    while len(scores) < plan.max_iter and not _is_stale(scores):
        try:
            for run in runs:
                if run.epochs_done == len(scores):  # else it was ahead of the others
                    run.epoch()
        except NonFiniteLossError:
            break
        latest = [run.history.validation_scores[-1] for run in runs]
        scores.append(float(np.average(latest, weights=weights)))
        progress.epoch(History([], scores))
        if scores[-1] == max(scores):
            best = [run.completed for run in runs]
    coverage = NO_TARGETS
    for run, of_module, part in zip(runs, best, parts, strict=False):
        run.module.load_state_dict(of_module)
        coverage = coverage.plus(coverage_of(run.module, part))
    ended = {"runs": [], "scores": scores, "coverage": [*coverage], "rng": _state(rng)}
    progress.follow("search", lambda: ended)
    return Search(scores, plan.max_iter, coverage)


def best_length(scores: list[float], tol: float) -> int:
    """The fewest epochs whose score is within a tolerance of the best."""
    return 1 + int(np.argmax(np.asarray(scores) >= max(scores) - tol))


def _is_stale(scores: list[float]) -> bool:
    """Whether the best score was long ago: by half of the epochs before it, and by the patience."""
    if not scores:
        return False
    best = int(np.argmax(scores))
    return len(scores) - 1 - best > max(_PATIENCE, best // 2)


def _state(rng: np.random.RandomState) -> dict[str, Any]:
    """The state of a source of chance, without arrays."""
    whole: Any = rng.get_state(legacy=False)
    parts = whole["state"].items()
    return whole | {"state": {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in parts}}
