"""Dense networks of the baselines, and the recipe of their training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

from skgp.core.likelihoods.gaussian import Gaussian
from skgp.fitting.arguments import check_sizes
from skgp.fitting.model import Model
from skgp.fitting.plans import Epochs, Minibatch, Stopping, minibatch_plan
from skgp.fitting.recipe import (
    Loss,
    Recipe,
    always_repeats,
    float64_if_one_batch,
    no_stream_if_stopping,
    pick,
)
from skgp.fitting.setup import Setup
from skgp.recipes.optimizers import adam


@dataclass(frozen=True)
class Network:
    """Parameter group: a dense network."""

    hidden_layer_sizes: int | Sequence[int]
    noise_floor: float

    @property
    def sizes(self) -> list[int]:
        """Widths of the hidden layers."""
        sizes = self.hidden_layer_sizes
        return check_sizes("hidden_layer_sizes", [sizes] if isinstance(sizes, Integral) else sizes)

    def likelihood(self, setup: Setup, noise: float) -> Gaussian:
        """The likelihood, whose noise starts at this share of the variance of y."""
        return Gaussian(setup.Y.shape[1], noise, self.noise_floor)


def network_recipe(estimator: Any, build: Callable[[Setup], Model], loss: Loss) -> Recipe:
    """The recipe of a network with parameters of `Minibatch` and `Stopping`."""
    return Recipe(
        build=build,
        loss=loss,
        optimizer=partial(adam, estimator.learning_rate_init),
        plan=partial(
            minibatch_plan,
            pick(Minibatch, estimator),
            pick(Stopping, estimator),
            Epochs(starts_near=False),
        ),
        dtype=partial(float64_if_one_batch, estimator.batch_size),
        why_no_stream=no_stream_if_stopping(estimator),
        repeats=always_repeats,
    )
