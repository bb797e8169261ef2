"""A GP of all rows as it begins: what training on several batches has to be ahead of."""

import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch

from skgp.core.subsample import row_keys
from skgp.core.training.history import History
from skgp.core.training.plan import Plan
from skgp.core.training.progress import Progress
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.coverage import NO_TARGETS, Coverage
from skgp.fitting.fit import TargetSpec, fit_table, make_table, scaled_table
from skgp.fitting.folds import Fold, FoldedRows
from skgp.fitting.model import Model
from skgp.fitting.recipe import Recipe, Running
from skgp.fitting.rows import Rows
from skgp.fitting.search import Search, falls_short, is_ahead
from skgp.fitting.table import Table


@dataclass(frozen=True)
class FullGP:
    """A GP whose inducing inputs are all inputs, scored on the held-out rows of a fit.

    Attributes
    ----------
    recipe : Recipe
    folded : FoldedRows
        All rows, and those held out, in double precision, which so many inducing inputs need.
    rng : RandomState
        That models are begun with; each takes a copy.
    search : Search
        The scores of held-out rows.
    """

    recipe: Recipe
    folded: FoldedRows
    rng: np.random.RandomState
    search: Search

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        model: Model,
        fold: Fold,
        whole: Rows,
        targets: TargetSpec,
        running: Running,
        rng: np.random.RandomState,
    ) -> Self | None:
        """That of an initial model; None if there is none for so many rows, or if it has no score.

        Parameters
        ----------
        recipe : Recipe
        model : Model
        fold : Fold
            Rows to train on and held-out rows.
        whole : Rows
            To begin with if it is chosen.
        targets : TargetSpec
        running : Running
        rng : RandomState
            It stays as it is.
        """
        full_gp = recipe.full_gp(model, len(np.unique(row_keys(whole.X))))
        if full_gp is None:
            return None
        like = fold.table.like.double()
        parts = fold.table.rows, fold.held_out.rows
        alike = Fold(*(scaled_table(rows, fold.table, like) for rows in parts))
        folded = FoldedRows(make_table(whole, targets, running, like), [alike], targets, running)
        search = folded.untrained(full_gp, rng)
        return cls(full_gp, folded, copy.deepcopy(rng), search) if search.scores else None

    def is_out_of_reach(self, history: History, plan: Plan) -> bool:
        """Whether training that rises as it does would not end ahead."""
        return falls_short(history.validation_scores, self.search.scores[0], plan.max_iter)

    def yields_to(self, model: Model, fold: Fold) -> bool:
        """Whether held-out rows clearly prefer a model that has been trained."""
        of_rows = fold.scores_of_rows(self.recipe, model)
        return is_ahead(Search([], 0, NO_TARGETS, of_rows), self.search, [fold.held_out])

    def fitted(self) -> "Outcome | None":
        """The GP of all rows; None if it has no start."""
        whole = self.folded.whole
        with suppress(NotPositiveDefiniteError):
            model = self.folded.first_model(self.recipe, whole, copy.deepcopy(self.rng))
            with torch.no_grad():
                batch = whole.batch(whole.ordered())
                loss = self.recipe.loss(model, batch, 0, n_data=whole.n_data).item()
            history = History([loss], list(self.search.scores))
            return Outcome(model, history, whole, self.search.coverage)
        return None


class Outcome(NamedTuple):
    """What a fit ends with.

    Attributes
    ----------
    model : Model
    history : History
    table : Table
        Rows that the model knows.
    coverage : Coverage or None
        Of held-out rows; None if they are those of the training that has led to the model.
    """

    model: Model
    history: History
    table: Table
    coverage: Coverage | None = None


def fit_or_full_gp(
    recipe: Recipe,
    models: list[Model],
    table: Table,
    plan: Plan,
    rng: np.random.RandomState,
    *,
    held_out: Table | None,
    whole: Rows | None,
    targets: TargetSpec,
    running: Running,
    on_epoch: Callable[[Model, History], bool],
    progress: Progress,
) -> Outcome:
    """What `fit_table` trains, or a GP of all rows if that is not clearly ahead of it.

    Parameters
    ----------
    recipe, models, table, plan, rng, held_out, on_epoch, progress
        As of `fit_table`.
    whole : Rows or None
        All rows; None if the models go on from a fit.
    targets, running
        As of `FullGP.of`.
    """
    full_gp = None
    # A plan of averages is one that finds everything by held-out rows.
    if whole is not None and held_out is not None and plan.averaged and table.ranks.n == 1:
        fold = Fold(table, held_out)
        full_gp = FullGP.of(recipe, models[0], fold, whole, targets, running, rng)

    def is_over(model: Model, history: History) -> bool:
        is_short = full_gp is not None and full_gp.is_out_of_reach(history, plan)
        return on_epoch(model, history) or is_short

    model, history = fit_table(
        recipe, models, table, plan, rng, held_out=held_out, on_epoch=is_over, progress=progress
    )
    trained = Outcome(model, history, table)
    if full_gp is None or history.interrupted or full_gp.yields_to(model, fold):
        return trained
    return full_gp.fitted() or trained
