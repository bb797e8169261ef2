"""Small random models in float64, and their parameters as the oracles want them."""

import numpy as np
import numpy.typing as npt
import torch
from oracles.kernels import covariance
from oracles.orthogonal import OrthogonalBases, bracket
from oracles.sparse import DenseGP
from torch import Tensor

from skgp.core.kernels.stationary import Stationary
from skgp.core.layers.posteriors import (
    Covariance,
    DeltaPosterior,
    DiagonalPosterior,
    FullPosterior,
    Posterior,
    make_posterior,
)
from skgp.core.layers.sparse import SparseGP
from skgp.core.layers.two_bases import DecoupledGP, OrthogonalGP
from skgp.core.likelihoods.gaussian import Gaussian

Array = npt.NDArray[np.float64]
COVARIANCES: tuple[Covariance, ...] = ("full", "diagonal", "delta")


def normal(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.from_numpy(rng.normal(size=shape))


def random_kernel(rng: np.random.Generator, name: str, n_gps: int, n_features: int) -> Stationary:
    kernel = Stationary(name, n_gps, n_features, 1.0).double()
    with torch.no_grad():
        kernel.log_lengthscale.copy_(0.3 * normal(rng, n_gps, n_features))
        kernel.log_variance.copy_(0.4 * normal(rng, n_gps))
    return kernel


def random_posterior(
    rng: np.random.Generator, covariance: Covariance, n_gps: int, n_inducing: int
) -> Posterior:
    posterior = make_posterior(covariance, normal(rng, n_gps, n_inducing), 0.5)
    with torch.no_grad():
        if isinstance(posterior, FullPosterior):
            posterior.lower.copy_(0.3 * normal(rng, n_gps, n_inducing, n_inducing))
            posterior.log_diagonal.copy_(0.3 * normal(rng, n_gps, n_inducing) - 0.5)
        elif isinstance(posterior, DiagonalPosterior):
            posterior.log_scale.copy_(0.3 * normal(rng, n_gps, n_inducing) - 0.5)
    return posterior


def random_layer(
    rng: np.random.Generator,
    covariance: Covariance = "full",
    *,
    name: str = "matern52",
    n_gps: int = 2,
    n_inducing: int = 5,
    n_features: int = 3,
    jitter: float = 1e-6,
) -> SparseGP:
    layer = SparseGP(
        random_kernel(rng, name, n_gps, n_features),
        normal(rng, n_gps, n_inducing, n_features),
        random_posterior(rng, covariance, n_gps, n_inducing),
        jitter,
    ).double()
    with torch.no_grad():
        layer.mean.copy_(normal(rng, n_gps))
    return layer


def random_decoupled(
    rng: np.random.Generator,
    *,
    name: str = "matern52",
    n_gps: int = 2,
    n_inducing_mean: int = 6,
    n_inducing: int = 4,
    n_features: int = 3,
    jitter: float = 1e-6,
) -> DecoupledGP:
    posterior = random_posterior(rng, "diagonal", n_gps, n_inducing)
    assert isinstance(posterior, DiagonalPosterior)
    with torch.no_grad():
        posterior.mu.zero_()
    layer = DecoupledGP(
        random_kernel(rng, name, n_gps, n_features),
        normal(rng, n_gps, n_inducing_mean, n_features),
        normal(rng, n_gps, n_inducing, n_features),
        DeltaPosterior(normal(rng, n_gps, n_inducing_mean)),
        posterior,
        jitter,
    ).double()
    with torch.no_grad():
        layer.mean.copy_(normal(rng, n_gps))
    return layer


def random_orthogonal(
    rng: np.random.Generator,
    covariance: Covariance = "full",
    *,
    name: str = "matern52",
    n_gps: int = 2,
    n_orthogonal: int = 6,
    n_inducing: int = 4,
    n_features: int = 3,
    jitter: float = 1e-6,
) -> OrthogonalGP:
    layer = OrthogonalGP(
        random_kernel(rng, name, n_gps, n_features),
        normal(rng, n_gps, n_orthogonal, n_features),
        normal(rng, n_gps, n_inducing, n_features),
        random_posterior(rng, covariance, n_gps, n_inducing),
        jitter,
    ).double()
    with torch.no_grad():
        layer.mean.copy_(normal(rng, n_gps))
        layer.orthogonal_mu.copy_(normal(rng, n_gps, n_orthogonal))
    return layer


def random_likelihood(
    rng: np.random.Generator, n_outputs: int, mixing: Tensor | None = None
) -> Gaussian:
    likelihood = Gaussian(n_outputs, 0.3, 1e-4, mixing).double()
    with torch.no_grad():
        likelihood.log_excess_noise.add_(0.3 * normal(rng, n_outputs))
    return likelihood


def dense_gps(layer: SparseGP) -> list[DenseGP]:
    """The W GPs of a stationary layer in the unwhitened variables u = c + L v."""
    root = layer.posterior.moments()[1]
    if root is None:
        root = torch.zeros(*layer.Z.shape[:2], layer.Z.shape[1])
    elif root.dim() == 2:
        root = torch.diag_embed(root)
    return [
        _dense_gp(layer, w, to_array(layer.Z[w]), to_array(layer.posterior.mu[w]), to_array(r))
        for w, r in enumerate(root)
    ]


def dense_bases(layer: DecoupledGP) -> tuple[list[DenseGP], list[DenseGP]]:
    """The GPs of a decoupled layer that carry the mean and those that carry the variance."""
    for_mean, for_variance = [], []
    for w in range(layer.Z.shape[0]):
        Z_mean, Z = to_array(layer.Z_mean[w]), to_array(layer.Z[w])
        m, s = to_array(layer.mean_posterior.mu[w]), to_array(layer.posterior.moments()[1][w])
        for_mean.append(_dense_gp(layer, w, Z_mean, m, np.zeros((len(m), len(m)))))
        for_variance.append(_dense_gp(layer, w, Z, np.zeros(len(s)), np.diag(s)))
    return for_mean, for_variance


def dense_orthogonal(layer: OrthogonalGP) -> list[OrthogonalBases]:
    """The W GPs of an orthogonally decoupled layer with u = c + L v and a = C^-T v_gamma.

    C C^T is the bracket of the oracle, with the jitter of the layer.
    """
    root = layer.posterior.moments()[1]
    assert root is not None
    gps = []
    for w in range(len(layer.Z)):
        r = to_array(root[w] if root.dim() == 3 else torch.diag(root[w]))
        beta = _dense_gp(layer, w, to_array(layer.Z[w]), to_array(layer.posterior.mu[w]), r)
        gp = OrthogonalBases(
            beta.k, beta.c, beta.Z, to_array(layer.Z_mean[w]), np.empty(0), beta.m, beta.S,
            beta.jitter, beta.jitter,
        )  # fmt: skip
        C = np.linalg.cholesky(bracket(gp))
        gps.append(gp._replace(a=np.linalg.solve(C.T, to_array(layer.orthogonal_mu[w]))))
    return gps


def _dense_gp(
    layer: SparseGP | DecoupledGP | OrthogonalGP, w: int, Z: Array, v_mean: Array, v_root: Array
) -> DenseGP:
    kernel = layer.kernel
    assert isinstance(kernel, Stationary)
    name = kernel.name
    lengthscale = to_array(kernel.lengthscale[w])
    variance = kernel.variance[w].item()
    c = layer.mean[w].item()

    def k(a: Array, b: Array) -> Array:
        return covariance(name, a, b, lengthscale, variance)

    jitter = variance * layer.jitter
    L = np.linalg.cholesky(k(Z, Z) + jitter * np.eye(len(Z)))
    root = L @ v_root
    return DenseGP(k, c, Z, c + L @ v_mean, root @ root.T, jitter)


def set_posterior(layer: SparseGP, w: int, m: Array, S: Array) -> None:
    """Let q(u) of GP w be N(m, S); the posterior of the layer must be full."""
    assert isinstance(layer.posterior, FullPosterior)
    gp = dense_gps(layer)[w]
    L = np.linalg.cholesky(gp.k(gp.Z, gp.Z) + gp.jitter * np.eye(len(gp.Z)))
    root = np.linalg.cholesky(np.linalg.solve(L, np.linalg.solve(L, S).T))
    with torch.no_grad():
        layer.posterior.mu[w] = torch.from_numpy(np.linalg.solve(L, m - gp.c))
        layer.posterior.lower[w] = torch.from_numpy(root)
        layer.posterior.log_diagonal[w] = torch.from_numpy(np.log(np.diag(root)))


def to_array(x: Tensor) -> Array:
    return x.detach().double().numpy().copy()
