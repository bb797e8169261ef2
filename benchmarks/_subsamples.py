"""Random rows of a data set, in place of rows of a known function."""

from pathlib import Path

import numpy as np

from benchmarks._known_functions import Make, Rows


def subsample(path: Path) -> Make:
    """Rows without replacement of `X` and `y`, or of the first column of `Y`, in an `.npz` file."""
    arrays = np.load(path)
    X = arrays["X"].astype(float)
    y = (arrays["y"] if "y" in arrays else arrays["Y"][:, 0]).astype(float)

    def rows(rng: np.random.Generator, n: int) -> Rows:
        chosen = rng.permutation(len(X))[:n]
        return X[chosen], y[chosen]

    return rows
