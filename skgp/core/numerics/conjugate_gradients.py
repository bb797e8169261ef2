"""Marginal likelihoods of systems K + diag(shift) too large for a Cholesky factor in each step.

Preconditioned conjugate gradients with stochastic Lanczos quadrature (Gardner et al., 2018) by
linear_operator. Its settings are global, so they are changed inside context managers only.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from linear_operator import settings
from linear_operator.operators import (
    AddedDiagLinearOperator,
    DenseLinearOperator,
    DiagLinearOperator,
)
from torch import Tensor

from skgp.core.numerics.draws import seeded

# With 20 steps, the default of linear_operator, log-determinants are biased where noise is small.
_LANCZOS_STEPS = 100


@dataclass(frozen=True)
class ConjugateGradients:
    """How the marginal likelihood of many rows is estimated, and from how many on.

    Parameters
    ----------
    seed : int
        Seeds the probe vectors. They are the same in every call, so that the stochastic
        log-determinant is a smooth function of the parameters. The global generators of torch stay
        as they are.
    min_rows : int
        Smaller systems are left to a Cholesky factor.
    tolerance : float
        Norm of the residual, relative to that of the right-hand side and averaged over right-hand
        sides, at which the iterations end.
    max_iterations : int
    n_probes : int
        Probe vectors of the log-determinant; its standard error falls with their square root.
    rank : int
        Columns of the pivoted Cholesky factor that preconditions the iterations.
    """

    seed: int
    min_rows: int
    tolerance: float = 1e-3
    max_iterations: int = 1000
    n_probes: int = 10
    rank: int = 100

    def takes(self, n_rows: int) -> bool:
        """Whether the marginal likelihood of so many rows is estimated."""
        return n_rows >= self.min_rows

    def log_det_and_quadratic(self, K: Tensor, shift: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        """Estimates of log|C| and r^T C^-1 r for C = K + diag(shift), differentiable.

        Parameters
        ----------
        K : Tensor of shape (W, n, n)
        shift, r : Tensor of shape (W, n)

        Returns
        -------
        log_det, quadratic : Tensor of shape (W,)
        """
        with self._settings(K, self.tolerance):
            quadratic, log_det = _operator(K, shift).inv_quad_logdet(r.unsqueeze(-1), logdet=True)
        return log_det, quadratic

    @contextmanager
    def _settings(self, K: Tensor, tolerance: float) -> Iterator[None]:
        # Rows that were cut out have zeros on the diagonal, which cannot precondition.
        rank = int(torch.count_nonzero(K.diagonal(dim1=-2, dim2=-1), -1).min())
        with ExitStack() as stack:
            for setting in (
                settings.max_cholesky_size(0),
                settings.min_preconditioning_size(0),
                settings.max_preconditioner_size(min(self.rank, rank)),
                settings.cg_tolerance(tolerance),
                settings.max_cg_iterations(self.max_iterations),
                settings.max_lanczos_quadrature_iterations(
                    min(_LANCZOS_STEPS, self.max_iterations)
                ),
                settings.num_trace_samples(self.n_probes),
                seeded(K.device, self.seed),
            ):
                stack.enter_context(setting)
            yield


def _operator(K: Tensor, shift: Tensor) -> AddedDiagLinearOperator:
    return AddedDiagLinearOperator(DenseLinearOperator(K), DiagLinearOperator(shift))
