"""Folds: every row once, equal rows together, no group lost."""

import numpy as np
import pytest

from skgp.core.folds import fold_numbers
from skgp.core.subsample import row_keys


def folds_of(table: np.ndarray, groups: np.ndarray, n_folds: int) -> np.ndarray:
    return fold_numbers(row_keys(table), groups, n_folds)


@pytest.fixture
def table(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(103, 2))


def test_folds_are_equally_large_whatever_the_order_of_rows(table, rng) -> None:
    groups = np.ones((len(table), 1), dtype=bool)
    folds = folds_of(table, groups, 5)
    assert sorted(np.bincount(folds)) == [20, 20, 21, 21, 21]
    order = rng.permutation(len(table))
    np.testing.assert_array_equal(folds_of(table[order], groups, 5), folds[order])
    # A row's place in the table says nothing about its fold.
    counts = np.bincount(folds[: len(table) // 2], minlength=5)
    assert counts.min() >= 4


def test_equal_rows_share_a_fold(table) -> None:
    groups = np.ones((len(table), 1), dtype=bool)
    twice = np.repeat(table, 3, axis=0)
    folds = folds_of(twice, np.repeat(groups, 3, axis=0), 4)
    np.testing.assert_array_equal(folds, np.repeat(folds_of(table, groups, 4), 3))


def test_groups_have_equal_shares_of_all_folds(table) -> None:
    labels = np.repeat([0, 1, 2], [10, 83, 10])
    folds = folds_of(table, labels[:, None] == np.arange(3), 5)
    for label in (0, 2):
        np.testing.assert_array_equal(np.bincount(folds[labels == label], minlength=5), 2)


def test_a_group_that_would_be_missing_is_never_held_out(table) -> None:
    observed = np.ones((len(table), 3), dtype=bool)
    observed[:, 1] = False
    observed[[7, 20], 1] = True  # one distinct row
    table[20] = table[7]
    observed[5:, 2] = False
    folds = folds_of(table, observed, 4)
    assert list(np.flatnonzero(folds == -1)) == [7, 20]
    for fold in range(4):
        assert observed[folds != fold].any(axis=0).all()
