"""From validated rows to a trained model: tables, first models, training."""

import copy
import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from textwrap import shorten
from typing import Final

import numpy as np
import torch
from torch import Tensor

from skgp._typing import Array, BoolArray
from skgp.core.kernels.inducing import kmeans_inducing_points
from skgp.core.kernels.kernel import set_passes
from skgp.core.numerics.draws import draw_seed, make_seed
from skgp.core.numerics.elementwise import EAGER
from skgp.core.subsample import subsample
from skgp.core.training.history import History
from skgp.core.training.plan import Candidate, Plan
from skgp.core.training.progress import Progress
from skgp.core.training.ranks import ALONE, Ranks
from skgp.core.training.restarts import train
from skgp.core.training.schedules import falling
from skgp.core.training.states import copied
from skgp.exceptions import NonFiniteLossError, NotPositiveDefiniteError
from skgp.fitting.cache import Cached
from skgp.fitting.model import Model
from skgp.fitting.recipe import Recipe, Running
from skgp.fitting.rows import Rows
from skgp.fitting.setup import Centres, Setup
from skgp.fitting.table import Scale, Table, check_scale, common_scale, make_scale, scale_inputs

_SETUP_ROWS: Final = 20_000  # rows that initial values are computed from


def unchanged(Y: Array, weight: Array | None) -> Array:
    """Targets as they are."""
    return Y


@dataclass(frozen=True)
class TargetSpec:
    """What the targets of an estimator are.

    Attributes
    ----------
    scales : (bool, bool)
        Whether inputs and targets are standardised.
    names : (str, str)
        The argument that holds the targets, and the parameter that says whether they are scaled.
    groups : callable array (n, P) -> bool array (n, G)
        Groups of rows that a choice of rows must not miss.
    values : callable (array (n, P), weights or None) -> array (n, P'), optional
        What the targets are scaled by; they themselves by default.
    """

    scales: tuple[bool, bool]
    names: tuple[str, str]
    groups: Callable[[Array], BoolArray]
    values: Callable[[Array, Array | None], Array] = unchanged


def observed(Y: Array) -> BoolArray:
    """For targets (n, P) the rows that have observed each output."""
    return ~np.isnan(Y)


def scalar_like(recipe: Recipe, running: Running, n: int) -> Tensor:
    """A scalar of the dtype and on the device that training on n rows uses."""
    dtype = recipe.dtype(n) if running.dtype == "auto" else running.dtype
    return torch.zeros((), dtype=getattr(torch, dtype), device=check_device(running.device))


def check_device(name: str) -> torch.device:
    """The device of this name, refused if it is not available."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        like = torch.zeros((), dtype=torch.float32, device=name)
        like.item()  # there are devices without numbers
        return like.device
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:
        reason = shorten(str(error), 80, placeholder=" ...")  # torch may print a page
        raise ValueError(
            f"device={name!r} is not available here: use 'cpu', 'cuda' or 'cuda:1' for a graphics "
            f"card, or 'auto' for one if there is one ({reason})"
        ) from error


def make_table(
    rows: Rows, targets: TargetSpec, running: Running, like: Tensor, ranks: Ranks = ALONE
) -> Table:
    """A table with scales of its own."""
    X, weight, (Y, noise) = rows.X, rows.weight, rows.columns
    values = targets.values(Y, weight)
    scale = Cached(make_scale, running.memory, Scale)
    scales = scale(X, weight, targets.scales[0]), scale(values, weight, targets.scales[1], noise)
    scales = (
        common_scale(X, weight, scales[0], ranks),
        common_scale(values, weight, scales[1], ranks),
    )
    check_scale(values, scales[1], *targets.names)
    return Table(rows, *scales, like, ranks)


def scaled_table(rows: Rows, reference: Table | Model, like: Tensor, ranks: Ranks = ALONE) -> Table:
    """A table with the scales of another table or of a model."""
    return Table(rows, reference.x_scale, reference.y_scale, like, ranks)


def first_models(
    recipe: Recipe,
    table: Table,
    targets: TargetSpec,
    running: Running,
    rng: np.random.RandomState,
    *,
    is_streamed: bool = False,
) -> list[Model]:
    """One initial model per restart."""
    seeds = [draw_seed(rng) for _ in range(running.n_restarts)]
    weight = table.weight_at_start
    groups, keys = targets.groups(table.Y), table.keys
    n_wanted = math.ceil(_SETUP_ROWS / table.ranks.n)
    rows, weight = subsample(weight, groups, keys, n_wanted, make_seed(seeds[0], "rows"))
    x = scale_inputs(table.X[rows], table.x_scale)
    Y = table.y_scale.apply(table.Y[rows])
    own: tuple[Array, ...] = x, Y, weight, groups[rows], keys[rows]
    x, Y, weight, groups, keys = (np.concatenate(table.ranks.gathered(part)) for part in own)
    rows_of_all = torch.from_numpy(x), torch.from_numpy(Y), torch.from_numpy(weight)
    parts = *rows_of_all, groups, keys, table.n_data, table.n_rows
    # If the cache cannot be used, the scales have already warned.
    kmeans = Cached(kmeans_inducing_points, running.memory, np.ndarray, quiet=True)
    centres = Centres(kmeans, make_seed(seeds[0], "centres"))
    models = [
        recipe.build(Setup(*parts, centres, is_streamed, restart, seed))
        for restart, seed in enumerate(seeds)
    ]
    for model in models:
        model.x_scale, model.y_scale = table.x_scale, table.y_scale
    models = [model.to(table.like) for model in models]
    if recipe.complete is not None:
        models = [recipe.complete(model, table, draw_seed(rng)) for model in models]
    return models


def next_model(recipe: Recipe, fitted: Model, table: Table) -> Model:
    """A copy of a fitted model, to go on with these rows."""
    model = copy.deepcopy(fitted).to(table.like).train()
    model.source.release(model)
    model.copies = None
    recipe.prepare_to_go_on(model, table)
    return model


def fit_table(
    recipe: Recipe,
    models: list[Model],
    table: Table,
    plan: Plan,
    rng: np.random.RandomState,
    *,
    held_out: Table | None,
    on_epoch: Callable[[Model, History], bool],
    progress: Progress,
) -> tuple[Model, History]:
    """Train the best of some initial models on a table.

    Parameters
    ----------
    recipe : Recipe
    models : list of Model
    table : Table
    plan : Plan
    rng : RandomState
        Seeds the order of rows.
    held_out : Table or None
        Rows for a validation score after each epoch.
    on_epoch : callable (Model, History) -> bool
        Whether to stop.
    progress : Progress
        What to go on from, and where to keep it.
    """
    generator = torch.Generator().manual_seed(draw_seed(rng))
    n_batches = plan.n_batches(table.n_rows)
    result = progress.saved("result")
    if result is None:
        tasks = [candidate(recipe, model, table.n_data, n_batches) for model in models]
        validate = None if held_out is None else partial(validation_score, recipe, table, held_out)
        model, history = train(
            tasks,
            table,
            plan,
            generator,
            validate=validate,
            on_epoch=on_epoch,
            progress=progress,
        )
        is_over = history.interrupted or history.stopped
        if plan.n_annealed and validate is not None and not is_over:
            task = next(task for task in tasks if task.module is model)
            history = _anneal(task, history, table, plan, generator, validate, on_epoch, progress)
        # What a callback has stopped is no result of the parameters alone.
        if not (history.interrupted or history.stopped):
            number = next(i for i, task in enumerate(tasks) if task.module is model)
            curves = history.loss_curve, history.validation_scores
            ended = "training", "annealing"
            progress.finish("result", [number, model.state_dict(), *curves], instead_of=ended)
    else:
        number, state, *curves = result
        model, history = models[number], History(*curves)
        model.load_state_dict(state)
    model.n_steps += len(history.loss_curve) * n_batches
    return model, history


def _anneal(
    task: Candidate[Model],
    earlier: History,
    table: Table,
    plan: Plan,
    generator: torch.Generator,
    validate: Callable[[Model], float],
    on_epoch: Callable[[Model, History], bool],
    progress: Progress,
) -> History:
    """Train on from the best average, with a rate that falls to zero; keep what scores better.

    The rate falls from where it was, which is low in a fit that goes on after another.
    """
    scores = earlier.validation_scores
    n_epochs = min(plan.n_annealed, math.ceil((1 + int(np.argmax(scores))) / 4))
    rate = plan.schedule(min(len(scores) / plan.max_iter, 1.0))  # that of the last epoch
    before = copied(task.module.state_dict())
    n_steps = task.n_steps + len(scores) * plan.n_batches(table.n_rows)
    try:
        _, later = train(
            [task._replace(n_steps=n_steps)],
            table,
            dataclasses.replace(
                plan,
                max_iter=n_epochs,
                schedule=partial(falling, rate),
                averaged=False,
                n_iter_no_change=n_epochs,
            ),
            generator,
            validate=validate,
            on_epoch=lambda model, history: on_epoch(model, earlier.then(history)),
            progress=progress,
            phase="annealing",
        )
    except NonFiniteLossError:
        later = History()
    if max(later.validation_scores, default=-math.inf) <= max(scores):
        task.module.load_state_dict(before)
    return earlier.then(later)


def validation_score(recipe: Recipe, table: Table, held_out: Table, model: Model) -> float:
    """Mean log density of held-out rows, for a model in training on a table.

    Minus infinity if what the last step has done leaves none; the next step heals it.
    """
    model.eval()  # batch norms by their running statistics
    try:
        score = recipe.conditioned(model, table).mean_log_density(held_out)
    except NotPositiveDefiniteError:
        score = -math.inf
    model.train()
    return held_out.ranks.mean(score, len(held_out))


def candidate(recipe: Recipe, model: Model, n_data: float, n_batches: int) -> Candidate[Model]:
    """A model to train on rows of this sum of weights, in so many batches."""
    loss = partial(recipe.loss, model, n_data=n_data)
    repeats = recipe.repeats(model)
    # A step that is replayed on a GPU is as fast without a compiler.
    on_gpu = any(p.is_cuda for p in model.parameters())
    set_passes(model, EAGER if repeats and on_gpu else recipe.passes)
    optimizer = recipe.optimizer(model, n_data, n_batches)
    return Candidate(model, loss, optimizer, model.n_steps, repeats)
