"""Sparse GP layers: from inputs to the moments of W latent functions."""

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from skgp.core.kernels import Kernel
from skgp.core.linalg import (
    basis_weights,
    inverse_cholesky,
)
from skgp.core.projection import project, project_shared
from skgp.core.variational import DeltaPosterior, DiagonalPosterior, Posterior

_BLOCK = 400_000  # numbers of a kernel block, of which a few are held in the cache
_MIN_CHUNK = 256


class Latent(NamedTuple):
    """Gaussian moments of the latent functions, each of shape (Q, B, W).

    Attributes
    ----------
    f_mean : Tensor
        Mean.
    v_prior : Tensor
        Variance that the inducing variables leave unexplained, kff - |A|^2.
    v_q : Tensor
        Variance that comes from q(u), |q_sqrt^T A|^2.
    """

    f_mean: Tensor
    v_prior: Tensor
    v_q: Tensor

    @property
    def f_var(self) -> Tensor:
        """Variance of the latent functions."""
        return self.v_prior + self.v_q

    @property
    def std(self) -> Tensor:
        """Standard deviation, with a floor that keeps its slope finite where f is certain."""
        return self.f_var.clamp_min(torch.finfo(self.f_mean.dtype).eps).sqrt()

    def draw(self, xi: Tensor) -> Tensor:
        """f = f_mean + sqrt(f_var) xi at standardised values xi, broadcastable to (Q, B, W)."""
        return self.f_mean + self.std * xi


def certain(f_mean: Tensor) -> Latent:
    """Latent functions (Q, B, W) without variance."""
    zero = torch.zeros_like(f_mean)
    return Latent(f_mean, zero, zero)


class Factors(NamedTuple):
    """What a layer computes once per step, or once per prediction call, from its parameters.

    Attributes
    ----------
    L_inv : Tensor of shape (W, M, M)
        Inverse Cholesky factor of Kuu.
    q_mu : Tensor of shape (W, M)
        Mean of q.
    q_sqrt : Tensor of shape (W, M, M) or (W, M) or None
        Square root of the covariance of q.
    q_cov : Tensor of shape (W, M, M) or (W, M)
        The covariance, or only its diagonal if it is a diagonal matrix.
    column_weights : Tensor of shape (W, M)
        Weights of the whitened columns A = L_inv Kuf in the mean of f.
    basis_weights : Tensor of shape (W, M_mean) or None
        Weights in the mean of f of the functions k(Z_mean, x) of a further basis; None without one.
    """

    L_inv: Tensor
    q_mu: Tensor
    q_sqrt: Tensor | None
    q_cov: Tensor
    column_weights: Tensor
    basis_weights: Tensor | None


def make_factors(
    L_inv: Tensor,
    q_mu: Tensor,
    q_sqrt: Tensor | None,
    column_weights: Tensor,
    basis_weights: Tensor | None,
) -> Factors:
    """Factors, with the covariance of q computed from its root."""
    if q_sqrt is None:
        q_cov = torch.zeros_like(q_mu)
    else:
        q_cov = q_sqrt @ q_sqrt.mT if q_sqrt.dim() == 3 else q_sqrt.square()
    return Factors(L_inv, q_mu, q_sqrt, q_cov, column_weights, basis_weights)


class Layer(nn.Module, ABC):
    """W GPs over common inputs, with a constant or linear prior mean each.

    Parameters
    ----------
    kernel : Kernel
        Covariance of the W GPs.
    jitter : float
        Relative diagonal regularisation of kernel matrices.

    Attributes
    ----------
    mean : Parameter of shape (W,)
        Constants of the prior means.
    slope : Parameter of shape (D_mean, W) or None
        Weights of a linear prior mean.
    """

    def __init__(self, kernel: Kernel, jitter: float) -> None:
        super().__init__()
        self.kernel = kernel
        self.jitter = jitter
        self.mean = nn.Parameter(torch.zeros_like(kernel.variance.detach()))
        self.slope: nn.Parameter | None = None

    @abstractmethod
    def factors(self) -> Any:
        """Everything that depends on parameters alone; one Cholesky factor per basis."""

    @abstractmethod
    def unit_moments(self, x: Tensor, factors: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, explained share and q's share of the variance, each (W, N), at x (N, D).

        The mean is in units of sqrt(variance), the other two in units of variance.
        """

    @abstractmethod
    def kl(self, factors: Any) -> Tensor:
        """Divergence of q(u) from its prior, summed over the W GPs, in nats."""

    def moments(self, x: Tensor, factors: Any, x_mean: Tensor | None = None) -> Latent:
        """Moments of f at x (Q, B, D), each of shape (Q, B, W).

        With f ~ GP(m, variance * r), A = Luu^-1 Kuf: f_mean = m + sqrt(variance) q_mu^T A,
        v_prior = variance (rff - |A|^2), v_q = variance |q_sqrt^T A|^2. The inducing variables
        are those of f - m; a linear m sees x_mean (Q or 1, B, D_mean), x itself if None.
        """
        flat = x.flatten(0, 1)
        variance = self.kernel.variance.unsqueeze(-1)
        mean, explained, q = self.unit_moments(flat, factors)
        # Rounding can push the explained share above the whole by a few ulps of its terms.
        v_prior = (self.kernel.kff(flat) - explained).clamp_min(0.0) * variance
        f_mean = self.mean.unsqueeze(-1) + variance.sqrt() * mean
        shape = (-1, *x.shape[:-1])
        latent = Latent(*(m.reshape(shape).movedim(0, -1) for m in (f_mean, v_prior, q * variance)))
        if self.slope is None:
            return latent
        linear = (x if x_mean is None else x_mean) @ self.slope
        return latent._replace(f_mean=latent.f_mean + linear)


class SparseLayer(Layer):
    """Abstract base of the layers with inducing inputs."""

    Z: nn.Parameter  # inducing inputs (W, M, D) of the variance

    @property
    @abstractmethod
    def mean_inputs(self) -> Tensor:
        """Inducing inputs (W, M_mean, D) that carry the mean."""

    @abstractmethod
    def chunk_moments(self, x: Tensor, factors: Factors) -> tuple[Tensor, Tensor, Tensor]:
        """`unit_moments` of a chunk of inputs."""

    def unit_moments(self, x: Tensor, factors: Factors) -> tuple[Tensor, Tensor, Tensor]:
        # Blocks of size M x chunk stay in the cache, and their memory is used again and again.
        size = max(_MIN_CHUNK, _BLOCK // self.Z[..., 0].numel())
        parts = x.tensor_split(math.ceil(len(x) / size))
        chunks = [self.chunk_moments(part, factors) for part in parts]
        if len(chunks) == 1:
            return chunks[0]
        mean, explained, q = (torch.cat(of_chunks, -1) for of_chunks in zip(*chunks, strict=True))
        return mean, explained, q

    @abstractmethod
    def start(self, information: Tensor, precision: Tensor) -> None:
        """Take the q(v) closest to N(H^-1 b, H^-1), v whitened on `mean_inputs`.

        b is the information vector (W, M_mean), H the precision (W, M_mean, M_mean).
        """


class SparseGP(SparseLayer):
    """Sparse GPs whose mean and variance share one set of inducing inputs.

    W independent GPs may also have the kernel and the inducing inputs in common. One Cholesky
    factor and one whitened block A then serve all of them.

    Parameters
    ----------
    kernel : Kernel
        Kernel of each GP, or the one that all share.
    Z : Tensor of shape (W, M, D), or (1, M, D) with a shared kernel
        Initial inducing inputs.
    posterior : Posterior
        q(v) of the whitened inducing variables of the W GPs.
    jitter : float
    n_sharing : int, optional
        Number W of GPs that share the kernel and Z; None if each has its own.

    Attributes
    ----------
    is_shared : bool
        Whether the GPs share a kernel. There may be only one of them.
    """

    def __init__(
        self,
        kernel: Kernel,
        Z: Tensor,
        posterior: Posterior,
        jitter: float,
        n_sharing: int | None = None,
    ) -> None:
        super().__init__(kernel, jitter)
        self.is_shared = n_sharing is not None
        if n_sharing is not None:
            self.mean = nn.Parameter(torch.zeros(n_sharing, dtype=torch.float32))
        self.Z = nn.Parameter(Z)
        self.posterior = posterior

    @property
    def mean_inputs(self) -> Tensor:
        return self.Z

    def start(self, information: Tensor, precision: Tensor) -> None:
        self.posterior.start(information, precision)

    def factors(self) -> Factors:
        L_inv = inverse_cholesky(self.kernel.Kuu(self.Z), self.jitter)
        q_mu, q_sqrt = self.posterior.moments()
        return make_factors(L_inv, q_mu, q_sqrt, q_mu, None)

    def chunk_moments(self, x: Tensor, factors: Factors) -> tuple[Tensor, Tensor, Tensor]:
        projection = project_shared if self.is_shared else project
        return projection(
            self.kernel.Kuf(self.Z, x), factors.L_inv, factors.q_cov, factors.column_weights
        )

    def kl(self, factors: Factors) -> Tensor:
        return self.posterior.kl(factors.q_mu, factors.q_sqrt)


class TwoBasisGP(SparseLayer):
    """Abstract base of layers with inducing inputs that serve the mean alone."""

    Z_mean: nn.Parameter  # inducing inputs (W, M_mean, D) of the mean

    def chunk_moments(self, x: Tensor, factors: Factors) -> tuple[Tensor, Tensor, Tensor]:
        assert factors.basis_weights is not None
        further = factors.basis_weights.unsqueeze(-2) @ self.kernel.Kuf(self.Z_mean, x)
        mean, explained, q = project(
            self.kernel.Kuf(self.Z, x), factors.L_inv, factors.q_cov, factors.column_weights
        )
        return mean + further.squeeze(-2), explained, q


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
        L_inv = inverse_cholesky(self.kernel.Kuu(self.Z), self.jitter)
        K_mean = self.kernel.Kuu(self.Z_mean)
        weights = basis_weights(K_mean, self.mean_posterior.mu, self.jitter)
        q_mu, q_sqrt = self.posterior.moments()
        return make_factors(L_inv, q_mu, q_sqrt, q_mu, weights)

    def kl(self, factors: Factors) -> Tensor:
        mean_kl = self.mean_posterior.kl(self.mean_posterior.mu, None)
        return mean_kl + self.posterior.kl(factors.q_mu, factors.q_sqrt)


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
        L_inv = inverse_cholesky(self.kernel.Kuu(self.Z), self.jitter)
        A_mean = L_inv @ self.kernel.Kuf(self.Z, self.Z_mean)
        # Kgg - Kgb Kbb^-1 Kbg may vanish, and a jitter relative to it too: hence an absolute one.
        rest = self.kernel.Kuu(self.Z_mean) - A_mean.mT @ A_mean
        rest = rest + self.jitter * torch.eye(rest.shape[-1], dtype=rest.dtype, device=rest.device)
        a = basis_weights(rest, self.orthogonal_mu, self.jitter)
        q_mu, q_sqrt = self.posterior.moments()
        # f_mean = a^T (k_gx - A_mean^T A) + q_mu^T A, so A has the weights q_mu - A_mean a.
        column_weights = q_mu - (A_mean @ a.unsqueeze(-1)).squeeze(-1)
        return make_factors(L_inv, q_mu, q_sqrt, column_weights, a)

    def kl(self, factors: Factors) -> Tensor:
        further = 0.5 * self.orthogonal_mu.square().sum()
        return further + self.posterior.kl(factors.q_mu, factors.q_sqrt)
