"""How far shares of a sample stray from their probabilities."""

import numpy as np
from scipy.stats import binom

from skgp._typing import FloatArray
from skgp.plotting._display import percent


def share_band(probability: float | FloatArray, n_rows: int, level: float) -> FloatArray:
    """Ends of the interval that holds the share of hits among `n_rows` with probability `level`.

    Parameters
    ----------
    probability : float or ndarray
        Of a hit in one row. The number of hits is binomial.
    n_rows : int
    level : float
        In (0, 1).

    Returns
    -------
    ndarray of shape (2, ...)
        Lower and upper ends.

    Raises
    ------
    ValueError
        If `level` is out of its range.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"band_level must lie between 0 and 1, got {level}.")
    low, high = binom.interval(level, n_rows, probability)
    return np.array([low, high]) / n_rows


def band_label(level: float, n_rows: int) -> str:
    """What the legend calls the band."""
    return f"{percent(level)} band, n = {n_rows:,}"
