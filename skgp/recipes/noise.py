"""The share of the noise in the targets, estimated before the fit."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import torch
from torch import Tensor

from skgp.core.kernels.choice import make_kernel
from skgp.core.layers.posteriors import make_posterior
from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal.starts import start_hyperparameters
from skgp.fitting.model import Model
from skgp.fitting.recipe import Recipe
from skgp.fitting.setup import Setup
from skgp.recipes.stack import CERTAIN_VAR, INITIAL_NOISE, MANY_INDUCING, each_gp

_JITTER: Final = 1e-6


def with_noise_share(recipe: Recipe) -> Recipe:
    """The recipe of a model that knows how noisy its targets are."""
    return replace(recipe, build=partial(_build, recipe.build))


def _build(build: Callable[[Setup], Model], setup: Setup) -> Model:
    model = build(setup)
    model.noise_share = noise_share(setup)
    return model


def noise_share(setup: Setup) -> float:
    """Share of the variance of the targets that a GP of the inputs leaves to the noise.

    Each output has a GP of its own, as it may miss other rows, whose hyper-parameters start as
    those of a fit: by some steps on the collapsed bound of some rows (Titsias 2009, Eqn 9). The
    result is the mean over the outputs that vary, and one if none does. The steps are few: targets
    without noise have about 0.014, and noise alone about 0.7.
    """
    few, weight = setup.few()
    x, Z = setup.x[few], setup.centres(setup.x, MANY_INDUCING)
    offset, unit = _moments(x, weight)
    rows = (x - offset) / unit, (Z - offset) / unit, weight
    shares = [_share(*rows, y) for y in setup.Y[few].mT]
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known else 1.0


def _share(x: Tensor, Z: Tensor, weight: Tensor, y: Tensor) -> float | None:
    """The share in one output (n,), NaN where missing; None if it is constant."""
    seen = ~y.isnan()
    x, y, weight = x[seen], y[seen, None], weight[seen]
    if not len(y) or (y == y[0]).all():
        return None
    offset, unit = _moments(y, weight)
    kernel = make_kernel("matern52", 1, x.shape[1], math.sqrt(x.shape[1]))
    posterior = make_posterior("diagonal", torch.zeros(1, len(Z)), CERTAIN_VAR)
    layer = SparseGP(kernel, each_gp(kernel, Z), posterior, _JITTER).double()
    noise_var = start_hyperparameters(layer, x, ((y - offset) / unit).mT, weight, INITIAL_NOISE)
    return min(noise_var.item(), 1.0)


def _moments(values: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Means and standard deviations (d,) of values (n, d); one for a constant column."""
    share = weight / weight.sum()
    mean = share @ values
    std = (share @ (values - mean).square()).sqrt()
    return mean, torch.where(std > 0.0, std, 1.0)
