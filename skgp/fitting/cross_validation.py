"""How many epochs to train, found by cross-validation."""

import dataclasses
from functools import partial
from typing import Final

import numpy as np
import torch

from skgp.core.folds import fold_numbers
from skgp.core.training.plan import Plan, continued
from skgp.core.training.run import Run
from skgp.exceptions import NonFiniteLossError, NotPositiveDefiniteError
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
    rng: np.random.RandomState,
    n_earlier: int,
) -> tuple[Plan, list[float]]:
    """The plan of a fit, and the scores of the cross-validation that found its length, if any.

    The arguments are those of `cross_validated_scores`; a fit that goes on after `n_earlier` epochs
    is as long again, and takes shorter steps.
    """
    plan = recipe.plan(len(whole))
    if n_earlier:
        plan = of_length(plan, n_earlier) if plan.n_folds else plan
        return dataclasses.replace(plan, schedule=partial(continued, plan.schedule)), []
    if not plan.n_folds:
        return plan, []
    scores = cross_validated_scores(recipe, rows, whole, targets, running, plan, rng)
    return of_length(plan, best_length(scores, plan.tol) if scores else _UNKNOWN), scores


def cross_validated_scores(
    recipe: Recipe,
    rows: Rows,
    whole: Table,
    targets: Targets,
    running: Running,
    plan: Plan,
    rng: np.random.RandomState,
) -> list[float]:
    """Mean log density of held-out rows after each epoch, in the user's units.

    The models of all folds train side by side, each on the rows outside of its fold, until the
    score has not risen for long.

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

    Returns
    -------
    list of float
        Empty if there are too few distinct rows, if a model of a fold has no start, or if training
        diverges in the first epoch.
    """
    running = dataclasses.replace(running, n_restarts=1)
    folds = fold_numbers(whole.keys, targets.groups(whole.Y), plan.n_folds)
    if len(np.unique(folds[folds >= 0])) < plan.n_folds:
        return []
    runs: list[Run[Model]] = []
    weights = []
    for fold in range(plan.n_folds):
        table = make_table(rows.take(folds != fold), targets, running, whole.like)
        scales = table.x_scale, table.y_scale
        held_out = scaled_table(rows.take(folds == fold), scales, whole.like)
        try:
            model = first_models(recipe, table, targets, running, rng)[0]
        except NotPositiveDefiniteError:  # which says nothing about a fit of all rows
            return []
        validate = partial(validation_score, recipe, table, held_out)
        generator = torch.Generator().manual_seed(draw_seed(rng))
        runs.append(Run(candidate(recipe, model, table.n_data), table, plan, generator, validate))
        weights.append(held_out.n_data)
    scores: list[float] = []
    while len(scores) < plan.max_iter and not _is_stale(scores):
        try:
            for run in runs:
                run.epoch()
        except NonFiniteLossError:
            break
        latest = [run.history.validation_scores[-1] for run in runs]
        scores.append(float(np.average(latest, weights=weights)))
    return scores


def best_length(scores: list[float], tol: float) -> int:
    """The fewest epochs whose score is within a tolerance of the best."""
    return 1 + int(np.argmax(np.asarray(scores) >= max(scores) - tol))


def _is_stale(scores: list[float]) -> bool:
    """Whether the best score was long ago: by half of the epochs before it, and by the patience."""
    if not scores:
        return False
    best = int(np.argmax(scores))
    return len(scores) - 1 - best > max(_PATIENCE, best // 2)
