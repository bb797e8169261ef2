"""How often the intervals of a model hold targets that it has not seen."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import torch
from torch import Tensor

from skgp._typing import Array
from skgp.core.likelihoods.censored import Censored
from skgp.core.likelihoods.classes import ClassLikelihood
from skgp.core.likelihoods.counts import Counts
from skgp.core.likelihoods.likelihood import Predictive
from skgp.fitting.model import Model, rows_per_chunk
from skgp.fitting.table import Table, scale_inputs

LEVEL: Final = 0.9  # of the central interval whose coverage is judged


class Coverage(NamedTuple):
    """How many held-out targets lie in their central 90 % intervals.

    Attributes
    ----------
    inside : float
        Sum of the weights of these targets.
    total : float
        Sum of the weights of all targets; missing ones are not counted.
    n_targets : float
    rows, squares : float
        Sums of the weights of the rows and of their squares. Rows count for chance, because the
        targets of a row may miss together.
    """

    inside: float
    total: float
    n_targets: float
    rows: float
    squares: float

    def plus(self, other: "Coverage") -> "Coverage":
        """Of the rows of both."""
        return Coverage(*(a + b for a, b in zip(self, other, strict=True)))


NO_TARGETS: Final = Coverage(0.0, 0.0, 0.0, 0.0, 0.0)


@torch.no_grad()
def coverage_of(model: Model, table: Table) -> Coverage:
    """Coverage of the targets of held-out rows, by a model in training or a fitted one.

    Classes have no intervals, those of counts hold more than they are asked to, and whether one
    holds a target that is not observed nobody knows.
    """
    if isinstance(model.likelihood, ClassLikelihood | Counts | Censored):
        return NO_TARGETS
    is_training = model.training
    model.eval()  # batch norms by their running statistics
    counts = NO_TARGETS
    for predictive, weights, y, of_rows in predictions(model, table):
        # The distribution function of the mixture at y: NaN if y is missing, which is outside.
        z = (y - predictive.mean) / predictive.var.sqrt()
        level = (weights * torch.special.ndtr(z)).sum(0)
        inside, seen = (level - 0.5).abs() <= 0.5 * LEVEL, ~y.isnan()
        n_inside, n_seen = (part.sum(1).cpu().numpy() for part in (inside, seen))
        sums = float(of_rows @ n_inside), float(of_rows @ n_seen), float(n_seen.sum())
        of_rows = of_rows[n_seen > 0]
        counts = counts.plus(Coverage(*sums, float(of_rows.sum()), float(of_rows @ of_rows)))
    model.train(is_training)
    return counts


def predictions(model: Model, table: Table) -> Iterator[tuple[Predictive, Tensor, Tensor, Array]]:
    """Of chunks of rows the moments (S, B, P) of components, and the weights (S, 1, 1) of these.

    Then the targets (B, P), and the weights (B,) of the rows.
    """
    predictor, log_omega = model.predictor(), model.log_weights
    of_rows = table.weights
    for rows in torch.split(torch.arange(len(table)), rows_per_chunk(log_omega, table.n_outputs)):
        index = rows.numpy()
        x = torch.from_numpy(scale_inputs(table.X[index], table.x_scale)).to(log_omega)
        y = torch.from_numpy(table.y_scale.apply(table.Y[index])).to(log_omega)
        predictive = predictor(x)
        if table.known_noise is not None:
            noise = torch.from_numpy(table.scaled_noise(index)).to(log_omega)
            predictive = predictive._replace(var=predictive.var + noise)
        weights = predictive.log_weights(log_omega).exp()[:, None, None]
        yield predictive, weights, y, of_rows[index]
