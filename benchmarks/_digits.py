"""scikit-learn's digits in random halves."""

import numpy as np
from sklearn.datasets import load_digits

from benchmarks._protocol import Split


def make_split(split: int) -> Split:
    """Training rows are the first half of a permutation, seeded by the number of the split."""
    X, y = load_digits(return_X_y=True)
    train, test = np.array_split(np.random.default_rng(split).permutation(len(X)), 2)
    return Split((X[train], y[train]), (X[test], y[test]), (X[:0], y[:0]))
