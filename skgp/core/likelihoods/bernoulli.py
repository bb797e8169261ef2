"""Two classes: Bernoulli likelihoods of one latent function, by their links."""

from abc import abstractmethod

import torch
from torch import Tensor

from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.classes import ClassLikelihood
from skgp.core.numerics.normal import log_ndtr, normal_rule


class Bernoulli(ClassLikelihood):
    """Abstract base: p(y = 1 | f) = g(f) for a link g with g(-f) = 1 - g(f)."""

    def __init__(self) -> None:
        super().__init__(n_classes=2)

    @property
    def n_latents(self) -> int:
        return 1

    @abstractmethod
    def log_link(self, f: Tensor) -> Tensor:
        """log g(f)."""

    def expected_log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        # E log g(s f), s = 1 for the second class and -1 for the first
        log_w, log_g = self._at_points(latent, codes)
        return (log_w.exp() * log_g).sum(0)

    def log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        log_w, log_g = self._at_points(latent, codes)
        return torch.logsumexp(log_w + log_g, 0)

    def _at_points(self, latent: Latent, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Log weights (K, 1, 1) of points of f, and log g(s f) (K, Q, B) there."""
        z, log_w = (part[:, None, None] for part in normal_rule(latent.f_mean))
        f = latent.f_mean[..., 0] + latent.std[..., 0] * z
        return log_w, self.log_link(_sign(codes) * f)


class Probit(Bernoulli):
    """g(f) = Phi(f), the distribution function of the standard normal."""

    def log_link(self, f: Tensor) -> Tensor:
        return log_ndtr(f)

    def log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        # E Phi(s f) = Phi(s m / sqrt(1 + v)) (Rasmussen and Williams 2006, Eqn 3.82)
        scaled = latent.f_mean[..., 0] / (1.0 + latent.f_var[..., 0]).sqrt()
        return log_ndtr(_sign(codes) * scaled)


class Logit(Bernoulli):
    """g(f) = 1 / (1 + exp(-f)), the logistic function."""

    def log_link(self, f: Tensor) -> Tensor:
        return torch.nn.functional.logsigmoid(f)


def _sign(codes: Tensor) -> Tensor:
    return 2 * codes - 1
