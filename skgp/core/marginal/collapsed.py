"""The collapsed bound: the evidence lower bound of all rows with q(u) integrated out."""

import torch
from torch import Tensor

from skgp.core.kernels.kernel import Kernel
from skgp.core.numerics.linalg import LOG_2PI, inverse_cholesky
from skgp.exceptions import NotPositiveDefiniteError


def collapsed_bound(
    kernel: Kernel,
    Z: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    noise_var: Tensor,
    jitter: float,
) -> Tensor:
    """Evidence lower bound of W sparse GPs with q(u) integrated out (Titsias 2009, Eqn 9).

    log N(y; 0, Qff + noise) - tr(Kff - Qff) / (2 noise); a row of weight k counts k times.

    Parameters
    ----------
    kernel : Kernel
    Z : Tensor of shape (W, M, D)
    x : Tensor of shape (n, D)
    y : Tensor of shape (W, n)
        Targets of each GP.
    weight : Tensor of shape (n,)
    noise_var : Tensor of shape (W,)
    jitter : float

    Returns
    -------
    Tensor of shape (W,)
        In nats.
    """
    n = weight.sum()
    ratio = (kernel.variance / noise_var).unsqueeze(-1)
    A = inverse_cholesky(kernel.Kuu(Z), jitter) @ kernel.Kuf(Z, x)
    Aw = A * weight
    eye = torch.eye(Z.shape[-2], dtype=x.dtype, device=x.device)
    # |Qff + noise| and its inverse by the M x M matrix H = I + variance / noise * A A^T
    L, info = torch.linalg.cholesky_ex(eye + ratio.unsqueeze(-1) * (Aw @ A.mT))
    if bool(info.any()):
        raise NotPositiveDefiniteError("the collapsed bound is not finite; raise jitter")
    b = torch.linalg.solve_triangular(L, Aw @ y.unsqueeze(-1), upper=False).squeeze(-1)
    log_det = 2.0 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1) + n * noise_var.log()
    quadratic = ((weight * y.square()).sum(-1) - (ratio * b.square()).sum(-1)) / noise_var
    unexplained = (weight * (kernel.kff(x) - A.square().sum(-2))).sum(-1) * ratio.squeeze(-1)
    return -0.5 * (n * LOG_2PI + log_det + quadratic + unexplained)
