"""Rows that are cut into folds, for models of some of them that are scored on the others."""

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from skgp._typing import Array
from skgp.core.folds import fold_numbers
from skgp.core.subsample import row_keys
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.coverage import NO_TARGETS, Coverage, coverage_of
from skgp.fitting.fit import TargetSpec, first_models, make_table, scaled_table, validation_score
from skgp.fitting.model import Model
from skgp.fitting.recipe import Recipe, Running, as_trained
from skgp.fitting.search import NO_ROWS, NO_SEARCH, Search, scores_of_rows
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
    """Rows of which folds are held out in turn, and what models of the others need.

    Attributes
    ----------
    whole : Table
        Of all rows.
    folds : list of Fold
    targets : TargetSpec
    running : Running
    """

    whole: Table
    folds: list[Fold]
    targets: TargetSpec
    running: Running

    @classmethod
    def cut(cls, whole: Table, targets: TargetSpec, running: Running, n_folds: int) -> Self:
        """Rows that are cut into folds; none if there are too few distinct rows."""
        numbers = fold_numbers(whole.keys, targets.groups(whole.Y), n_folds)
        folds: list[Fold] = []
        if len(np.unique(numbers[numbers >= 0])) == n_folds:
            for number in range(n_folds):
                is_inside = numbers == number
                table = make_table(whole.rows.take(~is_inside), targets, running, whole.like)
                inside = scaled_table(whole.rows.take(is_inside), table, whole.like)
                folds.append(Fold(table, inside))
        return cls(whole, folds, targets, running)

    @property
    def weights(self) -> list[float]:
        """Sums of the weights of the rows of each fold."""
        return [fold.held_out.n_data for fold in self.folds]

    @property
    def n_distinct(self) -> int:
        """Number of different inputs."""
        return len(np.unique(row_keys(self.whole.X)))

    def untrained(self, recipe: Recipe, rng: np.random.RandomState) -> Search:
        """The score of held-out rows by models that have not been trained, as of a search.

        The source of chance stays as it is.
        """
        rng = copy.deepcopy(rng)
        models = (self.first_model(recipe, fold.table, rng) for fold in self.folds)
        try:
            return self.scored(recipe, models)
        except NotPositiveDefiniteError:
            return NO_SEARCH

    def scored(self, recipe: Recipe, models: Iterable[Model]) -> Search:
        """The score of held-out rows by one model of each fold, as of a search."""
        scores, coverage, of_rows, fitted_models = [], NO_TARGETS, [NO_ROWS], []
        done = replace(recipe, conditioned=as_trained)  # once for all scores
        for fold, model in zip(self.folds, models, strict=True):
            fitted = recipe.conditioned(model, fold.table)
            scores.append(fold.score(done, fitted))
            if not math.isfinite(scores[-1]):
                return NO_SEARCH
            coverage = coverage.plus(fold.coverage(fitted))
            of_rows.append(fold.scores_of_rows(done, fitted))
            fitted_models.append(fitted)
        if not scores:  # too few distinct rows
            return NO_SEARCH
        score = float(np.average(scores, weights=self.weights))
        return Search([score], 1, coverage, np.hstack(of_rows), fitted_models)

    def first_models(self, recipe: Recipe, rng: np.random.RandomState) -> list[Model]:
        """Initial models of all rows, one per restart."""
        return first_models(recipe, self.whole, self.targets, self.running, rng)

    def first_model(self, recipe: Recipe, table: Table, rng: np.random.RandomState) -> Model:
        """The initial model of a table, whatever the number of restarts."""
        once = replace(self.running, n_restarts=1)
        return first_models(recipe, table, self.targets, once, rng)[0]
