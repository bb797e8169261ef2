"""The exact GP (Rasmussen and Williams, 2006, Eqns 2.25, 2.26 and 2.30)."""

import numpy as np
import numpy.typing as npt
from scipy.stats import multivariate_normal

Array = npt.NDArray[np.float64]


def posterior(Kxx: Array, Kxs: Array, kss: Array, y: Array, noise: float) -> tuple[Array, Array]:
    """Mean k^T (K + s2 I)^-1 y and variance kss - k^T (K + s2 I)^-1 k at each test point."""
    inverse = np.linalg.inv(Kxx + noise * np.eye(len(y)))
    mean, variance = np.empty((2, len(kss)))
    for j in range(len(kss)):
        k = Kxs[:, j]
        mean[j] = k @ inverse @ y
        variance[j] = kss[j] - k @ inverse @ k
    return mean, variance


def log_marginal_likelihood(Kxx: Array, y: Array, noise: float) -> float:
    """log N(y; 0, K + s2 I)."""
    return float(multivariate_normal(np.zeros(len(y)), Kxx + noise * np.eye(len(y))).logpdf(y))
