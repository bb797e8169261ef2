"""The layer of an exact GP, its model, and what it does to further rows."""

import copy
from typing import Final, cast

import torch
from torch import Tensor

from skgp.core.marginal.exact import ExactGP, exact_log_marginal
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.numerics.conjugate_gradients import ConjugateGradients
from skgp.core.numerics.memory import check_memory
from skgp.core.stacks.stack import GPStack
from skgp.fitting.model import Model
from skgp.fitting.observed import observed_rows
from skgp.fitting.setup import Setup
from skgp.fitting.table import Table
from skgp.recipes.collapsed import CollapsedLayers, CollapsedStart
from skgp.recipes.features import Features

_START_INDUCING: Final = 300  # inducing inputs of the bound from which the exact GP starts
_START_JITTER: Final = 1e-8  # of their kernel matrix, which no noise regularises


class ExactLayers(CollapsedLayers):
    """One exact layer."""

    def __init__(self, stack: GPStack) -> None:
        super().__init__(stack)
        self.n_affordable = 0  # rows that were found to fit in memory before this fit took any

    @property
    def gp(self) -> ExactGP:
        """The layer."""
        return cast(ExactGP, self.stack.top)

    def with_rows(self, x: Tensor) -> ExactGP:
        """Put the layer over other rows."""
        self.stack.gp_layers[-1] = self.gp.over(x)
        return self.gp

    def log_marginal(self, rows: ObservedRows, noise_var: Tensor) -> Tensor:
        x, n = rows.x, len(rows.x)
        if n > self.n_affordable:
            check_memory(n, len(rows.y), x.element_size(), self.gp.solver.takes(n), x.device)
            self.n_affordable = n
        return exact_log_marginal(self.gp, rows, noise_var, self.gp.solver)

    def condition(self, rows: ObservedRows, noise_var: Tensor) -> None:
        self.with_rows(rows.x).condition(rows, noise_var)


def build_exact(
    max_cholesky_size: int, jitter: float, start: CollapsedStart, features: Features, setup: Setup
) -> Model:
    """One exact layer, which begins without rows."""
    network, layer, likelihood = start(
        features, _START_INDUCING, _START_JITTER, setup, is_exact=True
    )
    solver = ConjugateGradients(setup.seed_for("probes"), min_rows=max_cholesky_size + 1)
    gp = ExactGP(layer.kernel, layer.Z.detach()[0, :0], jitter, solver)
    return Model(ExactLayers(GPStack([gp], network)), likelihood)


@torch.no_grad()
def conditioned_on(model: Model, table: Table) -> Model:
    """A copy of the model that knows the rows of the table too."""
    layers = cast(ExactLayers, model.source)
    old, new = layers.gp, observed_rows(model, table.batch(torch.arange(len(table))), table.n_data)
    n = len(old.x) + len(new.x)
    check_memory(n, len(new.y), new.x.element_size(), old.solver.takes(n), new.x.device)
    more = old.with_more(new)
    more.kernel, more.mean = copy.deepcopy((more.kernel, more.mean))
    # The new layer stands where the copy would have one of the old factor, of n x n numbers.
    return copy.deepcopy(model, {id(old): more})


def release(model: Model, table: Table) -> None:
    """Drop the training rows and their factors: training copies its state often."""
    layers = cast(ExactLayers, model.source)
    layers.n_affordable = 0
    layers.with_rows(layers.gp.x[:0])
