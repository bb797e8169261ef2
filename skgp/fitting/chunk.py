"""Training on the chunks of a stream, one epoch on each."""

import copy
import dataclasses
import math
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from skgp.core.numerics.draws import draw_seed
from skgp.core.training.optimizers import Clipped, trainable
from skgp.core.training.plan import Plan
from skgp.core.training.run import Run
from skgp.core.training.schedules import constant, regained, slower
from skgp.fitting.fit import (
    TargetSpec,
    candidate,
    first_models,
    make_table,
    next_model,
    scalar_like,
    scaled_table,
)
from skgp.fitting.model import Model
from skgp.fitting.outliers import find_outliers
from skgp.fitting.plans import without_search
from skgp.fitting.recipe import Recipe, Running
from skgp.fitting.rows import Rows
from skgp.fitting.stream import ENOUGH, FOR_SCALES, Opening
from skgp.fitting.table import Table

# Nobody knows how many batches a stream will have, and after the first one they are several.
_BATCHES: Final = 2
_LARGEST_SHARE: Final = 2.0  # with which a natural step of half length goes to its end


class Stream(NamedTuple):
    """What partial_fit goes on from.

    Attributes
    ----------
    model : Model
    n_seen : float
        Rows trained on, or the sum of their weights.
    n_rows : float
        Rows trained on, whatever their weights.
    n_fitted : float
        Those among them of the fit that the stream goes on from; zero if there is none.
    optimizer_state : dict or None
    opening : Opening or None
        Of a stream that has not settled.
    """

    model: Model
    n_seen: float
    n_rows: float
    n_fitted: float
    optimizer_state: dict[str, Any] | None
    opening: Opening | None


class Chunk(NamedTuple):
    """A stream after a chunk.

    Attributes
    ----------
    stream : Stream
        With the model in training.
    table : Table
        Of the chunk's rows.
    loss : float
    n_data : float
        Sum of the weights by which divergences were divided.
    scaled_by : Table or None
        Its rows and those before it, if they have set the scales of what follows.
    """

    stream: Stream
    table: Table
    loss: float
    n_data: float
    scaled_by: Table | None


def without_outliers(rows: Rows, stream: Stream | None) -> tuple[Rows, list[Warning]]:
    """The rows that a stream takes, and at most one warning that names the others."""
    if stream is None or (stream.opening is not None and not stream.opening.has_scales):
        return rows, []
    judged = rows if stream.opening is None else stream.opening.with_known_scales(rows)
    outliers = find_outliers(judged, stream.model.x_scale, stream.model.y_scale)
    if len(outliers.rows) and not outliers.are_most:
        rows = rows.take(np.setdiff1d(np.arange(len(rows.X)), outliers.rows))
    return rows, outliers.warning("the step leaves them out")


def fit_chunk(
    recipe: Recipe,
    rows: Rows,
    targets: TargetSpec,
    running: Running,
    rng: np.random.RandomState,
    *,
    stream: Stream | None,
    n_rows: int,
    n_total: float | None,
    enough: int,
) -> Chunk:
    """Train one epoch on a chunk, with gradients that are clipped to what is usual in the stream.

    Parameters
    ----------
    recipe : Recipe
    rows : Rows
    targets : TargetSpec
    running : Running
    rng : RandomState
    stream : Stream or None
        None begins one.
    n_rows : int
        Number of the rows before equal ones were merged.
    n_total : float or None
        Rows of the whole stream; those seen so far if None.
    enough : int
        Distinct rows that settle the start of the model.
    """
    if stream is None:
        opening: Opening | None = Opening.of(rows)
    else:
        opening = None if stream.opening is None else stream.opening.extended(rows)
    starts, rate = opening is not None and opening.is_due(enough), 1.0
    if opening is not None and starts:
        start = make_table(
            opening.rows, targets, running, scalar_like(recipe, running, len(opening.rows.X))
        )
        table = scaled_table(rows, start, start.like)
        model = first_models(recipe, start, targets, running, rng, is_streamed=True)[0]
        state = None
        opening = opening.started()
    else:
        assert stream is not None  # a stream that begins is due
        if stream.n_fitted:
            rate = recipe.stream_rate(stream.model, stream.n_fitted)
        like = scalar_like(recipe, running, len(rows.X) if rate == 1.0 else 1)
        table = scaled_table(rows, stream.model, like)
        model, state = next_model(recipe, stream.model, table), stream.optimizer_state
    seen, n_seen_rows, n_fitted = table.n_data, float(n_rows), 0.0
    if stream is not None:
        seen, n_seen_rows = stream.n_seen + seen, stream.n_rows + n_rows
        n_fitted = 0.0 if starts else stream.n_fitted
    share = _share(table.n_data / n_rows, seen / n_seen_rows)
    n_data = seen if n_total is None else n_total
    fresh = candidate(recipe, model, n_data, _BATCHES)
    trained = trainable(model)
    plan = dataclasses.replace(
        without_search(recipe.plan(len(table))),
        max_iter=1,
        schedule=constant,
        averaged=False,
        ceiling=math.inf,
    )
    if n_fitted:
        n_steps = 0 if state is None else state["n_steps"]
        plan = _eased(plan, len(table), n_steps, n_fitted, (n_seen_rows - n_rows, n_seen_rows))
        plan = dataclasses.replace(plan, schedule=partial(slower, rate, plan.schedule))
    run = Run(
        fresh._replace(optimizer=Clipped(trained, fresh.optimizer, share), repeats=False),
        table,
        plan,
        torch.Generator().manual_seed(draw_seed(rng)),
    )
    if state is not None:
        run.optimizer.load_state_dict(copy.deepcopy(state))
    run.epoch()
    model.n_steps = run.n_steps
    if opening is not None:
        opening = None if opening.is_settled(enough) else opening.shortened(enough, rng)
    after = Stream(model, seen, n_seen_rows, n_fitted, run.optimizer.state_dict(), opening)
    scaled_by = start if starts and len(start) >= FOR_SCALES else None
    return Chunk(after, table, run.history.loss_curve[-1], n_data, scaled_by)


def _eased(
    plan: Plan, n_rows: int, n_steps: int, n_fitted: float, n_seen: tuple[float, float]
) -> Plan:
    """The plan of a chunk after a fit of so many rows, at a rate that rises with those since.

    `n_steps` are those since the fit, `n_seen` all rows before and after the chunk. A fit of many
    rows is left as soon as one of `ENOUGH`: the law of the rows may have changed.
    """
    before, after = ((n - n_fitted) / min(n_fitted, ENOUGH) for n in n_seen)
    schedule = partial(regained, n_steps, plan.n_batches(n_rows), (before, after))
    return dataclasses.replace(plan, schedule=schedule)


def _share(mean_weight: float, of_stream: float) -> float:
    """Length of the gradients of a chunk, from its mean weight and that of the stream so far.

    Its table divides weights by their own mean. So the loss of light rows is that of heavy ones,
    and counts for less: with the divergence, which alone would pull the model back to its prior.
    """
    if math.isclose(mean_weight, of_stream):  # sums of equal weights differ by rounding
        return 1.0
    return min(mean_weight / of_stream, _LARGEST_SHARE)
