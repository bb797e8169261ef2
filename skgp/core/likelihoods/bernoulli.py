"""Two classes: Bernoulli likelihoods of one latent function, by their links."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from skgp.core.layers.layer import Latent
from skgp.core.likelihoods.classes import ClassLikelihood
from skgp.core.numerics.normal import log_ndtr, normal_rule, refined

_WIDE: Final = 6.0  # standard deviation of f up to which the usual points are right to about 1e-5


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
        return self._integral(latent, codes, lambda log_w, log_g: (log_w.exp() * log_g).sum(0))

    def log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        return self._integral(latent, codes, lambda log_w, log_g: torch.logsumexp(log_w + log_g, 0))

    def _integral(
        self, latent: Latent, codes: Tensor, over: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """(Q, B), from log weights of points of f and from log g(s f) there."""
        mean, std = latent.f_mean[..., 0], latent.std[..., 0].expand_as(latent.f_mean[..., 0])
        sign = _sign(codes).expand(mean.shape)

        def given(mean: Tensor, std: Tensor, sign: Tensor, finer: float) -> Tensor:
            shape = -1, *[1] * mean.ndim
            z, log_w = (part.view(shape) for part in normal_rule(mean, finer))
            return over(log_w, self.log_link(sign * (mean + std * z)))

        def again(wide: Tensor, finer: float) -> Tensor:
            return given(mean[wide], std[wide], sign[wide], finer)

        return refined(given(mean, std, sign, 1.0), std / _WIDE, again, 1.0)


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
