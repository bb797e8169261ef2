"""The layer of FITC, and its model."""

from typing import cast

from torch import Tensor

from skgp.core.layers.sparse import SparseGP
from skgp.core.marginal.fitc import check_recomputation, fitc_log_marginal, fitc_posterior
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.stacks.stack import GPStack
from skgp.fitting.model import Model
from skgp.fitting.setup import Setup
from skgp.recipes.collapsed import CollapsedLayers, CollapsedStart
from skgp.recipes.features import Features


class FITCLayers(CollapsedLayers):
    """One sparse layer, whose q(u) is the exact posterior under FITC."""

    def log_marginal(self, rows: ObservedRows, noise_var: Tensor) -> Tensor:
        return fitc_log_marginal(cast(SparseGP, self.stack.top), rows, noise_var)

    def condition(self, rows: ObservedRows, noise_var: Tensor) -> None:
        layer = cast(SparseGP, self.stack.top)
        layer.start(*fitc_posterior(layer, rows, noise_var))


def build_fitc(
    n_inducing: int, jitter: float, start: CollapsedStart, features: Features, setup: Setup
) -> Model:
    """A model of one sparse layer."""
    network, layer, likelihood = start(features, n_inducing, jitter, setup)
    check_recomputation(layer.kernel, layer.Z)
    layer.posterior.requires_grad_(False)  # it has a closed form
    return Model(FITCLayers(GPStack([layer], network)), likelihood)
