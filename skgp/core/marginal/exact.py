"""The exact GP over its training rows: p(y) = N(y; mean, K + noise) (PPGPR paper, Eqn 2).

The marginal likelihood of few rows is computed by a Cholesky factor, that of many by conjugate
gradients; both need the n x n matrix. It is built by `Kernel.Kuu`, so any kernel will do, in units
of the variance. Predictions always use the factor: the variance that is left is a small difference
of large numbers, and iterations cannot be that exact.

Rows may have known noise beside the learned one. Divided by a root of noise / learned noise, of
which `shares` are the inverses, they all have the learned noise, and jitter is as small beside a
row of much noise as beside the others.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from skgp.core.kernels.kernel import Kernel
from skgp.core.layers.layer import Basis, Layer, in_groups
from skgp.core.layers.sparse import SparseLayer
from skgp.core.marginal.observed_rows import ObservedRows
from skgp.core.numerics.conjugate_gradients import ConjugateGradients
from skgp.core.numerics.linalg import LOG_2PI, cholesky, inverse_cholesky, log_det_and_quadratic


class Factor(NamedTuple):
    """The Cholesky factor L of the matrix C of rows scaled by their shares.

    Attributes
    ----------
    L : Tensor of shape (W, n, n)
    shares : Tensor of shape (W, n, 1)
    """

    L: Tensor
    shares: Tensor

    def whiten(self, rhs: Tensor) -> Tensor:
        """L^-1 of scaled right-hand sides (W, n, B)."""
        return torch.linalg.solve_triangular(self.L, self.shares * rhs, upper=False)

    def solve(self, rhs: Tensor) -> Tensor:
        """C^-1 rhs (W, n, B), zero where there is no target."""
        return self.shares * torch.cholesky_solve(self.shares * rhs, self.L)

    def log_det(self) -> Tensor:
        """log|C| (W,)."""
        return 2.0 * self.L.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class InverseFactor(NamedTuple):
    """The inverse of a `Factor`, whose columns hold the shares: a product is faster than a solve.

    Attributes
    ----------
    L_inv : Tensor of shape (W, n, n)
    shares : Tensor of shape (W, n, 1)
    """

    L_inv: Tensor
    shares: Tensor

    def whiten(self, rhs: Tensor) -> Tensor:
        """L^-1 of scaled right-hand sides (W, n, B)."""
        return self.L_inv @ rhs

    def solve(self, rhs: Tensor) -> Tensor:
        """C^-1 rhs (W, n, B), zero where there is no target."""
        return self.L_inv.mT @ (self.L_inv @ rhs)

    def log_det(self) -> Tensor:
        """log|C| (W,)."""
        shares = self.shares.squeeze(-1)
        diagonal = self.L_inv.diagonal(dim1=-2, dim2=-1) / shares
        return -2.0 * torch.where(shares > 0, diagonal, 1.0).log().sum(-1)


AnyFactor = Factor | InverseFactor


class ExactGP(Layer):
    """GPs that are conditioned on all training rows.

    A new one has seen no targets and predicts by the prior; `condition` shows it the targets.

    Parameters
    ----------
    kernel : Kernel
    x : Tensor of shape (n, D)
        Training inputs.
    jitter : float
        Diagonal regularisation relative to the mean of the diagonal of K + noise.
    solver : ConjugateGradients
        For the marginal likelihood of its `min_rows` or more. An inverse factor of so many rows is
        not stored: predictions compute a factor when they need one.
    """

    x: Tensor  # (n, D)
    count: Tensor  # weight of each target (W, n), zero where there is none
    noise_var: Tensor  # learned, (W,)
    shares: Tensor  # root of learned noise / noise of each target (W, n), zero where there is none
    residual: Tensor  # y - mean (W, n), zero where there is no target
    alpha: Tensor  # C^-1 (y - mean), (W, n), with C = K + noise in units of the variance
    L_inv: Tensor | None  # inverse Cholesky factor of C (W, n, n), zero where there is no target

    def __init__(
        self, kernel: Kernel, x: Tensor, jitter: float, solver: ConjugateGradients
    ) -> None:
        super().__init__(kernel, jitter)
        self.solver = solver
        n_rows, n_gps = x.shape[0], kernel.variance.shape[0]
        self.register_buffer("x", x)
        self.register_buffer("count", x.new_zeros(n_gps, n_rows))
        self.register_buffer("noise_var", x.new_ones(n_gps))
        self.register_buffer("shares", x.new_zeros(n_gps, n_rows))
        self.register_buffer("residual", x.new_zeros(n_gps, n_rows))
        self.register_buffer("alpha", x.new_zeros(n_gps, n_rows))
        is_factored = not solver.takes(n_rows)
        self.register_buffer("L_inv", x.new_zeros(n_gps, n_rows, n_rows) if is_factored else None)

    def over(self, x: Tensor) -> "ExactGP":
        """GPs over other training inputs, with the parameters of these."""
        other = ExactGP(self.kernel, x, self.jitter, self.solver)
        other.mean = self.mean
        return other

    @torch.no_grad()
    def condition(self, rows: ObservedRows, noise_var: Tensor) -> None:
        """Show the targets to the GPs, whose kernel and mean are to stay as they are from now on.

        Parameters
        ----------
        rows : ObservedRows
            As many as the layer was made for.
        noise_var : Tensor of shape (W,)

        Raises
        ------
        NotPositiveDefiniteError
            If K + noise has no Cholesky factor.
        """
        r, count = rows.residuals_and_counts(self.mean)
        self.x.copy_(rows.x)
        self.count.copy_(count)
        self.residual.copy_(r)
        self.noise_var.copy_(noise_var)
        self.shares.copy_(_shares(rows, count, noise_var))
        if self.L_inv is not None:
            K, shift = _system(self.kernel, self.x, self.count, self.shares, self.noise_var)
            L_inv = inverse_cholesky(_add_diagonal(K, shift), self.jitter)
            self.L_inv.copy_(L_inv * self.shares.unsqueeze(-2))
        self.alpha.copy_(self.factors().solve(r.unsqueeze(-1)).squeeze(-1))

    @torch.no_grad()
    def with_more(self, rows: ObservedRows) -> "ExactGP":
        """GPs that know b further rows, with the parameters of these.

        The factor is extended, in O(n^2 b) instead of O((n + b)^3): with A = L^-1 K12 and the
        factor L' of S = C22 - A^T A, that of [[C11, K12], [K12^T, C22]] is [[L, 0], [A^T, L']], and
        its inverse [[L^-1, 0], [-L'^-1 A^T L^-1, L'^-1]].

        Raises
        ------
        NotPositiveDefiniteError
            If S has no Cholesky factor.
        """
        r, count = rows.residuals_and_counts(self.mean)
        more = self.over(torch.cat([self.x, rows.x]))
        more.noise_var.copy_(self.noise_var)
        shares = _shares(rows, count, self.noise_var)
        more.shares.copy_(torch.cat([self.shares, shares], -1))
        more.count.copy_(torch.cat([self.count, count], -1))
        more.residual.copy_(torch.cat([self.residual, r], -1))
        if more.L_inv is not None and self.L_inv is not None:
            n = len(self.x)
            A = self.L_inv @ self.kernel.Kuf(self.x.expand(len(count), -1, -1), rows.x)
            A = A * shares.unsqueeze(-2)
            K, shift = _system(self.kernel, rows.x, count, shares, self.noise_var)
            new = inverse_cholesky(_add_diagonal(K, shift) - A.mT @ A, self.jitter)
            more.L_inv[:, :n, :n] = self.L_inv
            more.L_inv[:, n:, n:] = new * shares.unsqueeze(-2)
            more.L_inv[:, n:, :n] = -new @ (A.mT @ self.L_inv)
        more.alpha.copy_(more.factors().solve(more.residual.unsqueeze(-1)).squeeze(-1))
        return more

    @torch.no_grad()
    def log_marginal(self) -> Tensor:
        """Log marginal likelihood (W,) of the rows that the GPs know, in nats."""
        shift = _shift(self.kernel, self.count, self.noise_var)
        log_det = self.known_factors().log_det()
        quadratic = (self.residual * self.alpha).sum(-1)
        squares = torch.where(self.count > 0, self.shares, 1.0).square()
        noise = self.noise_var.unsqueeze(-1) / squares
        return _log_density(self.kernel, self.count, noise, shift, log_det, quadratic)

    def known_factors(self) -> AnyFactor:
        if self.L_inv is not None:
            return self.factors()
        known: Factor = super().known_factors()
        return known

    def factors(self) -> AnyFactor:
        shares = self.shares.unsqueeze(-1)
        if self.L_inv is not None:
            return InverseFactor(self.L_inv, shares)
        K, shift = _system(self.kernel, self.x, self.count, self.shares, self.noise_var)
        L = cholesky(_add_diagonal(K, shift).detach(), self.jitter).to(shares)
        return Factor(L, shares)

    def unit_moments(self, x: Tensor, factors: AnyFactor) -> tuple[Tensor, Tensor, Tensor]:
        # f_mean = c + k^T C^-1 (y - c), v_prior = variance (kff - k^T C^-1 k)
        Kuf = self.kernel.Kuf(self.x.expand(self.count.shape[0], -1, -1), x)
        mean = (self.alpha.unsqueeze(-2) @ Kuf).squeeze(-2) / self.kernel.variance.sqrt()[:, None]
        return mean, factors.whiten(Kuf).square().sum(-2), torch.zeros_like(mean)

    @property
    def n_inputs(self) -> int:
        return self.x.shape[-1]

    def unit_covariance(self, x: Tensor, factors: AnyFactor) -> Tensor:
        # Kff - k^T C^-1 k
        Kuf = self.kernel.Kuf(self.x.expand(self.count.shape[0], -1, -1), x.flatten(0, 1))
        white = in_groups(factors.whiten(Kuf), x)
        return self.kernel.Kff(x) - white.mT @ white

    def unit_update(
        self,
        prior: Callable[[Tensor], Tensor],
        factors: AnyFactor,
        generator: torch.Generator,
    ) -> list[Basis]:
        # f = g + k^T C^-1 (y - c - g(x) - e) with g from the prior and the noise e of the rows
        g = prior(self.x[None, None]).movedim(0, -1)  # (W, n, S)
        e = torch.randn(g.shape, generator=generator, dtype=g.dtype).to(g.device)
        deviation = torch.where(self.count > 0, self._system()[1].sqrt() / self.shares, 0.0)
        noise = deviation.unsqueeze(-1) * e
        alpha = (self.alpha / self.kernel.variance.sqrt().unsqueeze(-1)).unsqueeze(-1)
        weights = alpha - factors.solve(g + noise)
        return [Basis(self.x.unsqueeze(0), weights.movedim(-1, 0))]

    def _system(self) -> tuple[Tensor, Tensor]:
        """K (W, n, n) of scaled rows, and the diagonal (W, n) that makes their C of it."""
        K, shift = _system(self.kernel, self.x, self.count, self.shares, self.noise_var)
        return K, _with_jitter(K, shift, self.jitter)

    def kl(self, factors: AnyFactor) -> Tensor:
        return torch.zeros_like(self.noise_var[0])


def exact_log_marginal(
    layer: ExactGP | SparseLayer,
    rows: ObservedRows,
    noise_var: Tensor,
    solver: ConjugateGradients | None = None,
) -> Tensor:
    """Log marginal likelihood of W independent GPs, differentiable in the parameters.

    A row of weight k counts as k rows with the same inputs and targets, and noise s2 each:
    N(y; f, s2)^k = N(y; f, s2 / k) (2 pi s2)^(-(k - 1) / 2) k^(-1/2).

    Parameters
    ----------
    layer : ExactGP or SparseLayer
        Kernel, constant means and jitter; neither the rows that it is conditioned on nor its
        inducing inputs have a part in it.
    rows : ObservedRows
    noise_var : Tensor of shape (W,)
    solver : ConjugateGradients, optional
        With it the value of a large data set is an estimate.

    Returns
    -------
    Tensor of shape (W,)
        In nats.

    Raises
    ------
    NotPositiveDefiniteError
        If K + noise has no Cholesky factor.
    """
    kernel = layer.kernel
    r, count = rows.residuals_and_counts(layer.mean)
    shares = _shares(rows, count, noise_var)
    r = r * shares
    K, shift = _system(kernel, rows.x, count, shares, noise_var)
    if solver is not None and solver.takes(len(rows.x)):
        diagonal = _with_jitter(K, shift, layer.jitter)
        log_det, quadratic = solver.log_det_and_quadratic(K, diagonal, r)
    else:
        log_det, quadratic = log_det_and_quadratic(_add_diagonal(K, shift), r, layer.jitter)
    noise = rows.all_noise(noise_var)
    return _log_density(kernel, count, noise, shift, log_det, quadratic)


def _log_density(
    kernel: Kernel,
    count: Tensor,
    noise: Tensor,
    shift: Tensor,
    log_det: Tensor,
    quadratic: Tensor,
) -> Tensor:
    """Log marginal likelihoods (W,), given log |C| of scaled rows and r^T C^-1 r."""
    # |K + shift| / |shift| is free of units, and rows without a target have no share in it.
    of_rows = count * (LOG_2PI + noise.log()) - shift.log()
    return -0.5 * (of_rows.sum(-1) + log_det + quadratic / kernel.variance)


def _shares(rows: ObservedRows, count: Tensor, noise_var: Tensor) -> Tensor:
    """Roots of learned noise / noise of the rows, (W, n); zero without a target."""
    observed = count > 0
    if rows.known_noise is None:
        return observed.to(count)
    shares = (noise_var.unsqueeze(-1) / rows.all_noise(noise_var)).sqrt()
    return torch.where(observed, shares, 0.0)


def _system(
    kernel: Kernel, x: Tensor, count: Tensor, shares: Tensor, noise_var: Tensor
) -> tuple[Tensor, Tensor]:
    """K (W, n, n) of rows scaled by their shares, and their noise, in units of the variance.

    A row without a target is cut out: its covariances are zero, its noise is one.
    """
    K = kernel.Kuu(x.expand(count.shape[0], -1, -1))
    if not bool((shares == 1.0).all()):
        K = K * (shares.unsqueeze(-1) * shares.unsqueeze(-2))
    return K, _shift(kernel, count, noise_var)


def _shift(kernel: Kernel, count: Tensor, noise_var: Tensor) -> Tensor:
    """The learned noise (W, n) of the rows, in units of the variance; one without a target."""
    observed = count > 0
    ratio = (noise_var / kernel.variance).unsqueeze(-1)
    return torch.where(observed, ratio / torch.where(observed, count, 1.0), 1.0)


def _add_diagonal(K: Tensor, shift: Tensor) -> Tensor:
    return torch.diagonal_scatter(K, K.diagonal(dim1=-2, dim2=-1) + shift, dim1=-2, dim2=-1)


def _with_jitter(K: Tensor, shift: Tensor, jitter: float) -> Tensor:
    """The diagonal to be added to K, with the jitter that a Cholesky factor would add."""
    return shift + jitter * (K.diagonal(dim1=-2, dim2=-1) + shift).mean(-1, keepdim=True)
