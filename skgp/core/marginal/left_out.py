"""Predictions of an exact GP for rows that it does not know."""

import torch
from torch import Tensor

from skgp.core.layers.sparse import SparseLayer
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.numerics.linalg import LOG_2PI, cholesky


@torch.no_grad()
def left_out_log_densities(layer: SparseLayer, rows: ObservedRows, noise_var: Tensor) -> Tensor:
    """Log density of each target given all other rows, for one GP (Rasmussen and Williams 2006).

    By the inverse of the matrix of all rows (Eqns 5.10 to 5.12). The copies for which a weighted
    row stands are left out together.

    Parameters
    ----------
    layer : SparseLayer
        Kernel, constant mean and jitter of one GP.
    rows : ObservedRows
        Of positive weights, and nothing missing.
    noise_var : Tensor of shape (1,)

    Returns
    -------
    Tensor of shape (n,)
        In nats, of one copy.
    """
    kernel, noise_of_rows = layer.kernel, noise_var / rows.weight
    K = kernel.variance * kernel.Kuu(rows.x)[0] + noise_of_rows.diag()
    inverse = torch.cholesky_inverse(cholesky(K, layer.jitter))
    var_of_means = inverse.diagonal().reciprocal()
    residual = (inverse @ (rows.y[0] - layer.mean)) * var_of_means
    var = var_of_means - noise_of_rows + noise_var
    return -0.5 * (LOG_2PI + var.log() + residual.square() / var)
