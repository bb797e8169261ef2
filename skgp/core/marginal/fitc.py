"""The fully independent training conditional (FITC; Snelson and Ghahramani, 2006), collapsed.

p(y) = N(y; mean, Qff + diag(Kff - Qff) + noise) with Qff = Kfu Kuu^-1 Kuf (PPGPR paper, Eqns 12
and 13). The rows enter through sums alone, computed chunk by chunk: O(n M^2) operations.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import CheckpointError, checkpoint, set_checkpoint_early_stop

from skgp.core.kernels.kernel import Kernel
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.numerics.linalg import LOG_2PI, inverse_cholesky, log_det_and_quadratic

_PRECISION_JITTER = 1e-12  # identity plus a Gram matrix: only rounding needs a remedy
_CHUNK_SIZE = 2048


def fitc_log_marginal(
    layer: SparseGP, rows: ObservedRows, noise_var: Tensor, chunk_size: int = _CHUNK_SIZE
) -> Tensor:
    """Log marginal likelihood of W independent GPs under FITC, differentiable in the parameters.

    A row of weight k counts as k rows at the same place, each with a residual Kff - Qff and a noise
    of its own: its precision, its log-variance and its square count k times. The backward pass
    computes each chunk again, so that neither pass holds more than one chunk of size M x N.

    Parameters
    ----------
    layer : SparseGP
        Kernel, constant means, inducing inputs and jitter; its posterior has no part in it.
    rows : ObservedRows
    noise_var : Tensor of shape (W,)
    chunk_size : int
        Rows that are treated at once.

    Returns
    -------
    Tensor of shape (W,)
        In nats.

    Raises
    ------
    NotPositiveDefiniteError
        If Kuu has no Cholesky factor.
    """
    b, H, rest = _sums(layer, rows, noise_var, chunk_size)
    # |Qff + R| = |R| |H| and (Qff + R)^-1 = R^-1 - R^-1 Kfu Luu^-T H^-1 Luu^-1 Kuf R^-1
    log_det, explained = log_det_and_quadratic(H, b, _PRECISION_JITTER)
    return (-0.5 * (rest + log_det - explained)).to(rows.y.dtype)


@torch.no_grad()
def fitc_posterior(
    layer: SparseGP, rows: ObservedRows, noise_var: Tensor, chunk_size: int = _CHUNK_SIZE
) -> tuple[Tensor, Tensor]:
    """Posterior N(H^-1 b, H^-1) of the whitened inducing variables v = Luu^-1 u, exact for FITC.

    H = I + A R^-1 A^T and b = A R^-1 (y - mean) with A = Luu^-1 Kuf, R = diag(Kff - Qff) + noise.

    Parameters
    ----------
    layer, rows, noise_var, chunk_size
        As in `fitc_log_marginal`.

    Returns
    -------
    information : Tensor of shape (W, M), float64
        The vector b.
    precision : Tensor of shape (W, M, M), float64
        The matrix H.
    """
    b, H, _ = _sums(layer, rows, noise_var, chunk_size)
    return b, H


def check_recomputation(kernel: Kernel, Z: Tensor) -> None:
    """Refuse a kernel whose blocks cannot be computed anew, chunk by chunk, in a backward pass.

    Parameters
    ----------
    kernel : Kernel
    Z : Tensor of shape (W, M, F)

    Raises
    ------
    ValueError
    """
    # An early stop would leave kernels of gpytorch in the middle of an evaluation, without the
    # active_dims that they set aside for it.
    with set_checkpoint_early_stop(False):
        block = checkpoint(kernel.Kuf, Z, Z[0], use_reentrant=False, preserve_rng_state=False)
    inputs = [Z, *(p for p in kernel.parameters() if p.requires_grad)]
    try:
        torch.autograd.grad(block.sum(), inputs, allow_unused=True)
    except CheckpointError as error:
        raise ValueError(
            "kernel cannot be computed anew in a backward pass, as FITC does for its chunks of "
            "rows: use another kernel"
        ) from error


def _sums(
    layer: SparseGP, rows: ObservedRows, noise_var: Tensor, chunk_size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Information b, precision H, and what does not involve them; accumulated in float64."""
    kernel, Z = layer.kernel, layer.Z
    L_inv = inverse_cholesky(kernel.Kuu(Z), layer.jitter)
    variance = kernel.variance.unsqueeze(-1)

    def of_chunk(x: Tensor, residual: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        A = L_inv @ kernel.Kuf(Z, x)
        unexplained = (kernel.kff(x) - A.square().sum(-2)).clamp_min(0.0)
        row_var = variance * unexplained + noise_var.unsqueeze(-1)
        precision = count / row_var
        AR = A * precision.unsqueeze(-2)
        rest = count * (LOG_2PI + row_var.log()) + precision * residual.square()
        b = (AR @ residual.unsqueeze(-1)).squeeze(-1)
        return b.double(), (AR @ A.mT).double(), rest.sum(-1, dtype=torch.float64)

    residual, count = rows.residuals_and_counts(layer.mean)
    chunks = zip(
        torch.split(rows.x, chunk_size),
        torch.split(residual, chunk_size, -1),
        torch.split(count, chunk_size, -1),
        strict=True,
    )
    b, H, rest = (torch.zeros((), dtype=torch.float64, device=Z.device) for _ in range(3))
    for chunk in chunks:
        parts = checkpoint(of_chunk, *chunk, use_reentrant=False, preserve_rng_state=False)
        b, H, rest = b + parts[0], H + parts[1], rest + parts[2]
    eye = torch.eye(Z.shape[-2], dtype=torch.float64, device=Z.device)
    return variance.sqrt() * b, eye + variance.unsqueeze(-1) * H, rest
