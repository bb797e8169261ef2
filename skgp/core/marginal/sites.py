"""The optimum of the bound of a sparse GP whose likelihood is not normal: q(u) by sites of rows."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import torch
from torch import Tensor

from skgp.core.layers.layer import Latent
from skgp.core.layers.sparse import SparseLayer
from skgp.core.marginal.exact_starts import free, merged, moves
from skgp.core.marginal.starts import start_posterior
from skgp.core.numerics.descent import refine
from skgp.core.numerics.linalg import inverse_cholesky
from skgp.exceptions import NotPositiveDefiniteError

_FIRST_UPDATES: Final = 12  # of sites, for the hyper-parameters that are given
_ROUNDS: Final = 4  # of hyper-parameters for fixed sites
_ITERATIONS: Final = 5  # of L-BFGS in a round
_UPDATES: Final = 3  # of sites after a round
_LEAST_PRECISION: Final = 1e-8  # where rounding leaves none of a row that is certain

# E_q(f) log p(y | f), shape (1, n), from latent moments (1, n, 1) and targets (n,)
Expected = Callable[[Latent, Tensor], Tensor]


class Sites(NamedTuple):
    """Normal factors N(target; f, 1 / precision), one for each row, in place of its likelihood.

    Attributes
    ----------
    target, precision : Tensor of shape (n,)
    """

    target: Tensor
    precision: Tensor


class Prior(NamedTuple):
    """The prior of one GP at the rows.

    Attributes
    ----------
    A : Tensor of shape (M, n)
        The function is its mean plus A^T v, of whitened inducing variables v, and a rest.
    var : Tensor of shape (n,)
        Of the function.
    """

    A: Tensor
    var: Tensor


class Moments(NamedTuple):
    """What sites make of a GP.

    Attributes
    ----------
    mean, var : Tensor of shape (n,)
        Of the function at the rows.
    kl : Tensor
        KL(q(v) || p(v)).
    """

    mean: Tensor
    var: Tensor
    kl: Tensor


def start_at_bound(
    layer: SparseLayer,
    expected: Expected,
    learned: Sequence[Tensor],
    x: Tensor,
    y: Tensor,
    weight: Tensor,
) -> None:
    """Move one GP to the optimum of sum_i w_i E log p(y_i | f_i) - KL(q(u) || p(u)).

    Two steps take turns. Natural gradients find q(u) for fixed hyper-parameters: the slopes of the
    expectations in the mean and the variance of f give each row a site (Khan and Lin 2017). L-BFGS
    then changes the hyper-parameters for fixed sites, from which q(u) follows; this bound is far
    closer to the best one than that of a fixed q(u) (Adam and others 2021). The likelihood must be
    log-concave, or a precision may be negative. The bound is in nats.

    A penalty of half a nat for a parameter that moves by one on its logarithmic scale keeps flat
    directions where they begin.

    Parameters
    ----------
    layer : SparseLayer
        Of one GP; its kernel, mean and q(u) change, its inducing inputs stay.
    expected : callable (Latent, y) -> Tensor
        E log p(y | f) of the rows.
    learned : sequence of Tensor
        Parameters of the likelihood.
    x : Tensor of shape (n, D)
    y : Tensor of shape (n,)
        Targets.
    weight : Tensor of shape (n,)
        How often each row counts.

    Raises
    ------
    NotPositiveDefiniteError
        If the kernel matrix has no factor.
    """
    # Rows that are weighted or repeated, in any order, then lead to the same numbers.
    x, codes, weight = merged(x, y.unsqueeze(0).to(x), weight)
    y = codes[0].to(y)
    parameters = [*free(layer), layer.mean, *learned]
    near = [parameter.detach().clone() for parameter in parameters]

    def terms(mean: Tensor, var: Tensor) -> Tensor:
        shaped = (part[None, :, None] for part in (mean, torch.zeros_like(var), var))
        return weight * expected(Latent(*shaped), y)[0]

    def loss(sites: Sites) -> Tensor:
        f_mean, f_var, kl = moments(layer, prior_at(layer, x), sites)
        bound = terms(f_mean, f_var).sum() - kl + layer.kernel.log_prior()
        squares = torch.stack([move.square().sum() for move in moves(parameters, near)])
        return (0.5 * squares.sum() - bound) / weight.sum()

    nothing = Sites(torch.zeros_like(weight), torch.zeros_like(weight))
    sites = updated(layer, x, terms, nothing, _FIRST_UPDATES)
    for _ in range(_ROUNDS):
        refine(partial(loss, sites), parameters, _ITERATIONS)
        sites = updated(layer, x, terms, sites, _UPDATES)
    residual = (sites.target - layer.mean.detach()).unsqueeze(0)
    start_posterior(layer, x, residual, sites.precision, torch.ones_like(residual[:, 0]), 1.0)


def prior_at(layer: SparseLayer, x: Tensor) -> Prior:
    """The prior of one GP at rows x (n, D)."""
    kernel = layer.kernel
    L_inv = inverse_cholesky(kernel.Kuu(layer.Z), layer.jitter)
    A = kernel.variance.sqrt() * (L_inv @ kernel.Kuf(layer.Z, x))[0]
    return Prior(A, kernel.variance * kernel.kff(x)[0])


def moments(layer: SparseLayer, prior: Prior, sites: Sites) -> Moments:
    """Moments of the function at rows with this prior, by their sites.

    q(v) = N(H^-1 b, H^-1), H = I + A diag(precision) A^T, b = A diag(precision) (target - mean).
    """
    A = prior.A
    H = (A * sites.precision) @ A.mT
    H.diagonal().add_(1.0)
    L_H, info = torch.linalg.cholesky_ex(H)
    if bool(info):
        raise NotPositiveDefiniteError("the sites of the rows leave no posterior; raise jitter")
    B = torch.linalg.solve_triangular(L_H, A, upper=False)
    white = B @ (sites.precision * (sites.target - layer.mean))  # L_H^-1 b
    inverse = torch.linalg.solve_triangular(L_H, torch.eye(len(H)).to(H), upper=False)
    squares = inverse.square().sum() + (inverse.mT @ white).square().sum()
    kl = 0.5 * (squares - len(H)) + L_H.diagonal().log().sum()
    unexplained = prior.var - A.square().sum(0)
    return Moments(layer.mean + B.mT @ white, unexplained + B.square().sum(0), kl)


def updated(
    layer: SparseLayer,
    x: Tensor,
    terms: Callable[[Tensor, Tensor], Tensor],
    sites: Sites,
    n_updates: int,
) -> Sites:
    """Sites after natural-gradient steps of length one.

    A step sets each site by the slopes of its row's expectation at the current moments: g in the
    mean and -precision / 2 in the variance. The target is mean + g / precision, so that the site
    has the slope g at the mean.
    """
    with torch.no_grad():
        prior = prior_at(layer, x)
    for _ in range(n_updates):
        with torch.no_grad():
            mean, var, _ = moments(layer, prior, sites)
        at = mean.requires_grad_(), var.requires_grad_()
        slope, curvature = torch.autograd.grad(terms(*at).sum(), at)
        precision = (-2.0 * curvature).clamp_min(_LEAST_PRECISION)
        sites = Sites(mean.detach() + slope / precision, precision)
    return sites
