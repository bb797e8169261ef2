"""Layers of sparse GPs: factors once per step, then moments."""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from skgp.core.kernels.kernel import Kernel
from skgp.core.layers.divergences import Divergence, kullback_leibler
from skgp.core.layers.layer import Basis, Layer, in_groups
from skgp.core.layers.posteriors import Moments, Posterior
from skgp.core.layers.projection import project, project_shared
from skgp.core.numerics.draws import DrawSource, normals
from skgp.core.numerics.linalg import gram, whitening

_BLOCK: Final = 4_000_000  # bytes of a kernel block: a few such blocks fit in the cache
_BLOCK_ON_GPU: Final = 2**28  # the same where starting work on a small one takes most of the time
_MIN_CHUNK: Final = 256  # inputs


class Factors(NamedTuple):
    """What a layer computes once per step, or once per prediction call, from its parameters.

    Attributes
    ----------
    L_inv : Tensor of shape (W, M, M), or (1, M, M) with a shared kernel
        Inverse Cholesky factor of Kuu.
    E : Tensor of the same shape
        Zeros, by which gradients come to Kuu: see `whitening`.
    q_mu : Tensor of shape (W, M)
        Mean of q.
    q_sqrt : Tensor of shape (W, M, M) or (W, M) or None
        Square root of the covariance of q.
    q_cov : Tensor of shape (W, M, M) or (W, M), or None
        The covariance, or only its diagonal if it is a diagonal matrix. None where each GP has its
        own kernel: their moments need the root alone.
    column_weights : Tensor of shape (W, M)
        Weights of the whitened columns A = L_inv Kuf in the mean of f.
    basis_weights : Tensor of shape (W, M_mean) or None
        Weights in the mean of f of the functions k(Z_mean, x) of a further basis; None without one.
    """

    L_inv: Tensor
    E: Tensor
    q_mu: Tensor
    q_sqrt: Tensor | None
    q_cov: Tensor | None
    column_weights: Tensor
    basis_weights: Tensor | None


def covariance(q_mu: Tensor, q_sqrt: Tensor | None) -> Tensor:
    """Covariance of q from its root: `q_cov` of `Factors`."""
    if q_sqrt is None:
        return torch.zeros_like(q_mu)
    return gram(q_sqrt) if q_sqrt.dim() == 3 else q_sqrt.square()


def draw_inducing(n: int, factors: Factors, generator: DrawSource) -> Tensor:
    """Draws (W, n, M) of the weights of the whitened columns, from q(v)."""
    mean, q_sqrt = factors.column_weights, factors.q_sqrt
    n_gps, n_inducing = mean.shape
    epsilon = normals((n_gps, n, n_inducing), generator, mean)
    if q_sqrt is None:
        return mean.unsqueeze(-2).expand_as(epsilon)
    blurred = epsilon @ q_sqrt.mT if q_sqrt.dim() == 3 else epsilon * q_sqrt.unsqueeze(-2)
    return mean.unsqueeze(-2) + blurred


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
        of_input = self.Z[..., 0].numel() * x.element_size()  # bytes
        size = max(_MIN_CHUNK, (_BLOCK_ON_GPU if x.is_cuda else _BLOCK) // of_input)
        parts = x.tensor_split(math.ceil(len(x) / size))
        chunks = [self.chunk_moments(part, factors) for part in parts]
        if len(chunks) == 1:
            return chunks[0]
        mean, explained, q = (torch.cat(of_chunks, -1) for of_chunks in zip(*chunks, strict=True))
        return mean, explained, q

    @property
    def n_inputs(self) -> int:
        return self.Z.shape[-1]

    def unit_covariance(self, x: Tensor, factors: Factors) -> Tensor:
        # Kff - A^T A + A^T S A
        A = factors.L_inv @ self.kernel.Kuf(self.Z, x.flatten(0, 1))
        S = covariance(factors.q_mu, factors.q_sqrt)
        SA = S @ A if S.dim() == 3 else S.unsqueeze(-1) * A
        return self.kernel.Kff(x) + in_groups(A, x).mT @ in_groups(SA - A, x)

    def unit_update(
        self, prior: Callable[[Tensor], Tensor], factors: Factors, generator: torch.Generator
    ) -> list[Basis]:
        # f = g + A^T (v - Luu^-1 (g(Z) + e)) with g from the prior, v ~ q(v), and e ~ N(0, jitter),
        # for the inducing variables of the model have the covariance Kuu + jitter.
        g = prior(self.Z.unsqueeze(0)).transpose(0, 1)  # (W, S, M)
        e = normals(g.shape, generator, g)
        v = draw_inducing(g.shape[1], factors, generator)
        white = v - (g + math.sqrt(self.jitter) * e) @ factors.L_inv.mT
        return [Basis(self.Z.detach(), (white @ factors.L_inv).transpose(0, 1))]

    def whitened(self, factors: Factors) -> list[Moments]:
        """Moments of the independent parts of q, whose priors are N(0, I)."""
        return [(factors.q_mu, factors.q_sqrt)]

    def divergence(self, factors: Factors, of: Divergence) -> Tensor:
        """Divergence of q(u) from its prior by a function of the parts' moments, summed."""
        return torch.stack([of(*moments) for moments in self.whitened(factors)]).sum()

    def kl(self, factors: Factors) -> Tensor:
        return self.divergence(factors, kullback_leibler)

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
        q_mu, q_sqrt = self.posterior.moments()
        q_cov = covariance(q_mu, q_sqrt) if self.is_shared else None
        white = whitening(self.kernel.Kuu(self.Z), self.jitter)
        return Factors(*white, q_mu, q_sqrt, q_cov, q_mu, None)

    def chunk_moments(self, x: Tensor, factors: Factors) -> tuple[Tensor, Tensor, Tensor]:
        Kuf = self.kernel.Kuf(self.Z, x)
        if factors.q_cov is not None:
            return project_shared(Kuf, factors.L_inv, factors.q_cov, factors.column_weights)
        of_q = factors.q_sqrt, factors.column_weights
        return project(Kuf, factors.L_inv, factors.E, *of_q, self.kernel.passes)
