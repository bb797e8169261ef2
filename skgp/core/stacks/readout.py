"""Readouts: from the moments of latent functions to those of the noiseless outputs."""

import torch
from torch import Tensor, nn

from skgp.core.layers.layer import JointLatent, Latent
from skgp.core.stacks.mixing import Mixing, MixingMoments
from skgp.core.stacks.units import UnitMoments, Units


class Readout(nn.Module):
    """Outputs Phi = M h (neural likelihoods, Eqn 9): hidden units h and a mixing matrix M.

    | model | units | mixing |
    |---|---|---|
    | MOGP (Eqn 1), top of the DGP (3) | `IdentityUnits` | `NormalMixing` |
    | GPRN (2) | `NoisyUnits` | `GPMixing` |
    | SBGPRN (4) | `IdentityUnits` | `NetworkMixing` |
    | N-MOGP (5), top of the N-DGP (7) | `NeuralUnits` | `NormalMixing` |
    | N-SBGPRN (6) | `NeuralUnits` | `NetworkMixing` |

    The results are latent functions of a Gaussian likelihood, one for each output. Its expected log
    density (Eqn 10) needs only their means and variances, also where outputs are missing. The
    latent functions that go in are those of the units, then those of the mixing matrix.

    Parameters
    ----------
    units : Units
    mixing : Mixing
    """

    def __init__(self, units: Units, mixing: Mixing) -> None:
        super().__init__()
        self.units = units
        self.mixing = mixing

    @property
    def n_latents(self) -> int:
        """Number of latent functions that go in."""
        return self.units.n_latents + self.mixing.n_latents

    def moments(self, latent: Latent, x: Tensor) -> Latent:
        """Mean and variance (Q, B, P) of the outputs at x (B, D), everything integrated out."""
        own, rest = self._split(latent)
        return _mix(self.units.moments(own), self.mixing(x, rest))

    def mean(self, latent: Latent, x: Tensor) -> Tensor:
        """The mean alone of `moments`, without the covariance of the units."""
        own, rest = self._split(latent)
        return _mix(UnitMoments(self.units.mean(own), None), self.mixing(x, rest)).f_mean

    def sample(self, latent: Latent, x: Tensor, xi: Tensor) -> Latent:
        """The same given draws of the units, so that only the mixing matrix is integrated out.

        Given these draws the outputs are independent normals, or certain.

        Parameters
        ----------
        latent : Latent
            Moments (Q or 1, B, n_latents).
        x : Tensor of shape (B, D)
        xi : Tensor of shape (Q, B or 1, units.n_noise)
            Standard normals.

        Returns
        -------
        Latent
            Moments (Q, B, P).
        """
        own, rest = self._split(latent)
        return _mix(self.units.sample(own, xi), self.mixing(x, rest))

    def sample_mixing(self, latent: Latent, x: Tensor, xi: Tensor) -> JointLatent:
        """The same given draws of the mixing matrix, so that only the units are integrated out.

        Given these draws, outputs that are linear in the latent functions are normal, with a
        covariance.

        Parameters
        ----------
        latent : Latent
            Moments (Q or 1, B, n_latents).
        x : Tensor of shape (B, D)
        xi : Tensor of shape (Q, B or 1, P H)
            Standard normals, one for each entry of the matrix; none if it is certain.

        Returns
        -------
        JointLatent
            Means (Q, B, P) and roots (Q, B, P, L) of covariances.
        """
        own, rest = self._split(latent)
        units = self.units.moments(own)
        assert units.cov is not None
        mixing = self.mixing(x, rest).draw(xi)
        # Cov(M h) = M diag(v) M^T for independent units
        std = units.cov.diagonal(dim1=-2, dim2=-1).sqrt()
        mean = _sum_over_units(mixing, units.mean)
        return JointLatent(mean, mixing * std.unsqueeze(-2))

    def divergence(self) -> Tensor:
        """Divergences of the units and of the mixing matrix, in nats."""
        return torch.as_tensor(self.units.divergence() + self.mixing.divergence())

    def _split(self, latent: Latent) -> tuple[Latent, Latent]:
        sizes = [self.units.n_latents, self.mixing.n_latents]
        parts = (part.expand_as(latent.f_mean) for part in latent)  # GPs may share a kernel
        own, rest = zip(*(part.split(sizes, -1) for part in parts), strict=True)
        return Latent(*own), Latent(*rest)


def _mix(units: UnitMoments, mixing: MixingMoments) -> Latent:
    """Moments of M h for independent M and h, whose entries vary independently in M."""
    # Eqn 12: m_k = sum over h of M_kh m_h
    mean = _sum_over_units(mixing.mean, units.mean)
    # Eqn 13: v_k = sum over h, h' of M_kh V_hh' M_kh' + sum over h of var(M_kh) (m_h^2 + V_hh)
    var = torch.zeros_like(mean)
    square = units.mean.square()
    if units.cov is not None:
        var = ((mixing.mean @ units.cov) * mixing.mean).sum(-1)
        square = square + units.cov.diagonal(dim1=-2, dim2=-1)
    if mixing.var is not None:
        var = var + _sum_over_units(mixing.var, square)
    # Rounding can push the variance of outputs in which the units cancel below zero.
    return Latent(mean, torch.zeros_like(mean), var.clamp_min(0.0))


def _sum_over_units(matrix: Tensor, values: Tensor) -> Tensor:
    """Sums (Q, B, P) of m_ph h_h, with m (P, H), (B, P, H) or (Q, B, P, H) and h (Q, B, H).

    The matrix of a row is neither copied for each node nor multiplied by one vector at a time,
    which with 300 outputs takes ten times as long.
    """
    if matrix.dim() == 2:
        return values @ matrix.mT
    if matrix.dim() == 3:
        return (matrix @ values.movedim(-3, -1)).movedim(-1, -3)
    return (matrix @ values.unsqueeze(-1)).squeeze(-1)
