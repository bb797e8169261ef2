"""Rows of a batch as marginal likelihoods take them."""

from typing import Any, cast

import torch

from skgp.core.data import Batch
from skgp.core.layers.sparse import SparseGP
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.marginal.exact_starts import merged
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.numerics.draws import make_generator
from skgp.core.stacks.functions import hidden_mixture
from skgp.core.stacks.stack import GPStack
from skgp.fitting.model import Model
from skgp.fitting.table import Table


def observed_rows(model: Model, batch: Batch, n_data: float) -> ObservedRows:
    """What a marginal likelihood takes, of rows that stand for `n_data`."""
    like = model.likelihood.noise_var
    y, mask = batch.targets
    weight = torch.full((len(y),), n_data / len(y), dtype=like.dtype, device=like.device)
    if batch.weight is not None:
        weight = weight * batch.weight.to(like)
    x = model.stack.features(batch.x.to(like))
    parts = mask, batch.known_noise
    mask, noise = (None if part is None else part.to(like).mT for part in parts)
    return ObservedRows(x, y.to(like).mT, weight, mask, noise)


def is_one_gp(model: Model, table: Table) -> bool:
    """Whether it is one GP with a constant mean and normal noise that nobody knows, in float64."""
    top: Any = model.stack.top
    likelihood = model.likelihood
    return (
        isinstance(top, SparseGP)
        and top.slope is None
        and not hasattr(top, "mean_network")
        and isinstance(likelihood, Gaussian)
        and likelihood.mixing is None
        and table.known_noise is None
        and table.like.dtype == torch.float64
    )


def rows_of_top(model: Model, table: Table) -> ObservedRows:
    """Different rows of a table as the top layer of one GP sees them, of weights above zero."""
    stack = cast(GPStack, model.stack)
    batch = table.batch(torch.arange(len(table)))
    rows, generator = observed_rows(model, batch, table.n_data), make_generator(0, "unused")
    hidden, _ = hidden_mixture(stack, stack.known_factors(), model.nodes, generator)
    h, _ = hidden(batch.x)
    _, count = rows.residuals_and_counts(stack.top.mean)
    x, y, weight = merged(h[0], rows.y, count[0])
    seen = weight > 0.0
    return ObservedRows(x[seen], y[:, seen], weight[seen])
