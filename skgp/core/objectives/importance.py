"""The bounds of deep GPs with latent covariates: variational and importance-weighted."""

import torch
from torch import Tensor

from skgp.core.data import Batch
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.numerics.linalg import log_mean_exp
from skgp.core.objectives.objective import regularised
from skgp.core.stacks.latent_stack import LatentStack


def latent_loss(
    stack: LatentStack,
    likelihood: Gaussian,
    batch: Batch,
    generator: torch.Generator,
    *,
    n_samples: int,
    n_importance: int | None,
    beta_reg: float,
    n_data: float,
) -> Tensor:
    """Minus a bound on the log marginal likelihood, in nats per row.

    With t_sk = E_q(f) log p(y | f) of the top layer at draw s of the hidden functions and draw k of
    the covariates, a row adds the mean over s of

    - log 1 / K sum_k exp(t_sk) p(w_sk) / q(w_sk), importance-weighted (paper, Eqn 11), or
    - t_s - KL(q(w) || p(w)), variational (Eqns 3 and 4).

    Parameters
    ----------
    stack : LatentStack
    likelihood : Gaussian
    batch : Batch
    generator : torch.Generator
    n_samples : int
        Number S of draws of the hidden functions.
    n_importance : int or None
        Number K of covariates for each; None gives the variational bound.
    beta_reg : float
        Weight of the divergences of the inducing variables. One gives a bound.
    n_data : float
        Number of training rows, or the sum of their weights.
    """
    factors = stack.factors()
    draw = stack.draw(
        batch, factors, generator, n_samples=n_samples, n_importance=n_importance or 1
    )
    terms = likelihood.expected_log_prob(draw.latent, batch.targets)
    if n_importance is None:
        fit = terms.mean((0, 1)) - draw.local_kl
    else:
        fit = log_mean_exp(terms + draw.log_ratio, 1).mean(0)
    return regularised(fit, stack, factors, batch.weight, beta_reg=beta_reg, n_data=n_data)
