"""Stacks with latent covariates: small random ones, and their moments by loops over the rows."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from oracles.models import (
    dense_gps,
    normal,
    random_kernel,
    random_layer,
    random_posterior,
    to_array,
)
from oracles.sparse import Moments, layer_moments

from skgp.core.kernels.stationary import Stationary
from skgp.core.layers.posteriors import Covariance
from skgp.core.layers.projected import ProjectedGP
from skgp.core.layers.sparse import SparseGP
from skgp.core.stacks.latent_stack import LatentCovariates, LatentStack
from skgp.core.stacks.row_posterior import Amortized, Free

Array = npt.NDArray[np.float64]
N_ROWS = 7  # of the table that free parameters belong to


def random_projected(
    rng: np.random.Generator,
    covariance: Covariance = "full",
    *,
    width: int = 2,
    n_features: int = 3,
    n_inducing: int = 5,
    name: str = "matern52",
    jitter: float = 1e-6,
) -> ProjectedGP:
    layer = SparseGP(
        random_kernel(rng, name, 1, n_features),
        normal(rng, 1, n_inducing, n_features),
        random_posterior(rng, covariance, width, n_inducing),
        jitter,
        width,
    ).double()
    projection = normal(rng, width, n_features)
    with torch.no_grad():
        layer.mean.copy_(normal(rng, width))
    return ProjectedGP(layer, projection)


def repeated(layer: SparseGP) -> SparseGP:
    """The W GPs of a layer with a kernel and inducing inputs each, all of them alike."""
    assert isinstance(layer.kernel, Stationary)
    width, n_features = len(layer.mean), layer.Z.shape[-1]
    kernel = Stationary(layer.kernel.name, width, n_features, 1.0).double()
    with torch.no_grad():
        kernel.log_lengthscale.copy_(layer.kernel.log_lengthscale.expand(width, -1))
        kernel.log_variance.copy_(layer.kernel.log_variance.expand(width))
    Z = layer.Z.detach().repeat(width, 1, 1)
    twin = SparseGP(kernel, Z, layer.posterior, layer.jitter).double()
    with torch.no_grad():
        twin.mean.copy_(layer.mean)
    return twin


def random_covariates(
    rng: np.random.Generator, n_covariates: int, n_evidence: int | None, n_rows: int = N_ROWS
) -> LatentCovariates:
    """Covariates of a network; of parameters of their own if there is no evidence."""
    generator = torch.Generator().manual_seed(int(rng.integers(1000)))
    if n_evidence is None:
        free = Free(torch.randn(n_rows, n_covariates, generator=generator)).double()
        with torch.no_grad():
            free.log_std.copy_(0.2 * normal(rng, n_rows, n_covariates) - 0.2)
        return LatentCovariates(free, n_covariates)
    network = Amortized(0.3 * normal(rng, n_covariates, n_evidence), generator).double()
    with torch.no_grad():
        network.weights[-1].copy_(0.3 * normal(rng, *network.weights[-1].shape))
        network.biases[-1].copy_(0.2 * normal(rng, 2 * n_covariates))
    return LatentCovariates(network, n_covariates)


def random_latent_stack(
    rng: np.random.Generator,
    architecture: str,
    *,
    covariance: Covariance = "full",
    n_features: int = 2,
    n_covariates: int = 1,
    n_evidence: int | None = None,
    n_latents: int = 1,
    n_inducing: int = 5,
    name: str = "rbf",
) -> LatentStack:
    """Layers as in the name, "LV-GP-GP"; hidden GPs have two functions."""
    blocks: list[ProjectedGP | LatentCovariates] = []
    below = n_features
    for part in architecture.split("-")[:-1]:
        if part == "LV":
            blocks.append(random_covariates(rng, n_covariates, n_evidence))
            below += n_covariates
        else:
            blocks.append(
                random_projected(
                    rng, covariance, n_features=below, n_inducing=n_inducing, name=name
                )
            )
    top = random_layer(
        rng, covariance, name=name, n_gps=n_latents, n_inducing=n_inducing, n_features=below
    )
    return LatentStack(blocks, top)


def stack_moments(stack: LatentStack, X: Array, xi: Sequence[Array]) -> Moments:
    """Moments (Q, B, W) of the top layer for nodes (Q, 1, .), one per layer below it."""
    n_nodes = len(xi[0]) if xi else 1
    gps = {
        number: dense_gps(repeated(block.layer))
        for number, block in enumerate(stack.hidden)
        if isinstance(block, ProjectedGP)
    }
    assert isinstance(stack.top, SparseGP)
    top = dense_gps(stack.top)
    table = []
    for q in range(n_nodes):
        rows = []
        for x in X:
            h = x
            for number, block in enumerate(stack.hidden):
                z = xi[number][q, 0]
                if isinstance(block, LatentCovariates):
                    h = np.array([*h, *z])
                    continue
                of_row = layer_moments(gps[number], h[None])
                deviation = np.sqrt(of_row.v_prior[0] + of_row.v_q[0])
                f = of_row.f_mean[0] + deviation * z
                h = h + sum(f_w * p for f_w, p in zip(f, to_array(block.projection), strict=True))
            rows.append(layer_moments(top, h[None]))
        table.append(rows)
    parts = [
        [[getattr(row, name)[0] for row in rows] for rows in table] for name in Moments._fields
    ]
    return Moments(*map(np.array, parts))


def within_cells(f_mean: Array) -> Array:
    """Variance of a uniform distribution over half the gaps to the neighbours, (Q, B, W).

    The first and the last of the sorted means have one gap and are given it twice.
    """
    variance = np.zeros_like(f_mean)
    for b, w in np.ndindex(*f_mean.shape[1:]):
        nodes = sorted(range(len(f_mean)), key=lambda q, b=b, w=w: f_mean[q, b, w])
        for place, node in enumerate(nodes):
            here = f_mean[node, b, w]
            gaps = []
            if place > 0:
                gaps.append(here - f_mean[nodes[place - 1], b, w])
            if place + 1 < len(nodes):
                gaps.append(f_mean[nodes[place + 1], b, w] - here)
            variance[node, b, w] = (sum(gaps) / len(gaps)) ** 2 / 12.0
    return variance


def z_scores(samples: Array, expected: Array | float) -> Array:
    """Distance of the mean along the first axis from what is expected, in standard errors."""
    return (samples.mean(0) - expected) / (samples.std(0, ddof=1) / math.sqrt(len(samples)))
