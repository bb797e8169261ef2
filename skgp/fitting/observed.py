"""Rows of a batch as marginal likelihoods take them."""

import torch

from skgp.core.data import Batch
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.fitting.model import Model


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
