"""A choice of rows that stands for all: probabilities, weights, groups, independence of order."""

import numpy as np
import pytest

from skgp.core.subsample import row_keys, subsample


def one_group(n: int) -> np.ndarray:
    return np.ones((n, 1), dtype=bool)


def keys_of(n: int) -> np.ndarray:
    return row_keys(np.arange(float(n))[:, None])


def test_a_short_table_is_kept_without_its_rows_of_weight_zero() -> None:
    weight = np.array([1.0, 0.0, 2.5, 3.0])
    index, kept = subsample(weight, one_group(4), keys_of(4), 3, 0)
    assert index.tolist() == [0, 2, 3]
    assert kept.tolist() == [1.0, 2.5, 3.0]


def test_inclusion_follows_the_weights_and_sums_are_unbiased() -> None:
    """Over 4,000 seeds: shares and an estimated sum, within 4 standard errors."""
    rng = np.random.default_rng(0)
    weight = np.r_[rng.uniform(0.1, 1.0, 38), 40.0, 15.0]
    values = rng.normal(size=40)
    # The two large weights are certain: t = (sum of the others) / (10 - 2).
    threshold = weight[:38].sum() / 8.0
    expected = np.minimum(1.0, weight / threshold)
    assert expected.sum() == pytest.approx(10.0, rel=1e-12)
    draws, sums = np.zeros((4000, 40)), np.zeros(4000)
    for seed in range(4000):
        index, kept = subsample(weight, one_group(40), keys_of(40), 10, seed)
        assert 9 <= len(index) <= 11
        assert (np.diff(index) > 0).all()
        np.testing.assert_allclose(kept, np.maximum(weight[index], threshold), rtol=1e-12)
        draws[seed, index] = 1.0
        sums[seed] = kept @ values[index]
    share, error = draws.mean(0), np.sqrt(expected * (1.0 - expected) / 4000)
    np.testing.assert_array_less(np.abs(share - expected), 4.0 * error + 1e-12)
    assert abs(sums.mean() - weight @ values) < 4.0 * sums.std() / np.sqrt(4000)


def test_a_rare_group_keeps_rows_and_equal_weights_share_out_the_rest() -> None:
    """Of 3 rows among 10,000 a draw of 100 holds none as a rule."""
    groups = np.zeros((10_000, 2), dtype=bool)
    groups[:, 0] = True
    groups[[5, 17, 9000], 1] = True
    for seed in range(20):
        index, weight = subsample(np.ones(10_000), groups, keys_of(10_000), 100, seed)
        assert {5, 17, 9000} <= set(index)
        rare = np.isin(index, [5, 17, 9000])
        assert weight[rare].tolist() == [1.0] * 3
        np.testing.assert_allclose(weight[~rare], 100.0, rtol=1e-12)
        assert 98 <= len(index) <= 104


def test_many_groups_together_keep_no_more_than_half_the_size() -> None:
    groups = np.eye(1000, dtype=bool).repeat(5, axis=0)  # 1,000 groups of 5 rows
    index, _ = subsample(np.ones(5000), groups, keys_of(5000), 2000, 0)
    assert set(index // 5) == set(range(1000))  # a row of each
    assert len(index) < 3100


def test_the_choice_does_not_depend_on_the_order_of_the_table() -> None:
    rng = np.random.default_rng(1)
    X, y, weight = rng.normal(size=(500, 3)), rng.normal(size=(500, 1)), rng.uniform(size=500)
    chosen = []
    for order in (np.arange(500), np.argsort(X[:, 0]), rng.permutation(500)):
        keys = row_keys(X[order], y[order])
        index, kept = subsample(weight[order], one_group(500), keys, 60, 7)
        rows = order[index]
        chosen.append((rows[np.argsort(rows)], kept[np.argsort(rows)]))
    for rows, kept in chosen[1:]:
        np.testing.assert_array_equal(rows, chosen[0][0])
        np.testing.assert_allclose(kept, chosen[0][1], rtol=1e-12)
    assert len(set(map(tuple, (subsample(weight, one_group(500), keys_of(500), 60, seed)[0]
                               for seed in range(5))))) == 5  # fmt: skip


def test_keys_see_every_column_and_no_pattern() -> None:
    """All differ, each bit is set in half of them, and the type of the numbers is no matter."""
    X = np.column_stack([np.arange(20_000) % 141, np.arange(20_000) // 141]).astype(float)
    keys = row_keys(X)
    assert len(np.unique(keys)) == 20_000
    bits = (keys[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert (np.abs(bits.mean(0) - 0.5) < 5 * 0.5 / np.sqrt(20_000)).all()
    np.testing.assert_array_equal(row_keys(X.astype(np.float32)), keys)
    np.testing.assert_array_equal(row_keys(X[:, :1], X[:, 1:]), keys)
    assert row_keys(np.array([[0.0]])) == row_keys(np.array([[-0.0]]))
    swapped = row_keys(X[:, ::-1])
    assert (swapped != keys)[X[:, 0] != X[:, 1]].all()
    # Neighbours in the table are no neighbours in the order of the keys.
    order = np.argsort(keys)
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.05
