"""Divergences of a whitened q(v) = N(m, S) from its prior N(0, I), summed over independent GPs."""

from collections.abc import Callable

import torch
from torch import Tensor

from skgp.core.numerics.captures import is_capturing
from skgp.core.numerics.linalg import LOG_2PI, gram, log_det_and_quadratic
from skgp.exceptions import NotPositiveDefiniteError

# Of a mean (W, M) and a root of the covariance, as `Posterior.moments` returns them, in nats.
Divergence = Callable[[Tensor, Tensor | None], Tensor]


def kullback_leibler(mu: Tensor, sqrt: Tensor | None) -> Tensor:
    """KL(N(m, S) || N(0, I)); minus the log density of the prior for a point."""
    if sqrt is None:
        return 0.5 * (mu.square().sum() + mu.numel() * LOG_2PI)
    # KL(N(m, S) || N(0, I)) = 1/2 (tr S + m^T m - M - log|S|)
    return 0.5 * (sqrt.square().sum() + mu.square().sum() - mu.numel() - _log_det(mu, sqrt))


def renyi(mu: Tensor, sqrt: Tensor | None, *, order: float) -> Tensor:
    """Renyi divergence of N(m, S) from N(0, I): log int q^a p^(1 - a) dv / (a - 1).

    Order one is the Kullback-Leibler divergence. Up to a constant that does not depend on m, a
    narrow q(v) has the same divergence at every order, so a point has minus the log density of the
    prior here too.

    Parameters
    ----------
    mu : Tensor of shape (W, M)
    sqrt : Tensor of shape (W, M, M) or (W, M) or None
    order : float
        The order a, positive.

    Raises
    ------
    NotPositiveDefiniteError
        If S has an eigenvalue of a / (a - 1) or more, at an order above one: the integral diverges.
    """
    if sqrt is None or order == 1.0:
        return kullback_leibler(mu, sqrt)
    # 1/2 (a m^T C^-1 m + log|C| / (1 - a) - log|S|), C = a I + (1 - a) S: Eqn 10 of van Erven
    # and Harremoes (2014) along each eigenvector of S
    rest = 1.0 - order
    if sqrt.dim() == mu.dim():
        excess = rest * (sqrt.square() - 1.0)
        # What is not above -1 has no finite logarithm, which a CUDA graph ends with.
        if not is_capturing(excess) and not bool((excess > -1.0).all()):
            raise _infinite(order)
        log_det, squares = excess.log1p(), mu.square() / (1.0 + excess)
    else:
        S = gram(sqrt.double())
        C = rest * S + torch.diag_embed(torch.full_like(S[..., 0], order))
        try:
            log_det, squares = log_det_and_quadratic(C, mu.double(), 0.0)
        except NotPositiveDefiniteError as error:
            raise _infinite(order) from error
    log_det, squares = log_det.sum(), squares.sum()
    return 0.5 * (order * squares + log_det / rest - _log_det(mu, sqrt)).to(mu.dtype)


def _log_det(mu: Tensor, sqrt: Tensor) -> Tensor:
    """Sum of log|S| over the GPs, from a root of S (W, M, M) or (W, M)."""
    diagonal = sqrt if sqrt.dim() == mu.dim() else sqrt.diagonal(dim1=-2, dim2=-1)
    return 2.0 * diagonal.log().sum()


def _infinite(order: float) -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError(
        f"the Renyi divergence of order {order:g} is infinite: q(u) has a variance of "
        f"{order / (order - 1.0):.3g} times that of the prior or more; lower the order, which "
        "suits every q(u) up to one"
    )
