"""The training loss as nested loops over nodes, rows and outputs."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from oracles.sparse import Moments

Array = npt.NDArray[np.float64]
# (y, mean, v_prior, v_q, noise) of one output
Term = Callable[[float, float, float, float, float], float]


def terms(term: Term, moments: Moments, Y: Array, mask: Array | None, noise: Array) -> Array:
    """Sum over observed outputs of the term, (Q, B), for moments (Q, B, P) and targets (B, P)."""
    n_nodes, n_rows, n_outputs = moments.f_mean.shape
    total = np.zeros((n_nodes, n_rows))
    for q in range(n_nodes):
        for b in range(n_rows):
            for p in range(n_outputs):
                if mask is None or mask[b, p] == 1.0:
                    total[q, b] += term(
                        Y[b, p],
                        moments.f_mean[q, b, p],
                        moments.v_prior[q, b, p],
                        moments.v_q[q, b, p],
                        noise[p],
                    )
    return total


def average(values: Array, omega: Array) -> float:
    """Sum over nodes of omega_q t_q."""
    return sum(w * t for w, t in zip(omega, values, strict=True))


def log_average_exp(values: Array, omega: Array) -> float:
    """Log of the sum over nodes of omega_q exp(t_q)."""
    return math.log(sum(w * math.exp(t) for w, t in zip(omega, values, strict=True)))


def loss(
    values: Array,
    omega: Array,
    reduce: Callable[[Array, Array], float],
    *,
    weight: Array | None,
    kl: float,
    log_prior: float,
    beta_reg: float,
    n_data: float,
) -> float:
    """-(1/B) sum_b weight_b reduce_q(t_qb) + (beta_reg KL - log prior) / n_data."""
    n_rows = values.shape[1]
    fit = 0.0
    for b in range(n_rows):
        fit += (1.0 if weight is None else weight[b]) * reduce(values[:, b], omega)
    return -fit / n_rows + (beta_reg * kl - log_prior) / n_data
