"""What to train, and for how many epochs, found by cross-validation."""

import copy
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import torch

from skgp.core.folds import fold_numbers
from skgp.core.numerics.draws import draw_seed
from skgp.core.subsample import row_keys
from skgp.core.training.history import History
from skgp.core.training.plan import Plan
from skgp.core.training.progress import Progress
from skgp.core.training.run import Run
from skgp.core.training.schedules import no_step
from skgp.exceptions import NonFiniteLossError, NotPositiveDefiniteError
from skgp.fitting.coverage import NO_TARGETS, Coverage, coverage_of
from skgp.fitting.fit import (
    TargetSpec,
    candidate,
    first_models,
    make_table,
    scaled_table,
    validation_score,
)
from skgp.fitting.model import Model
from skgp.fitting.plans import UNKNOWN_LENGTH, limited_plan
from skgp.fitting.recipe import Recipe, Running
from skgp.fitting.search import NO_ROWS, NO_SEARCH, Search, is_ahead, scores_of_rows
from skgp.fitting.table import Table

_BY_FAR: Final = 0.05  # nats per row that larger models have to be ahead before they are trained
_PATIENCE: Final = 40  # epochs without a better score, after which the search stops at the earliest
_TRIED: Final = 60  # epochs before which a search is not given up


@dataclass(frozen=True)
class FoldedRows:
    """Rows that are cut into folds, and what models of some of them need.

    Attributes
    ----------
    whole : Table
        Of all rows.
    targets : TargetSpec
    running : Running
    n_folds : int
    """

    whole: Table
    targets: TargetSpec
    running: Running
    n_folds: int

    @cached_property
    def parts(self) -> list[tuple[Table, Table]]:
        """Training and held-out rows of each fold; none if there are too few distinct rows."""
        whole, n_folds = self.whole, self.n_folds
        folds = fold_numbers(whole.keys, self.targets.groups(whole.Y), n_folds)
        if len(np.unique(folds[folds >= 0])) < n_folds:
            return []
        parts = []
        for fold in range(n_folds):
            outside, inside = whole.rows.take(folds != fold), whole.rows.take(folds == fold)
            table = make_table(outside, self.targets, self.running, whole.like)
            held_out = scaled_table(inside, table, whole.like)
            parts.append((table, held_out))
        return parts

    @property
    def n_distinct(self) -> int:
        """Number of different inputs."""
        return len(np.unique(row_keys(self.whole.X)))

    def first_model(self, recipe: Recipe, table: Table, rng: np.random.RandomState) -> Model:
        """The initial model of a table, whatever the number of restarts."""
        once = replace(self.running, n_restarts=1)
        return first_models(recipe, table, self.targets, once, rng)[0]


def found_plan(
    recipe: Recipe,
    models: list[Model],
    folded: FoldedRows,
    plan: Plan,
    rng: np.random.RandomState,
    progress: Progress,
) -> tuple[list[Model], Plan, Search]:
    """What to train, for as long as a cross-validation finds, and that search.

    These are the models, or larger ones that begin better; or one with more inducing inputs that is
    not trained, unless held-out rows prefer those at their best. The other arguments are those of
    `cross_validated`.
    """
    whole = folded.whole
    if whole.ranks.n > 1:
        raise ValueError(
            f"data_parallel=True with {whole.n_rows} rows in all, which are one batch: use "
            "early_stopping=False, or fewer rows per batch"
        )
    models = _better_start(recipe, models, folded, plan, rng)
    full_gp = recipe.full_gp(models[0], folded.n_distinct)
    untrained = NO_SEARCH if full_gp is None else _untrained(full_gp, folded, plan, rng)
    goal = max(untrained.scores, default=-math.inf)
    search = cross_validated(recipe.of_folds(models[0]), folded, plan, rng, progress, goal)
    scores = search.scores
    if not scores:
        return models, limited_plan(plan, min(UNKNOWN_LENGTH, plan.max_iter)), search
    held_out = [table for _, table in folded.parts]
    if full_gp is not None and untrained.scores and not is_ahead(search, untrained, held_out):
        with suppress(NotPositiveDefiniteError):
            model = folded.first_model(full_gp, whole, copy.deepcopy(rng))
            return [model], replace(limited_plan(plan, 1), schedule=no_step), untrained
    return models, limited_plan(plan, best_length(scores, plan.tol)), search


def _better_start(
    recipe: Recipe,
    models: list[Model],
    folded: FoldedRows,
    plan: Plan,
    rng: np.random.RandomState,
) -> list[Model]:
    """These models, or larger ones if held-out rows prefer them by far as they begin.

    The source of chance stays as it is.
    """
    larger = recipe.larger(models[0], folded.n_distinct)
    if larger is None:
        return models
    smaller = recipe.of_folds(models[0])
    before, after = (_untrained(r, folded, plan, rng).scores for r in (smaller, larger))
    if before and after and after[0] > before[0] + _BY_FAR:
        with suppress(NotPositiveDefiniteError):
            rng = copy.deepcopy(rng)
            return first_models(larger, folded.whole, folded.targets, folded.running, rng)
    return models


def _untrained(
    recipe: Recipe, folded: FoldedRows, plan: Plan, rng: np.random.RandomState
) -> Search:
    """The score of held-out rows by models that have not been trained, as of a search.

    The source of chance stays as it is.
    """
    rng = copy.deepcopy(rng)
    scores, weights, coverage, of_rows = [], [], NO_TARGETS, [NO_ROWS]
    for table, held_out in folded.parts:
        try:
            model = folded.first_model(recipe, table, rng)
        except NotPositiveDefiniteError:
            return NO_SEARCH
        scores.append(validation_score(recipe, table, held_out, model))
        if not math.isfinite(scores[-1]):
            return NO_SEARCH
        weights.append(held_out.n_data)
        coverage = coverage.plus(coverage_of(model, held_out))
        of_rows.append(scores_of_rows(recipe.conditioned(model.eval(), table), held_out))
    if not scores:  # too few distinct rows
        return NO_SEARCH
    score = float(np.average(scores, weights=weights))
    return Search([score], plan.max_iter, coverage, np.hstack(of_rows))


def cross_validated(
    recipe: Recipe,
    folded: FoldedRows,
    plan: Plan,
    rng: np.random.RandomState,
    progress: Progress,
    goal: float = -math.inf,
) -> Search:
    """Scores of held-out rows after each epoch, in the user's units; their coverage at the best.

    The models of all folds train epoch by epoch in turn, each on the rows outside of its fold,
    until the score has not risen for long, or rises too slowly for a goal.

    Parameters
    ----------
    recipe : Recipe
    folded : FoldedRows
    plan : Plan
        With the number of folds, and the most epochs.
    rng : RandomState
    progress : Progress
        What to go on from, and where to keep it.
    goal : float, optional
        A score without which nothing comes of the search. If there is one, each row is scored.

    Returns
    -------
    Search
        Without scores if there are too few distinct rows, if a model of a fold has no start, or if
        training diverges in the first epoch.
    """
    parts = folded.parts
    if not parts:
        return NO_SEARCH
    saved = progress.saved("search")
    if saved is not None and not saved["runs"]:  # it has ended
        progress.follow("search", lambda: saved)
        rng.set_state(saved["rng"])
        of_rows = np.array(saved["of_rows"])
        return Search(saved["scores"], plan.max_iter, Coverage(*saved["coverage"]), of_rows)
    runs: list[Run[Model]] = []
    for table, held_out in parts:
        try:
            model = folded.first_model(recipe, table, rng)
        except NotPositiveDefiniteError:  # which says nothing about a fit of all rows
            return NO_SEARCH
        validate = partial(validation_score, recipe, table, held_out)
        generator = torch.Generator().manual_seed(draw_seed(rng))
        task = candidate(recipe, model, table.n_data, plan.n_batches(table.n_rows))
        runs.append(Run(task, table, plan, generator, validate, progress))
    weights = [held_out.n_data for _, held_out in parts]
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
        if _falls_short(scores, goal, plan.max_iter):
            break
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
    coverage, of_rows = NO_TARGETS, NO_ROWS
    for run, of_module, (table, held_out) in zip(runs, best, parts, strict=False):
        run.module.load_state_dict(of_module)
        coverage = coverage.plus(coverage_of(run.module, held_out))
        if math.isfinite(goal):
            model = recipe.conditioned(run.module.eval(), table)
            of_rows = np.hstack([of_rows, scores_of_rows(model, held_out)])
    found = {"scores": scores, "coverage": [*coverage], "of_rows": of_rows.tolist()}
    ended = {"runs": [], **found, "rng": _state(rng)}
    progress.follow("search", lambda: ended)
    return Search(scores, plan.max_iter, coverage, of_rows)


def best_length(scores: list[float], tol: float) -> int:
    """The fewest epochs whose score is within a tolerance of the best."""
    return 1 + int(np.argmax(np.asarray(scores) >= max(scores) - tol))


def _is_stale(scores: list[float]) -> bool:
    """Whether the best score was long ago: by half of the epochs before it, and by the patience."""
    if not scores:
        return False
    best = int(np.argmax(scores))
    return len(scores) - 1 - best > max(_PATIENCE, best // 2)


def _falls_short(scores: list[float], goal: float, max_iter: int) -> bool:
    """Whether the best score would stay below a goal if it rose on as in its last half of epochs.

    That is optimistic, for scores rise ever more slowly.
    """
    n, half = len(scores), len(scores) // 2
    if n < _TRIED:
        return False
    best = max(scores)
    return best + (best - max(scores[:half])) / (n - half) * (max_iter - n) < goal


def _state(rng: np.random.RandomState) -> dict[str, Any]:
    """The state of a source of chance, without arrays."""
    whole: Any = rng.get_state(legacy=False)
    parts = whole["state"].items()
    return whole | {"state": {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in parts}}
