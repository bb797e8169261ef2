"""Predictions that are mixtures of those of two models."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, cast

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from skgp._typing import Array
from skgp.core.layers.layer import DrawnLatent, Latent
from skgp.core.likelihoods.classes import ClassLikelihood
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.nodes.rules import NodeRule
from skgp.core.stacks.stack import Stack
from skgp.fitting.model import KnownLayers, Layers, Model
from skgp.fitting.recipe import Recipe
from skgp.fitting.table import Table

_LEAST_SHARE: Final = 0.05  # below which a model is left out
# Additional rows that only the second model, a GP that is not trained, explains. With normal noise
# it has draws of hyper-parameters, and a trained model has none.
_MORE_ROWS: Final = 4.0


def rows_for_untrained(model: Model) -> float:
    """Additional rows in favour of an untrained GP, beside a trained model; none of classifiers."""
    return _MORE_ROWS if isinstance(model.likelihood, Gaussian) else 0.0


def share_of_first(first: Array, second: Array, weights: Array, n_more: float) -> float:
    """Weight of the first of two models in the mixture with the highest held-out log density.

    This is stacking of predictive distributions (Yao et al. 2018). The weight is rounded to
    hundredths, and to zero or one where one model has nearly all of it.

    Parameters
    ----------
    first, second : array of shape (n,)
        Log densities of the rows.
    weights : array of shape (n,)
        How often each row counts.
    n_more : float
        Additional rows that only the second model explains.
    """

    def loss(share: float) -> float:
        of_rows = np.logaddexp(np.log(share) + first, np.log1p(-share) + second)
        return float(-weights @ of_rows - n_more * np.log1p(-share))

    found = minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-6})
    share = round(float(found.x), 2)
    return 0.0 if share < _LEAST_SHARE else 1.0 if share > 1.0 - _LEAST_SHARE else share


def mixed_scores(first: Array, second: Array, share: float) -> Array:
    """Scores (2, n) of rows by a mixture of two models, of those of both, as of `scores_of_rows`.

    The CRPS is that of the model that has the better one, which a mixture is mostly close to.
    """
    if share in (0.0, 1.0):
        return first if share else second
    density = np.logaddexp(np.log(share) + first[0], np.log1p(-share) + second[0])
    return np.stack([density, max(first[1], second[1], key=np.mean)])


def can_be_stacked(model: Model) -> bool:
    """Whether predictions of two such models are mixtures of one kind."""
    likelihood = model.likelihood
    if isinstance(likelihood, Gaussian):
        return likelihood.mixing is None
    return isinstance(likelihood, ClassLikelihood) and not any(
        True for _ in likelihood.parameters()
    )


class StackedLayers(Layers):
    """The layers of a stack, whose predictions are mixed with those of another model.

    Parameters
    ----------
    stack : Stack
        The trained one, from which training continues.
    other : Model
        With the same likelihood, but for its noise, and the same scales.
    share : float
        Weight of the stack.
    noise_ratios : Tensor of shape (2,)
        Noise variances of the stack and of the other model, relative to that of the likelihood,
        which is their mean; ones where it has no noise.
    """

    noise_ratios: Tensor

    def __init__(self, stack: Stack, other: Model, share: float, noise_ratios: Tensor) -> None:
        super().__init__(stack)
        self.other = other
        self.share = share
        self.register_buffer("noise_ratios", noise_ratios)

    def log_weights(self, nodes: NodeRule) -> Tensor:
        own, others = super().log_weights(nodes), self.other.log_weights
        return torch.cat([own + np.log(self.share), others + np.log1p(-self.share)])

    def latents(self, nodes: NodeRule) -> Callable[[Tensor], Latent]:
        both = super().latents(nodes), self.other.source.latents(self.other.nodes)

        def of_rows(x: Tensor) -> Latent:
            own, others = (latents(x) for latents in both)
            parts = zip(own, others, strict=True)
            f_mean, v_prior, v_q = (torch.cat(moments) for moments in parts)
            ratios, shifts = [], []
            for ratio, latent in zip(self.noise_ratios, (own, others), strict=True):
                each = torch.ones_like(latent.f_mean[:, :1, :1])
                ratios.append(ratio * latent.noise_ratio * each)
                shifts.append(ratio.sqrt() * latent.noise_shift * each)
            return DrawnLatent(f_mean, v_prior, v_q, torch.cat(ratios), torch.cat(shifts))

        return of_rows

    def posteriors(self, nodes: NodeRule) -> list[KnownLayers]:
        own_ratio, ratio = self.noise_ratios.tolist()
        others = cast(Layers, self.other.source).posteriors(self.other.nodes)
        return [
            *(known.scaled(self.share, own_ratio) for known in super().posteriors(nodes)),
            *(known.scaled(1.0 - self.share, ratio) for known in others),
        ]

    def release(self, model: Model) -> None:
        model.source = Layers(self.stack)
        if isinstance(model.likelihood, Gaussian):
            model.likelihood.start(self.noise_ratios[:1] * model.likelihood.noise_var)


def mixed_recipe(
    recipe: Recipe, others: Recipe, other: Model, table: Table, share: float
) -> Recipe:
    """The recipe of a model whose predictions are mixed with those of another one.

    Parameters
    ----------
    recipe, others : Recipe
        Of the model that is trained, and of the other one.
    other : Model
        With its final parameters.
    table : Table
        The rows that the other one knows.
    share : float
        Weight of the trained model.
    """
    other = others.conditioned(other.eval(), table).double()
    return replace(recipe, conditioned=partial(stacked, other, share), trained_share=share)


@torch.no_grad()
def stacked(other: Model, share: float, model: Model, table: Table) -> Model:
    """A copy of a trained model whose predictions are mixed with those of another one."""
    model = copy.deepcopy(model)
    if not isinstance(model.likelihood, Gaussian):
        ones = torch.ones(2).to(other.log_weights)
        model.source = StackedLayers(model.stack, other, share, ones)
        return model
    noise_vars = torch.cat([model.likelihood.noise_var, other.likelihood.noise_var])
    mean = share * noise_vars[:1] + (1.0 - share) * noise_vars[1:]
    model.source = StackedLayers(model.stack, other, share, noise_vars / mean)
    model.likelihood.start(mean)
    return model
