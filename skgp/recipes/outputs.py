"""From latent functions to targets of regressors: mixed with normal noise or observed otherwise."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import Tensor

from skgp.core.bounds import imputed
from skgp.core.bulk import within_reach
from skgp.core.likelihoods.censored import Censored
from skgp.core.likelihoods.counts import NegativeBinomial, Poisson
from skgp.core.likelihoods.gaussian import Gaussian
from skgp.core.likelihoods.heteroscedastic import Heteroscedastic
from skgp.core.likelihoods.likelihood import Observation
from skgp.core.likelihoods.student_t import StudentT
from skgp.core.nodes.rules import NodeRule
from skgp.core.numerics.principal import principal_axes
from skgp.core.stacks.stack import Stack
from skgp.fitting.model import Layers, Model
from skgp.fitting.recipe import pick
from skgp.fitting.setup import Setup
from skgp.recipes.mixing import likely_mixing
from skgp.recipes.rough_gps import filled_targets
from skgp.recipes.spec import INITIAL_NOISE, Outputs, StackSpec

_LEAST_VAR: Final = 1e-6  # of a principal direction, targets being scaled
LikelihoodName = Literal[
    "normal", "student_t", "heteroscedastic", "poisson", "negative_binomial", "censored"
]
_LEAST_COUNT: Final = 0.5  # added to counts, whose logs are then finite
_NEIGHBOURS: Final = 10  # whose mean a residual is taken from
_MOST_NEIGHBOURS: Final = 3000  # rows among which these are
_LOG_CHI_SQUARED: Final = -1.27  # mean of the log of a squared standard normal


def as_many(n_outputs: int) -> int:
    """A latent function for each output."""
    return n_outputs


def number_of_latents(n_latents: int | None, default: Callable[[int], int], n_outputs: int) -> int:
    """Number of latent functions, refused if it exceeds that of the outputs."""
    number = default(n_outputs) if n_latents is None else n_latents
    if number > n_outputs:
        raise ValueError(f"n_latents={number} exceeds the number of outputs, {n_outputs}: lower it")
    return number


# Parameters that belong to normal noise, and what they are elsewhere.
_OF_NORMAL_NOISE: Final = {
    "n_latents": None,
    "gamma": None,
    "optimizer": "adam",
    "initial_noise": None,
    "prior_mean": "constant",
}


@dataclass(frozen=True)
class Coregionalised:
    """Parameter group: P outputs with Gaussian noise are linear in W latent functions."""

    n_latents: int | None
    noise_floor: float

    def __call__(self, spec: StackSpec, setup: Setup) -> Outputs:
        """A matrix of the likelihood mixes the latent functions."""
        Y = filled_targets(setup)
        n_outputs = Y.shape[1]
        n_latents = number_of_latents(self.n_latents, as_many, n_outputs)
        mixing, latent = None, Y.mT
        if n_outputs > 1:
            mixing = principal_mixing(Y, setup.observed_weight, n_latents)
            mixing = likely_mixing(setup, Y, mixing)
            latent = torch.linalg.pinv(mixing) @ Y.mT
        likelihood = Gaussian(n_outputs, INITIAL_NOISE, self.noise_floor, mixing).double()

        def model(stack: Stack, x: Tensor, nodes: NodeRule, noise_var: Tensor | None) -> Model:
            if noise_var is not None:
                likelihood.start(noise_var if mixing is None else mixing.square() @ noise_var)
            return Model(Layers(stack), likelihood, nodes)

        return Outputs(latent, model)


@dataclass(frozen=True)
class Observed:
    """Parameter group: how the values of functions become targets."""

    likelihood: LikelihoodName
    n_latents: int | None
    noise_floor: float

    def __call__(self, spec: StackSpec, setup: Setup) -> Outputs:
        """Normal noise of any number of outputs, or another likelihood of one."""
        if self.likelihood == "normal":
            return Coregionalised(self.n_latents, self.noise_floor)(spec, setup)
        if self.likelihood == "censored":
            values = imputed(setup.Y.numpy(), setup.weight.numpy())
            latent = torch.from_numpy(values).nan_to_num().mT
            censored = Censored(INITIAL_NOISE, self.noise_floor).double()
            return _observed(censored, latent, setup.observed_weight, censored.start)
        if setup.Y.shape[1] > 1:
            raise ValueError(
                f"likelihood={self.likelihood!r} is for one output, and y has {setup.Y.shape[1]}: "
                "fit an estimator for each"
            )
        Y, weight = setup.Y.nan_to_num(), setup.observed_weight
        if self.likelihood == "student_t":
            near = torch.from_numpy(within_reach(setup.Y.numpy(), setup.weight.numpy()))
            noise = StudentT(INITIAL_NOISE, self.noise_floor).double()
            return _observed(noise, near.nan_to_num().mT, weight, noise.start)
        if self.likelihood == "heteroscedastic":
            log_noise = _log_noise(setup.x, Y, weight, self.noise_floor)
            functions = torch.cat([Y.mT, log_noise])
            return _observed(Heteroscedastic(self.noise_floor).double(), functions, weight)
        counts = Poisson() if self.likelihood == "poisson" else NegativeBinomial()
        return _observed(counts.double(), (Y.mT + _LEAST_COUNT).log(), weight)


def observations(estimator: Any) -> Observed:
    """The group of an estimator whose other parameters may not suit its likelihood.

    Raises
    ------
    ValueError
        If they do not.
    """
    group = pick(Observed, estimator)
    if group.likelihood != "normal":
        for name, usual in _OF_NORMAL_NOISE.items():
            value = getattr(estimator, name, usual)
            if value != usual:
                raise ValueError(
                    f"{name}={value!r} is for likelihood='normal': keep {name}={usual!r} with "
                    f"likelihood={group.likelihood!r}"
                )
    return group


def _observed(
    likelihood: Observation,
    functions: Tensor,
    weight: Tensor,
    start: Callable[[Tensor], None] | None = None,
) -> Outputs:
    """Functions that start at values (W, n), around their means, with weights (n,).

    `start` takes the noise variances (W,), if the likelihood has a noise that has to start.
    """
    offset = functions @ weight / weight.sum()

    def model(stack: Stack, x: Tensor, nodes: NodeRule, noise_var: Tensor | None) -> Model:
        if start is not None and noise_var is not None:
            start(noise_var)
        with torch.no_grad():
            stack.top.mean.copy_(offset)
        return Model(Layers(stack), likelihood, nodes)

    return Outputs(functions - offset.unsqueeze(-1), model)


def _log_noise(x: Tensor, Y: Tensor, weight: Tensor, least: float) -> Tensor:
    """Rough log variances (1, n) of the noise: of y (n, 1) around the mean of neighbours.

    Copies of a row are one row with the sum of their weights. Where targets repeat they may lie on
    the mean; there the variance is the least.
    """
    rows, place = torch.unique(torch.cat([x, Y], -1), dim=0, return_inverse=True)
    total = weight.new_zeros(len(rows)).index_add(0, place, weight)
    residual = _residuals(rows[:, :-1], rows[:, -1], total)[place]
    return residual.square().clamp_min(least).log().unsqueeze(0) - _LOG_CHI_SQUARED


def _residuals(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Differences (n,) of y from the means of neighbours; ones where there are none.

    Neighbours are the nearest rows with the weight of ten. A row counts among its own as far as
    its weight exceeds the usual one, so that copies of all rows change nothing.
    """
    observed = weight.nonzero()[:, 0]
    places = torch.linspace(0, len(observed) - 1, min(len(observed), _MOST_NEIGHBOURS))
    among = observed[places.long()]
    if len(among) < 2:
        return torch.ones_like(y)
    n_nearest, usual = min(_NEIGHBOURS + 1, len(among)), weight[observed].mean()
    enough = _NEIGHBOURS * usual.clamp_max(1.0)
    parts = []
    for rows in torch.split(torch.arange(len(x)), _MOST_NEIGHBOURS):
        distance = torch.cdist(x[rows], x[among])
        nearest = among[distance.topk(n_nearest, largest=False).indices]
        counted = (weight[nearest] - usual * (nearest == rows.unsqueeze(-1))).clamp_min(0.0)
        before = counted.cumsum(1) - counted
        counted = torch.minimum(counted, (enough - before).clamp_min(0.0))
        parts.append(y[rows] - (counted * y[nearest]).sum(1) / counted.sum(1))
    return torch.cat(parts)


def principal_mixing(Y: Tensor, weight: Tensor, n_latents: int) -> Tensor:
    """Matrix (P, W) of the leading principal directions, scaled by their standard deviations.

    Latent functions of unit variance then reproduce the covariance of outputs (n, P), whose rows
    have weights (n,).
    """
    variances, directions = principal_axes((Y.mT * weight) @ Y / weight.sum())
    return directions[:, :n_latents] * variances[:n_latents].clamp_min(_LEAST_VAR).sqrt()
