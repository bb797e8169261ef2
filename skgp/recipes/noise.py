"""How noisy targets are, for what depends on it."""

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from skgp.core.kernels.choice import make_kernel
from skgp.core.layers.posteriors import make_posterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal.starts import start_hyperparameters
from skgp.fitting.model import Model
from skgp.fitting.setup import Setup
from skgp.recipes.stack import CERTAIN_VAR, INITIAL_NOISE, MANY_INDUCING, each_gp

_JITTER: Final = 1e-6


def with_noise_share(build: Callable[[Setup], Model], setup: Setup) -> Model:
    """A model that knows how noisy its targets are."""
    model = build(setup)
    model.noise_share = noise_share(setup)
    return model


def noise_share(setup: Setup) -> float:
    """Share of the variance of the targets that no GP of the inputs explains.

    From the collapsed bound of some rows, with a GP for each output, over which it is averaged.
    The descent is short, so that it lies between 0.014 and 0.7, where targets of standard scale
    have no noise or nothing else. Constant targets have a share of one.
    """
    x, Y = setup.x, setup.Y.nan_to_num().mT
    few, weight = setup.few()
    kernel = make_kernel("matern52", len(Y), x.shape[1], math.sqrt(x.shape[1]))
    Z = setup.centres(x, MANY_INDUCING)
    posterior = make_posterior("diagonal", torch.zeros(len(Y), len(Z)), CERTAIN_VAR)
    layer = SparseGP(kernel, each_gp(kernel, Z), posterior, _JITTER).double()
    noise_var = start_hyperparameters(layer, x[few], Y[:, few], weight, INITIAL_NOISE)
    return float((noise_var / _variance(Y[:, few], weight)).clamp(max=1.0).mean())


def _variance(Y: Tensor, weight: Tensor) -> Tensor:
    """Weighted variances (P,) of targets (P, n)."""
    mean = Y @ weight / weight.sum()
    return (Y - mean[:, None]).square() @ weight / weight.sum()
