"""A GP as it begins: what training on several batches has to be ahead of."""

import copy
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
import torch

from skgp._typing import Array
from skgp.core.likelihoods.classes import ClassLikelihood
from skgp.core.subsample import row_keys
from skgp.core.training.history import History
from skgp.core.training.plan import Plan
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.copies import copy_probability, with_copies
from skgp.fitting.coverage import NO_TARGETS, Coverage
from skgp.fitting.fit import TargetSpec, make_table, scaled_table
from skgp.fitting.folds import Fold, FoldedRows
from skgp.fitting.mean_weights import settle_mean
from skgp.fitting.model import Model
from skgp.fitting.recipe import Recipe, Running
from skgp.fitting.residual_noise import with_residual_noise
from skgp.fitting.rows import Rows
from skgp.fitting.search import Search, falls_short, is_ahead, scores_of_rows
from skgp.fitting.stacking import (
    can_be_stacked,
    mixed_recipe,
    mixed_scores,
    rows_for_untrained,
    share_of_first,
)
from skgp.fitting.table import Table

_MOST_BATCHES: Final = 20  # of a data set, however few distinct inputs it has
_CHUNK: Final = 2048  # rows whose loss is computed at once
_FEW_INPUTS: Final = 3000  # of a regression, up to which any mixture is worth its time
# Nats per row of held-out rows that a mixture of more inputs has to gain: predictions then take
# about six times as long.
_LEAST_GAIN: Final = 0.02
_CLEARLY: Final = 0.1  # nats per row that a model of all rows may be worse than the scored one


class Kept(NamedTuple):
    """The untrained GP in place of a trained model.

    Attributes
    ----------
    model : Model
    history : History
    table : Table
        The rows that it knows.
    coverage : Coverage
        Of held-out rows.
    """

    model: Model
    history: History
    table: Table
    coverage: Coverage


@dataclass(frozen=True)
class UntrainedGP:
    """A GP whose inducing inputs are all or many of the inputs, scored on held-out rows of a fit.

    Attributes
    ----------
    recipe : Recipe
    folded : FoldedRows
        All rows, and those held out, in double precision, which so many inducing inputs need.
    rng : RandomState
        That models are begun with; each takes a copy.
    search : Search
        The scores of held-out rows.
    loss : float
        Training loss of the model that has them, nats per row.
    """

    recipe: Recipe
    folded: FoldedRows
    rng: np.random.RandomState
    search: Search
    loss: float

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        model: Model,
        plan: Plan,
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
        plan : Plan
            Of the training.
        fold : Fold
            Rows to train on and held-out rows.
        whole : Rows
            To begin with if it is chosen.
        targets : TargetSpec
        running : Running
        rng : RandomState
            It stays as it is.
        """
        if plan.n_batches(len(whole.X)) > _MOST_BATCHES:
            return None
        untrained_gp = recipe.untrained_gp(model, len(np.unique(row_keys(whole.X))))
        if untrained_gp is None:
            return None
        like = fold.table.like.double()
        parts = fold.table.rows, fold.held_out.rows
        alike = Fold(*(scaled_table(rows, fold.table, like) for rows in parts))
        folded = FoldedRows(make_table(whole, targets, running, like), [alike], targets, running)
        with suppress(NotPositiveDefiniteError):
            scored = folded.first_model(untrained_gp, alike.table, copy.deepcopy(rng))
            search = folded.scored(untrained_gp, [scored])
            untrained_gp, search = with_residual_noise(untrained_gp, search, folded)
            if search.scores:
                loss = _loss(untrained_gp, scored, alike.table)
                return cls(untrained_gp, folded, copy.deepcopy(rng), search, loss)
        return None

    def is_beyond(self, history: History, plan: Plan) -> bool:
        """Whether training that rises as it does would not end ahead."""
        return falls_short(history.validation_scores, self.search.scores[0], plan.max_iter)

    def yields_to(self, of_rows: Array, fold: Fold) -> bool:
        """Whether held-out rows, by their scores, clearly prefer a model that has been trained."""
        trained = Search([], 0, NO_TARGETS, of_rows)
        return is_ahead(trained, self.search, [fold.held_out], len(self.folded.whole))

    def chosen(
        self, recipe: Recipe, model: Model, history: History, fold: Fold
    ) -> tuple[Recipe, Kept | None]:
        """What predicts after training: the trained model, whose mean settles, the GP, or both.

        Returns the recipe of the predictions, and the GP if it alone is kept. The trained model
        alone is kept if it was interrupted, or if the GP of all rows has no Cholesky factor or a
        clearly worse loss than the scored one, for kernels are found from a part of the rows.
        """
        if history.interrupted:
            return recipe, None
        of_rows, whole = settle_mean(recipe, model, fold), self.folded.whole
        scaled = scaled_table(whole.rows, fold.table, whole.like)
        share = self._share(model, of_rows, fold)
        copied = self._copy_probability(recipe, model, fold)
        if share < 1.0:
            table = scaled if share > 0.0 else whole  # both models of a mixture see the same rows
            with suppress(NotPositiveDefiniteError):
                untrained_gp = self.folded.first_model(self.recipe, table, copy.deepcopy(self.rng))
                loss = _loss(self.recipe, untrained_gp, table)
                if loss < self.loss + _CLEARLY and share == 0.0:
                    its_own = History([loss], list(self.search.scores))
                    kept = Kept(untrained_gp, its_own, table, self.search.coverage)
                    return with_copies(self.recipe, untrained_gp, table, copied), kept
                if loss < self.loss + _CLEARLY:
                    recipe = mixed_recipe(recipe, self.recipe, untrained_gp, table, share)
        return with_copies(recipe, model, scaled, copied), None

    def _share(self, model: Model, of_rows: Array, fold: Fold) -> float:
        """The share of a trained model in predictions, by its scores of held-out rows."""
        if not can_be_stacked(model):
            return 1.0 if self.yields_to(of_rows, fold) else 0.0
        untrained, weights = self.search.of_rows, fold.held_out.weights
        share = share_of_first(of_rows[0], untrained[0], weights, rows_for_untrained(model))
        if isinstance(model.likelihood, ClassLikelihood) or self.folded.n_distinct <= _FEW_INPUTS:
            return share
        gains = mixed_scores(of_rows, untrained, share)[0] - of_rows[0]
        return share if np.average(gains, weights=weights) > _LEAST_GAIN else 1.0

    def _copy_probability(self, recipe: Recipe, model: Model, fold: Fold) -> float:
        """As `copy_probability`, by all rows: few copies are among those that are held out."""
        table = scaled_table(self.folded.whole.rows, fold.table, fold.table.like)
        if not model.has_plain_noise(table):
            return 0.0
        fitted = recipe.conditioned(model.eval(), fold.table)
        return copy_probability(fitted, [table], scores_of_rows(fitted, table))


@torch.no_grad()
def _loss(recipe: Recipe, model: Model, table: Table) -> float:
    """The mean training loss of the rows of a table, nats per row."""
    total = 0.0
    for rows in table.ordered().split(_CHUNK):
        total += recipe.loss(model, table.batch(rows), 0, n_data=table.n_data).item() * len(rows)
    return total / len(table)
