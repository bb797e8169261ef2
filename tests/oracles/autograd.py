"""One-layer models in plain torch: what the hand-written backward passes have to agree with."""

import math

import torch
from torch import Tensor

from skgp.core.layers.layer import Latent, Layer
from skgp.core.layers.sparse import SparseGP
from skgp.core.layers.two_bases import DecoupledGP


def correlation(name: str, z: Tensor, x: Tensor) -> Tensor:
    """Unit-variance kernel (W, M, N) of scaled inputs by differences, not products."""
    r2 = (z.unsqueeze(-2) - x.unsqueeze(-3)).square().sum(-1)
    if name == "rbf":
        return torch.exp(-0.5 * r2)
    apart = r2 > 0.0
    r = torch.where(apart, torch.where(apart, r2, 1.0).sqrt(), 0.0)
    if name == "matern12":
        return torch.exp(-r)
    if name == "matern32":
        return (1.0 + math.sqrt(3.0) * r) * torch.exp(-math.sqrt(3.0) * r)
    return (1.0 + math.sqrt(5.0) * r + 5.0 / 3.0 * r2) * torch.exp(-math.sqrt(5.0) * r)


def moments(layer: Layer, x: Tensor) -> Latent:
    """Moments (1, B, W) of a stationary layer by triangular solves; autograd does the rest."""
    assert isinstance(layer, SparseGP | DecoupledGP)
    L, Kuf = _blocks(layer, layer.Z, x)
    A = torch.linalg.solve_triangular(L, Kuf, upper=False)
    if isinstance(layer, SparseGP):
        mean = torch.einsum("wm,wmn->nw", layer.posterior.mu, A)
    else:
        L_mean, Kuf_mean = _blocks(layer, layer.Z_mean, x)
        A_mean = torch.linalg.solve_triangular(L_mean, Kuf_mean, upper=False)
        mean = torch.einsum("wm,wmn->nw", layer.mean_posterior.mu, A_mean)
    root = layer.posterior.moments()[1]
    if root is None:
        root = torch.zeros_like(L)
    elif root.dim() == 2:
        root = torch.diag_embed(root)
    variance = layer.kernel.variance
    v_prior = (variance.unsqueeze(-1) - A.square().sum(-2)).mT
    v_q = (root.mT @ A).square().sum(-2).mT
    return Latent((layer.mean + mean).unsqueeze(0), v_prior.unsqueeze(0), v_q.unsqueeze(0))


def _blocks(layer: Layer, Z: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    scale = layer.kernel.lengthscale.unsqueeze(-2)
    variance = layer.kernel.variance[:, None, None]
    name = layer.kernel.name
    eye = torch.eye(Z.shape[-2], dtype=Z.dtype)
    Kuu = variance * (correlation(name, Z / scale, Z / scale) + layer.jitter * eye)
    return torch.linalg.cholesky(Kuu), variance * correlation(name, Z / scale, x / scale)
