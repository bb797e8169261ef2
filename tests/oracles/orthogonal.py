"""OD-SVGP by dense algebra in the unwhitened variables, one point at a time."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from oracles.sparse import CovarianceFunction, kl_normal

Array = npt.NDArray[np.float64]


class OrthogonalBases(NamedTuple):
    """f_mean from weights a of gamma and from q(u) = N(m, S), u = f(beta); prior mean c.

    `jitter` is what is added to the diagonal of K_bb, `jitter_rest` what is added to that of the
    bracket K_gg - K_gb K_bb^-1 K_bg.
    """

    k: CovarianceFunction
    c: float
    beta: Array
    gamma: Array
    a: Array
    m: Array
    S: Array
    jitter: float
    jitter_rest: float


def prior_covariance(gp: OrthogonalBases) -> Array:
    """K_bb with its jitter."""
    return gp.k(gp.beta, gp.beta) + gp.jitter * np.eye(len(gp.beta))


def bracket(gp: OrthogonalBases) -> Array:
    """K_gg - K_gb K_bb^-1 K_bg with its jitter."""
    Kbg = gp.k(gp.beta, gp.gamma)
    rest = gp.k(gp.gamma, gp.gamma) - Kbg.T @ np.linalg.inv(prior_covariance(gp)) @ Kbg
    return rest + gp.jitter_rest * np.eye(len(gp.gamma))


def moments(gp: OrthogonalBases, X: Array) -> tuple[Array, Array, Array]:
    """Mean, unexplained variance and variance that comes from S at each row.

    f_mean = c + (k_xg - k_xb K_bb^-1 K_bg) a + k_xb K_bb^-1 (m - c)
    v_prior = kff - k_xb K_bb^-1 k_bx and v_q = k_xb K_bb^-1 S K_bb^-1 k_bx
    """
    inverse = np.linalg.inv(prior_covariance(gp))
    Kbg = gp.k(gp.beta, gp.gamma)
    f_mean, v_prior, v_q = np.empty((3, len(X)))
    for n in range(len(X)):
        x = X[n : n + 1]
        kb, kg = gp.k(gp.beta, x)[:, 0], gp.k(gp.gamma, x)[:, 0]
        f_mean[n] = gp.c + (kg - kb @ inverse @ Kbg) @ gp.a + kb @ inverse @ (gp.m - gp.c)
        v_prior[n] = gp.k(x, x)[0, 0] - kb @ inverse @ kb
        v_q[n] = kb @ inverse @ gp.S @ inverse @ kb
    return f_mean, v_prior, v_q


def kl(gp: OrthogonalBases) -> float:
    """a^T (K_gg - K_gb K_bb^-1 K_bg) a / 2 + KL(N(m, S) || N(c, K_bb))."""
    further = 0.5 * float(gp.a @ bracket(gp) @ gp.a)
    return further + kl_normal(gp.m, gp.S, np.full(len(gp.m), gp.c), prior_covariance(gp))
