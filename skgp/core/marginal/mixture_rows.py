"""Rows whose noise is a mixture, as rows of normal noise with the same posterior."""

import math
from typing import Final

import torch
from torch import Tensor

from skgp.core.layers.noise import MixtureNoise
from skgp.core.layers.sparse import SparseLayer
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.numerics.linalg import cholesky

_MOST_ROUNDS: Final = 15
_SETTLED: Final = 0.01  # mean relative change of the weights after which rounds end


@torch.no_grad()
def equivalent_rows(
    layer: SparseLayer, rows: ObservedRows, noise_var: Tensor, noise: MixtureNoise
) -> ObservedRows:
    """Targets and weights for which normal noise gives the posterior of a GP with mixture noise.

    The posterior is that of variational Bayes (Bishop 2006, section 10.2): q(f) is normal, and each
    row has a probability r_k of each component, with weight w_k, mean s_k and precision p_k.
    Each round finds r_k, proportional to w_k exp E log N(y; f + s_k, 1 / p_k), and then q(f) given
    targets y - sum_k r_k s_k p_k / p of precision p = sum_k r_k p_k. Outliers have a low precision.

    Parameters
    ----------
    layer : SparseLayer
        One GP with a constant mean.
    rows : ObservedRows
        One target each, none of them missing.
    noise_var : Tensor of shape (1,)
    noise : MixtureNoise
        Relative to it.

    Returns
    -------
    ObservedRows
        The same inputs; weights are relative to `noise_var`.

    Raises
    ------
    NotPositiveDefiniteError
        If a round has no Cholesky factor.
    """
    K = (layer.kernel.Kuu(rows.x[None]) * layer.kernel.variance)[0]
    y, std = (rows.y - layer.mean.unsqueeze(-1))[0], noise_var.sqrt()
    log_w, shift, ratio = y.new_tensor([[math.log(w) for w in noise.weights], *noise[1:]])
    target, weight = y, torch.ones_like(y)
    for _ in range(_MOST_ROUNDS):
        mean, var = _posterior(K, target, rows.weight * weight / noise_var)
        squares = ((y - mean).unsqueeze(-1) - std * shift).square() + var.unsqueeze(-1)
        log_r = log_w - 0.5 * (ratio.log() + squares / (ratio * noise_var))
        by_component = log_r.softmax(-1) / ratio
        before, weight = weight, by_component.sum(-1)
        target = y - std * (by_component @ shift) / weight
        if (weight / before - 1.0).abs().mean() < _SETTLED:
            break
    return rows._replace(y=(target + layer.mean).unsqueeze(0), weight=rows.weight * weight)


def _posterior(K: Tensor, y: Tensor, precision: Tensor) -> tuple[Tensor, Tensor]:
    """Means and variances (n,) of f at the rows (Rasmussen and Williams 2006, section 3.4.3)."""
    root = precision.sqrt()
    scaled = root.unsqueeze(-1) * K
    L = cholesky(torch.eye(len(K)).to(K) + scaled * root, 0.0)
    V = torch.linalg.solve_triangular(L, scaled, upper=False)
    z = torch.linalg.solve_triangular(L, (root * y).unsqueeze(-1), upper=False)
    mean, explained = V.mT @ z, V.square().sum(0)
    return mean.squeeze(-1), (K.diagonal() - explained).clamp_min(0.0)
