"""What to train, and for how many epochs, found by cross-validation."""

import copy
import math
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from skgp.core.numerics.draws import draw_seed
from skgp.core.training.history import History
from skgp.core.training.plan import Plan
from skgp.core.training.progress import Progress
from skgp.core.training.run import Run
from skgp.core.training.schedules import no_step
from skgp.exceptions import NonFiniteLossError, NotPositiveDefiniteError
from skgp.fitting.copies import copy_probability, with_copies
from skgp.fitting.coverage import NO_TARGETS, Coverage
from skgp.fitting.fit import candidate
from skgp.fitting.folds import Fold, FoldedRows
from skgp.fitting.model import Model
from skgp.fitting.plans import UNKNOWN_LENGTH, limited_plan
from skgp.fitting.recipe import Recipe
from skgp.fitting.residual_noise import with_residual_noise
from skgp.fitting.search import NO_ROWS, NO_SEARCH, Search, falls_short, is_ahead
from skgp.fitting.stacking import (
    can_be_stacked,
    mixed_recipe,
    mixed_scores,
    rows_for_untrained,
    share_of_first,
)
from skgp.fitting.table import Table

_BY_FAR: Final = 0.05  # nats per row that larger models have to be ahead before they are trained
_PATIENCE: Final = 40  # epochs without a better score, after which the search stops at the earliest


def found_plan(
    recipe: Recipe,
    models: list[Model],
    folded: FoldedRows,
    plan: Plan,
    rng: np.random.RandomState,
    progress: Progress,
) -> tuple[Recipe, list[Model], Plan, Search]:
    """What to train by which recipe, for as long as a cross-validation finds, and that search.

    These are the models, or larger ones that begin better. Their predictions are mixed with those
    of a GP with all inputs as inducing inputs that is not trained, as held-out rows prefer; or that
    GP is all there is. The other arguments are those of `cross_validated`.
    """
    whole = folded.whole
    if whole.ranks.n > 1:
        raise ValueError(
            f"data_parallel=True with {whole.n_rows} rows in all, which are one batch: use "
            "early_stopping=False, or fewer rows per batch"
        )
    models = _better_start(recipe, models, folded, plan, rng)
    untrained_gp = recipe.untrained_gp(models[0], folded.n_distinct)
    untrained = NO_SEARCH
    if untrained_gp is not None:
        untrained = folded.untrained(untrained_gp, rng)
        untrained_gp, untrained = with_residual_noise(untrained_gp, untrained, folded)
    goal = max(untrained.scores, default=-math.inf)
    search = cross_validated(recipe.of_folds(models[0]), folded, plan, rng, progress, goal)
    scores = search.scores
    if not scores:
        return recipe, models, limited_plan(plan, min(UNKNOWN_LENGTH, plan.max_iter)), search
    found = limited_plan(plan, best_length(scores, plan.tol))
    if untrained_gp is None or not untrained.scores:
        return recipe, models, found, search
    held_out = [fold.held_out for fold in folded.folds]
    share = _share(models[0], search, untrained, held_out, len(whole))
    of_rows = mixed_scores(search.of_rows, untrained.of_rows, share)
    probability = copy_probability(models[0], held_out, of_rows)
    if share < 1.0:
        with suppress(NotPositiveDefiniteError):
            model = folded.first_model(untrained_gp, whole, copy.deepcopy(rng))
            if share == 0.0:
                no_training = replace(limited_plan(plan, 1), schedule=no_step)
                untrained_gp = with_copies(untrained_gp, model, whole, probability)
                return untrained_gp, [model], no_training, untrained
            recipe = mixed_recipe(recipe, untrained_gp, model, whole, share)
    return with_copies(recipe, models[0], whole, probability), models, found, search


def _share(
    model: Model, search: Search, untrained: Search, held_out: list[Table], n_rows: int
) -> float:
    """The share of trained models in predictions, next to that of an untrained one.

    One model has all if the likelihoods of both have learned different parameters other than the
    variance of normal noise: a mixture of them has no likelihood in common.
    """
    if not search.of_rows.size:  # no score was a number
        return 0.0
    if not can_be_stacked(model):
        return 1.0 if is_ahead(search, untrained, held_out, n_rows) else 0.0
    weights = np.concatenate([table.weights for table in held_out])
    n_more = rows_for_untrained(model)
    return share_of_first(search.of_rows[0], untrained.of_rows[0], weights, n_more)


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
    before, after = (folded.untrained(recipe, rng).scores for recipe in (smaller, larger))
    if before and after and after[0] > before[0] + _BY_FAR:
        with suppress(NotPositiveDefiniteError):
            return folded.first_models(larger, copy.deepcopy(rng))
    return models


class _FoldRuns:
    """Runs of models of all folds that train epoch by epoch in turn.

    Parameters
    ----------
    runs : list of Run
    weights : list of float
        Of their scores.

    Attributes
    ----------
    scores : list of float
        Weighted mean of the scores of the runs after each epoch.
    best : list of dict
        States of the modules at the best score; empty if there is none.
    """

    def __init__(self, runs: list[Run[Model]], weights: list[float]) -> None:
        self.runs = runs
        self.weights = weights
        self.scores: list[float] = []
        self.best: list[dict[str, Any]] = []

    def epoch(self) -> None:
        """One epoch of each run."""
        for run in self.runs:
            if run.epochs_done == len(self.scores):  # else it was ahead of the others
                run.epoch()
        latest = [run.history.validation_scores[-1] for run in self.runs]
        self.scores.append(float(np.average(latest, weights=self.weights)))
        if self.scores[-1] == max(self.scores):
            self.best = [run.completed for run in self.runs]

    def state(self) -> dict[str, Any]:
        """All that the next epochs depend on."""
        runs = [run.state() for run in self.runs]
        return {"runs": runs, "scores": list(self.scores), "best": self.best}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from such a state."""
        self.scores, self.best = state["scores"], state["best"]
        for run, of_run in zip(self.runs, state["runs"], strict=True):
            run.load_state(of_run)


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
    if not folded.folds:
        return NO_SEARCH
    saved = progress.saved("search")
    if saved is not None and not saved["runs"]:  # it has ended
        progress.follow("search", lambda: saved)
        rng.set_state(saved["rng"])
        of_rows = np.array(saved["of_rows"])
        return Search(saved["scores"], plan.max_iter, Coverage(*saved["coverage"]), of_rows)
    try:
        runs = [_run(recipe, folded, fold, plan, rng, progress) for fold in folded.folds]
    except NotPositiveDefiniteError:  # which says nothing about a fit of all rows
        return NO_SEARCH
    training = _FoldRuns(runs, folded.weights)
    if saved is not None:
        training.load_state(saved)
    progress.follow("search", training.state)
    scores = training.scores
    while len(scores) < plan.max_iter and not _is_stale(scores):
        if falls_short(scores, goal, plan.max_iter):
            break
        try:
            training.epoch()
        except NonFiniteLossError:
            break
        progress.epoch(History([], scores))
    coverage, of_rows = NO_TARGETS, NO_ROWS
    for run, of_module, fold in zip(runs, training.best, folded.folds, strict=False):
        run.module.load_state_dict(of_module)
        coverage = coverage.plus(fold.coverage(run.module))
        if math.isfinite(goal):
            of_rows = np.hstack([of_rows, fold.scores_of_rows(recipe, run.module)])
    found = {"scores": scores, "coverage": [*coverage], "of_rows": of_rows.tolist()}
    ended = {"runs": [], **found, "rng": _state(rng)}
    progress.follow("search", lambda: ended)
    return Search(scores, plan.max_iter, coverage, of_rows)


def _run(
    recipe: Recipe,
    folded: FoldedRows,
    fold: Fold,
    plan: Plan,
    rng: np.random.RandomState,
    progress: Progress,
) -> Run[Model]:
    """The run of a new model of the rows outside of a fold."""
    table = fold.table
    model = folded.first_model(recipe, table, rng)
    generator = torch.Generator().manual_seed(draw_seed(rng))
    task = candidate(recipe, model, table.n_data, plan.n_batches(table.n_rows))
    return Run(task, table, plan, generator, partial(fold.score, recipe), progress)


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
