"""Top layers other than plain sparse GPs."""

import torch
from torch import Tensor

from skgp.core.kernels.kernel import Kernel
from skgp.core.layers.posteriors import (
    CentredPosterior,
    DeltaPosterior,
    DiagonalPosterior,
    make_posterior,
)
from skgp.core.layers.sparse import SparseGP, SparseLayer
from skgp.core.layers.two_bases import DecoupledGP, OrthogonalGP
from skgp.fitting.setup import Setup
from skgp.recipes.spec import INITIAL_VAR, StackSpec, each_gp, sparse_top


def decoupled_top(
    n_inducing_mean: int, spec: StackSpec, setup: Setup, kernel: Kernel, h: Tensor, n_gps: int
) -> SparseLayer:
    """GPs whose mean has inducing inputs of its own, or none (PPGPR paper, sections 3.4 and 6)."""
    Z = each_gp(kernel, setup.centres(h, spec.n_inducing(setup, n_gps)))
    if n_inducing_mean == 0:
        centred = CentredPosterior((len(Z), Z.shape[1]), INITIAL_VAR)
        return SparseGP(kernel, Z, centred, spec.inducing.jitter)
    Z_mean = each_gp(kernel, setup.centres(h, n_inducing_mean))
    mean_posterior = DeltaPosterior(torch.zeros(Z_mean.shape[:2], dtype=torch.float32))
    posterior = DiagonalPosterior(torch.zeros(Z.shape[:2], dtype=torch.float32), INITIAL_VAR)
    return DecoupledGP(kernel, Z_mean, Z, mean_posterior, posterior, spec.inducing.jitter)


def decoupled_if_long(
    n_inducing_mean: int, spec: StackSpec, setup: Setup, kernel: Kernel, h: Tensor, n_gps: int
) -> SparseLayer:
    """Decoupled GPs; plain ones of a table of one batch, or if they share a kernel.

    The posterior of plain ones is known at the start.
    """
    if setup.fits_into(spec.batch_size) or spec.shares(n_gps):
        return sparse_top(spec, setup, kernel, h, n_gps)
    return decoupled_top(n_inducing_mean, spec, setup, kernel, h, n_gps)


def orthogonal_top(
    n_orthogonal: int, spec: StackSpec, setup: Setup, kernel: Kernel, h: Tensor, n_gps: int
) -> SparseLayer:
    """GPs whose mean has a second basis, orthogonal to that of q(u)."""
    n_inducing = spec.n_inducing(setup, n_gps)
    Z = setup.centres(h, n_inducing)
    joint = setup.centres(h, n_inducing + n_orthogonal)
    n_more = len(joint) - len(Z)  # fewer than asked for if there are few distinct rows
    if n_more == 0:
        return sparse_top(spec, setup, kernel, h, n_gps)
    # The mean's own basis is to be where that of q(u) is not.
    farthest = torch.cdist(joint, Z).amin(1).topk(n_more).indices
    Z, Z_mean = each_gp(kernel, Z), each_gp(kernel, joint[farthest])
    mu = torch.zeros(Z.shape[:2], dtype=torch.float32)
    posterior = make_posterior(spec.covariance, mu, INITIAL_VAR)
    return OrthogonalGP(kernel, Z_mean, Z, posterior, spec.inducing.jitter)
