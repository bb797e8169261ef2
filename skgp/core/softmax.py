"""Several classes: the softmax of as many latent functions, by sampling."""

import torch
from torch import Tensor

from skgp.core.class_likelihood import ClassLikelihood, deviation
from skgp.core.layers import Latent
from skgp.core.nodes import Sampled


class Softmax(ClassLikelihood):
    """p(y = c | f) = exp(f_c) / sum_j exp(f_j).

    No expectation of it is in closed form. In training each row draws its functions anew; in
    evaluation mode all rows share fixed nodes. The mean log probability is then unbiased, the log
    of the mean probability is too small by about its variance over the draws, divided by twice
    their number.

    Parameters
    ----------
    n_classes : int
    n_samples : int
        Draws for each row of a training step.
    n_fixed : int
        Nodes in evaluation mode.
    seed : int
    """

    # At 1 a label of ten classes would have a probability of 0.45, and training far to go.
    start_scale = 4.0

    def __init__(self, n_classes: int, n_samples: int, n_fixed: int, seed: int) -> None:
        super().__init__(n_classes)
        self.draws = Sampled([n_classes], n_samples, n_fixed, seed)

    @property
    def n_latents(self) -> int:
        return self.n_classes

    def expected_log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        log_omega, log_p = self._draw(latent)
        return (log_omega.exp() * _of_class(log_p, codes)).sum(0)

    def log_class(self, latent: Latent, codes: Tensor) -> Tensor:
        log_omega, log_p = self._draw(latent)
        return torch.logsumexp(log_omega + _of_class(log_p, codes), 0)

    def log_probabilities(self, latent: Latent) -> Tensor:
        # The draws of one class are those of all.
        log_omega, log_p = self._draw(latent)
        return torch.logsumexp(log_omega.unsqueeze(-1) + log_p, 0).log_softmax(-1)

    def _draw(self, latent: Latent) -> tuple[Tensor, Tensor]:
        """Log weights (S, 1, 1) of draws, and their log probabilities (S, Q, B, C)."""
        nodes = self.draws(latent.f_mean.shape[1])
        xi = nodes.xi[0].to(latent.f_mean).unsqueeze(1)  # every node of the layers sees the same
        f = latent.f_mean + deviation(latent.f_var) * xi
        return nodes.log_omega.to(f)[:, None, None], f.log_softmax(-1)


def _of_class(log_p: Tensor, codes: Tensor) -> Tensor:
    index = codes.unsqueeze(-1).expand_as(log_p[..., :1])
    return log_p.gather(-1, index).squeeze(-1)
