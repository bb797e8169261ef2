"""Stacks with latent covariates: unobserved inputs of each row, at any place among GP layers."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from skgp.core.data import Batch, Targets
from skgp.core.layers.layer import Latent, Layer, certain
from skgp.core.layers.projected import ProjectedGP
from skgp.core.nodes.rules import Nodes
from skgp.core.numerics.draws import DrawSource, normals
from skgp.core.numerics.linalg import correlated
from skgp.core.stacks.row_posterior import LocalPosterior
from skgp.core.stacks.stack import Stack


class Draw(NamedTuple):
    """A training batch, at S draws of the functions and K draws of the covariates for each.

    Attributes
    ----------
    latent : Latent
        Moments of the top layer, each of shape (S K, B, W), all K of a draw of the functions in a
        row. K is one without covariates.
    log_ratio : Tensor, (S K, B) or broadcastable to it
        log p(w) - log q(w), summed over the layers of covariates.
    local_kl : Tensor, (B,) or broadcastable to it
        KL(q(w) || p(w)), summed over the layers of covariates.
    covariates : tuple of Tensors (S, K, B, C)
        Draws of w, one for each layer of covariates.
    """

    latent: Latent
    log_ratio: Tensor
    local_kl: Tensor
    covariates: tuple[Tensor, ...]


class LatentCovariates(nn.Module):
    """h -> [h, w], w ~ N(0, I) independent between rows (importance-weighted paper, section 2).

    Parameters
    ----------
    posterior : LocalPosterior
        Posterior of w for the training rows.
    n_covariates : int
        Number C of covariates.
    """

    def __init__(self, posterior: LocalPosterior, n_covariates: int) -> None:
        super().__init__()
        self.posterior = posterior
        self.n_covariates = n_covariates


class LatentStack(Stack):
    """Sparse GPs and latent covariates (importance-weighted paper, section 2).

    Parameters
    ----------
    hidden : sequence of ProjectedGP and LatentCovariates
        From the inputs upwards.
    top : Layer
    features : Module, optional
    """

    def __init__(
        self,
        hidden: Sequence[ProjectedGP | LatentCovariates],
        top: Layer,
        features: nn.Module | None = None,
    ) -> None:
        super().__init__(features)
        self.hidden = nn.ModuleList(hidden)
        self._top = top

    @property
    def layers(self) -> list[Layer]:
        hidden = (block.layer for block in self._blocks() if isinstance(block, ProjectedGP))
        return [*hidden, self._top]

    @property
    def top(self) -> Layer:
        return self._top

    def kl(self, factors: Sequence[Any]) -> Tensor:
        return self.layers_kl(factors)

    def forward(self, x: Tensor, nodes: Nodes, factors: Sequence[Any]) -> Latent:
        """Moments for rows without targets: covariates and hidden functions at the nodes."""
        h = self.features(x).unsqueeze(0)
        of_layers = iter(factors)
        for block, xi in zip(self._blocks(), nodes.xi, strict=True):
            if isinstance(block, ProjectedGP):
                h = block.propagate(h, xi, next(of_layers))
            else:
                shape = len(xi), h.shape[1], -1
                h = torch.cat([h.expand(*shape), xi.expand(*shape)], -1)
        return self.top.moments(h, next(of_layers))

    def draw(
        self,
        batch: Batch,
        factors: Sequence[Any],
        generator: DrawSource,
        *,
        n_samples: int,
        n_importance: int,
        without_scores: bool = False,
        draws_top: bool = False,
    ) -> Draw:
        """Moments for training rows, with covariates from their local posteriors.

        Each of the S draws of the hidden functions is one function for all K covariates of a row
        (section 3.3, below Eqn 11). Terms of rows are summed, so it does not matter whether rows
        have functions of their own or one in common.

        With `without_scores` the gradient of log q(w) is that in w alone, not that in the moments
        of q(w), and what comes from one w moves with no other. With `draws_top` the functions of
        the top layer are drawn in the same way, and are certain.
        """
        features = self.features(batch.x)
        known = evidence(features, batch.targets)
        h = features.expand(n_samples, 1, -1, -1)
        log_ratio = local_kl = features.new_zeros(())
        of_layers = iter(factors)
        covariates: list[Tensor] = []
        for block in self._blocks():
            if isinstance(block, ProjectedGP):
                seen = h, next(of_layers), generator
                h = block.draw(*seen, along_functions=without_scores and bool(covariates))
                continue
            local = block.posterior(known, batch.rows)
            shape = n_samples, n_importance, len(features), block.n_covariates
            epsilon = normals(shape, generator, h)
            w = local.draw(epsilon)
            density, numbers = local, epsilon
            if without_scores:
                density = local.detached()
                numbers = density.standardised(w)
            log_ratio = log_ratio + density.log_ratio(w, numbers)
            covariates.append(w)
            local_kl = local_kl + local.kl()
            h = torch.cat([h.expand(-1, n_importance, -1, -1), w], -1)
        of_top = next(of_layers)
        latent = self.top.moments(h.flatten(0, 1), of_top)
        if draws_top:
            rest = self._top_rest(h, of_top, generator)
            latent = certain(latent.f_mean + rest)
        log_ratio = log_ratio.flatten(0, 1) if log_ratio.dim() else log_ratio
        return Draw(latent, log_ratio, local_kl, tuple(covariates))

    def _top_rest(self, h: Tensor, factors: Any, generator: DrawSource) -> Tensor:
        """Draws (S K, B, W) of f - E f at h (S, K, B, F), joint over the K inputs of a row."""
        cov = self.top.covariance(h.transpose(1, 2).flatten(0, 1), factors).flatten(0, 1)
        # Rounding can make variances negative. The gradient ignores the floor.
        variances = cov.diagonal(dim1=-2, dim2=-1)
        floored = variances.detach().clamp_min(8.0 * torch.finfo(cov.dtype).eps)
        cov = cov + torch.diag_embed(floored - variances.detach())
        shape = *cov.shape[:2], 1
        zeta = normals(shape, generator, cov)
        n_samples, n_inputs, n_rows, _ = h.shape
        rest = correlated(cov, zeta).view(-1, n_samples, n_rows, n_inputs)
        return rest.permute(1, 3, 2, 0).flatten(0, 1)

    def _blocks(self) -> list[ProjectedGP | LatentCovariates]:
        return cast(list[ProjectedGP | LatentCovariates], list(self.hidden))


def evidence(features: Tensor, targets: Targets) -> Tensor:
    """What is known of training rows, (B, F + 2 P): features, targets, and which are observed."""
    observed = torch.ones_like(targets.y) if targets.mask is None else targets.mask
    return torch.cat([features, targets.y, observed], -1)


def spread(latent: Latent) -> Latent:
    """The latent moments with the variance of f within the cell that a node stands for.

    Q nodes cut the covariates' distribution into cells of equal probability. Where f varies from
    node to node by more than the noise, a mixture of Q narrow normals would have gaps. In the order
    of the means, each component is spread evenly over half the gap to either neighbour: a uniform
    distribution, of variance width^2 / 12. In the limit of many nodes nothing is added.
    """
    if len(latent.f_mean) == 1:
        return latent
    order = latent.f_mean.argsort(0)
    gaps = latent.f_mean.gather(0, order).diff(dim=0)
    width = 0.5 * (torch.cat([gaps[:1], gaps]) + torch.cat([gaps, gaps[-1:]]))
    within = torch.empty_like(width).scatter_(0, order, width.square() / 12.0)
    return latent._replace(v_prior=latent.v_prior + within)
