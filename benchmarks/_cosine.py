"""The made-up table of the neural likelihoods paper (section 5.1)."""

import numpy as np

from benchmarks._protocol import Split

_N_INPUTS, _N_OUTPUTS, _N_ROWS, _NOISE_STD = 5, 8, 1000, 0.1


def make_split(split: int) -> Split:
    """1,000 rows to train and 1,000 to test: y_k = cos(4 |x|) + 0.1 e_k, x in the unit ball."""
    rng = np.random.default_rng(split)
    directions = rng.standard_normal((2 * _N_ROWS, _N_INPUTS))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    radius = rng.uniform(size=(2 * _N_ROWS, 1)) ** (1.0 / _N_INPUTS)
    noise = _NOISE_STD * rng.standard_normal((2 * _N_ROWS, _N_OUTPUTS))
    X, Y = radius * directions, np.cos(4.0 * radius) + noise
    train, test = slice(_N_ROWS), slice(_N_ROWS, None)
    return Split((X[train], Y[train]), (X[test], Y[test]), (X[:0], Y[:0]))
