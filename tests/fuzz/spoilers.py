"""Calls that must fail, on an estimator that was fitted to a problem's table.

Each takes the estimator and the problem; some first change a parameter or a callback, and all put
that back.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from strategies import Array, Problem, is_classifier

Spoiler = Callable[[Any, Problem], Any]


def other_targets(problem: Problem) -> Array:
    """Targets that are good in themselves: other labels, or other numbers."""
    if is_classifier(problem.case):
        return np.array(["ham", "spam"])[np.arange(problem.n_rows) % 2]
    return 100.0 + 3.0 * np.asarray(problem.y, dtype=float)


def narrow(problem: Problem) -> Array:
    """Inputs of another width."""
    return np.column_stack([problem.X, problem.X[:, :1]])


@contextmanager
def parameters_set(model: Any, **params: Any) -> Iterator[None]:
    before = {name: model.get_params()[name] for name in params}
    model.set_params(**params)
    try:
        yield
    finally:
        model.set_params(**before)


class Bomb:
    """Callback that raises an error at some point of the fit."""

    def __init__(self, error: type[BaseException], *, at_once: bool) -> None:
        self.error = error
        self.at_once = at_once

    def setup(self, estimator: Any, context: Any) -> None:
        pass

    def teardown(self, estimator: Any, context: Any) -> None:
        pass

    def on_fit_task_begin(self, estimator: Any, context: Any, *, X: Any, y: Any) -> None:
        if self.at_once:
            raise self.error

    def on_fit_task_end(self, estimator: Any, context: Any, *, X: Any, y: Any) -> None:
        raise self.error


# ------------------------------------------------------------- a second fit


def held_out_targets_forgotten(model: Any, problem: Problem) -> None:
    model.fit(narrow(problem), other_targets(problem), X_val=narrow(problem))


def held_out_rows_too_narrow(model: Any, problem: Problem) -> None:
    y = other_targets(problem)
    model.fit(narrow(problem), y, X_val=problem.X, y_val=y)


def targets_not_finite(model: Any, problem: Problem) -> None:
    y = other_targets(problem).astype(object)
    y[0] = np.inf
    model.fit(narrow(problem), y)


def targets_too_few(model: Any, problem: Problem) -> None:
    model.fit(narrow(problem), other_targets(problem)[1:])


def inputs_not_finite(model: Any, problem: Problem) -> None:
    model.fit(narrow(problem) * np.nan, other_targets(problem))


def weight_negative(model: Any, problem: Problem) -> None:
    weight = np.where(np.arange(problem.n_rows) == 1, -1.0, 1.0)
    model.fit(narrow(problem), other_targets(problem), sample_weight=weight)


def weights_all_zero(model: Any, problem: Problem) -> None:
    weight = np.zeros(problem.n_rows)
    model.fit(narrow(problem), other_targets(problem), sample_weight=weight)


def device_unknown(model: Any, problem: Problem) -> None:
    with parameters_set(model, device="abacus"):
        model.fit(narrow(problem), other_targets(problem))


def parameter_out_of_range(model: Any, problem: Problem) -> None:
    with parameters_set(model, max_iter=0):
        model.fit(narrow(problem), other_targets(problem))


def too_few_rows_to_hold_out(model: Any, problem: Problem) -> None:
    with parameters_set(model, early_stopping=True, validation_fraction=1.0 - 1e-9):
        model.fit(narrow(problem), other_targets(problem))


def _fit_with(model: Any, problem: Problem, bomb: Bomb) -> None:
    model.set_callbacks(bomb)
    try:
        model.fit(narrow(problem), other_targets(problem))
    finally:
        model.set_callbacks()


def callback_fails_at_once(model: Any, problem: Problem) -> None:
    _fit_with(model, problem, Bomb(RuntimeError, at_once=True))


def callback_fails_after_an_epoch(model: Any, problem: Problem) -> None:
    _fit_with(model, problem, Bomb(RuntimeError, at_once=False))


def interrupted_before_the_first_epoch(model: Any, problem: Problem) -> None:
    _fit_with(model, problem, Bomb(KeyboardInterrupt, at_once=True))


def memory_runs_out(model: Any, problem: Problem) -> None:
    _fit_with(model, problem, Bomb(MemoryError, at_once=False))


SECOND_FITS: tuple[Spoiler, ...] = (
    held_out_targets_forgotten,
    held_out_rows_too_narrow,
    targets_not_finite,
    targets_too_few,
    inputs_not_finite,
    weight_negative,
    weights_all_zero,
    device_unknown,
    parameter_out_of_range,
    too_few_rows_to_hold_out,
    callback_fails_at_once,
    callback_fails_after_an_epoch,
    interrupted_before_the_first_epoch,
    memory_runs_out,
)


# ------------------------------------------------------------------- chunks


def chunk_of_another_width(model: Any, problem: Problem) -> None:
    model.partial_fit(narrow(problem), problem.y)


def chunk_not_finite(model: Any, problem: Problem) -> None:
    model.partial_fit(problem.X * np.nan, problem.y)


def chunk_with_targets_of_another_kind(model: Any, problem: Problem) -> None:
    y = other_targets(problem)
    if not is_classifier(problem.case):
        y = np.column_stack([y, y])
    model.partial_fit(problem.X, y)


def chunk_of_a_negative_stream(model: Any, problem: Problem) -> None:
    model.partial_fit(problem.X, problem.y, n_total=-1.0)


def chunk_while_stopping_early(model: Any, problem: Problem) -> None:
    with parameters_set(model, early_stopping=True):
        model.partial_fit(problem.X, problem.y)


CHUNKS: tuple[Spoiler, ...] = (
    chunk_of_another_width,
    chunk_not_finite,
    chunk_with_targets_of_another_kind,
    chunk_of_a_negative_stream,
    chunk_while_stopping_early,
)


# --------------------------------------------------------------- predictions


def rows_of_another_width(model: Any, problem: Problem) -> None:
    model.predict(narrow(problem))


def rows_not_finite(model: Any, problem: Problem) -> None:
    model.predict(problem.X * np.nan)


PREDICTIONS: tuple[Spoiler, ...] = (rows_of_another_width, rows_not_finite)


# ----------------------------------------------------------------- embeddings


def table_of_another_width(model: Any, problem: Problem) -> None:
    model.transform(problem.X)


def table_infinite(model: Any, problem: Problem) -> None:
    model.transform(problem.table * np.inf)


def inputs_of_another_width(model: Any, problem: Problem) -> None:
    model.predict_dist(np.zeros((3, 1 + model.n_components)))


def second_table_without_entries(model: Any, problem: Problem) -> None:
    model.fit(np.full((5, 1), np.nan))


def second_table_on_an_unknown_device(model: Any, problem: Problem) -> None:
    with parameters_set(model, device="abacus"):
        model.fit(problem.X)


def second_table_interrupted(model: Any, problem: Problem) -> None:
    model.set_callbacks(Bomb(KeyboardInterrupt, at_once=True))
    try:
        model.fit(problem.X)
    finally:
        model.set_callbacks()


SECOND_TABLES: tuple[Spoiler, ...] = (
    second_table_without_entries,
    second_table_on_an_unknown_device,
    second_table_interrupted,
)
TABLES: tuple[Spoiler, ...] = (table_of_another_width, table_infinite, inputs_of_another_width)


def fit_spoilers_of(model: Any) -> tuple[Spoiler, ...]:
    """What may go wrong with a fit."""
    return SECOND_TABLES if hasattr(model, "transform") else SECOND_FITS


def spoilers_of(model: Any) -> tuple[Spoiler, ...]:
    """What may go wrong with a fitted estimator."""
    if hasattr(model, "transform"):
        return SECOND_TABLES + TABLES
    return SECOND_FITS + PREDICTIONS + (CHUNKS if hasattr(model, "partial_fit") else ())
