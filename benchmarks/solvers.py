"""A step's linear algebra by a Cholesky factor and by conjugate gradients, at M inducing inputs.

    python -m benchmarks.solvers [--sizes 300 1000 2000]

K is the Matern-5/2 kernel of M inducing inputs among 20,000 standard normal rows of four columns,
plus the usual jitter of 1e-6, and a step needs K^-1 K_uf for a batch of 250 rows, the smallest of
the neural likelihoods paper. Both are timed on one thread by the clock of the processor, forward
and with the gradient in K_uf; the inverse factor is that of layers, the conjugate gradients are
those of linear_operator, preconditioned by a factor of rank 100, and end after so many iterations
or at a residual of 1e-4. Residuals are relative to the right-hand sides. log|K|, which the
divergence needs, is by the factor, and by ten probe vectors.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch
from linear_operator import settings
from linear_operator.operators import (
    AddedDiagLinearOperator,
    DenseLinearOperator,
    DiagLinearOperator,
)
from torch import Tensor

from benchmarks._markdown import head, line
from skgp.core.kernels.stationary import Stationary
from skgp.core.numerics.conjugate_gradients import ConjugateGradients
from skgp.core.numerics.linalg import inverse_cholesky

N_COLUMNS, BATCH, JITTER = 4, 250, 1e-6
ITERATIONS = (30, 300)
RANK, TOLERANCE = 100, 1e-4


def blocks(n_inducing: int) -> tuple[Tensor, Tensor]:
    """Kuu (1, M, M) and Kuf (1, M, BATCH)."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((20_000, N_COLUMNS), generator=generator, dtype=torch.float64)
    kernel = Stationary("matern52", 1, N_COLUMNS, N_COLUMNS**0.5).double()
    Z = x[:n_inducing].unsqueeze(0)
    return kernel.Kuu(Z).detach(), kernel.Kuf(Z, x[-BATCH:]).detach()


def factored(K: Tensor, rhs: Tensor) -> Tensor:
    L_inv = inverse_cholesky(K, JITTER)
    return L_inv.mT @ (L_inv @ rhs)


def iterated(max_iterations: int, K: Tensor, rhs: Tensor) -> Tensor:
    shift = DiagLinearOperator(torch.full_like(K[..., 0], JITTER))
    with (
        settings.max_cholesky_size(0),
        settings.min_preconditioning_size(0),
        settings.max_preconditioner_size(RANK),
        settings.cg_tolerance(TOLERANCE),
        settings.max_cg_iterations(max_iterations),
    ):
        solution: Tensor = AddedDiagLinearOperator(DenseLinearOperator(K), shift).solve(rhs)
    return solution


def measured(
    solve: Callable[[Tensor, Tensor], Tensor], K: Tensor, rhs: Tensor
) -> tuple[float, float]:
    """Seconds, forward and backward, and the relative residual."""
    free = rhs.clone().requires_grad_()
    began = time.process_time()
    solution = solve(K, free)
    (solution * rhs).sum().backward()
    seconds = time.process_time() - began
    shifted = K + JITTER * torch.eye(K.shape[-1], dtype=K.dtype)
    residual = (shifted @ solution.detach() - rhs).norm() / rhs.norm()
    return seconds, residual.item()


def log_determinants(K: Tensor) -> tuple[float, float]:
    """By a factor, and by conjugate gradients."""
    exact = -2.0 * inverse_cholesky(K, JITTER).diagonal(dim1=-2, dim2=-1).log().sum().item()
    solver = ConjugateGradients(
        0, min_rows=0, tolerance=TOLERANCE, max_iterations=ITERATIONS[-1], rank=RANK
    )
    shift, r = torch.full_like(K[..., 0], JITTER), torch.ones_like(K[..., 0])
    with torch.no_grad():
        return exact, solver.log_det_and_quadratic(K, shift, r)[0].item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[300, 1000, 2000])
    torch.set_num_threads(1)
    lines = head(["M", "solver", "s", "in Cholesky's", "residual", "log-determinant"])
    for n_inducing in parser.parse_args().sizes:
        K, rhs = blocks(n_inducing)
        exact, estimated = log_determinants(K)
        measured(factored, K, rhs)  # the first call of a process is slower
        seconds, residual = measured(factored, K, rhs)
        first = [f"{seconds:.3f}", "1.0", f"{residual:.0e}", f"{exact:.0f}"]
        lines += line([str(n_inducing), "Cholesky", *first])
        for number in ITERATIONS:
            own, residual = measured(partial(iterated, number), K, rhs)
            cells = [f"{own:.3f}", f"{own / seconds:.1f}", f"{residual:.0e}", f"{estimated:.0f}"]
            lines += line([str(n_inducing), f"{number} iterations", *cells])
    print("\n".join(lines))


if __name__ == "__main__":
    main()
