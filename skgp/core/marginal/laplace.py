"""Exact GPs at draws from a Laplace approximation of the posterior of their hyper-parameters."""

import copy
from typing import Final, cast

import torch
from torch import Tensor, nn

from skgp.core.kernels.stationary import Stationary
from skgp.core.layers.sparse import SparseLayer
from skgp.core.marginal.exact import ExactGP, exact_log_marginal
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.numerics.conjugate_gradients import ConjugateGradients
from skgp.core.numerics.draws import make_generator
from skgp.exceptions import NotPositiveDefiniteError

_STEP: Final = 1e-4  # of finite differences of gradients, on logarithmic scales
# Least precision of a direction. Where the rows say next to nothing, a standard normal remains.
_LEAST_PRECISION: Final = 1.0
_NUMBERS: Final = 4_000_000  # in the matrices of the GPs whose gradients are computed at a time


def laplace_gps(
    layer: SparseLayer, rows: ObservedRows, noise_var: Tensor, noise_floor: float, n_draws: int
) -> ExactGP:
    """Exact GPs that know the rows, with draws of the hyper-parameters around those of one GP.

    The logarithms of lengthscales, variance and noise above its floor are normal around their
    values, with the inverse of the Hessian of minus the log marginal likelihood as covariance
    (MacKay 1992; Rasmussen and Williams 2006, section 5.2). Their equal mixture is the prediction
    of a GP that is not certain of them, as no GP of few rows can be.

    Parameters
    ----------
    layer : SparseLayer
        One GP with a stationary kernel and a constant mean, near an optimum.
    rows : ObservedRows
    noise_var : Tensor of shape (1,)
        Noise variance of the layer.
    noise_floor : float
        Below all noise variances.
    n_draws : int
        Number K, even: each draw comes with its reflection at the centre.

    Returns
    -------
    ExactGP
        K GPs, each with a noise variance.

    Raises
    ------
    NotPositiveDefiniteError
        If the matrix of a draw has no Cholesky factor, or the Hessian is not finite.
    """
    kernel = cast(Stationary, layer.kernel)
    parts = kernel.log_lengthscale[0], kernel.log_variance, (noise_var - noise_floor).log()
    centre = torch.cat([part.detach() for part in parts])
    draws = centre + _deviations(layer, rows, centre, noise_floor, n_draws)
    gps = _gps(layer, rows, draws)
    gps.condition(repeated(rows, n_draws), draws[:, -1].exp() + noise_floor)
    return gps.requires_grad_(False)


def _deviations(
    layer: SparseLayer, rows: ObservedRows, centre: Tensor, noise_floor: float, n_draws: int
) -> Tensor:
    """Draws (K, H) from the normal approximation, less its centre (H,)."""
    n = len(centre)
    points = torch.cat([centre[None], centre + _STEP * torch.eye(n).to(centre)])
    size = max(1, _NUMBERS // len(rows.x) ** 2)
    slopes = torch.cat([_slopes(layer, rows, part, noise_floor) for part in points.split(size)])
    hessian = (slopes[:1] - slopes[1:]) / _STEP
    if not bool(hessian.isfinite().all()):  # of which there are no eigenvalues
        raise NotPositiveDefiniteError("the log marginal likelihood has no finite curvature")
    precision, directions = torch.linalg.eigh(0.5 * (hessian + hessian.mT))
    std = precision.clamp_min(_LEAST_PRECISION).rsqrt()
    # The symmetric root is the same whatever the signs of the eigenvectors.
    root = (directions * std) @ directions.mT
    generator = make_generator(0, "hyper-parameters")
    z = torch.randn(n_draws // 2, n, generator=generator, dtype=centre.dtype).to(centre)
    return torch.cat([z, -z]) @ root


def _slopes(layer: SparseLayer, rows: ObservedRows, points: Tensor, noise_floor: float) -> Tensor:
    """Gradients (K, H) of the log marginal likelihood at hyper-parameters (K, H)."""
    gps = _gps(layer, rows, points)
    kernel = cast(Stationary, gps.kernel)
    log_excess = points[:, -1].clone().requires_grad_()
    with torch.enable_grad():
        noise_var = log_excess.exp() + noise_floor
        log_marginal = exact_log_marginal(gps, repeated(rows, len(points)), noise_var).sum()
        of_parts = kernel.log_lengthscale, kernel.log_variance, log_excess
        slopes = torch.autograd.grad(log_marginal, of_parts)
    return torch.cat([slopes[0], *(slope.unsqueeze(-1) for slope in slopes[1:])], -1)


def _gps(layer: SparseLayer, rows: ObservedRows, points: Tensor) -> ExactGP:
    """GPs over the rows, with hyper-parameters (K, H), that know no targets."""
    kernel = copy.deepcopy(cast(Stationary, layer.kernel))
    kernel.log_lengthscale = nn.Parameter(points[:, :-2].clone())
    kernel.log_variance = nn.Parameter(points[:, -2].clone())
    solver = ConjugateGradients(0, min_rows=0)  # factors of all draws are large: none is stored
    gps = ExactGP(kernel, rows.x, layer.jitter, solver)
    gps.mean = nn.Parameter(layer.mean.detach().repeat(len(points)))
    return gps


def repeated(rows: ObservedRows, n: int) -> ObservedRows:
    """The rows of n GPs that have the targets of one."""
    return rows._replace(y=rows.y.expand(n, -1))


def nth(gps: ExactGP, number: int) -> ExactGP:
    """One of several exact GPs."""
    kernel = copy.deepcopy(cast(Stationary, gps.kernel))
    one = slice(number, number + 1)
    kernel.log_lengthscale = nn.Parameter(kernel.log_lengthscale.detach()[one])
    kernel.log_variance = nn.Parameter(kernel.log_variance.detach()[one])
    gp = ExactGP(kernel, gps.x, gps.jitter, gps.solver)
    gp.mean = nn.Parameter(gps.mean.detach()[one])
    for name in ("count", "noise_var", "shares", "residual", "alpha"):
        setattr(gp, name, getattr(gps, name)[one])
    return gp.requires_grad_(False)
