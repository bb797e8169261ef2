"""The bounds of deep GPs with latent covariates: variational and importance-weighted."""

import math

from torch import Tensor

from skgp.core.data import Batch
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.numerics.draws import DrawSource
from skgp.core.objectives.objective import Objective, regularised
from skgp.core.stacks.latent_stack import LatentStack


def latent_loss(
    objective: Objective,
    stack: LatentStack,
    likelihood: Gaussian,
    batch: Batch,
    generator: DrawSource,
    *,
    n_samples: int,
    beta_reg: float,
    n_data: float,
) -> Tensor:
    """Minus a bound on the log marginal likelihood, in nats per row.

    With t_sk = E_q(f) log p(y | f) of the top layer at draw s of the hidden functions and draw k of
    the covariates, a row adds the mean over s of

    - log 1 / K sum_k exp(t_sk) p(w_sk) / q(w_sk), importance-weighted (paper, Eqn 11),
    - the same with t_sk = log p(y | f_sk), f_s one draw of the top layer, joint over its K inputs
      (Eqn 7), or
    - t_s - KL(q(w) || p(w)), variational (Eqns 3 and 4).

    The signal of the usual gradient in the parameters of q(w) falls with K faster than its noise.
    The doubly reparameterised one is the sum over k of omega_k^2 d log r_k / dw_k times the slope
    of w_k, with the ratios r_k = exp(t_k) p(w_k) / q(w_k) and omega_k = r_k / sum_j r_j; it has no
    slope of log q(w) at fixed w (Tucker et al. 2019).

    Parameters
    ----------
    objective : Objective
        `importance_weighted(K)`, `plainly_weighted(K)`, or the evidence lower bound; without
        covariates the last.
    stack : LatentStack
    likelihood : Gaussian
    batch : Batch
    generator : DrawSource
    n_samples : int
        Number S of draws of the hidden functions.
    beta_reg : float
        Weight of the divergences of the inducing variables. One gives a bound.
    n_data : float
        Number of training rows, or the sum of their weights.
    """
    factors = stack.factors()
    n_importance = objective.n_importance
    draw = stack.draw(
        batch,
        factors,
        generator,
        n_samples=n_samples,
        n_importance=n_importance or 1,
        without_scores=objective.is_doubly_reparameterized,
        draws_top=objective.draws_top,
    )
    terms = objective.term(likelihood, draw.latent, batch.targets)
    log_omega = terms.new_full((len(terms),), -math.log(len(terms)))
    if n_importance is None:
        fit = objective.reduce(terms, log_omega) - draw.local_kl
    else:
        terms = terms + draw.log_ratio
        fit = objective.reduce(terms, log_omega)
        if objective.is_doubly_reparameterized:
            # Backpropagation gives omega_k times the slope; here it meets the other factor.
            shares = terms.detach().unflatten(0, (n_samples, n_importance)).softmax(1)
            for w in draw.covariates:
                _scale_gradient(w, shares.unsqueeze(-1))
    divergence = objective.regulariser(stack, factors)
    return regularised(fit, stack, divergence, batch.weight, beta_reg=beta_reg, n_data=n_data)


def _scale_gradient(w: Tensor, factor: Tensor) -> None:
    """Multiply what comes to w in backpropagation."""
    if w.requires_grad:
        w.register_hook(lambda gradient: gradient * factor)
