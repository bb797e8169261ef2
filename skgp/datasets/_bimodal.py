"""Two branches: a data set whose conditional density is known."""

from numbers import Integral

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_array

from skgp._typing import FloatArray, RandomState
from skgp._validation import random_generator
from skgp.distributions import NormalMixture

_WEIGHTS = (0.7, 0.3)
_STD = (0.1, 0.2)


def make_bimodal(
    n_samples: int = 1000, *, random_state: RandomState = None
) -> tuple[FloatArray, FloatArray]:
    """One input, and an outcome on one of two branches that no input tells.

    The input x is uniform on [-2, 2]. With probability 0.7 the outcome is (x + 1) / 2 plus normal
    noise of standard deviation 0.1, otherwise -(x + 1) / 2 plus one of 0.2. The branches cross at
    x = -1 and are farthest apart at x = 2.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    random_state : int, Generator, RandomState or None, default=None
        Source of randomness; None draws afresh at every call.

    Returns
    -------
    X : ndarray of shape (n_samples, 1)
    y : ndarray of shape (n_samples,)

    Raises
    ------
    TypeError
        If `n_samples` is no integer.
    ValueError
        If it is negative.

    See Also
    --------
    bimodal_distribution : What y is drawn from, the best that a model can predict.

    Examples
    --------
    >>> from skgp.datasets import bimodal_distribution, make_bimodal
    >>> from skgp.scoring import nll
    >>> X, y = make_bimodal(5000, random_state=0)
    >>> X.shape, y.shape
    ((5000, 1), (5000,))
    >>> abs(nll(y, bimodal_distribution(X)) + 0.156) < 0.05  # no model does better on average
    True
    """
    check_scalar(n_samples, "n_samples", Integral, min_val=0)
    rng = random_generator(random_state)
    X = rng.uniform(-2.0, 2.0, (n_samples, 1))
    return X, _distribution(X).rvs(1, rng)[:, 0]


def bimodal_distribution(X: npt.ArrayLike) -> NormalMixture:
    """Distribution of y given X that :func:`make_bimodal` draws from.

    Parameters
    ----------
    X : array-like of shape (n, 1)

    Returns
    -------
    NormalMixture of n rows
        Of two components: the heavy branch, then the light one.

    Raises
    ------
    ValueError
        If X has another shape, or a value that is not finite.

    Examples
    --------
    >>> from skgp.datasets import bimodal_distribution
    >>> bimodal_distribution([[1.0]]).components().mean
    array([[ 1., -1.]])
    """
    table = check_array(X, dtype=np.float64, input_name="X")
    if table.shape[1] != 1:
        raise ValueError(f"X has {table.shape[1]} columns, expected 1.")
    return _distribution(table)


def _distribution(table: FloatArray) -> NormalMixture:
    # p(y | x) = 0.7 N(y; (x + 1) / 2, 0.1^2) + 0.3 N(y; -(x + 1) / 2, 0.2^2)
    branch = 0.5 * (table + 1.0)
    return NormalMixture(np.log(_WEIGHTS), branch * [1.0, -1.0], [_STD])
