"""What all layers share: latent moments, and GPs in chunks of inputs."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from skgp.core.kernels.kernel import Kernel
from skgp.core.layers.kept import Content, Kept


class Latent(NamedTuple):
    """Gaussian moments of the latent functions, each of shape (Q, B, W).

    Attributes
    ----------
    f_mean : Tensor
        Mean.
    v_prior : Tensor
        Variance that the inducing variables leave unexplained, kff - |A|^2; of shape (Q, B, 1) for
        GPs that share a kernel.
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
    def root(self) -> Tensor | None:
        """Root (Q, B, W, R) of the covariance over the functions; None if they are independent."""
        return None

    @property
    def noise_ratio(self) -> Tensor | float:
        """Noise variance of each node, relative to that of the likelihood."""
        return 1.0

    @property
    def noise_shift(self) -> Tensor | float:
        """Mean of the noise of each node, in standard deviations of that of the likelihood."""
        return 0.0

    def observed_mean(self, mean: Tensor, noise_var: Tensor) -> Tensor:
        """Means of targets, from those of noiseless outputs (Q, B, P) and noise variances (P,)."""
        return mean

    @property
    def std(self) -> Tensor:
        """Standard deviation, with a floor that keeps its slope finite where f is certain."""
        return self.f_var.clamp_min(torch.finfo(self.f_mean.dtype).eps).sqrt()

    def draw(self, xi: Tensor) -> Tensor:
        """f = f_mean + sqrt(f_var) xi at standardised values xi (Q, B or 1, W).

        Either of moments and values may have a single node.
        """
        return self.f_mean + self.std * xi


class JointLatent(Latent):
    """Moments of W functions that are linear in R independent ones.

    Parameters
    ----------
    f_mean : Tensor of shape (Q, B, W)
    root : Tensor of shape (Q, B, W, R)
        Root of their covariance, root root^T.
    """

    _root: Tensor

    def __new__(cls, f_mean: Tensor, root: Tensor) -> Self:
        joint = super().__new__(cls, f_mean, torch.zeros_like(f_mean), root.square().sum(-1))
        joint._root = root
        return joint

    @property
    def root(self) -> Tensor:
        return self._root

    def _replace(self, **parts: Any) -> "JointLatent":
        """Another mean; the variances are those of the root and cannot be replaced on their own."""
        unknown = sorted(parts.keys() - {"f_mean"})
        if unknown:
            raise ValueError(f"the root of joint moments gives {', '.join(unknown)}")
        return JointLatent(parts.get("f_mean", self.f_mean), self._root)


class DrawnLatent(Latent):
    """Moments at nodes that have a noise each, as draws of hyper-parameters do.

    Parameters
    ----------
    f_mean, v_prior, v_q : Tensor of shape (Q, B, W)
    noise_ratio : Tensor of shape (Q, 1, 1)
    noise_shift : Tensor of shape (Q, 1, 1), optional
        Zero if absent.
    """

    _noise_ratio: Tensor
    _noise_shift: Tensor | float

    def __new__(
        cls,
        f_mean: Tensor,
        v_prior: Tensor,
        v_q: Tensor,
        noise_ratio: Tensor,
        noise_shift: Tensor | float = 0.0,
    ) -> Self:
        drawn = super().__new__(cls, f_mean, v_prior, v_q)
        drawn._noise_ratio, drawn._noise_shift = noise_ratio, noise_shift
        return drawn

    @property
    def noise_ratio(self) -> Tensor:
        return self._noise_ratio

    @property
    def noise_shift(self) -> Tensor | float:
        return self._noise_shift

    def observed_mean(self, mean: Tensor, noise_var: Tensor) -> Tensor:
        return mean + self._noise_shift * noise_var.sqrt()

    def _replace(self, **parts: Any) -> "DrawnLatent":
        """Other moments, with the same noise."""
        moments = self._asdict() | parts
        return DrawnLatent(**moments, noise_ratio=self.noise_ratio, noise_shift=self.noise_shift)


class Basis(NamedTuple):
    """The functions sum_m weights_m k(centres_m, x), S draws of each of W GPs.

    Attributes
    ----------
    centres : Tensor of shape (W, M, D), or (1, M, D) with a shared kernel
    weights : Tensor of shape (S, W, M)
    """

    centres: Tensor
    weights: Tensor


def certain(f_mean: Tensor) -> Latent:
    """Latent functions (Q, B, W) without variance."""
    zero = torch.zeros_like(f_mean)
    return Latent(f_mean, zero, zero)


def total_moments(mean: Tensor, var: Tensor, omega: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (B, W) of a mixture by the laws of total expectation and variance.

    Parameters
    ----------
    mean, var : Tensor of shape (S, B, W)
        Of its components.
    omega : Tensor of shape (S, 1, 1)
        Their weights; any for a single one.
    """
    if len(mean) == 1:
        return mean[0], var[0]
    total = (omega * mean).sum(0)
    return total, (omega * (var + (mean - total).square())).sum(0)


class Layer(nn.Module, ABC):
    """W GPs over common inputs, with a constant, linear or neural prior mean each.

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
    mean_network : Module
        From (..., D_mean) to prior means (..., W), where they are neural.

    Notes
    -----
    A layer keeps the factors of its last prediction until anything in it changes. Copies, pickles
    and files are without them.
    """

    mean_network: nn.Module
    _kept: Kept | None = None

    def __init__(self, kernel: Kernel, jitter: float) -> None:
        super().__init__()
        self.kernel = kernel
        self.jitter = jitter
        self.mean = nn.Parameter(torch.zeros_like(kernel.variance.detach()))
        self.slope: nn.Parameter | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).copy().items() if name != "_kept"}

    @abstractmethod
    def factors(self) -> Any:
        """Everything that depends on parameters alone; one Cholesky factor per basis."""

    def known_factors(self) -> Any:
        """The factors for a prediction, without gradients."""
        content = Content.of(self)
        kept = self._kept  # read once: another thread may set it at any time
        if kept is None or not kept.content.equals(content):
            with torch.inference_mode(False), torch.no_grad():
                # First the copy: after a change between the two the next call refuses the factors.
                kept = Kept(content.copied(), self.factors())
            self._kept = kept
        return kept.factors

    @abstractmethod
    def unit_moments(self, x: Tensor, factors: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, explained share and q's share of the variance, each (W, N), at x (N, D).

        The mean is in units of sqrt(variance), the other two in units of variance. GPs that share a
        kernel share the second, of shape (1, N).
        """

    @property
    @abstractmethod
    def n_inputs(self) -> int:
        """Number D of inputs of the kernel."""

    @abstractmethod
    def unit_covariance(self, x: Tensor, factors: Any) -> Tensor:
        """Posterior covariances (W, G, N, N) within groups x (G, N, D), in units of variance."""

    @abstractmethod
    def unit_update(
        self, prior: Callable[[Tensor], Tensor], factors: Any, generator: torch.Generator
    ) -> list[Basis]:
        """What turns draws from the prior into draws from the posterior (Wilson et al. 2020).

        Parameters
        ----------
        prior : callable
            Draws of f of mean zero and unit variance: from inputs (S or 1, W or 1, N, D) to values
            (S, W, N).
        factors
        generator : torch.Generator

        Returns
        -------
        list of Basis
            Functions that are added to those of the prior, in units of sqrt(variance).
        """

    @abstractmethod
    def kl(self, factors: Any) -> Tensor:
        """Divergence of q(u) from its prior, summed over the W GPs, in nats."""

    def trend(self, x: Tensor) -> Tensor | float:
        """Prior means (..., W) at x (..., D_mean), less the constants."""
        if self.slope is not None:
            return x @ self.slope
        # Files of earlier versions lack the attribute.
        return self.mean_network(x) if hasattr(self, "mean_network") else 0.0

    def moments(self, x: Tensor, factors: Any, x_mean: Tensor | None = None) -> Latent:
        """Moments of f at x (Q, B, D), of the shapes of `Latent`.

        With f ~ GP(m, variance * r), A = Luu^-1 Kuf: f_mean = m + sqrt(variance) q_mu^T A,
        v_prior = variance (rff - |A|^2), v_q = variance |q_sqrt^T A|^2. The inducing variables
        are those of f - m; m sees x_mean (Q or 1, B, D_mean), x itself if None.
        """
        flat = x.flatten(0, 1)
        variance = self.kernel.variance.unsqueeze(-1)
        mean, explained, q = self.unit_moments(flat, factors)
        # Rounding can push the explained share above the whole by a few ulps of its terms.
        v_prior = (self.kernel.kff(flat) - explained).clamp_min(0.0) * variance
        f_mean = self.mean.unsqueeze(-1) + variance.sqrt() * mean
        shape = (-1, *x.shape[:-1])
        latent = Latent(*(m.reshape(shape).movedim(0, -1) for m in (f_mean, v_prior, q * variance)))
        trend = self.trend(x if x_mean is None else x_mean)
        return latent._replace(f_mean=latent.f_mean + trend)

    def covariance(self, x: Tensor, factors: Any) -> Tensor:
        """Posterior covariances (W, G, N, N) of f over the rows of each group of x (G, N, D)."""
        return self.kernel.variance[:, None, None, None] * self.unit_covariance(x, factors)


def in_groups(block: Tensor, x: Tensor) -> Tensor:
    """Blocks (W, G, M, N) of each group of x (G, N, D), from one (W, M, G N) of all its rows."""
    return block.unflatten(-1, x.shape[:2]).transpose(1, 2)
