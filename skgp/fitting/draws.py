"""Draws of y that are joint over rows."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from skgp._typing import Array
from skgp.core.layers.layer import certain
from skgp.core.layers.noise import MixtureNoise
from skgp.core.nodes.rules import Sampled
from skgp.core.numerics.draws import draw_seed
from skgp.fitting.functions import drawn_functions
from skgp.fitting.joint import joint_laws
from skgp.fitting.model import Model
from skgp.fitting.predict import mixture

# Rows whose covariance is decomposed, in about half a second for each output.
MOST_JOINT_ROWS: Final = 1000
_DRAWS: Final = 64  # functions at a time: their waves take some megabytes
_CELLS: Final = 2**14  # rows times draws of functions at a time
_OBSERVED: Final = 2**17  # numbers of y at a time


@torch.no_grad()
def joint_draws(
    model: Model,
    X: Array,
    n_samples: int,
    random_state: np.random.RandomState,
    output_shape: tuple[int, ...],
    observed: Callable[[Any], Any],
) -> Array:
    """Draws of y in its units, noise included.

    Up to a thousand rows the latent functions are drawn from their joint normal law over the rows,
    or from a mixture of such laws. Of more rows, and where hidden functions are sampled, they are
    draws of functions.

    Parameters
    ----------
    model : Model
        Fitted, of GP layers.
    X : array of shape (n, D)
        In the user's units.
    n_samples : int
        Number S.
    random_state : RandomState
    output_shape : tuple
        (P,), or () for a one-dimensional y.
    observed : callable
        From a distribution of what the likelihood predicts to that of y.

    Returns
    -------
    array of shape (n, S) or (n, P, S)
    """
    x = model.scaled(X)
    draws = np.empty((n_samples, len(X), *output_shape))
    has_laws = len(model.stack.layers) == 1 or not isinstance(model.nodes, Sampled)
    latents = _by_laws if has_laws and len(X) <= MOST_JOINT_ROWS else _by_functions
    seen = None if model.copies is None else model.copies.of_rows(x)
    start = 0
    for f, noise in latents(model, x, n_samples, random_state):
        for part in f.split(max(1, _OBSERVED // len(X))):
            stop = start + len(part)
            latent = noise.split(certain(part.flatten(0, 1).unsqueeze(0)))
            predictive = model.likelihood.predictive(latent)
            if seen is not None:
                predictive = seen.repeated(len(part)).predictive(predictive)
            log_omega = noise.log_weights(part.new_zeros(1))
            dist = observed(mixture(predictive, log_omega, model.y_scale, output_shape))
            y = dist.rvs(1, random_state=random_state)
            draws[start:stop] = y.reshape(draws[start:stop].shape)
            start = stop
    random_state.shuffle(draws)  # those of one hidden function followed each other
    return np.moveaxis(draws, 0, -1)


def _by_laws(
    model: Model, x: Tensor, n_samples: int, random_state: np.random.RandomState
) -> Iterator[tuple[Tensor, MixtureNoise]]:
    """Draws (S', n, W) of the latent functions from each normal law over the rows x (n, D).

    With the noise of each, relative to that of the likelihood.
    """
    laws = list(joint_laws(model))
    weights = torch.cat([law.weights for law in laws]).cpu().numpy()
    counts = random_state.multinomial(n_samples, weights / weights.sum())
    noises = [law.noise for law in laws for _ in law.weights]
    components = (part for law in laws for part in law.components(x.unsqueeze(0)))
    for count, noise, (_, mean, cov) in zip(counts, noises, components, strict=True):
        if count == 0:
            continue
        # Near rows have singular covariances, for which an eigendecomposition needs no jitter.
        variance, vectors = torch.linalg.eigh(cov.squeeze(1))  # (W, n), (W, n, n)
        z = torch.from_numpy(random_state.standard_normal((*variance.shape, count))).to(x)
        root = vectors * variance.clamp_min(0.0).sqrt().unsqueeze(-2)
        yield mean + (root @ z).movedim(-1, 0).mT, noise


def _by_functions(
    model: Model, x: Tensor, n_samples: int, random_state: np.random.RandomState
) -> Iterator[tuple[Tensor, MixtureNoise]]:
    """As `_by_laws`, of the latent functions as functions."""
    for start in range(0, n_samples, _DRAWS):
        count = min(_DRAWS, n_samples - start)
        for functions, noise in drawn_functions(model, count, draw_seed(random_state)):
            parts = [functions(rows) for rows in x.split(max(1, _CELLS // count))]
            yield torch.cat(parts, 1), noise
