"""Inputs that nobody observed: a posterior for each row, and how to find it for further rows."""

import torch
from torch import Tensor, nn

from skgp.core.data import Targets
from skgp.core.likelihoods.likelihood import Likelihood
from skgp.core.nodes.rules import NodeRule, Nodes
from skgp.core.numerics.descent import minimise
from skgp.core.numerics.draws import make_seed, normals, sobol_normals, source_of_step
from skgp.core.numerics.linalg import log_mean_exp
from skgp.core.objectives.objective import PREDICTIVE, Objective
from skgp.core.stacks.row_posterior import Free, RowMoments
from skgp.core.stacks.stack import Stack
from skgp.core.training.schedules import one_cycle

_STEPS = 200
_RATE = 0.1
N_COMPARED = 32  # draws by which the start and the end are compared


class LatentInputs(nn.Module):
    """x_n ~ N(0, I) with a normal q(x_n) of independent entries (neural likelihoods, Eqn 8).

    Parameters
    ----------
    mean : Tensor of shape (n, C)
        Initial means of the training rows.
    seed : int
        Seeds the draws, together with the number of the step.
    """

    def __init__(self, mean: Tensor, seed: int) -> None:
        super().__init__()
        self.posterior = Free(mean)
        self.seed = seed

    def forward(self, rows: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """A draw x (B, C) and KL(q || p) (B,) for the rows of a training step."""
        local = self.posterior.of_rows(rows)
        epsilon = normals(local.mean.shape, source_of_step(self.seed, step), local.mean)
        return local.draw(epsilon), local.kl()


class Inversion:
    """From outputs back to inputs: posteriors and densities of rows with known outputs alone.

    All rows see the same draws, so the result for a row does not depend on the other rows.

    Parameters
    ----------
    objective : Objective
        The objective of the model's training.
    stack : Stack
    likelihood : Likelihood
    nodes : NodeRule
    """

    def __init__(
        self, objective: Objective, stack: Stack, likelihood: Likelihood, nodes: NodeRule
    ) -> None:
        self.objective = objective
        self.stack = stack
        self.likelihood = likelihood
        self.nodes = nodes
        with torch.no_grad():
            self.factors = stack.factors()

    def posterior(self, start: RowMoments, targets: Targets) -> RowMoments:
        """q(x) of the rows that maximise their evidence lower bounds, with everything else fixed.

        By Adam, with one draw of a Sobol sequence in each step. A row that gains nothing by it
        stays where it started.

        Parameters
        ----------
        start : RowMoments
            Moments (B, C).
        targets : Targets
        """
        draws = _normals("steps", start.mean, _STEPS)
        free = Free(start.mean.clone(), start.log_std.clone())

        def loss(step: int) -> Tensor:
            nodes, local = self.nodes(1, step), free.of_rows(slice(None))
            # A sum, not a mean: a row's gradient does not depend on the number of rows.
            return -self._bound(local, targets, nodes, draws[step : step + 1]).sum()

        minimise(loss, free.parameters(), _STEPS, _RATE, one_cycle)
        with torch.no_grad():
            end = free.of_rows(slice(None))
            draws = _normals("ends", start.mean, N_COMPARED)
            nodes = self.nodes(1, _STEPS)
            before, after = (self._bound(local, targets, nodes, draws) for local in (start, end))
            better = (after > before).unsqueeze(-1)
            return RowMoments(*(torch.where(better, e, s) for e, s in zip(end, start, strict=True)))

    @torch.no_grad()
    def log_density(self, local: RowMoments, targets: Targets, n_draws: int) -> Tensor:
        """log 1/K sum_k p(y | x_k) p(x_k) / q(x_k) of each row, (B,), with K draws x_k ~ q(x).

        p(y | x) is the predictive density of the observed outputs. The mean over the draws is
        unbiased, so its logarithm is too low on average, the less so the closer q(x) is to the
        posterior of x given y.

        Parameters
        ----------
        local : RowMoments
            Moments (B, C) of the proposals q(x).
        targets : Targets
        n_draws : int
            Number K.
        """
        epsilon = _normals("densities", local.mean, n_draws)
        terms, x = self._terms(PREDICTIVE, local, targets, self.nodes(1), epsilon)
        return log_mean_exp(terms + local.log_ratio(x, epsilon.unsqueeze(1)), 0)

    def _bound(self, local: RowMoments, targets: Targets, nodes: Nodes, epsilon: Tensor) -> Tensor:
        """Evidence lower bound of each row, (B,), at draws epsilon (S, C)."""
        return self._terms(self.objective, local, targets, nodes, epsilon)[0].mean(0) - local.kl()

    def _terms(
        self,
        objective: Objective,
        local: RowMoments,
        targets: Targets,
        nodes: Nodes,
        epsilon: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The objective of each draw and row, (S, B), and the inputs (S, B, C)."""
        x = local.draw(epsilon.unsqueeze(1))
        n_draws = len(x)
        y, mask = (None if t is None else t.repeat(n_draws, 1) for t in targets)
        assert y is not None
        latent = self.stack(x.flatten(0, 1), nodes, self.factors)
        terms = objective.term(self.likelihood, latent, Targets(y, mask))
        return objective.reduce(terms, nodes.log_omega).unflatten(0, x.shape[:2]), x


def _normals(purpose: str, like: Tensor, n: int) -> Tensor:
    """Standard normals (n, C) for moments (B, C), the same for all models."""
    return sobol_normals(n, like.shape[-1], make_seed(0, purpose)).to(like)
