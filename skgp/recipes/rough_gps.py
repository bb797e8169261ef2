"""Rough GPs of the inputs before the fit: they compare starts, and fill in missing targets."""

import math
from typing import Final, NamedTuple

import torch
from torch import Tensor

from skgp.core.kernels.choice import make_kernel
from skgp.core.layers.posteriors import make_posterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal.starts import bound_per_row, start_hyperparameters, start_posterior
from skgp.exceptions import NotPositiveDefiniteError
from skgp.fitting.setup import Setup

_INDUCING: Final = 100
_JITTER: Final = 1e-6
_NOISE: Final = 0.1  # that they start with
_FAR: Final = 0.3  # share of the variance that a GP leaves where it has no rows nearby
_RIDGE: Final = 1e-2  # of regressions between outputs, which are scaled
_CONSTANT: Final = 1e-12  # standard deviation of equal values, relative to them, by rounding
_NUMBERS: Final = 2**21  # in the systems of some rows


class Scale(NamedTuple):
    """Offsets and units of columns."""

    offset: Tensor
    unit: Tensor

    @classmethod
    def of(cls, values: Tensor, weights: Tensor) -> "Scale":
        """Means and standard deviations of values (n, d), with weights (n, d) or (n, 1).

        The unit of a column that is constant, up to rounding, is one: other rows may differ.
        """
        share = weights / weights.sum(0)
        mean = (share * values).sum(0).nan_to_num()  # of an output that no row has observed
        std = (share * (values - mean).square()).sum(0).sqrt()
        return cls(mean, torch.where(std > _CONSTANT * mean.abs(), std, 1.0))

    def __call__(self, values: Tensor) -> Tensor:
        """Values (n, d) in these units."""
        return (values - self.offset) / self.unit


class RoughGPs(NamedTuple):
    """Sparse GPs whose hyper-parameters end where those of a fit start.

    That is some steps on the collapsed bound of some rows (Titsias 2009, Eqn 9).

    Attributes
    ----------
    layer : SparseGP
    noise_var : Tensor of shape (W,)
    rows : x (n, D), functions (W, n) and their weights (n,) or (W, n)
    """

    layer: SparseGP
    noise_var: Tensor
    rows: tuple[Tensor, Tensor, Tensor]

    @classmethod
    def of(
        cls,
        rows: tuple[Tensor, Tensor, Tensor],
        Z: Tensor,
        lengthscale: float,
        n_kernels: int,
        noise_var: float = _NOISE,
    ) -> "RoughGPs":
        """With inducing inputs that stay at Z (M, D), and a kernel for each function or for all."""
        kernel = make_kernel("matern52", n_kernels, Z.shape[1], lengthscale)
        posterior = make_posterior("full", torch.zeros(len(rows[1]), len(Z)), 1.0)
        n_sharing = len(rows[1]) if n_kernels < len(rows[1]) else None
        Z = Z.expand(n_kernels, -1, -1).clone()
        layer = SparseGP(kernel, Z, posterior, _JITTER, n_sharing).double()
        return cls(layer, start_hyperparameters(layer, *rows, noise_var), rows)

    def bound(self) -> Tensor:
        """The bound (W,) of each, in nats per row."""
        return bound_per_row(self.layer, *self.rows, self.noise_var)

    @torch.no_grad()
    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior means and variances (n, W) at inputs (n, D)."""
        start_posterior(self.layer, *self.rows, self.noise_var, 1.0)
        latent = self.layer.moments(x.unsqueeze(0), self.layer.factors())
        return latent.f_mean[0], latent.f_var[0]


def bound_of_functions(setup: Setup, x: Tensor, functions: Tensor, n_kernels: int) -> Tensor:
    """The bound (W,), in nats per row, of rough GPs of functions (W, n) at inputs x (n, D)."""
    few, weight = setup.subsample()
    Z = setup.shared_centres(x[few], weight, _INDUCING)
    rows = x[few], functions[:, few], weight
    return RoughGPs.of(rows, Z, setup.lengthscale(x), n_kernels).bound()


class OutputGPs(NamedTuple):
    """A GP for each of P outputs, of which each may miss other rows.

    Attributes
    ----------
    gps : RoughGPs
        Of inputs and targets in their own units.
    varies : Tensor of shape (P,)
        Whether an output has different values at all.
    x_scale, y_scale : Scale
    """

    gps: RoughGPs
    varies: Tensor
    x_scale: Scale
    y_scale: Scale

    @classmethod
    def of(
        cls, setup: Setup, n_inducing: int = _INDUCING, noise_var: float = _NOISE
    ) -> "OutputGPs":
        """Of the targets of some rows."""
        few, weight = setup.subsample()
        x, Y, Z = setup.x[few], setup.Y[few], setup.centres(setup.x, n_inducing)
        weights = weight.unsqueeze(-1) * ~Y.isnan()
        varies = Y.nan_to_num(-torch.inf).amax(0) > Y.nan_to_num(torch.inf).amin(0)
        Y = Y.nan_to_num()
        x_scale, y_scale = Scale.of(x, weight.unsqueeze(-1)), Scale.of(Y, weights)
        rows = x_scale(x), y_scale(Y).mT, weights.mT
        lengthscale = math.sqrt(x.shape[1])
        gps = RoughGPs.of(rows, x_scale(Z), lengthscale, Y.shape[1], noise_var)
        return cls(gps, varies, x_scale, y_scale)


def filled_targets(setup: Setup) -> Tensor:
    """Targets (n, P), with likely values for missing ones of rows that miss a part of theirs.

    Functions that mix outputs start from values for all of them; zeros would pass for noise. A
    value is the mean of a GP of its output, or linear in the observed outputs of its row, whichever
    leaves less of the variance. Targets of rows that have none are zero: they do not count.
    """
    missing = setup.Y.isnan()
    if torch.equal(missing.any(-1), missing.all(-1)):  # no row misses a part of its targets
        return setup.Y.nan_to_num()
    try:
        gps, _, x_scale, y_scale = OutputGPs.of(setup)
        means, left = gps.moments(x_scale(setup.x))
    except NotPositiveDefiniteError:  # which a model with a larger jitter need not have
        return setup.Y.nan_to_num()
    means = y_scale.offset + y_scale.unit * means
    # Two outputs may have no rows in common, but rows nearby.
    near = torch.where(missing & (left > _FAR), torch.nan, torch.where(missing, means, setup.Y))
    regression, rest = regressed(setup.Y, covariance(near, setup.observed_weight))
    return torch.where(missing, torch.where(left < rest, means, regression), setup.Y)


def covariance(Y: Tensor, weight: Tensor) -> Tensor:
    """Covariance (P, P) of centred outputs (n, P), NaN where missing, with weights (n,) of rows.

    Each entry is of the rows that have both outputs. Together they may have negative eigenvalues,
    which are left out.
    """
    mask, y = (~Y.isnan()).to(Y), Y.nan_to_num()
    counts = ((mask.mT * weight) @ mask).clamp_min(torch.finfo(Y.dtype).tiny)
    values, directions = torch.linalg.eigh((y.mT * weight) @ y / counts)
    return (directions * values.clamp_min(0.0)) @ directions.mT


def regressed(Y: Tensor, cov: Tensor) -> tuple[Tensor, Tensor]:
    """Least squares (n, P) of outputs from those of their row that are not NaN, and what it leaves.

    That is a share (n, P) of the variance.
    """
    n_outputs = Y.shape[1]
    values, rest = torch.empty_like(Y), torch.empty_like(Y)
    eye = torch.eye(n_outputs, dtype=Y.dtype)
    for rows in torch.split(torch.arange(len(Y)), max(1, _NUMBERS // n_outputs**2)):
        # Of the outputs that are missing the system has the identity, and zeros on the right.
        seen = (~Y[rows].isnan()).to(Y).unsqueeze(-1)
        system = seen * (cov + _RIDGE * eye) * seen.mT + torch.diag_embed(1.0 - seen.squeeze(-1))
        weights = torch.cholesky_solve(seen * cov, torch.linalg.cholesky(system))  # (o, p)
        values[rows] = (weights.mT @ Y[rows].nan_to_num().unsqueeze(-1)).squeeze(-1)
        explained = (weights * (seen * cov)).sum(-2)
        rest[rows] = 1.0 - explained / cov.diagonal().clamp_min(_RIDGE)
    return values, rest
