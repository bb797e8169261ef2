"""Rows that a fit holds out for itself."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import RandomState
from sklearn.model_selection import ShuffleSplit

from skgp.core.subsample import row_keys
from skgp.fitting import splits
from skgp.fitting.rows import Rows
from skgp.fitting.splits import split_by_class, split_rows

Split = Callable[[Rows, float, RandomState], tuple[Rows, Rows]]


def halves(X, y, share, seed):
    return split_rows(Rows(X, y, None), share, np.random.RandomState(seed))


@pytest.mark.parametrize("seed", range(5))
def test_copies_of_a_row_are_on_one_side(seed: int) -> None:
    """Each row and all of its copies once, and the share of the distinct rows held out."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    all_rows = np.r_[np.arange(60), rng.integers(0, 60, size=50)]
    parts = halves(X[all_rows], y[all_rows], 0.25, seed)
    numbers = [np.searchsorted(np.sort(y), part.y) for part in parts]
    expected = np.sort(np.argsort(np.argsort(y))[all_rows])
    np.testing.assert_array_equal(np.sort(np.concatenate(numbers)), expected)
    assert not set(numbers[0]) & set(numbers[1])
    assert len(set(numbers[1])) == 15


def test_equal_inputs_with_other_targets_are_no_copies() -> None:
    X = np.repeat(np.arange(20.0), 2)[:, None]
    train, held_out = halves(X, np.arange(40.0), 0.5, 0)
    assert set(train.X[:, 0]) & set(held_out.X[:, 0])
    assert len(held_out.y) == 20


def test_rows_of_few_kinds_are_no_copies() -> None:
    """A discrete data set of ten kinds, of which all are on both sides."""
    y = np.arange(400.0) % 10
    for part in halves(y[:, None], y, 0.25, 0):
        assert set(part.y) == set(range(10))
    assert len(part.y) == 100


def test_distinct_rows_are_split_at_random() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.normal(size=(50, 2))
    by_content = np.argsort(row_keys(X, y))
    expected = next(ShuffleSplit(1, test_size=0.3, random_state=7).split(X))
    for part, index in zip(halves(X, y, 0.3, 7), expected, strict=True):
        np.testing.assert_array_equal(part.X, X[by_content[index]])
        np.testing.assert_array_equal(part.y, y[by_content[index]])


@pytest.mark.parametrize("split", [split_rows, split_by_class])
@pytest.mark.parametrize("times", [1, 4])
def test_a_split_does_not_depend_on_the_order_of_the_rows(split: Split, times: int) -> None:
    """Neither of distinct rows nor of copies, nor of repeated measurements with weights."""
    rng = np.random.default_rng(0)
    distinct, few = rng.normal(size=(40, 2)), rng.integers(0, 2, size=(40, 2)).astype(float)
    y = (rng.random(40 * times) < 0.4).astype(float)
    weight = rng.integers(1, 4, size=40 * times).astype(float)
    for X in (np.repeat(distinct, times, axis=0), np.repeat(few, times, axis=0)):
        columns = []
        for order in (np.arange(len(y)), rng.permutation(len(y))):
            rows = Rows(X[order], y[order], weight[order])
            parts = split(rows, 0.25, np.random.RandomState(3))
            columns.append([np.column_stack([p.X, p.y, p.weight]) for p in parts])
        for part, other in zip(*columns, strict=True):
            assert sorted(part.tolist()) == sorted(other.tolist())


@pytest.mark.parametrize("times", [2, 5])
def test_copies_of_a_row_are_on_one_side_of_a_split_by_class(times: int) -> None:
    """Of a rare class as often: each class keeps its share of the distinct rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 2)), np.repeat([0.0, 1.0], [60, 20])
    copies = np.repeat(np.arange(80), np.where(y == 1.0, 3 * times, times))
    train, held_out = split_by_class(Rows(X[copies], y[copies], None), 0.2, RandomState(0))
    sides = [{tuple(x) for x in part.X.tolist()} for part in (train, held_out)]
    assert not sides[0] & sides[1]
    assert len(train.y) + len(held_out.y) == len(copies)
    counts = np.bincount(held_out.y.astype(int))
    assert abs(counts[0] - 12 * times) <= times
    assert abs(counts[1] - 12 * times) <= 3 * times


@pytest.mark.parametrize("times", [2, 3, 5])
def test_copies_are_on_one_side_however_many_there_are(times: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    train, held_out = halves(np.repeat(X, times, axis=0), np.repeat(y, times), 0.2, 0)
    assert not set(train.y) & set(held_out.y)
    assert len(held_out.y) == 12 * times


@pytest.mark.parametrize("split", [split_rows, split_by_class])
@pytest.mark.parametrize("seed", range(3))
def test_a_very_frequent_row_is_on_both_sides(split: Split, seed: int) -> None:
    """400 rows of one kind beside 400 kinds of two: as a whole it would be most of one side."""
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(401, 2)), [400, *[2] * 400], axis=0)
    y = np.repeat(rng.integers(2, size=401), [400, *[2] * 400]).astype(float)
    weight = rng.integers(1, 4, size=len(y)).astype(float)
    parts = []
    for order in (np.arange(len(y)), rng.permutation(len(y))):
        rows = Rows(X[order], y[order], weight[order])
        train, held_out = split(rows, 0.2, RandomState(seed))
        frequent = [(part.X == X[0]).all(axis=1).sum() for part in (train, held_out)]
        assert sum(frequent) == 400
        assert 50 < frequent[1] < 110  # of 160 kinds, half of them single rows
        others = [{*map(tuple, part.X.tolist())} - {tuple(X[0])} for part in (train, held_out)]
        assert not others[0] & others[1]
        parts.append(sorted(np.column_stack([held_out.X, held_out.weight]).tolist()))
    assert parts[0] == parts[1]


def test_kinds_are_those_of_their_first_rows() -> None:
    """Beside rows of two frequent kinds, which are kinds of their own."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(402, 2)), [300, 300, *[2] * 400], axis=0)
    first, number = splits._distinct(Rows(X, X[:, 0], None))
    np.testing.assert_array_equal(np.unique(number), np.arange(1000))
    np.testing.assert_array_equal(X[first[number]], X)
    np.testing.assert_array_equal(number[first], np.arange(1000))


def test_rows_that_are_all_as_frequent_are_copies() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    train, held_out = halves(np.repeat(X, 50, axis=0), np.repeat(y, 50), 0.2, 0)
    assert not set(train.y) & set(held_out.y)


def test_repeated_measurements_are_no_copies() -> None:
    """Five inputs, each with many of fifty targets: a discrete data set of 250 kinds of rows."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(5, size=(5000, 1)).astype(float), rng.integers(50, size=5000).astype(float)
    train, held_out = halves(X, y, 0.1, 0)
    assert len(held_out.y) == 500
    assert {*zip(train.X[:, 0], train.y, strict=True)} & {
        *zip(held_out.X[:, 0], held_out.y, strict=True)
    }
