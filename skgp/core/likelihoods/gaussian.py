"""Gaussian noise: terms of all objectives in closed form, and normal predictive distributions."""

import math

import torch
from torch import Tensor, nn

from skgp.core.data import Targets
from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.likelihood import Observation, Predictive, Term, expected_log_prob
from skgp.core.numerics.captures import is_capturing, nan_where
from skgp.core.numerics.linalg import LOG_2PI
from skgp.exceptions import NotPositiveDefiniteError


class Gaussian(Observation):
    """y = M f + e, e ~ N(0, diag(noise_var)): one noise variance per output.

    Without a mixing matrix output k is latent k. With one (linear model of coregionalisation; deep
    sigma point processes, Eqn 24) the covariance over outputs is exact: M diag(f_var) M^T + noise.

    Parameters
    ----------
    n_outputs : int
        Number P of outputs.
    noise_var : float
        Initial noise variance.
    noise_floor : float
        Lower bound of the noise variance. A density can grow without bound on discrete or leaking
        targets; the floor keeps it finite.
    mixing : Tensor of shape (P, W), optional
        Initial mixing matrix M.
    """

    def __init__(
        self, n_outputs: int, noise_var: float, noise_floor: float, mixing: Tensor | None = None
    ) -> None:
        super().__init__()
        self.noise_floor = noise_floor
        start = torch.full((n_outputs,), noise_var, dtype=torch.float32)
        self.log_excess_noise = nn.Parameter(torch.zeros_like(start))
        self.mixing = None if mixing is None else nn.Parameter(mixing)
        self.start(start)

    @property
    def noise_var(self) -> Tensor:
        """Noise variances (P,)."""
        return self.noise_floor + self.log_excess_noise.exp()

    @torch.no_grad()
    def start(self, noise_var: Tensor) -> None:
        """Set the noise variances (P,); one below the floor is put a little above it."""
        excess = (noise_var - self.noise_floor).clamp_min(0.1 * self.noise_floor)
        self.log_excess_noise.copy_(excess.log())

    @torch.no_grad()
    def coupling(self) -> float:
        """How closely the targets tie the latent functions together, at least one.

        The largest eigenvalue of M^T D^-1 M, D the noise, scaled to a unit diagonal.
        """
        if self.mixing is None:
            return 1.0
        root = (self.mixing / self.noise_var.sqrt().unsqueeze(-1)).double()
        root = root / root.norm(dim=0).clamp_min(torch.finfo(root.dtype).tiny)
        return max(1.0, torch.linalg.matrix_norm(root, 2).square().item())

    def expected_log_prob(self, latent: Latent, targets: Targets) -> Tensor:
        mean, v_prior, v_q = self._marginals(latent)
        noise = self.noise_var
        log_prob = log_normal(targets.y - mean, noise) - 0.5 * (v_prior + v_q) / noise
        return sum_observed(log_prob, targets.mask)

    def log_marginal(self, latent: Latent, targets: Targets) -> Tensor:
        mean, v_prior, v_q = self._marginals(latent)
        residual = targets.y - latent.observed_mean(mean, self.noise_var)
        if self.mixing is None and latent.root is not None:
            return _log_low_rank_normal(residual, latent.root, self.noise_var, targets.mask)
        cov = self._predictive_covariance(latent)
        if cov is None:
            log_prob = log_normal(residual, v_prior + v_q + latent.noise_ratio * self.noise_var)
            return sum_observed(log_prob, targets.mask)
        return _log_joint_normal(residual.unsqueeze(-1), None, cov, targets.mask)

    def gamma_expectation(self, latent: Latent, targets: Targets, gamma: float) -> Tensor:
        """Data term of the gamma-divergence ELBO (Knoblauch et al. 2019), shape (Q, B).

        g / (g - 1) * (E_q[p(y | f)^(g - 1)] / (int p(y | f)^g dy)^((g - 1) / g) - 1), summed over
        outputs; the constant -1 makes it tend to E_q log p(y | f) as gamma tends to 1. The
        Gaussian expectation is in closed form, without a division by the latent variance.
        """
        mean, v_prior, v_q = self._marginals(latent)
        noise, beta = self.noise_var, gamma - 1.0
        # E_q[p^b] = (2 pi s2)^(-b/2) (1 + b v / s2)^(-1/2) exp(-b (y - m)^2 / (2 (s2 + b v)))
        spread = noise + beta * (v_prior + v_q)
        log_power = -0.5 * (
            beta * (LOG_2PI + noise.log())
            + spread.log()
            - noise.log()
            + beta * (targets.y - mean).square() / spread
        )
        # int p^g dy = (2 pi s2)^((1 - g) / 2) g^(-1/2)
        log_integral = -0.5 * (beta * (LOG_2PI + noise.log()) + math.log(gamma))
        term = torch.expm1(log_power - beta / gamma * log_integral) * (gamma / beta)
        return sum_observed(term, targets.mask)

    def gamma_score(self, latent: Latent, targets: Targets, gamma: float) -> Tensor:
        """Gamma score of the predictive density p of each row, joint over outputs, shape (Q, B).

        g / (g - 1) * (p(y)^(g - 1) / (int p(y)^g dy)^((g - 1) / g) - 1): the score of the
        gamma-divergence in place of the log score (PPGPR paper, section 3.4). It tends to log p(y)
        as gamma tends to 1.
        """
        beta = gamma - 1.0
        log_density = self.log_marginal(latent, targets)
        # int p^g dy = p(mode)^(g - 1) g^(-P / 2) for a normal density of P observed outputs
        centred = latent._replace(f_mean=torch.zeros_like(latent.f_mean))
        log_mode = self.log_marginal(centred, targets._replace(y=torch.zeros_like(targets.y)))
        n_observed = targets.y.shape[-1] if targets.mask is None else targets.mask.sum(-1)
        log_integral = beta * log_mode - 0.5 * math.log(gamma) * n_observed
        score = torch.expm1(beta * (log_density - log_integral / gamma)) * (gamma / beta)
        return score.to(latent.f_mean.dtype)  # of the weights of the nodes

    def vfitc_bound(self, latent: Latent, targets: Targets) -> Tensor:
        """Data term of VFITC (PPGPR paper, Eqn 15), shape (Q, B).

        log N(y; m, s2 + v_prior) - v_q / (2 (s2 + v_prior)), summed over outputs. Mixed outputs are
        joint: log N(y; M m, C) - tr(C^-1 M diag(v_q) M^T) / 2, C = M diag(v_prior) M^T + noise.
        """
        mean, v_prior, v_q = self._marginals(latent)
        if self.mixing is not None:
            residual = (targets.y - mean).unsqueeze(-1)
            directions = self.mixing.expand(*residual.shape[:-2], -1, -1)
            second = torch.cat([residual, directions], -1)
            weights = torch.cat([torch.ones_like(latent.v_q[..., :1]), latent.v_q], -1)
            cov = self._covariance(latent.v_prior.expand_as(latent.v_q))
            term = _log_joint_normal(second, weights, cov, targets.mask)
            return term.to(mean.dtype)  # of the weights of the nodes
        noise = self.noise_var + v_prior
        log_prob = log_normal(targets.y - mean, noise) - 0.5 * v_q / noise
        return sum_observed(log_prob, targets.mask)

    @staticmethod
    def is_quadratic(term: Term) -> bool:
        """Whether a term is quadratic in f.

        With one layer natural-gradient steps on one q(u) are then steps towards a normal optimum.
        """
        return term in (expected_log_prob, Gaussian.vfitc_bound)

    def predictive(self, latent: Latent) -> Predictive:
        """Distribution of y for each node, noise included."""
        mean, v_prior, v_q = self._marginals(latent)
        var = v_prior + v_q + latent.noise_ratio * self.noise_var
        mean = latent.observed_mean(mean, self.noise_var)
        return Predictive(mean, var, self._predictive_covariance(latent))

    def noiseless(self, latent: Latent) -> Predictive:
        """Distribution of the noiseless outputs M f for each node."""
        mean, v_prior, v_q = self._marginals(latent)
        floor = torch.finfo(mean.dtype).eps  # keeps the distribution proper where f is certain
        var = v_prior + v_q + floor
        cov = self._predictive_covariance(latent)
        if cov is None:
            return Predictive(mean, var, None)
        cov = cov - torch.diag_embed(self.noise_var)
        return Predictive(mean, var, cov + torch.diag_embed(floor * torch.ones_like(var)))

    def outputs(self, f: Tensor) -> Tensor:
        """The noiseless outputs M f (..., P) of functions f (..., W)."""
        return f if self.mixing is None else f @ self.mixing.mT

    def joint_covariance(self, cov: Tensor) -> Tensor:
        """Covariances (P, N, N) of each noiseless output over rows, of those (W, N, N) of f."""
        return cov if self.mixing is None else torch.tensordot(self.mixing.square(), cov, 1)

    def _marginals(self, latent: Latent) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and both variances of the noiseless outputs, each (Q, B, P)."""
        if self.mixing is None:
            return latent
        squared = self.mixing.mT.square()
        v_prior = latent.v_prior.expand_as(latent.v_q)  # GPs may share a kernel
        return latent.f_mean @ self.mixing.mT, v_prior @ squared, latent.v_q @ squared

    def _predictive_covariance(self, latent: Latent) -> Tensor | None:
        """Covariance (Q, B, P, P) of y, noise included; None where outputs are independent."""
        if self.mixing is not None:
            return self._covariance(latent.f_var)
        if latent.root is None or len(self.noise_var) == 1:
            return None
        return latent.root @ latent.root.mT + torch.diag_embed(self.noise_var)

    def _covariance(self, var: Tensor) -> Tensor:
        """M diag(var) M^T + diag(noise_var), shape (Q, B, P, P), for variances (Q, B, W)."""
        assert self.mixing is not None
        scaled = var.unsqueeze(-2) * self.mixing
        return scaled @ self.mixing.mT + torch.diag_embed(self.noise_var)


def log_normal(residual: Tensor, variance: Tensor) -> Tensor:
    """log N(residual; 0, variance), elementwise."""
    return -0.5 * (LOG_2PI + variance.log() + residual.square() / variance)


def sum_observed(term: Tensor, mask: Tensor | None) -> Tensor:
    """Sum over the observed outputs of terms (..., P) with a mask (B, P)."""
    return term.sum(-1) if mask is None else (term * mask).sum(-1)


def _log_joint_normal(
    second: Tensor, weights: Tensor | None, cov: Tensor, mask: Tensor | None
) -> Tensor:
    """E log N(r; 0, cov) over the observed outputs of each row, (Q, B), in float64.

    E r r^T is the sum of c c^T over the columns c of `second` (Q, B, P, C), with weights (Q, B, C),
    all one if None.
    """
    second, cov = second.double(), cov.double()
    n_observed: Tensor | int = second.shape[-2]
    if mask is not None:
        # A missing output becomes an independent standard normal at its mean: it adds nothing.
        mask = mask.double()
        second = second * mask.unsqueeze(-1)
        cov = cov * (mask.unsqueeze(-1) * mask.unsqueeze(-2)) + torch.diag_embed(1.0 - mask)
        n_observed = mask.sum(-1)
    L, info = torch.linalg.cholesky_ex(cov)
    if is_capturing(L):
        L = nan_where((info > 0)[..., None, None], L)
    elif bool(info.any()):
        raise NotPositiveDefiniteError(
            "the covariance over outputs is not positive definite; raise noise_floor"
        )
    white = torch.linalg.solve_triangular(L, second, upper=False).square()
    squares = (white if weights is None else white * weights.unsqueeze(-2)).sum((-2, -1))
    log_det = 2.0 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return -0.5 * (n_observed * LOG_2PI + log_det + squares)


def _log_low_rank_normal(
    residual: Tensor, root: Tensor, noise_var: Tensor, mask: Tensor | None
) -> Tensor:
    """log N(r; 0, R R^T + D) over the observed outputs of each row, (Q, B), in float64.

    With r (Q, B, P), R (Q, B, P, L), D = diag(noise_var) and S = I + R^T D^-1 R (L, L):
    log |R R^T + D| = log |S| + log |D|, and the quadratic is r^T D^-1 r - |S^-1/2 R^T D^-1 r|^2.
    """
    residual, root, noise_var = residual.double(), root.double(), noise_var.double()
    precision = (1.0 / noise_var).expand_as(residual)
    if mask is not None:
        precision = precision * mask
    weighted = precision.unsqueeze(-1) * root
    S = root.mT @ weighted
    L = torch.linalg.cholesky(S + torch.eye(S.shape[-1], dtype=S.dtype, device=S.device))
    information = weighted.mT @ residual.unsqueeze(-1)
    white = torch.linalg.solve_triangular(L, information, upper=False).square().sum((-2, -1))
    log_det = 2.0 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    squares = sum_observed(log_normal(residual, noise_var), mask)
    return squares - 0.5 * (log_det - white)
