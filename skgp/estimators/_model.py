"""What a fit leaves behind: stack, likelihood and scales, trained and pickled as one module."""

from typing import NamedTuple

import torch
from torch import Tensor

from skgp.core.likelihoods import Gaussian
from skgp.core.nodes import Nodes, trivial
from skgp.core.objectives import PREDICTIVE, Batch, Objective, loss
from skgp.core.stack import GPStack
from skgp.estimators._table import Scale, Table


class Setup(NamedTuple):
    """What a family needs to build its model.

    Attributes
    ----------
    x : Tensor of shape (n, D)
        Scaled inputs of the training rows, or of a subsample; float64.
    Y : Tensor of shape (n, P)
        Scaled targets of the same rows; NaN where missing.
    weight : Tensor of shape (n,)
        Weights of the same rows.
    n_data : float
        Sum of the weights of all training rows.
    seed : int
        Seed of the choice of inducing inputs.
    """

    x: Tensor
    Y: Tensor
    weight: Tensor
    n_data: float
    seed: int


class Model(torch.nn.Module):
    """Stack and likelihood, with the scales that lead from the user's units to theirs.

    Parameters
    ----------
    stack : GPStack
    likelihood : Gaussian
    """

    x_scale: Scale
    y_scale: Scale

    def __init__(self, stack: GPStack, likelihood: Gaussian) -> None:
        super().__init__()
        self.stack = stack
        self.likelihood = likelihood

    def nodes(self) -> Nodes:
        """Nodes of the hidden layers."""
        return trivial(self.likelihood.noise_var)

    def loss(self, batch: Batch, objective: Objective, beta_reg: float, n_data: float) -> Tensor:
        """Training loss of a batch, in nats per row."""
        return loss(
            objective,
            self.stack,
            self.likelihood,
            self.nodes(),
            batch,
            beta_reg=beta_reg,
            n_data=n_data,
        )

    @torch.no_grad()
    def mean_log_density(self, table: Table, chunk: int) -> float:
        """Mean predictive log density of the rows of a table, in the user's units."""
        factors, nodes = self.stack.factors(), self.nodes()
        total = 0.0
        for rows in torch.split(torch.arange(len(table)), chunk):
            x, targets, weight = table.batch(rows)
            terms = PREDICTIVE.term(self.likelihood, self.stack(x, nodes, factors), targets)
            log_density = PREDICTIVE.reduce(terms, nodes.log_omega)
            total += float((log_density if weight is None else log_density * weight).sum())
        return total / len(table) - table.mean_log_unit
