"""Log likelihoods of readouts by draws: the neural likelihoods paper's, and converged ones."""

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from skgp.core.data import Targets
from skgp.core.nodes.rules import Sampled, UnitNodes
from skgp.core.objectives.objective import PREDICTIVE

_CHUNK = 500


class Converged(NamedTuple):
    """An estimate from as many draws as it takes.

    Attributes
    ----------
    value : float
        Mean over rows, nats per row.
    n_draws : int
        For the rows that take most.
    change : float
        How much the last doubling added, at most, on the mean of 500 rows.
    """

    value: float
    n_draws: int
    change: float


def nested_log_likelihood(
    estimator: Any, X: Any, Y: Any, *, n_outer: int = 25, n_inner: int = 50, seed: int = 0
) -> float:
    """Mean over rows of 1/n_outer sum_k log 1/n_inner sum_j p(y | F_jk), in nats per row.

    F_jk are draws of everything but the mixing matrix, which is integrated out (section 7.2), for
    all models alike. The estimate is biased downwards, and n_inner sets the bias: off the data by
    tens of nats, so that it need not order models as their densities do.

    Parameters
    ----------
    estimator : fitted regressor or embedding with a readout
    X : array of shape (n, D)
    Y : array of shape (n, P)
    n_outer, n_inner : int
    seed : int
    """
    total = 0.0
    with _log_sums(estimator, X, Y, n_inner, seed) as chunks:
        for steps in chunks:
            values = torch.stack(list(itertools.islice(steps, n_outer)))
            total += float((values - math.log(n_inner)).sum()) / n_outer
    return total / len(X) - _log_units(estimator)


def converged_log_likelihood(
    estimator: Any,
    X: Any,
    Y: Any,
    *,
    tol: float = 0.05,
    n_first: int = 400,
    n_most: int = 25_600,
    seed: int = 0,
) -> Converged:
    """The log of the mean over draws, whose number doubles until a doubling adds less than `tol`.

    Parameters as of `nested_log_likelihood`, and these:

    Parameters
    ----------
    tol : float
        In nats, of the mean over 500 rows.
    n_first, n_most : int
        Draws to begin with, and at most.
    """
    n_each, total, most, largest = 100, 0.0, 0, 0.0
    with _log_sums(estimator, X, Y, n_each, seed) as chunks:
        for steps in chunks:
            n, change, before = n_first, math.inf, -math.inf
            log_sum = torch.logsumexp(torch.stack(list(itertools.islice(steps, n // n_each))), 0)
            while True:
                mean = float((log_sum - math.log(n)).mean())
                change, before = abs(mean - before), mean
                if change < tol or 2 * n > n_most:
                    break
                more = torch.stack(list(itertools.islice(steps, n // n_each)))
                log_sum = torch.logsumexp(torch.cat([log_sum.unsqueeze(0), more]), 0)
                n *= 2
            total += mean * len(log_sum)
            most, largest = max(most, n), max(largest, change)
    return Converged(total / len(X) - _log_units(estimator), most, largest)


@contextmanager
def _log_sums(
    estimator: Any, X: Any, Y: Any, n_draws: int, seed: int
) -> Iterator[Iterator[Iterator[Tensor]]]:
    """For chunks of rows as many tensors (B,) as are asked for: log sums over new draws.

    Raises
    ------
    TypeError
        For a model without a readout, whose top functions no draws would stand for.
    """
    model = estimator.model_
    if not isinstance(model.nodes, UnitNodes):
        raise TypeError(f"{type(estimator).__name__} has no readout, whose units are drawn")
    device = next(model.stack.parameters()).device
    draws = UnitNodes(Sampled(model.nodes.rule.widths, n_draws, 1, seed), integrated=False)
    draws.to(device)
    count = itertools.count()  # each step has draws of its own

    def of_rows(start: int) -> Iterator[Tensor]:
        rows = slice(start, start + _CHUNK)
        x = torch.from_numpy(model.x_scale.apply(X[rows])).to(device)
        targets = Targets(torch.from_numpy(model.y_scale.apply(Y[rows])).to(device), None)
        for step in count:
            latent = model.stack(x, draws(len(x), step), factors)
            yield torch.logsumexp(PREDICTIVE.term(model.likelihood, latent, targets), 0)

    model.stack.train()  # its predictions would move the draws together
    try:
        with torch.no_grad():
            factors = model.stack.factors()
            yield (of_rows(start) for start in range(0, len(X), _CHUNK))
    finally:
        model.stack.eval()


def _log_units(estimator: Any) -> float:
    return float(sum(math.log(unit) for unit in estimator.model_.y_scale.unit))
