"""The nested estimator of the test log likelihood that the neural likelihoods paper tabulates."""

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from skgp.core.data import Targets
from skgp.core.nodes.rules import Sampled, UnitNodes
from skgp.core.objectives.objective import PREDICTIVE

_CHUNK = 500


@torch.no_grad()
def nested_log_likelihood(
    estimator: Any, X: Any, Y: Any, *, n_outer: int = 25, n_inner: int = 50, seed: int = 0
) -> float:
    """Mean over rows of 1/n_outer sum_k log 1/n_inner sum_j p(y | F_jk), in nats per row.

    F_jk are draws of everything but the mixing matrix, which is integrated out (section 7.2). The
    estimate is biased downwards, and n_inner sets the bias.

    Parameters
    ----------
    estimator : fitted regressor with draws
    X : array of shape (n, D)
    Y : array of shape (n, P)
    n_outer, n_inner : int
    seed : int
    """
    model = estimator.model_
    draws = UnitNodes(Sampled(model.nodes.rule.widths, n_inner, 1, seed), integrated=False)
    model.stack.train()  # its predictions would move the draws together
    factors = model.stack.factors()
    total = 0.0
    steps = itertools.count()  # each has draws of its own
    for start in range(0, len(X), _CHUNK):
        rows = slice(start, start + _CHUNK)
        x = torch.from_numpy(model.x_scale.apply(X[rows]))
        targets = Targets(torch.from_numpy(model.y_scale.apply(Y[rows])), None)
        for step in itertools.islice(steps, n_outer):
            terms: Tensor = PREDICTIVE.term(
                model.likelihood, model.stack(x, draws(len(x), step), factors), targets
            )
            total += float((torch.logsumexp(terms, 0) - math.log(n_inner)).sum()) / n_outer
    model.stack.eval()
    return total / len(X) - float(sum(math.log(unit) for unit in model.y_scale.unit))
