"""Initial values: hyper-parameters and q(u) from the collapsed bound, slopes of hidden layers.

A model that starts at the optimum of a small exact problem needs a fraction of the epochs.
"""

import math
from typing import Final

import torch
from torch import Tensor

from skgp.core.layers.sparse import SparseLayer
from skgp.core.marginal.collapsed import collapsed_bound
from skgp.core.marginal.exact_starts import (
    LEAST_NOISE,
    free,
    merged,
    moves,
    shorten,
    start_at_optimum,
)
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.numerics.descent import minimise, refine
from skgp.core.numerics.linalg import cholesky, inverse_cholesky
from skgp.core.numerics.principal import principal_directions

_BOUND_INDUCING = 300  # inducing inputs from which hyper-parameters are estimated
_BOUND_STEPS = 40
_BOUND_RATE = 0.1
_REFINED_ROWS: Final = 1500  # up to which the descent goes on to the optimum: one usual batch
_FEW_COPIES: Final = 1.5  # rows per distinct input up to which the n x n matrix takes less time
_REFINEMENTS = 100
_CHUNK = 2048
_MOST_COUNTED = 1e4  # rows of the table for which a row may count in the start of q(u), on average
_RIDGE = 1e-3  # of the regression whose residuals start covariates, relative to the inputs
_REGRESSION_JITTER = 1e-14  # of the same, relative to the mean of its diagonal
_LEAST_DEVIATION = 0.1  # of residuals that are magnified to unit variance


def start_hyperparameters(
    layer: SparseLayer,
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    noise_var: float,
    *,
    refined: bool = False,
    rough: bool = False,
) -> Tensor:
    """Move the layer's kernel to where the collapsed bound of some rows is high.

    If `refined`, and up to 1,500 rows, that is an optimum. A penalty of half a nat for a parameter
    that moves by one on its logarithmic scale keeps it near the end of a short descent: without it
    flat directions, or constant targets, lead anywhere.

    If the inducing inputs of one GP are all inputs, it is an optimum of the log marginal likelihood
    instead, for such a GP may be all that is wanted. There is no short descent then: the search
    starts from the given values, as that of an SVGP does, and weak priors are around these. If a GP
    is `rough`, it starts from short lengthscales, which a short descent would make long again.

    Parameters
    ----------
    layer : SparseLayer
        Its kernel parameters are changed in place.
    x : Tensor of shape (n, D)
    y : Tensor of shape (W, n)
    weight : Tensor of shape (n,) or (W, n)
    noise_var : float
        Initial value of the noise variances.
    refined, rough : bool

    Returns
    -------
    Tensor of shape (W,)
        Noise variances that go with the kernel.
    """
    refined = refined and len(x) <= _REFINED_ROWS
    if refined:  # repeated rows, in any order, then count as one of their weight to the last bit
        x, y, weight = merged(x, y, weight)
    # If there are few distinct rows the inducing inputs are sorted: the subset is spread over all.
    n_inducing = layer.Z.shape[-2]
    if refined and len(y) == 1 and is_of_all_rows(x, n_inducing):
        rows = ObservedRows(x, y, weight.expand_as(y)[0])
        return start_at_optimum(layer, rows, torch.full_like(y[:, 0], noise_var), is_short=rough)
    n_subset = n_inducing if refined else min(n_inducing, _BOUND_INDUCING)
    subset = torch.linspace(0, n_inducing - 1, n_subset, dtype=torch.float32).long()
    Z = layer.Z.detach()[:, subset]
    log_noise = torch.full_like(y[:, 0], noise_var).log().requires_grad_()
    parameters = [*free(layer), log_noise]
    # Without a least noise the bound of constant targets has no optimum.
    least = LEAST_NOISE if refined else 0.0
    n_counted = weight.sum(-1).mean()

    def loss(step: int = 0) -> Tensor:
        noise = log_noise.exp() + least
        bound = collapsed_bound(layer.kernel, Z, x, y, weight, noise, layer.jitter)
        return -(bound.sum() + layer.kernel.log_prior()) / n_counted

    if rough:
        shorten(layer, log_noise)
    else:
        minimise(loss, parameters, _BOUND_STEPS, _BOUND_RATE, lambda progress: 1.0 - 0.9 * progress)
    near = [parameter.detach().clone() for parameter in parameters]

    def penalised() -> Tensor:
        squares = torch.stack([move.square().sum() for move in moves(parameters, near)])
        return loss() + 0.5 * squares.sum() / n_counted

    if refined:
        refine(penalised, parameters, _REFINEMENTS)
    return log_noise.detach().exp() + least


def is_of_all_rows(x: Tensor, n_inducing: int) -> bool:
    """Whether so many inducing inputs are all inputs x (n, D), of which equal ones are neighbours.

    Then the collapsed bound is, but for the jitter, the log marginal likelihood, which takes less
    time unless there are many rows for each of them.
    """
    n_distinct = 1 + int((x[1:] != x[:-1]).any(-1).sum())
    return n_distinct <= n_inducing and len(x) <= _FEW_COPIES * n_inducing


@torch.no_grad()
def bound_per_row(
    layer: SparseLayer, x: Tensor, y: Tensor, weight: Tensor, noise_var: Tensor
) -> Tensor:
    """The collapsed bound of each GP at the layer's parameters, in nats per row of weight one.

    Parameters
    ----------
    layer : SparseLayer
    x : Tensor of shape (n, D)
    y : Tensor of shape (W, n)
    weight : Tensor of shape (n,) or (W, n)
    noise_var : Tensor of shape (W,)

    Returns
    -------
    Tensor of shape (W,)
    """
    bound = collapsed_bound(layer.kernel, layer.Z, x, y, weight, noise_var, layer.jitter)
    return bound / weight.sum(-1)


@torch.no_grad()
def start_posterior(
    layer: SparseLayer, x: Tensor, y: Tensor, weight: Tensor, noise_var: Tensor, copies: float
) -> None:
    """Set the posterior of the mean's basis to its optimum given the kernel and the noise.

    q(v) = N(H^-1 b, H^-1), H = I + variance / noise * A A^T, b = sqrt(variance) / noise * A y
    (Titsias 2009, Eqn 10, whitened).

    If rows stood for very many of the table the mean would meet every target. Where rows nearly
    coincide that takes whitened values of thousands, which no step keeps in balance. So the copies
    count up to a limit.

    Parameters
    ----------
    layer : SparseLayer
    x : Tensor of shape (n, D)
    y : Tensor of shape (W, n)
    weight : Tensor of shape (n,) or (W, n)
    noise_var : Tensor of shape (W,)
    copies : float
        Rows of the table for which one of weight one stands, as x may be a subsample.
    """
    Z, kernel = layer.mean_inputs, layer.kernel
    L_inv = inverse_cholesky(kernel.Kuu(Z), layer.jitter)
    n_sharing = len(y) // len(Z)  # GPs that share a kernel, and H too unless their weights differ
    b = torch.zeros_like(Z[..., 0]).repeat(n_sharing, 1)
    H = torch.zeros_like(L_inv).repeat(n_sharing if weight.ndim > 1 else 1, 1, 1)
    for rows in torch.split(torch.arange(x.shape[0]), _CHUNK):
        A = L_inv @ kernel.Kuf(Z, x[rows])
        Aw = A * weight[..., None, rows]
        H += Aw @ A.mT
        b += (Aw @ y[:, rows].unsqueeze(-1)).squeeze(-1)
    most = _MOST_COUNTED * len(x) / weight.sum(-1)
    scale = (most.clamp(max=copies) / noise_var).unsqueeze(-1)
    variance = kernel.variance.unsqueeze(-1)
    H = H * (scale * variance).unsqueeze(-1)
    H.diagonal(dim1=-2, dim2=-1).add_(1.0)
    layer.start(scale * variance.sqrt() * b, H)


def start_slope(x: Tensor, weight: Tensor, n_outputs: int, generator: torch.Generator) -> Tensor:
    """Initial weights (D, W) of a hidden layer's linear mean of x (n, D), rows weighted by (n,).

    The identity if W = D; else the leading principal directions (doubly stochastic variational
    inference, section 3), and random ones of the same length where W exceeds D.
    """
    n_inputs = x.shape[1]
    if n_outputs == n_inputs:
        return torch.eye(n_inputs, dtype=x.dtype)
    directions = principal_directions(x, weight)[:, :n_outputs]
    shape = n_inputs, n_outputs - directions.shape[1]
    further = torch.randn(shape, generator=generator, dtype=x.dtype)
    return torch.cat([directions, further / further.norm(dim=0)], 1)


def start_covariates(
    x: Tensor, Y: Tensor, weight: Tensor, n_covariates: int, generator: torch.Generator
) -> Tensor:
    """Weights (C, D + P) of [x, y] whose products are residuals, standardised and uncorrelated.

    Latent covariates that start as residuals of a linear regression tell from the first step what x
    does not, and roughly have the distribution of their prior.

    Parameters
    ----------
    x : Tensor of shape (n, D)
        Inputs of about zero mean and unit variance.
    Y : Tensor of shape (n, P)
        Targets of about zero mean.
    weight : Tensor of shape (n,)
        Weights of the rows.
    n_covariates : int
        Number C. Those beyond P start at random.
    generator : torch.Generator
        Source of the random weights.

    Returns
    -------
    Tensor of shape (C, D + P)
        Residuals come in the order of their variance. This start is ours; the paper's is random.
    """
    # w = diag(s)^-1 V^T r is linear in [x, y]. Here r = y - B^T x are residuals of a regression,
    # B = (X^T diag(weight) X + ridge)^-1 X^T diag(weight) Y, V are their principal directions and s
    # the deviations along these.
    gram = x.mT @ (weight.unsqueeze(-1) * x)
    ridge = _RIDGE * weight.sum() * torch.eye(len(gram), dtype=x.dtype)
    # A column with a far outlier hides the others and the ridge from float64: hence the ladder.
    factor = cholesky(gram + ridge, _REGRESSION_JITTER)
    slope = torch.cholesky_solve(x.mT @ (weight.unsqueeze(-1) * Y), factor)
    residual = Y - x @ slope
    directions = principal_directions(residual, weight)[:, :n_covariates]
    variance = weight @ (residual @ directions).square() / weight.sum()
    directions = directions / variance.sqrt().clamp_min(_LEAST_DEVIATION)
    weights = torch.cat([-slope @ directions, directions]).mT
    shape = n_covariates - len(weights), weights.shape[1]
    further = torch.randn(shape, generator=generator, dtype=x.dtype)
    return torch.cat([weights, further / math.sqrt(weights.shape[1])])
