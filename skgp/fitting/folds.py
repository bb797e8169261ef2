"""Rows that are cut into folds, for models of some of them that are scored on the others."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skgp._typing import Array
from skgp.core.folds import fold_numbers
from skgp.core.subsample import row_keys
from skgp.fitting.coverage import Coverage, coverage_of
from skgp.fitting.fit import TargetSpec, first_models, make_table, scaled_table, validation_score
from skgp.fitting.model import Model
from skgp.fitting.recipe import Recipe, Running
from skgp.fitting.search import scores_of_rows
from skgp.fitting.table import Table


@dataclass(frozen=True)
class Fold:
    """Rows outside of a fold, which train a model, and those of the fold, which score it.

    Attributes
    ----------
    table, held_out : Table
    """

    table: Table
    held_out: Table

    def score(self, recipe: Recipe, model: Model) -> float:
        """Mean log density of the held-out rows, for a model in training."""
        return validation_score(recipe, self.table, self.held_out, model)

    def scores_of_rows(self, recipe: Recipe, model: Model) -> Array:
        """Two scores of each held-out row, (2, n)."""
        return scores_of_rows(recipe.conditioned(model.eval(), self.table), self.held_out)

    def coverage(self, model: Model) -> Coverage:
        """How many held-out targets lie in their intervals."""
        return coverage_of(model, self.held_out)


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
    def folds(self) -> list[Fold]:
        """All folds; none if there are too few distinct rows."""
        whole, n_folds = self.whole, self.n_folds
        numbers = fold_numbers(whole.keys, self.targets.groups(whole.Y), n_folds)
        if len(np.unique(numbers[numbers >= 0])) < n_folds:
            return []
        folds = []
        for number in range(n_folds):
            outside, inside = whole.rows.take(numbers != number), whole.rows.take(numbers == number)
            table = make_table(outside, self.targets, self.running, whole.like)
            folds.append(Fold(table, scaled_table(inside, table, whole.like)))
        return folds

    @property
    def weights(self) -> list[float]:
        """Sums of the weights of the rows of each fold."""
        return [fold.held_out.n_data for fold in self.folds]

    @property
    def n_distinct(self) -> int:
        """Number of different inputs."""
        return len(np.unique(row_keys(self.whole.X)))

    def first_models(self, recipe: Recipe, rng: np.random.RandomState) -> list[Model]:
        """Initial models of all rows, one per restart."""
        return first_models(recipe, self.whole, self.targets, self.running, rng)

    def first_model(self, recipe: Recipe, table: Table, rng: np.random.RandomState) -> Model:
        """The initial model of a table, whatever the number of restarts."""
        once = replace(self.running, n_restarts=1)
        return first_models(recipe, table, self.targets, once, rng)[0]
