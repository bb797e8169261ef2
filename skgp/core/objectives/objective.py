"""Objectives as data: a term for each node and row, and a reduction over nodes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from skgp.core.data import Batch
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.likelihoods.likelihood import Likelihood, Term, expected_log_prob, log_marginal
from skgp.core.nodes.rules import Nodes
from skgp.core.numerics.linalg import log_mean_exp
from skgp.core.stacks.stack import Stack

Reduction = Callable[[Tensor, Tensor], Tensor]


class Objective(NamedTuple):
    """What is maximised for one row: `reduce` over nodes, or draws, of `term`.

    Attributes
    ----------
    term : callable (likelihood, latent, targets) -> (Q, B)
    reduce : callable (terms (Q, B), log_omega (Q,)) -> (B,)
    n_importance : int or None
        Draws of a row's latent covariates for each draw of the functions. Their log ratios
        log p(w) - log q(w) are parts of the terms then; None stands for one draw, and for the
        divergence KL(q(w) || p(w)) outside of the reduction.
    """

    term: Term
    reduce: Reduction
    n_importance: int | None = None


def average(terms: Tensor, log_omega: Tensor) -> Tensor:
    """Sum over nodes of omega_q t_q."""
    return log_omega.exp() @ terms


def log_average_exp(terms: Tensor, log_omega: Tensor) -> Tensor:
    """Log of the sum over nodes of omega_q exp(t_q)."""
    return torch.logsumexp(terms + log_omega.unsqueeze(-1), 0)


def average_of_log_means(n_importance: int, terms: Tensor, log_omega: Tensor) -> Tensor:
    """Log means over K draws of the covariates, averaged over S equal draws: Q = S K terms."""
    return log_mean_exp(terms.unflatten(0, (-1, n_importance)), 1).mean(0)


# With a point q(u) it is the paper's MAP (Eqn 3): v_q vanishes, the divergence is -log p(u).
ELBO = Objective(expected_log_prob, average)
PREDICTIVE = Objective(log_marginal, log_average_exp)
VFITC = Objective(Gaussian.vfitc_bound, average)


def gamma_robust(gamma: float) -> Objective:
    """Objective of the gamma-divergence ELBO; gamma > 1 damps the pull of outliers."""
    return Objective(partial(Gaussian.gamma_expectation, gamma=gamma), average)


def importance_weighted(n_importance: int) -> Objective:
    """The bound with K draws of the covariates (importance-weighted paper, Eqn 11)."""
    return Objective(expected_log_prob, partial(average_of_log_means, n_importance), n_importance)


def loss(
    objective: Objective,
    stack: Stack,
    likelihood: Likelihood,
    nodes: Nodes,
    batch: Batch,
    *,
    beta_reg: float,
    n_data: float,
    local_kl: Tensor | float = 0.0,
) -> Tensor:
    """-(mean over rows of the reduced term) + (beta_reg * KL - log p(hyper-parameters)) / n_data.

    Parameters
    ----------
    objective : Objective
    stack : Stack
    likelihood : Likelihood
    nodes : Nodes
    batch : Batch
    beta_reg : float
        Weight of the divergence; one makes the ELBO a bound (PPGPR paper, Eqn 16).
    n_data : float
        Number of training rows, or the sum of their weights.
    local_kl : Tensor of shape (B,), optional
        Divergences of the rows' own variables. They count in full, as a part of the rows' terms.

    Returns
    -------
    Tensor, scalar
        In nats per row.
    """
    factors = stack.factors()
    latent = stack(batch.x, nodes, factors)
    fit = objective.reduce(objective.term(likelihood, latent, batch.targets), nodes.log_omega)
    fit = fit - local_kl
    return regularised(fit, stack, factors, batch.weight, beta_reg=beta_reg, n_data=n_data)


def regularised(
    fit: Tensor,
    stack: Stack,
    factors: Sequence[Any],
    weight: Tensor | None,
    *,
    beta_reg: float,
    n_data: float,
) -> Tensor:
    """The loss, from what is to be maximised for each row, (B,), and the weights of the rows."""
    if weight is not None:
        fit = fit * weight
    return -fit.mean() + (beta_reg * stack.kl(factors) - stack.log_prior()) / n_data
