"""Sparse GPs whose mean has a basis of its own: decoupled and orthogonally decoupled."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from skgp.core.kernels.kernel import Kernel
from skgp.core.layers.layer import Basis
from skgp.core.layers.posteriors import DeltaPosterior, DiagonalPosterior, Moments, Posterior
from skgp.core.layers.projection import project
from skgp.core.layers.sparse import Factors, SparseLayer
from skgp.core.numerics.linalg import basis_weights, whitening


class TwoBasisGP(SparseLayer):
    """Abstract base of layers with inducing inputs that serve the mean alone."""

    Z_mean: nn.Parameter  # inducing inputs (W, M_mean, D) of the mean

    def chunk_moments(self, x: Tensor, factors: Factors) -> tuple[Tensor, Tensor, Tensor]:
        assert factors.basis_weights is not None
        further = factors.basis_weights.unsqueeze(-2) @ self.kernel.Kuf(self.Z_mean, x)
        Kuf = self.kernel.Kuf(self.Z, x)
        white, of_q = (factors.L_inv, factors.E), (factors.q_sqrt, factors.column_weights)
        mean, explained, q = project(Kuf, *white, *of_q, self.kernel.passes)
        return mean + further.squeeze(-2), explained, q

    def unit_update(
        self, prior: Callable[[Tensor], Tensor], factors: Factors, generator: torch.Generator
    ) -> list[Basis]:
        bases = super().unit_update(prior, factors, generator)
        assert factors.basis_weights is not None
        certain = factors.basis_weights.expand(len(bases[0].weights), -1, -1)
        return [*bases, Basis(self.Z_mean.detach(), certain)]


class DecoupledGP(TwoBasisGP):
    """Sparse GPs with inducing inputs of their own for mean and variance (PPGPR-MFD).

    f_mean comes from (Z_mean, m), f_var from (Z, S) with S diagonal; the kernel is shared.

    Parameters
    ----------
    kernel : Kernel
    Z_mean : Tensor of shape (W, M_mean, D)
        Initial inducing inputs of the mean.
    Z : Tensor of shape (W, M, D)
        Initial inducing inputs of the variance.
    mean_posterior : DeltaPosterior
        Whitened weights of the mean.
    posterior : DiagonalPosterior
        Its covariance is S; its mean stays zero.
    jitter : float
    """

    def __init__(
        self,
        kernel: Kernel,
        Z_mean: Tensor,
        Z: Tensor,
        mean_posterior: DeltaPosterior,
        posterior: DiagonalPosterior,
        jitter: float,
    ) -> None:
        super().__init__(kernel, jitter)
        self.Z_mean = nn.Parameter(Z_mean)
        self.Z = nn.Parameter(Z)
        self.mean_posterior = mean_posterior
        self.posterior = posterior
        self.posterior.mu.requires_grad_(False)

    @property
    def mean_inputs(self) -> Tensor:
        return self.Z_mean

    def start(self, information: Tensor, precision: Tensor) -> None:
        self.mean_posterior.start(information, precision)

    def factors(self) -> Factors:
        white = whitening(self.kernel.Kuu(self.Z), self.jitter)
        K_mean = self.kernel.Kuu(self.Z_mean)
        weights = basis_weights(K_mean, self.mean_posterior.mu, self.jitter)
        q_mu, q_sqrt = self.posterior.moments()
        return Factors(*white, q_mu, q_sqrt, None, q_mu, weights)

    def whitened(self, factors: Factors) -> list[Moments]:
        return [self.mean_posterior.moments(), *super().whitened(factors)]


class OrthogonalGP(TwoBasisGP):
    """Sparse GPs whose mean has a further basis, orthogonal to that of q(u) (OD-SVGP).

    With beta = Z, gamma = Z_mean and a the weights of gamma (Salimbeni et al. 2018),
    f_mean = (k_x,gamma - k_x,beta Kbb^-1 K_beta,gamma) a + k_x,beta Kbb^-1 m and f_var is that of
    (Z, S); the divergence has the further term a^T (Kgg - Kgb Kbb^-1 Kbg) a / 2. The parameter is
    v with a = C^-T v, where C is the Cholesky factor of that bracket.

    Parameters
    ----------
    kernel : Kernel
    Z_mean : Tensor of shape (W, M_mean, D)
        Initial inducing inputs gamma.
    Z : Tensor of shape (W, M, D)
        Initial inducing inputs beta.
    posterior : Posterior
        q of the whitened inducing variables at beta.
    jitter : float
    """

    def __init__(
        self, kernel: Kernel, Z_mean: Tensor, Z: Tensor, posterior: Posterior, jitter: float
    ) -> None:
        super().__init__(kernel, jitter)
        self.Z_mean = nn.Parameter(Z_mean)
        self.Z = nn.Parameter(Z)
        self.posterior = posterior
        self.orthogonal_mu = nn.Parameter(torch.zeros(Z_mean.shape[:2], dtype=torch.float32))

    @property
    def mean_inputs(self) -> Tensor:
        return torch.cat([self.Z, self.Z_mean], -2)

    @torch.no_grad()
    def start(self, information: Tensor, precision: Tensor) -> None:
        # Whitening block by block is the Cholesky factor of both bases together. The mean becomes
        # the joint optimum, the covariance that of the first block.
        n_first = self.Z.shape[-2]
        joint = DeltaPosterior(information)
        joint.start(information, precision)
        first = precision[:, :n_first, :n_first]
        mu = joint.mu[:, :n_first, None]
        self.posterior.start((first @ mu).squeeze(-1), first)
        self.orthogonal_mu.copy_(joint.mu[:, n_first:])

    def factors(self) -> Factors:
        L_inv, E = whitening(self.kernel.Kuu(self.Z), self.jitter)
        A_mean = L_inv @ self.kernel.Kuf(self.Z, self.Z_mean)
        # Kgg - Kgb Kbb^-1 Kbg may vanish beside its rounding errors, and so may a jitter relative
        # to it: hence an absolute one, for kernels of variance one.
        rest = self.kernel.Kuu(self.Z_mean) - A_mean.mT @ A_mean
        a = basis_weights(rest, self.orthogonal_mu, self.jitter, absolute=True)
        q_mu, q_sqrt = self.posterior.moments()
        # f_mean = a^T (k_gx - A_mean^T A) + q_mu^T A, so A has the weights q_mu - A_mean a.
        column_weights = q_mu - (A_mean @ a.unsqueeze(-1)).squeeze(-1)
        return Factors(L_inv, E, q_mu, q_sqrt, None, column_weights, a)

    def whitened(self, factors: Factors) -> list[Moments]:
        # The further weights keep the covariance of their prior.
        further = self.orthogonal_mu, torch.ones_like(self.orthogonal_mu)
        return [further, *super().whitened(factors)]
