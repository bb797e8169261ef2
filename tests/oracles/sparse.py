"""Sparse GPs by dense algebra in the unwhitened inducing variables u, one point at a time."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
CovarianceFunction = Callable[[Array, Array], Array]


class DenseGP(NamedTuple):
    """One GP f ~ GP(c, k) with q(u) = N(m, S), u = f(Z), and u ~ N(c, k(Z, Z) + jitter I)."""

    k: CovarianceFunction
    c: float
    Z: Array
    m: Array
    S: Array
    jitter: float


class Moments(NamedTuple):
    f_mean: Array
    v_prior: Array
    v_q: Array


def prior_covariance(gp: DenseGP) -> Array:
    """K = k(Z, Z) + jitter I."""
    return gp.k(gp.Z, gp.Z) + gp.jitter * np.eye(len(gp.Z))


def moments(gp: DenseGP, X: Array) -> Moments:
    """f_mean = c + k^T K^-1 (m - c), v_prior = kff - k^T K^-1 k, v_q = k^T K^-1 S K^-1 k."""
    K_inv = np.linalg.inv(prior_covariance(gp))
    f_mean, v_prior, v_q = np.empty((3, len(X)))
    for n in range(len(X)):
        x = X[n : n + 1]
        k = gp.k(gp.Z, x)[:, 0]
        f_mean[n] = gp.c + k @ K_inv @ (gp.m - gp.c)
        v_prior[n] = gp.k(x, x)[0, 0] - k @ K_inv @ k
        v_q[n] = k @ K_inv @ gp.S @ K_inv @ k
    return Moments(f_mean, v_prior, v_q)


def posterior_covariance(gp: DenseGP, X: Array) -> Array:
    """k(X, X) + k^T K^-1 (S - K) K^-1 k over all rows."""
    K = prior_covariance(gp)
    weights = np.linalg.inv(K) @ gp.k(gp.Z, X)
    return gp.k(X, X) + weights.T @ (gp.S - K) @ weights


def layer_moments(gps: Sequence[DenseGP], X: Array) -> Moments:
    """Moments of W GPs at X (N, D), each (N, W)."""
    columns = [moments(gp, X) for gp in gps]
    return Moments(*(np.stack(parts, -1) for parts in zip(*columns, strict=True)))


def kl_normal(m: Array, S: Array, m0: Array, S0: Array) -> float:
    """KL(N(m, S) || N(m0, S0)) = 1/2 (tr S0^-1 S + d^T S0^-1 d - M + log|S0| - log|S|)."""
    inverse = np.linalg.inv(S0)
    d = m0 - m
    log_det = np.linalg.slogdet(S0)[1] - np.linalg.slogdet(S)[1]
    return 0.5 * float(np.trace(inverse @ S) + d @ inverse @ d - len(m) + log_det)


def kl(gp: DenseGP) -> float:
    """KL(q(u) || p(u))."""
    return kl_normal(gp.m, gp.S, np.full(len(gp.m), gp.c), prior_covariance(gp))


def optimal_posterior(gp: DenseGP, X: Array, y: Array, noise: Array) -> tuple[Array, Array]:
    """Mean and covariance of u given y under y_n = E[f_n | u] + N(0, noise_n).

    S = (K^-1 + sum_n a_n a_n^T / noise_n)^-1 and m = c + S sum_n a_n (y_n - c) / noise_n with
    a_n = K^-1 k_n (Titsias, 2009, for a constant noise).
    """
    K_inv = np.linalg.inv(prior_covariance(gp))
    precision = K_inv.copy()
    shift = np.zeros(len(gp.Z))
    for n in range(len(X)):
        a = K_inv @ gp.k(gp.Z, X[n : n + 1])[:, 0]
        precision += np.outer(a, a) / noise[n]
        shift += a * (y[n] - gp.c) / noise[n]
    S = np.linalg.inv(precision)
    return gp.c + S @ shift, S


def nystrom(gp: DenseGP, X: Array) -> Array:
    """Q = k(X, Z) K^-1 k(Z, X)."""
    Kuf = gp.k(gp.Z, X)
    return Kuf.T @ np.linalg.inv(prior_covariance(gp)) @ Kuf
