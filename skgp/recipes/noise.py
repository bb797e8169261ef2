"""The share of the noise in the targets, estimated before the fit."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from skgp.fitting.model import Model
from skgp.fitting.recipe import Recipe
from skgp.fitting.setup import Setup
from skgp.recipes.rough_gps import OutputGPs
from skgp.recipes.spec import INITIAL_NOISE, MANY_INDUCING


def with_noise_share(recipe: Recipe) -> Recipe:
    """The recipe of a model that knows how noisy its targets are."""
    return replace(recipe, build=partial(_build, recipe.build))


def _build(build: Callable[[Setup], Model], setup: Setup) -> Model:
    model = build(setup)
    model.noise_share = noise_share(setup)
    return model


def noise_share(setup: Setup) -> float:
    """Share of the variance of the targets that a GP of the inputs leaves to the noise.

    The mean over the outputs that vary, and one if none does. The steps of the GPs are few: targets
    without noise have about 0.014, and noise alone about 0.7.
    """
    gps, varies, _, _ = OutputGPs.of(setup, MANY_INDUCING, INITIAL_NOISE)
    shares = gps.noise_var[varies].clamp(max=1.0)
    return float(shares.mean()) if len(shares) else 1.0
