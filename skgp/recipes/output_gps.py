"""A rough GP for each output, before the fit: how noisy it is, and what its missing targets are."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from skgp.core.kernels.choice import make_kernel
from skgp.core.layers.posteriors import make_posterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal.starts import start_hyperparameters, start_posterior
from skgp.fitting.setup import Setup
from skgp.recipes.stack import CERTAIN_VAR, INITIAL_NOISE, MANY_INDUCING, each_gp

_JITTER = 1e-6


@dataclass(frozen=True)
class OutputGPs:
    """GPs of the inputs, one for each of P outputs, of which each may miss other rows.

    Attributes
    ----------
    layer : SparseGP
        Of inputs and targets in units of their own.
    noise_var : Tensor of shape (P,)
        In units of the variance of the targets.
    varies : Tensor of shape (P,)
        Whether an output has different values at all.
    x_scale, y_scale : tuple of two Tensors, (D,) and (P,)
        Offset and unit.
    """

    layer: SparseGP
    noise_var: Tensor
    varies: Tensor
    x_scale: tuple[Tensor, Tensor]
    y_scale: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, setup: Setup) -> "OutputGPs":
        """Their hyper-parameters start as those of a fit, and end there.

        That is some steps on the collapsed bound of some rows (Titsias 2009, Eqn 9).
        """
        few, weight = setup.few()
        x, Z = setup.x[few], setup.centres(setup.x, MANY_INDUCING)
        x_scale = _moments(x, weight.unsqueeze(-1))
        Y = setup.Y[few]
        weights = weight.unsqueeze(-1) * ~Y.isnan()
        varies = Y.nan_to_num(-torch.inf).amax(0) > Y.nan_to_num(torch.inf).amin(0)
        Y = Y.nan_to_num()
        y_scale = _moments(Y, weights)
        n_outputs = Y.shape[1]
        kernel = make_kernel("matern52", n_outputs, x.shape[1], math.sqrt(x.shape[1]))
        posterior = make_posterior("diagonal", torch.zeros(n_outputs, len(Z)), CERTAIN_VAR)
        Z = each_gp(kernel, _scaled(Z, x_scale))
        layer = SparseGP(kernel, Z, posterior, _JITTER).double()
        rows = _scaled(x, x_scale), _scaled(Y, y_scale).mT, weights.mT
        noise_var = start_hyperparameters(layer, *rows, INITIAL_NOISE)
        start_posterior(layer, *rows, noise_var, 1.0)
        return cls(layer, noise_var, varies, x_scale, y_scale)

    @torch.no_grad()
    def means(self, x: Tensor) -> Tensor:
        """Posterior means (n, P) at inputs (n, D)."""
        x = _scaled(x, self.x_scale).unsqueeze(0)
        offset, unit = self.y_scale
        return offset + unit * self.layer.moments(x, self.layer.factors()).f_mean[0]


def filled_targets(setup: Setup) -> Tensor:
    """Targets (n, P) of the rows, with means of GPs where a row misses a part of them.

    Functions that mix outputs start from values for all of them; zeros would pass for noise.
    """
    missing = setup.Y.isnan()
    if not (missing.any(-1) & ~missing.all(-1)).any():
        return setup.Y.nan_to_num()  # of rows without targets, which do not count
    return torch.where(missing, OutputGPs.of(setup).means(setup.x), setup.Y)


def _scaled(values: Tensor, scale: tuple[Tensor, Tensor]) -> Tensor:
    offset, unit = scale
    return (values - offset) / unit


def _moments(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Means and standard deviations (d,) of values (n, d) with weights (n, d) or (n, 1).

    The deviation is one for a constant column.
    """
    share = weights / weights.sum(0)
    mean = (share * values).sum(0).nan_to_num()  # of an output that nobody has observed
    std = (share * (values - mean).square()).sum(0).sqrt()
    return mean, torch.where(std > 0.0, std, 1.0)
