"""Tiny deep regressors and a table for them."""

import numpy as np

from skgp import DGPRegressor, DSPPRegressor

SMALL = {"n_inducing": 8, "max_iter": 6, "early_stopping": False, "random_state": 0}
DGP = {**SMALL, "width": 2, "n_samples": 3, "n_prediction_samples": 5}
DSPP = {**SMALL, "width": 2, "n_sites": 3, "quadrature": "qr3", "hidden_mean": "linear"}


def make_table(rng):
    """Inputs and targets far from the origin and from unit variance, and new rows."""
    unit = rng.uniform(-1.0, 1.0, (50, 3))
    X = 10.0 + unit * [1.0, 5.0, 20.0]
    f = np.sin(3.0 * unit[:, 0]) + unit[:, 1]
    Y = np.column_stack([100.0 + 8.0 * f, -3.0 - 0.1 * f + 0.05 * unit[:, 2]])
    Y += rng.standard_normal((50, 2)) * [1.0, 0.02]
    return X[:40], Y[:40], X[40:], Y[40:]


def both_families(**overrides):
    return [DGPRegressor(**{**DGP, **overrides}), DSPPRegressor(**{**DSPP, **overrides})]
