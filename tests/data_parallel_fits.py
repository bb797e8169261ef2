"""Fits by one process and by two."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from skgp import DGPRegressor, DSPPRegressor, PPGPRRegressor, SVGPRegressor

Array = npt.NDArray[np.float64]


class Fit(NamedTuple):
    """A number of rows, and what makes the estimator."""

    n: int
    make: Callable[..., Any]


_WHOLE: Final = {"max_iter": 20, "early_stopping": False, "dtype": "float64", "n_inducing": 15}

# The first ones see all rows in a step. The last ones find their epochs in batches of both.
FITS: Final = {
    "svgp": Fit(90, partial(SVGPRegressor, covariance="diagonal", random_state=0, **_WHOLE)),
    "ppgpr": Fit(90, partial(PPGPRRegressor, covariance="full", random_state=1, **_WHOLE)),
    "dspp": Fit(90, partial(DSPPRegressor, width=2, random_state=2, **_WHOLE)),
    "batches": Fit(
        300, partial(DSPPRegressor, n_inducing=10, batch_size=100, max_iter=8, random_state=0)
    ),
    "sampled": Fit(
        300, partial(DGPRegressor, n_inducing=10, batch_size=100, max_iter=3, random_state=0)
    ),
}


def problem(n: int) -> tuple[Array, Array, Array]:
    """Inputs in several units, one of them constant for some processes; targets; weights."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=n), 100.0 * rng.normal(size=n), np.arange(n) >= n // 2])
    y = 5.0 + np.sin(X[:, 0]) + X[:, 2] + 0.1 * rng.normal(size=n)
    return X, y, rng.uniform(0.5, 2.0, size=n)
