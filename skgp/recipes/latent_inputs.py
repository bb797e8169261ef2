"""Models whose inputs nobody observed: a posterior of the inputs of each training row."""

import torch
from torch import Tensor

from skgp.core.data import Batch
from skgp.core.objectives.objective import Objective, loss
from skgp.core.training.inversion import LatentInputs
from skgp.fitting.model import Model
from skgp.fitting.table import Table
from skgp.recipes.losses import DivergenceWeight


def with_latent_inputs(model: Model, table: Table, seed: int) -> Model:
    """The model with posteriors that start at the inputs of the table."""
    model.inputs = LatentInputs(torch.from_numpy(table.X).clone(), seed)
    return model.to(table.like)


def latent_input_loss(
    objective: Objective,
    beta_reg: DivergenceWeight,
    model: Model,
    batch: Batch,
    step: int,
    n_data: float,
) -> Tensor:
    """Training loss of a batch, nats per row, with a draw of the inputs of each row."""
    assert model.inputs is not None
    assert batch.rows is not None
    x, local_kl = model.inputs(batch.rows, step)
    return loss(
        objective,
        model.stack,
        model.likelihood,
        model.nodes(len(x), step),
        batch._replace(x=x),
        beta_reg=beta_reg(model, n_data) * model.stack.divergence_share(step),
        n_data=n_data,
        local_kl=local_kl,
    )
