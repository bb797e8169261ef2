"""Copies of an estimator that are fitted to a table without one fold each."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn import clone, get_config
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from skgp._typing import IntArray
from skgp.compose._nested import keep_functions
from skgp.compose._predict_dist import predict_dist
from skgp.distributions import concat


class Table(NamedTuple):
    """Rows as they came from the user.

    Attributes
    ----------
    X : array-like of shape (n, n_features)
    y : array-like of shape (n,) or (n, P)
    weight : array of shape (n,) or None
    """

    X: Any
    y: Any
    weight: Any = None

    def take(self, rows: IntArray) -> "Table":
        """The rows of an index."""
        weight = None if self.weight is None else self.weight[rows]
        return Table(_safe_indexing(self.X, rows), _safe_indexing(self.y, rows), weight)


class Fold(NamedTuple):
    """Numbers of the rows that a member is fitted to, and of those that it never sees."""

    train: IntArray
    held_out: IntArray


class Member(NamedTuple):
    """A fitted copy, and its predictive distribution of the rows held out from it."""

    estimator: Any
    dist: Any


def fit_members(
    ensemble: Any, table: Table, folds: Sequence[Fold], tasks: Sequence[Any]
) -> list[Member]:
    """Fit one copy of the estimator for each fold.

    All training happens in this one function. The members are independent fits of one
    architecture, so it is the place to train them as one batch.

    Parameters
    ----------
    ensemble : estimator
        With the parameters `estimator`, which is cloned and not changed, and `n_jobs`, the number
        of processes, on which the members do not depend.
    table : Table
    folds : sequence of Fold
    tasks : sequence of sklearn.callback.CallbackContext
        One for each fold.

    Returns
    -------
    list of Member, in the order of the folds
    """
    members: list[Member] = Parallel(n_jobs=ensemble.n_jobs)(
        delayed(_fit_member)(ensemble, clone(ensemble.estimator), table, fold, task)
        for fold, task in zip(folds, tasks, strict=True)
    )
    for member in members:  # whose distributions hold the same transformers
        keep_functions(member.estimator, ensemble.estimator)
    return members


def check_partition(held_out: Sequence[Any], n_rows: int, remedy: str = "") -> None:
    """Refuse test sets, row numbers (n_k,) of each fold, that do not have each row once."""
    if any(np.asarray(rows).dtype == bool for rows in held_out):
        raise ValueError(
            "The test sets of cv must be row numbers, and they are boolean masks: give "
            "np.flatnonzero(mask) in their place, and in that of the training sets."
        )
    if not np.array_equal(np.sort(np.concatenate(held_out)), np.arange(n_rows)):
        raise ValueError(
            "The test sets of cv must be a partition: each row of X in exactly one of them."
            + remedy
        )


def in_order(distributions: Sequence[Any], held_out: Sequence[Any]) -> Any:
    """Distributions of the rows held out from each fold, in the order of the table."""
    return joined(concat, distributions)[np.argsort(np.concatenate(held_out))]


def joined(join: Callable[[Sequence[Any]], Any], distributions: Sequence[Any]) -> Any:
    """Distributions of the models of several folds as one, or an error that says why not."""
    try:
        return join(distributions)
    except ValueError as error:
        raise ValueError(
            f"The distributions of the folds do not fit together: {error}. A target transformer "
            "that is not affine must be the same in all of them: give TransformedTargetRegressor "
            "fixed functions func and inverse_func, or an affine transformer."
        ) from error


def check_classes_of_folds(labels: Sequence[Any]) -> None:
    """Refuse folds of which one lacks a class among the labels of its training rows (n_k,)."""
    classes = np.unique(np.concatenate([np.asarray(part) for part in labels]))
    for number, part in enumerate(labels):
        missing = np.setdiff1d(classes, part)
        if missing.size:
            raise ValueError(
                f"Class {missing.tolist()[0]!r} has no row outside fold {number}: take more or "
                "stratified folds, or leave out rows of classes that are so rare"
            )


def takes_weights(estimator: Any) -> bool:
    """Whether `fit` accepts `sample_weight`; of a pipeline, that of its last step."""
    if isinstance(estimator, Pipeline):
        return takes_weights(estimator.steps[-1][1])
    parameters = inspect.signature(estimator.fit).parameters.values()
    return any(p.name == "sample_weight" or p.kind is p.VAR_KEYWORD for p in parameters)


def _fit_member(ensemble: Any, model: Any, table: Table, fold: Fold, task: Any) -> Member:
    """One fold: fit, and predict the rows held out."""
    train, held_out = table.take(fold.train), table.take(fold.held_out)
    task.call_on_fit_task_begin(estimator=ensemble, X=train.X, y=train.y)
    _fit(model, train, held_out, task)
    task.call_on_fit_task_end(estimator=ensemble, X=train.X, y=train.y)
    return Member(model, predict_dist(model, held_out.X))


def _fit(model: Any, train: Table, held_out: Table, task: Any) -> None:
    """Fit a model, which stops by the held-out rows if it can."""
    if isinstance(model, Pipeline):
        head, last = model[:-1], model.steps[-1][1]
        for_head, for_last = _weights_of_steps(model, train)
        if len(head.steps) > 0:
            train = train._replace(X=head.fit_transform(train.X, train.y, **for_head))
            held_out = held_out._replace(X=head.transform(held_out.X))
            model.steps[:-1] = head.steps  # with a memory the fitted steps are other objects
        if not for_last:
            train, held_out = train._replace(weight=None), held_out._replace(weight=None)
        _fit(last, train, held_out, task)
        return
    given = {} if train.weight is None else {"sample_weight": train.weight}
    if _stops_early(model):
        model.set_params(early_stopping=True)
        given |= {"X_val": held_out.X, "y_val": held_out.y}
        if train.weight is not None:
            given["sample_weight_val"] = held_out.weight
    with task.propagate_callback_context(model):
        model.fit(train.X, train.y, **given)


def _weights_of_steps(pipeline: Pipeline, table: Table) -> tuple[dict[str, Any], dict[str, Any]]:
    """Weights as arguments of the steps before the last one, and of that, as `fit` routes them."""
    if table.weight is None:
        return {}, {}
    given = {"sample_weight": table.weight}
    if not get_config()["enable_metadata_routing"]:
        return {}, given
    routed = dict(process_routing(pipeline, "fit", **given))
    for_last = dict(routed.pop(pipeline.steps[-1][0]).fit)
    is_requested = any(arguments for step in routed.values() for arguments in step.values())
    return given if is_requested else {}, for_last


def _stops_early(model: Any) -> bool:
    """Whether held-out rows that it is given can end its training."""
    has_parameter = "early_stopping" in model.get_params(deep=False)
    return has_parameter and bool(has_fit_parameter(model, "X_val"))
