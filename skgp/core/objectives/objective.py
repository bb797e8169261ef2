"""Objectives as data: a term for each node and row, a reduction over nodes, and a regulariser."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from skgp.core.data import Batch
from skgp.core.layers.divergences import renyi
from skgp.core.layers.sparse import SparseLayer
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.likelihoods.likelihood import Likelihood, Term, expected_log_prob, log_marginal
from skgp.core.nodes.rules import Nodes
from skgp.core.numerics.linalg import log_mean_exp
from skgp.core.stacks.stack import GPStack, Stack

Reduction = Callable[[Tensor, Tensor], Tensor]
Regulariser = Callable[[Any, Sequence[Any]], Tensor]  # of the stacks that have it


def kl(stack: Stack, factors: Sequence[Any]) -> Tensor:
    """KL(q || p) of all that has a posterior common to the rows."""
    return stack.kl(factors)


def renyi_divergence(stack: GPStack, factors: Sequence[Any], *, order: float) -> Tensor:
    """Renyi divergence of q(u) from the prior, summed over the layers."""
    of = partial(renyi, order=order)
    parts = zip(cast(list[SparseLayer], stack.layers), factors, strict=True)
    return torch.stack([layer.divergence(known, of) for layer, known in parts]).sum()


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
    is_doubly_reparameterized : bool
        Whether the gradient in the parameters of q(w) is that of Tucker et al. (2019).
    draws_top : bool
        Whether the functions of the top layer are drawn, and have no variance in the terms.
    regulariser : callable (stack, factors of its layers) -> scalar
        Divergence that `beta_reg` weighs.
    """

    term: Term
    reduce: Reduction
    n_importance: int | None = None
    is_doubly_reparameterized: bool = False
    draws_top: bool = False
    regulariser: Regulariser = kl


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


def gamma_predictive(gamma: float) -> Objective:
    """Objective of the gamma score of one predictive density for each row.

    It is for stacks without hidden layers: the integral of a mixture of densities to the power
    gamma has no closed form.
    """
    return Objective(partial(Gaussian.gamma_score, gamma=gamma), average)


def importance_weighted(n_importance: int, *, doubly_reparameterized: bool = False) -> Objective:
    """The bound with K draws of the covariates (importance-weighted paper, Eqn 11)."""
    reduce = partial(average_of_log_means, n_importance)
    return Objective(expected_log_prob, reduce, n_importance, doubly_reparameterized)


def plainly_weighted(n_importance: int) -> Objective:
    """The bound that draws the functions of the top layer as well (Eqn 7): tighter, and noisier."""
    return importance_weighted(n_importance)._replace(draws_top=True)


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
        Weight of the divergence; one makes the ELBO a bound (PPGPR paper, Eqn 6; in the
        predictive objective it is that of Eqn 17).
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
    divergence = objective.regulariser(stack, factors)
    return regularised(fit, stack, divergence, batch.weight, beta_reg=beta_reg, n_data=n_data)


def regularised(
    fit: Tensor,
    stack: Stack,
    divergence: Tensor,
    weight: Tensor | None,
    *,
    beta_reg: float,
    n_data: float,
) -> Tensor:
    """The loss, from what is to be maximised for each row, (B,), a divergence and row weights."""
    if weight is not None:
        fit = fit * weight
    return -fit.mean() + (beta_reg * divergence - stack.log_prior()) / n_data
