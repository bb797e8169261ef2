"""FITC by dense algebra, one n x n matrix for one GP."""

import numpy as np
import numpy.typing as npt
from scipy.stats import multivariate_normal

Array = npt.NDArray[np.float64]


def prior_covariance(Kuu: Array, Kuf: Array, kff: Array) -> Array:
    """Qff + diag(Kff - Qff) with Qff = Kfu Kuu^-1 Kuf."""
    Q = Kuf.T @ np.linalg.solve(Kuu, Kuf)
    return Q + np.diag(kff - np.diag(Q))


def log_marginal_likelihood(
    Kuu: Array, Kuf: Array, kff: Array, mean: float, y: Array, noise: float
) -> float:
    """log N(y; mean, Qff + diag(Kff - Qff) + s2 I)."""
    cov = prior_covariance(Kuu, Kuf, kff) + noise * np.eye(len(y))
    return float(multivariate_normal(np.full(len(y), mean), cov).logpdf(y))


def posterior(
    Kuu: Array,
    Kuf: Array,
    kff: Array,
    Kus: Array,
    kss: Array,
    mean: float,
    y: Array,
    noise: float,
) -> tuple[Array, Array]:
    """Mean and variance of f at test points, whose covariance with the rows is Qsf."""
    cov = prior_covariance(Kuu, Kuf, kff) + noise * np.eye(len(y))
    Qsf = Kus.T @ np.linalg.solve(Kuu, Kuf)
    f_mean = mean + Qsf @ np.linalg.solve(cov, y - mean)
    f_var = kss - np.diag(Qsf @ np.linalg.solve(cov, Qsf.T))
    return f_mean, f_var
