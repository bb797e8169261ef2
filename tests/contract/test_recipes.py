"""What an estimator is made of: recipes that pickle, short hierarchies, short calls, states."""

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from contract_cases import CLASSIFIERS, EMBEDDINGS, REGRESSORS, Case, Data
from sklearn.utils import check_random_state
from torch import Tensor

from skgp.core.data import Batch
from skgp.core.numerics import linalg
from skgp.core.training.plan import Candidate
from skgp.core.training.run import Run
from skgp.estimators._estimator import Estimator
from skgp.fitting.fit import TargetSpec, first_models, make_table, observed, scalar_like
from skgp.fitting.model import Model
from skgp.fitting.recipe import Recipe, Running, pick
from skgp.fitting.rows import Rows

pytestmark = pytest.mark.usefixtures("short_start")
CASES = (*REGRESSORS, *CLASSIFIERS, *EMBEDDINGS)
QUICK = CASES
MOST_CLASSES = 4  # of skgp in the order of resolution
MOST_ABSTRACT = 5
# Of skgp, down to the first Cholesky factor. A fit took 14 until it read its arguments in a method
# of its own, which the fit with known noise calls too.
MOST_FRAMES = {"fit": 15, "predict_dist": 9}
# Beside core: those of its classes, and those whose functions a fit calls. It was 22 until checks
# of masks, names and orders, which scores need too, moved from two of them to a third, 23 until
# plans of training left the file of `Recipe`, 24 until checks of arguments left that of `Rows`, 25
# until networks in front of a kernel left the file of stacks for that of transforms of inputs, and
# 26 until stacks as data left the file of the models that are built from them.
MOST_FILES = 27


def arguments(case: Case, data: Data) -> tuple[Any, ...]:
    if case in EMBEDDINGS:
        return (data.X,)
    return data.X, data.y > np.median(data.y) if case in CLASSIFIERS else data.y


def own(cls: type) -> list[type]:
    return [base for base in cls.__mro__ if base.__module__.startswith("skgp.")]


def subclasses(cls: type) -> set[type]:
    return {cls}.union(*(subclasses(sub) for sub in cls.__subclasses__()))


def test_a_hierarchy_is_short(case: Case) -> None:
    assert 2 < len(own(case.cls)) <= MOST_CLASSES


@pytest.mark.only(CASES[:1])
def test_there_are_few_abstract_classes_with_one_abstract_method(case: Case) -> None:
    abstract = {
        cls
        for cls in subclasses(Estimator)
        if inspect.isabstract(cls) and cls.__module__.startswith("skgp.")
    }
    assert len(abstract) <= MOST_ABSTRACT
    assert {frozenset(cls.__abstractmethods__) for cls in abstract} == {frozenset({"_recipe"})}


def test_a_recipe_is_a_value(case: Case) -> None:
    """It prints what it is, holds no estimator, and comes back from a pickle."""
    recipe = case.make()._recipe()
    text = repr(recipe)
    assert "lambda" not in text
    assert "<locals>" not in text
    assert case.cls.__name__ not in text
    assert repr(pickle.loads(pickle.dumps(recipe))).count("function") == text.count("function")


def test_a_recipe_from_a_pickle_gives_the_same_fit(
    case: Case, data: Data, monkeypatch: Any
) -> None:
    desired = case.make(max_iter=2).fit(*arguments(case, data)).loss_curve_
    original = case.cls._recipe

    def pickled(self: Any) -> Any:
        return pickle.loads(pickle.dumps(original(self)))

    monkeypatch.setattr(case.cls, "_recipe", pickled)
    assert case.make(max_iter=2).fit(*arguments(case, data)).loss_curve_ == desired


class Found(Exception):
    """The first Cholesky factor of a call."""


def frames_to_cholesky(call: Callable[[], object], through: str, monkeypatch: Any) -> int:
    """Frames of skgp between a call and the first Cholesky factor that a function leads to.

    Zero if there is none.
    """
    depths: list[int] = []
    factorise = linalg.cholesky

    def stop(*args: Any, **kwargs: Any) -> Tensor:
        frame, names = sys._getframe(1), ["cholesky"]  # itself, which this replaces
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith("skgp."):
                names.append(frame.f_code.co_name)
            frame = frame.f_back  # type: ignore[assignment]  # the outermost one has none
        if through not in names:
            return factorise(*args, **kwargs)
        depths.append(len(names))
        raise Found

    with monkeypatch.context() as patch:
        patch.setattr(linalg, "cholesky", stop)
        try:
            call()
        except Found:
            return depths[0]
    return 0


def test_calls_are_short(case: Case, data: Data, monkeypatch: Any) -> None:
    rows = arguments(case, data)
    model = case.make(max_iter=1).fit(*rows)
    new = model.embedding_[:3] if case in EMBEDDINGS else data.X_new
    twin = copy.deepcopy(model)  # without factors that a layer has kept
    depth = frames_to_cholesky(partial(twin.predict_dist, new), "predict_dist", monkeypatch)
    assert depth <= MOST_FRAMES["predict_dist"]
    has_factors = hasattr(model, "stack_")
    depth = frames_to_cholesky(partial(model.fit, *rows), "gradients", monkeypatch)
    assert has_factors <= depth <= MOST_FRAMES["fit"]


def test_a_fit_runs_few_files(case: Case, data: Data) -> None:
    """Whoever wants to know an estimator opens these."""
    modules = {cls.__module__ for cls in own(case.cls)}

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            modules.add(frame.f_globals.get("__name__", ""))

    model = case.make(max_iter=1)
    sys.setprofile(note)
    try:
        model.fit(*arguments(case, data))
    finally:
        sys.setprofile(None)
    files = [m for m in modules if m.startswith("skgp.") and not m.startswith("skgp.core.")]
    assert 10 < len(files) <= MOST_FILES


def test_asking_for_a_loss_changes_nothing(
    case: Case, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a function of the model, the batch and the number of the step."""
    original = case.cls._recipe
    seen: list[int] = []

    def spied(self: Any) -> Recipe:
        recipe = original(self)

        def asked_twice(model: Model, batch: Batch, step: int, n_data: float) -> Tensor:
            before = {name: value.clone() for name, value in model.state_dict().items()}
            first, again = (recipe.loss(model, batch, step, n_data) for _ in range(2))
            assert again.item() == first.item()
            for name, value in model.state_dict().items():
                assert torch.equal(value, before[name])
            seen.append(step)
            return first

        return dataclasses.replace(recipe, loss=asked_twice)

    monkeypatch.setattr(case.cls, "_recipe", spied)
    model = case.make(max_iter=2, **case.known({"n_inducing": 5, "batch_size": 25}))
    model.fit(*arguments(case, data))
    assert seen[0] == 0
    assert model.model_.n_steps == max(seen) + 1


@pytest.mark.only(REGRESSORS)
def test_training_goes_on_from_a_state_to_the_last_bit(case: Case, data: Data) -> None:
    """Stopped after one epoch of three, and gone on with in another process as it were."""
    estimator = case.make(max_iter=3, **case.known({"batch_size": 25}))

    def started() -> Run[Any]:
        recipe, running = estimator._recipe(), pick(Running, estimator)
        rng = check_random_state(0)
        targets = TargetSpec((True, True), ("y", "normalize_y"), observed)
        like = scalar_like(recipe, running, len(data.X))
        table = make_table(Rows(data.X, data.y, None), targets, running, like)
        model = first_models(recipe, table, targets, running, rng)[0]
        loss = partial(recipe.loss, model, n_data=table.n_data)
        plan = recipe.plan(len(table))
        optimizer = recipe.optimizer(model, table.n_data, plan.n_batches(len(table)))
        task = Candidate(model, loss, optimizer)
        return Run(task, table, plan, torch.Generator().manual_seed(1))

    whole, first, second = started(), started(), started()
    for _ in range(3):
        whole.epoch()
    first.epoch()
    second.load_state(pickle.loads(pickle.dumps(first.state())))
    for _ in range(2):
        second.epoch()
    assert second.history.loss_curve == whole.history.loss_curve
    states = (run.module.state_dict() for run in (second, whole))
    for actual, desired in zip(*(state.values() for state in states), strict=True):
        assert torch.equal(actual, desired)
