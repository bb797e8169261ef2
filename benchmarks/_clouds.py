"""Three classes that overlap: what a row says of its label is a probability."""

import numpy as np

from benchmarks._protocol import Split

_N_TRAIN, _N_TEST = 560, 2000


def make_split(split: int) -> Split:
    """560 rows to train, 2,000 to test: unit normal clouds around the corners of a triangle."""
    rng = np.random.default_rng(split)
    labels = rng.integers(3, size=_N_TRAIN + _N_TEST)
    angle = 2.0 * np.pi * labels / 3.0
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + rng.standard_normal((len(labels), 2))
    train, test = slice(_N_TRAIN), slice(_N_TRAIN, None)
    return Split((X[train], labels[train]), (X[test], labels[test]), (X[:0], labels[:0]))
