"""Stacks of layers and their mixtures by loops over nodes, layers and rows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from oracles.models import dense_gps, normal, random_layer, to_array
from oracles.sparse import DenseGP, Moments, moments
from scipy.stats import multivariate_normal
from torch import nn

from skgp.core.layers.posteriors import Covariance
from skgp.core.layers.sparse import SparseGP
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.stacks.stack import Connection, GPStack

Array = npt.NDArray[np.float64]


class DenseLayer(NamedTuple):
    """W GPs with a linear mean each, and what the kernel and the linear mean see."""

    gps: list[DenseGP]
    slope: Array | None
    kernel: str
    mean: str


def dense_stack(stack: GPStack) -> list[DenseLayer]:
    layers = []
    for layer, connection in zip(stack.layers, stack.connections, strict=True):
        slope = None if layer.slope is None else to_array(layer.slope)
        layers.append(DenseLayer(dense_gps(layer), slope, connection.kernel, connection.mean))
    return layers


def seen(source: str, h: Array, x: Array) -> Array:
    """What one row of a layer sees of the layer below and of the stack's inputs."""
    return {"below": h, "inputs": x, "both": np.array([*h, *x])}[source]


def row_moments(layer: DenseLayer, h: Array, x: Array) -> Moments:
    """Moments of the W functions of a layer at one row, each (W,)."""
    row, mean_row = seen(layer.kernel, h, x), seen(layer.mean, h, x)
    columns = [moments(gp, row[None]) for gp in layer.gps]
    f_mean, v_prior, v_q = (
        np.array([part[0] for part in parts]) for parts in zip(*columns, strict=True)
    )
    if layer.slope is not None:
        for w in range(len(f_mean)):
            f_mean[w] += sum(c * s for c, s in zip(mean_row, layer.slope[:, w], strict=True))
    return Moments(f_mean, v_prior, v_q)


def stack_moments(layers: Sequence[DenseLayer], X: Array, xi: Sequence[Array]) -> Moments:
    """Moments (Q, B, W) of the top layer for nodes of shapes (Q, B or 1, W), one per layer."""
    n_nodes = len(xi[0]) if xi else 1
    table = []
    for q in range(n_nodes):
        rows = []
        for b, x in enumerate(X):
            h = x
            for layer, nodes in zip(layers[:-1], xi, strict=True):
                below = row_moments(layer, h, x)
                deviation = np.sqrt(below.v_prior + below.v_q)
                h = below.f_mean + deviation * nodes[q, b % nodes.shape[1]]
            rows.append(row_moments(layers[-1], h, x))
        table.append(rows)
    parts = [[[getattr(row, name) for row in rows] for rows in table] for name in Moments._fields]
    return Moments(*map(np.array, parts))


class Mixture(NamedTuple):
    """Normal components of P outputs: weights (Q,), mean (Q, B, P) and cov (Q, B, P, P)."""

    omega: Array
    mean: Array
    cov: Array

    def log_density(self, Y: Array) -> Array:
        """log sum_q omega_q N(y_b; mean, cov) over the observed outputs of each row, (B,)."""
        values = np.empty(len(Y))
        for b, y in enumerate(Y):
            o = np.flatnonzero(~np.isnan(y))
            density = 0.0
            for weight, mean, cov in zip(self.omega, self.mean[:, b], self.cov[:, b], strict=True):
                normal = multivariate_normal(mean[o], cov[np.ix_(o, o)])
                density += weight * normal.pdf(y[o])
            values[b] = np.log(density)
        return values

    def total_mean(self) -> Array:
        return sum(w * m for w, m in zip(self.omega, self.mean, strict=True))

    def total_cov(self) -> Array:
        """E cov + cov E (law of total variance), (B, P, P)."""
        centre = self.total_mean()
        total = np.zeros(self.cov.shape[1:])
        for weight, mean, cov in zip(self.omega, self.mean, self.cov, strict=True):
            for b in range(len(mean)):
                total[b] += weight * (cov[b] + np.outer(mean[b] - centre[b], mean[b] - centre[b]))
        return total


def mixture(latent: Moments, omega: Array, noise_var: Array, mixing: Array | None) -> Mixture:
    """y = M f + e at every node; M is the identity if None."""
    M = np.eye(latent.f_mean.shape[-1]) if mixing is None else mixing
    f_var = latent.v_prior + latent.v_q
    mean = np.array([[M @ m for m in rows] for rows in latent.f_mean])
    cov = np.array([[M @ np.diag(v) @ M.T + np.diag(noise_var) for v in rows] for rows in f_var])
    return Mixture(omega, mean, cov)


def stack_mixture(
    stack: GPStack, likelihood: Gaussian, X: Array, xi: Sequence[Array], omega: Array
) -> Mixture:
    latent = stack_moments(dense_stack(stack), X, xi)
    mixing = None if likelihood.mixing is None else to_array(likelihood.mixing)
    return mixture(latent, omega, to_array(likelihood.noise_var), mixing)


def random_stack(
    rng: np.random.Generator,
    widths: Sequence[int],
    *,
    n_features: int = 3,
    connections: Sequence[Connection] | None = None,
    linear: bool = True,
    covariance: Covariance = "diagonal",
    name: str = "matern52",
    n_inducing: int = 5,
    jitter: float = 1e-6,
) -> GPStack:
    """Layers of the widths given, the top one counted; a linear mean below the top if `linear`."""
    if connections is None:
        connections = [Connection()] * len(widths)
    layers: list[SparseGP] = []
    below = n_features
    for width, connection in zip(widths, connections, strict=True):
        sizes = {"below": below, "inputs": n_features, "both": below + n_features}
        layer = random_layer(
            rng,
            covariance,
            name=name,
            n_gps=width,
            n_inducing=n_inducing,
            n_features=sizes[connection.kernel],
            jitter=jitter,
        )
        if linear and len(layers) < len(widths) - 1:
            layer.slope = nn.Parameter(normal(rng, sizes[connection.mean], width))
        layers.append(layer)
        below = width
    return GPStack(layers, connections=connections)


def nodes_of(nodes: Sequence[torch.Tensor]) -> list[Array]:
    return [to_array(xi) for xi in nodes]
