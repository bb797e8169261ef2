"""Rows in units of the model: what a density in them is worth in the user's."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from skgp import SVGPRegressor
from skgp.fitting import table as table_module
from skgp.fitting.rows import Rows
from skgp.fitting.table import Scale, Table, shuffled_blocks


@pytest.mark.parametrize("weighted", [False, True])
def test_mean_log_unit_counts_what_is_observed(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(8, 2)), rng.normal(size=(8, 2)) * [10.0, 0.1]
    Y[:3, 0], Y[5, 1] = np.nan, np.nan
    weight = rng.uniform(0.2, 3.0, 8) if weighted else None
    scales = Scale(X, None, True), Scale(Y, None, True)
    table = Table(Rows(X, Y, weight), *scales, torch.zeros((), dtype=torch.float64))
    total = sum_of_weights = 0.0
    for i in range(8):
        w = 1.0 if weight is None else weight[i]
        sum_of_weights += w
        for p in range(2):
            if not np.isnan(Y[i, p]):
                total += w * np.log(scales[1].unit[p])
    assert table.mean_log_unit == pytest.approx(total / sum_of_weights, rel=1e-12)


def test_validation_scores_of_weighted_rows_with_missing_outputs() -> None:
    """The weighted mean of the log densities of what is observed, in the units of y."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    Y = np.column_stack([100.0 * np.sin(X[:, 0]), 0.01 * X[:, 1]]) + rng.normal(size=(60, 2))
    held_out, weight = Y[40:].copy(), rng.uniform(0.2, 3.0, 20)
    held_out[:8, 0] = np.nan
    model = SVGPRegressor(n_inducing=10, max_iter=2, random_state=0, dtype="float64")
    model.fit(X[:40], Y[:40], X_val=X[40:], y_val=held_out, sample_weight_val=weight)
    dist = model.predict_dist(X[40:])
    mean, cov = dist.mean(), dist.cov()
    expected = 0.0
    for i in range(20):
        seen = np.flatnonzero(~np.isnan(held_out[i]))
        residual, C = held_out[i, seen] - mean[i, seen], cov[i][np.ix_(seen, seen)]
        quadratic = residual @ np.linalg.solve(C, residual)
        log_density = -0.5 * (quadratic + np.linalg.slogdet(2.0 * np.pi * C)[1])
        expected += weight[i] * log_density / weight.sum()
    assert model.validation_scores_[-1] == pytest.approx(expected, rel=1e-8)


def columns() -> tuple[np.ndarray, np.ndarray]:
    """Plain, of a large mean, constant, seen late, tiny, huge, and rising in steps; weights."""
    rng = np.random.default_rng(0)
    n = 1050
    X = rng.normal(size=(n, 7)) * [1.0, 1e-3, 0.0, 1.0, 1e-200, 1e200, 0.0]
    X[:, 1:3] += [1e4, 0.1]
    X[:430, 3] = np.nan
    X[::7, 0] = np.nan
    X[:, 6] = np.arange(n) // 100
    return X, rng.uniform(0.1, 5.0, n)


@pytest.mark.parametrize("weighted", [False, True])
def test_scales_from_parts_are_those_of_the_whole(weighted: bool, monkeypatch: Any) -> None:
    """A part may have observed nothing of a column, or only one of its values."""
    X, weight = columns()
    whole = Scale(X, weight if weighted else None, True)
    monkeypatch.setattr(table_module, "_CHUNK", 100)
    parts = Scale(X, weight if weighted else None, True)
    assert (parts.unit != whole.unit).any()  # the last bits differ, so there were parts
    np.testing.assert_allclose(parts.unit, whole.unit, rtol=1e-9)
    np.testing.assert_allclose(parts.offset, whole.offset, rtol=1e-12, atol=1e-12)


def test_scales_from_parts_are_those_of_a_standard_scaler(monkeypatch: Any) -> None:
    X = np.random.default_rng(0).normal(3.0, 2.0, size=(1050, 4)).astype(np.float32)
    monkeypatch.setattr(table_module, "_CHUNK", 100)
    parts, scaler = Scale(X, None, True), StandardScaler().fit(X.astype(np.float64))
    np.testing.assert_allclose(parts.unit, scaler.scale_, rtol=1e-9)
    np.testing.assert_allclose(parts.offset, scaler.mean_, rtol=1e-9)


def test_rows_of_a_large_file_come_from_groups_of_blocks(monkeypatch: Any) -> None:
    monkeypatch.setattr(table_module, "_BLOCK", 8)
    monkeypatch.setattr(table_module, "_GROUP", 4)
    generator = torch.Generator().manual_seed(0)
    n = 1001
    order = shuffled_blocks(n, generator)
    assert sorted(order.tolist()) == list(range(n))
    groups = order.split(32)  # the short block is in one of them
    assert all(len(set((group // 8).tolist())) <= 8 for group in groups)
    assert any((group.diff().abs() > 100).any() for group in groups)
    inside = torch.cat([group[:8] // 8 for group in groups[:5]])
    assert len(set(inside.tolist())) > 5  # blocks are mixed within a group
    assert not torch.equal(order, shuffled_blocks(n, generator))


@pytest.mark.parametrize("n", [1000, 100_000])
def test_a_large_offset_does_not_make_a_column_constant(n: int) -> None:
    """Times in nanoseconds, and targets that vary in the thirteenth digit: however many rows."""
    values = np.random.default_rng(0).standard_normal((n, 1))
    for offset, deviation in [(1.7e18, 5.8e6), (1e9, 0.003)]:
        scale = Scale(offset + deviation * values, None, True)
        np.testing.assert_allclose(scale.unit, deviation * values.std(), rtol=1e-3)
        np.testing.assert_allclose(scale.offset - offset, deviation * values.mean(), atol=deviation)


def test_two_neighbouring_numbers_are_a_constant() -> None:
    values = np.array([[0.1 + 0.2], [0.3]] * 50)
    assert Scale(values, None, True).unit == 0.1 + 0.2
