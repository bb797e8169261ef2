"""Rows in units of the model: what a density in them is worth in the user's."""

import numpy as np
import pytest
import torch

from skgp import SVGPRegressor
from skgp.fitting.table import Scale, Table


@pytest.mark.parametrize("weighted", [False, True])
def test_mean_log_unit_counts_what_is_observed(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(8, 2)), rng.normal(size=(8, 2)) * [10.0, 0.1]
    Y[:3, 0], Y[5, 1] = np.nan, np.nan
    weight = rng.uniform(0.2, 3.0, 8) if weighted else None
    scales = Scale(X, None, True), Scale(Y, None, True)
    table = Table(X, Y, weight, *scales, torch.zeros((), dtype=torch.float64))
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
